# ---- tests ---------------------------------------------------------------------------------------

# tests/ROOM/test_*.c are one program a room, build/float/tests/ROOM/run; a link to it,
# build/float/tests/test_gemm, runs the claims of that file alone. Scripts are run by bash.
TESTS      := $(sort $(wildcard tests/*/test_*.c))
TEST_ROOMS := $(sort $(notdir $(patsubst %/,%,$(dir $(TESTS)))))
TEST_AID   := $(filter-out $(TESTS) tests/runner.c tests/onnx/export.c,$(wildcard tests/*.c \
    $(TEST_ROOMS:%=tests/%/*.c)))
SCRIPTS    := $(wildcard tests/*/test_*.sh)
# These are long, and run by make check-scripts, or where TEST names them; a sanitizer has its own say on misuse.
CHECKED    := tests/examples/test_tutorial.sh tests/examples/test_atlas.sh tests/install/test_install.sh \
              $(if $(SANITIZE),,tests/door/test_misuse.sh)
SUITES     := $(wildcard tests/conformance/suite_*.sh)
# Tests of each precision; in double, those that compute and those that convert numbers.
TESTS_float  := $(TESTS)
TESTS_double := $(filter tests/tensor/% tests/layers/% tests/nn/% %/test_save.c %/test_checkpoint.c %/test_npy.c,$(TESTS))
tests         = $(foreach t,$(TESTS_$1),$(OUT)/$1/tests/$(basename $(notdir $t)))
# Tests compile in half the time without the optimisations that the library needs.
TEST_CFLAGS = $(eval TEST_CFLAGS := $(patsubst -I%,-isystem %,$(call ask,--cflags,cmocka)) \
                -Wno-unused-parameter $(patsubst -O3,-O1,$(filter -O3,$(CFLAGS))))$(TEST_CFLAGS)
TEST_LIBS   = $(eval TEST_LIBS := $(call ask,--libs,cmocka,-lcmocka))$(TEST_LIBS)
# A file with a main of its own has it as a function of the file's name.
MAINED := $(shell grep -l '^int main' $(TESTS))
CFLAGS_tests_runner = -DFILES='$(foreach t,$(ROOM_TESTS),\
    $(if $(filter $t,$(MAINED)),MAIN,FILE)($(basename $(notdir $t))))'
$(foreach t,$(MAINED),$(eval CFLAGS_$(subst /,_,$(basename $t)) += -Dmain=$(basename $(notdir $t)) \
    -Wno-missing-prototypes))

# Room $2 in precision $1.
define room_rules
$(OUT)/$1/tests/$2/runner.o: ROOM_TESTS := $(filter tests/$2/%,$(TESTS))
$(OUT)/$1/tests/$2/runner.o: tests/runner.c $(OUT)/flags $(OUT)/sources
	$$(call compile,$(DEFINE_$1))
run_objects_$1_$2 := $(patsubst %.c,$(OUT)/$1/%.o,$(filter tests/$2/%,$(TESTS)) $(TEST_AID)) \
    $(OUT)/$1/tests/$2/runner.o
$(OUT)/$1/tests/$2/run: $$(run_objects_$1_$2) $(call helpers,$1) $(call lib_all,$1)
	$$(call link,$$(PICTURE_LIBS) $$(TEST_LIBS))
$(foreach t,$(filter tests/$2/%,$(TESTS)),$(OUT)/$1/tests/$(basename $(notdir $t))): $(OUT)/$1/tests/$2/run
	@ln -sf $2/run $$@
endef
$(foreach p,float double,$(foreach r,$(TEST_ROOMS),$(eval $(call room_rules,$p,$r))))

# Each test leaves its counts in a file; what left none did not build. -k: one that does not build does not
# keep the others from running. TESTED=float runs those of one precision, TEST=gemm those with gemm in their
# names.
TESTED ?= float double
TEST   ?=
chosen        = $(if $(TEST),$(foreach n,$(TEST),$(foreach c,$1,$(if $(findstring $n,$(notdir $c)),$c))),$1)
suite_counts  = $(foreach s,$(notdir $(SUITES)),$(OUT)/$1/script/$(basename $s).count)
script_counts = $(patsubst %.sh,$(OUT)/results/script/%.count,$(notdir $1))
# The longest come first, so that none of them runs alone in the end.
LONGEST := $(patsubst %,\%/%.count,test_bench test_stride test_record test_cases suite_torch test_both test_door \
           test_attack test_lr_finder)
COUNTED := $(call chosen,$(call script_counts,$(filter-out $(if $(TEST),,$(CHECKED)),$(SCRIPTS))) \
           $(call suite_counts,results) \
           $(foreach p,$(TESTED),$(patsubst %,$(OUT)/results/$p/%.count,$(notdir $(TESTS_$p:.c=)))))
COUNTS  := $(foreach l,$(LONGEST),$(filter $l,$(COUNTED))) $(filter-out $(LONGEST),$(COUNTED))

# One test more than there are processors, as some tests wait.
test_jobs = $(if $(jobs),-j$(shell expr $$(getconf _NPROCESSORS_ONLN) + 1))
.PHONY: test results
test: ## run every test, in both precisions where that tells more; TEST=gemm TESTED=float runs some
	$(if $(strip $(COUNTS)),,$(error TEST=$(TEST): no test of $(TESTED) has that in its name))
	@rm -rf $(OUT)/results
	@$(MAKE) -k $(test_jobs) results || :
	@tests/tools/total.sh $(COUNTS)
results: $(COUNTS) ; @:

ASAN_OPTIONS  ?= detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS ?= print_stacktrace=1
TSAN_OPTIONS  ?= ignore_noninstrumented_modules=1:allocator_may_return_null=1:die_after_fork=0
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

# A sanitizer's build has the precisions that are tested, and not the programs whose tests skip sanitizers.
SCRIPT_DOUBLE := $(filter double,$(if $(SANITIZE),$(TESTED),double))
# The environment of a script, all paths absolute: programs, libraries and how to build with them, fast.
IN_SCRIPT = BIN="$(ROOT)/float/bin" BIN_DOUBLE="$(if $(SCRIPT_DOUBLE),$(ROOT)/double/bin)" BENCH="$(ROOT)/float/bench" \
    ATTACK="$(ROOT)/float/campaigns/attack" CNN="$(ROOT)/float/tests/core/cnn" \
    LIB="$(abspath $(call lib,float))" LIB_DOUBLE="$(abspath $(if $(SCRIPT_DOUBLE),$(call lib,double)))" \
    CC=$(call quoted,$(strip $(CC) $(SANITIZER))) \
    CFLAGS=$(call quoted,-std=c11 -I$(CURDIR) -pthread $(filter-out $(if $(SANITIZE),,-g%),$(patsubst -O3,-O1,$(CFLAGS)))) \
    TREE_CFLAGS=$(call quoted,$(CFLAGS)) LIBS=$(call quoted,$(LIBS)) SANITIZE=$(call quoted,$(SANITIZE))
FOR_SCRIPT := $(ATLAS_PROGRAM) $(if $(SCRIPT_DOUBLE),$(TWIN)) \
              $(foreach p,float $(SCRIPT_DOUBLE),$(call programs,$p) $(call lib,$p) $(call shared,$p) $(of_pictures))
ifeq ($(SANITIZE),)
FOR_SCRIPT += $(foreach b,bench scaling stride_peer once draw,$(OUT)/float/bench/$b) \
              $(OUT)/float/campaigns/attack $(addprefix $(OUT)/float/tests/core/,cnn cnn_slow cnn_plain cnn_core)
endif

# The programs $3 of precision $2 leave their counts in folder $1; the environment $4 is theirs besides.
define run_programs
$(foreach t,$3,$(OUT)/$1/$2/$(notdir $t).count): $(OUT)/$1/$2/%.count: $(OUT)/$2/$(dir $(firstword $3))% FORCE
	@$4 tests/tools/run.sh "$(ROOT)/$1/$2/$$*" "$$(abspath $$<)"
endef
define run_script
$(OUT)/$1/script/$(basename $(notdir $2)).count: $2 FORCE $(FOR_SCRIPT)
	@$3 $$(IN_SCRIPT) tests/tools/run.sh "$(ROOT)/$1/script/$(basename $(notdir $2))" bash $$<
endef
$(foreach p,float double,$(eval $(call run_programs,results,$p,$(addprefix tests/,$(notdir $(TESTS:.c=))),)))
$(foreach s,$(SCRIPTS),$(eval $(call run_script,results,$s,)))

# ---- conformance ---------------------------------------------------------------------------------

# Suites that hold the library against definitions, ONNX's cases and PyTorch; `make test` runs fewer of their
# cases.
$(foreach p,float double,$(eval $(call run_programs,conformance,$p,tests/test_cases,STRIDE_CASES=400)))
$(foreach s,$(SUITES),$(eval $(call run_script,results,$s,STRIDE_FAST=1)) \
    $(eval $(call run_script,conformance,$s,unset STRIDE_FAST;)))

.PHONY: conformance conformance-results
CONFORMANCE := $(call suite_counts,conformance) $(foreach p,$(TESTED),$(OUT)/conformance/$p/test_cases.count)
conformance: ## hold every layer against definitions, ONNX's cases and PyTorch
	@rm -rf $(OUT)/conformance
	@$(MAKE) -k conformance-results || :
	@tests/tools/conformance.sh $(OUT)/conformance $(CONFORMANCE)
conformance-results: $(CONFORMANCE) ; @:

# onnxruntime runs exported nets, and the trained one, to the same numbers; onnx's checker accepts them.
.PHONY: onnx-check
ONNX_CHECK := $(OUT)/onnx-check
$(OUT)/float/tests/onnx/export: $(OUT)/float/tests/onnx/export.o $(OUT)/float/tests/onnx/samples.o \
    $(call helpers,float) $(call lib_all,float)
	$(call link)
$(BUILD)/mnist.safetensors: | $(OUT)/float/bin/mnist
	@$(OUT)/float/bin/mnist --quiet --save=$@
onnx-check: ## hold what is exported against onnxruntime (make deps-onnx)
ONNX_ABSENT = $(or $(ONNX_MISSING),$(shell \
    /usr/bin/python3 -c 'import onnx' 2>/dev/null || echo 'onnx of Python (python3-onnx)'; \
    command -v node >/dev/null || echo 'node (nodejs)'; \
    [ -d $(PEER_FILES)/node_modules/onnxruntime-node ] || echo 'onnxruntime-node'))
onnx-check: $(if $(ONNX_PROTO),$(OUT)/float/tests/onnx/export $(BUILD)/mnist.safetensors)
	@$(if $(ONNX_ABSENT),echo 'skip onnx-check: there is no $(ONNX_ABSENT) (make deps-onnx)',\
	    rm -rf $(ONNX_CHECK) && mkdir -p $(ONNX_CHECK); \
	    $< $(ONNX_CHECK) $(BUILD)/mnist.safetensors >$(ONNX_CHECK)/nets.jsonl || cat $(ONNX_CHECK)/nets.jsonl; \
	    /usr/bin/python3 tests/onnx/checker.py $(ONNX_CHECK) >$(ONNX_CHECK)/verdicts || [ -s \
	    $(ONNX_CHECK)/verdicts ] && node tests/onnx/runtime.js $(PEER_FILES)/node_modules $(ONNX_CHECK))
