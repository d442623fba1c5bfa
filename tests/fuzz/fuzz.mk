# ---- fuzzing -------------------------------------------------------------------------------------

# A fuzzer for each reader, in float only, linked with clang's libFuzzer, in a tree of its own, whose library
# is instrumented for it: but for kernels, which have nothing to do with files, and which clang instruments
# for minutes.
FUZZERS  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_AID := $(filter-out $(FUZZERS),$(wildcard tests/fuzz/*.c))
ifneq ($(findstring fuzzer,$(SANITIZE)),)
heavy = layers_fast_kernel layers_fast_maxima layers_fast_slide layers_fast_winograd_transforms
$(foreach f,$(heavy),$(eval CFLAGS_$f += -fno-sanitize=all))
endif
fuzzers := $(FUZZERS:tests/fuzz/%.c=$(OUT)/float/fuzz/%)
# The library's objects, and not the one that is made of them, in which calls between them could not be wrapped.
$(fuzzers): $(OUT)/float/fuzz/%: $(OUT)/float/tests/fuzz/%.o $(FUZZ_AID:%.c=$(OUT)/float/%.o) \
    $(CORE:%.c=$(OUT)/float/%.o) $(ONNX_FORMAT) $(call helpers,float)
	$(call link,-fsanitize=fuzzer \
	    $(addprefix -Wl$(comma)--wrap=,st_layer_new st_layer_plan st_layer_clone \
	    st_layer_free st_net_build) \
	    $(PICTURE_LIBS) $(call ask,--libs,libjpeg))
fuzz-programs: $(fuzzers)

# Each reader is given what libFuzzer makes up, under the address and undefined behaviour sanitizers: at least
# FUZZ_RUNS inputs, or for FUZZ_SECONDS. FUZZ=csv gives them to readers with csv in their name. Corpora grow
# in build/fuzz; what fails is kept there, and the program run with that file alone shows why.
FUZZ         ?=
FUZZ_RUNS    ?= 10000000
FUZZ_SECONDS ?=
FUZZ_FLAGS   := fuzzer-no-link,address,undefined,float-cast-overflow
FUZZ_CC      ?= clang
FUZZ_BUILD    = CC=$(call quoted,$(FUZZ_CC)) SANITIZE=$(FUZZ_FLAGS) fuzz-programs
FUZZ_FOLDER   = $(BUILD)/$(subst $(comma),-,$(FUZZ_FLAGS))/float/fuzz
FUZZ_CHOSEN   = $(sort $(foreach n,$(or $(FUZZ),fuzz),$(foreach p,$(FUZZERS:tests/fuzz/%.c=%), \
    $(if $(findstring $n,$p),$p))))
run_fuzzers   = mkdir -p $(BUILD); if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer,address -x c - -o $(BUILD)/probe 2>/dev/null; \
	then $(MAKE) $(FUZZ_BUILD) $(call in_log,fuzz-build,fuzzers) && \
	     tests/tools/fuzz.sh $1 $(BUILD)/fuzz $(FUZZ_CHOSEN:%=$(FUZZ_FOLDER)/%); \
	else echo 'skip fuzzing: clang has no libFuzzer here (make deps-check)'; fi
.PHONY: fuzz fuzz-smoke fuzz-programs
fuzz: ## give every reader of files millions of broken ones; FUZZ_RUNS, FUZZ_SECONDS, FUZZ=csv
	@$(call run_fuzzers,"$(FUZZ_RUNS)" "$(FUZZ_SECONDS)")
fuzz-smoke: ## the same for a few seconds each
	@$(call run_fuzzers,smoke 3)
