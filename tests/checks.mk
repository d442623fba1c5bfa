# ---- the sources ---------------------------------------------------------------------------------

.PHONY: format lines tidy
compile_commands.json: FORCE ## write what compiles each file, for editors and clang-tidy
	@$(MAKE) -Bn V=1 CC=$(call quoted,$(CC)) objects | tests/tools/compile_commands.sh >$@.new && mv $@.new $@
tidy: compile_commands.json ## run clang-tidy with the checks of .clang-tidy, which find nothing
	@command -v clang-tidy >/dev/null || { echo 'tidy: clang-tidy is not installed' >&2; exit 1; }
	@printf '%s\n' $(filter-out nn/onnx/%,$(CORE) $(PICTURES_CORE) $(HELPERS) $(MAINS)) | \
	    xargs -P $(shell getconf _NPROCESSORS_ONLN) -n 8 clang-tidy --quiet -p .
format: ## format the sources with clang-format
	clang-format -i $(shell find tensor layers nn examples tests -name '*.[ch]')
lines: ## count lines of code and of comments, by rooms
	@tests/tools/lines.sh $(sort $(ANNEXES) nn/pictures)

# ---- checks --------------------------------------------------------------------------------------

CHECKS := check-sanitize check-threads check-scripts fuzz-smoke check-warnings check-includes check-core core \
          check-quiet check-format check-exports check-documented check-public check-docs check-memory \
          check-mutations check-install distcheck
# These start make again, and two of them side by side would write the same files.
ifneq ($(filter test check% conformance,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
.PHONY: checks check-msan check-exports-mpi check-exports-pictures $(CHECKS)

# In turn, to the end, whichever fails.
each = status=0; for part in $1; do $(MAKE) $$part || status=1; done; exit $$status
check: ## run the tests and every check below
	+@$(call each,test $(CHECKS))
checks: ## run every check below
	+@$(call each,$(CHECKS))

# A part that builds keeps its output in a file, shown when it fails: $(call in_log,name,what).
in_log = >$(BUILD)/$1.log 2>&1 || { cat $(BUILD)/$1.log; echo 'FAIL $2'; exit 1; }
# Tests if compiler $1 has sanitizer $2 and what it makes runs.
sanitizes = echo 'int main(void) { return 0; }' | $1 -fsanitize=$2 -x c - -o $(BUILD)/probe 2>/dev/null && $(BUILD)/probe

check-sanitize: ## the tests under the address and undefined behaviour sanitizers
check-sanitize check-threads: compiler = $(CC)
check-sanitize: sanitizer = address,undefined
check-threads: ## the tests under the thread sanitizer
check-threads: sanitizer = thread
check-threads: tested = TESTED=float # threads do the same in both
check-sanitize check-threads: what = tests with $(compiler) -fsanitize=$(sanitizer)
check-sanitize check-threads:
	@mkdir -p $(BUILD)
	@if $(call sanitizes,$(compiler),$(sanitizer)); \
	 then $(MAKE) CC=$(call quoted,$(compiler)) SANITIZE=$(sanitizer) STRIDE_FAST=1 $(tested) test \
	 $(call in_log,$@,$(what)); \
	     echo "ok   $(what): $$(tail -n 1 $(BUILD)/$@.log)"; \
	 else echo 'skip $(what): it does not work here'; fi

check-scripts: ## the tutorial prints what it shows, what is installed works, no misused function crashes, the atlas runs
	@$(MAKE) TEST="tutorial install misuse atlas" test

check-warnings: check-warnings-gcc check-warnings-clang ## gcc and clang, warnings as errors
check-warnings-%:
	@mkdir -p $(BUILD)
	@if command -v $* >/dev/null; then \
	     $(MAKE) CC=$* BUILD=$(BUILD)/warnings-$* CFLAGS=-O0 WERROR=-Werror objects \
	     $(call in_log,warnings-$*,no warning from $*); \
	     echo 'ok   no warning from $*'; \
	 else echo 'skip no warning from $*: it is not installed'; fi

CHECK = VERSION=$(VERSION) OUT="$(ROOT)" CC=$(call quoted,$(CC)) PKG_CONFIG=$(call quoted,$(PKG_CONFIG)) \
        LIBS=$(call quoted,-pthread $(LIBS)) tests/tools/check.sh

check-includes: ## each folder includes only itself and those on its left
	@$(CHECK) includes

# Without annexes, and so without BLAS, jansson, zlib and threads.
CORE_MAKE = BUILD=$(BUILD)/core ANNEXES= ONNX_CORE= ONNX_FORMAT= LIB_CFLAGS= LIBS=-lm
.PHONY: core
core: ## build tensor/, layers/ and nn/ alone, with a C compiler and nothing else, and train a small CNN
	@mkdir -p $(BUILD)/core
	@$(MAKE) $(CORE_MAKE) $(BUILD)/core/float/tests/core/cnn $(call in_log,core/log,a build of tensor/ layers/ \
	    nn/ alone)
	@$(BUILD)/core/float/tests/core/cnn >$(BUILD)/core/bits \
	    && echo "ok   tensor/, layers/ and nn/ alone train a CNN: $$(cat $(BUILD)/core/bits)" \
	    || { cat $(BUILD)/core/bits; echo 'FAIL tensor/, layers/ and nn/ alone train a CNN'; exit 1; }
$(OUT)/float/tests/core/cnn: $(OUT)/float/tests/core/cnn.o $(call lib_all,float)
	$(call link)
# The whole library without layers/fast/; without tensor/blas/, too; without any annex.
define cnn_without
$(OUT)/float/tests/core/$1: $(OUT)/float/tests/core/cnn.o $(patsubst %.c,$(OUT)/float/%.o,$(filter-out $2,$(CORE))) \
    $(ONNX_FORMAT) $(OUT)/sources
	$$(call link)
endef
$(eval $(call cnn_without,cnn_slow,layers/fast/% $(WITH_LAYERS_FAST)))
$(eval $(call cnn_without,cnn_plain,layers/fast/% $(WITH_LAYERS_FAST) tensor/blas/%))
$(eval $(call cnn_without,cnn_core,$(ANNEXES:%=%/%)))

check-core: ## no file of tensor/, layers/ or nn/ includes an annex
	@$(CHECK) core $(ANNEXES) nn/pictures

check-quiet: $(call lib,float) $(call lib,double) ## the library never prints, exits or asserts
	@$(CHECK) quiet $^

check-format: ## lines of C end at column 110, and are as clang-format leaves them
	@$(CHECK) format

check-exports: ## libraries export what installed headers declare, and nothing else; it begins with st_ or ST_
check-exports: $(foreach p,float double,$(call shared,$p) $(call lib,$p))
	@$(CHECK) exports "$(wordlist 1,2,$^)" "$(wordlist 3,4,$^)" $(HEADERS)
	@$(if $(MPI),$(MAKE) check-exports-mpi)
	@$(if $(PICTURES),$(MAKE) check-exports-pictures)

check-exports-mpi: $(foreach p,float double,$(call shared_mpi,$p) $(call lib_mpi,$p))
	@$(CHECK) exports "$(wordlist 1,2,$^)" "$(wordlist 3,4,$^)" $(MPI_HEADERS)

check-exports-pictures: $(foreach p,float double,$(call shared_pictures,$p) $(call lib_pictures,$p))
	@$(CHECK) exports "$(wordlist 1,2,$^)" "$(wordlist 3,4,$^)" $(PICTURES_HEADERS)

check-public: ## programs include public headers only
	@$(CHECK) public $(HEADERS) $(MPI_HEADERS) $(PICTURES_HEADERS)

check-documented: ## everything that installed headers declare has a comment
	@$(CHECK) documented $(HEADERS) $(MPI_HEADERS) $(PICTURES_HEADERS)

check-docs: ## the manual names what there is, the changelog this version; Doxygen and mandoc warn of nothing
check-docs: $(PROGRAM) stride.c
	@tests/one/docs.sh $(BUILD)
	@PROGRAM="$(PROGRAM)" $(CHECK) manual $(HEADERS) $(MPI_HEADERS) $(PICTURES_HEADERS)
	@if command -v doxygen >/dev/null; then mkdir -p $(BUILD); $(MAKE) docs $(call in_log,docs,make docs); echo \
	    'ok   make docs'; \
	 else echo 'skip make docs: doxygen is not installed'; fi

# Valgrind sees what libraries do with memory, too.
check-memory: ## four of the tests under valgrind
check-memory: $(patsubst %,$(OUT)/float/tests/test_%,step checkpoint anomaly threads)
	@$(call FLAVOURS,none) valgrind $(OUT)/flavours $(abspath $^)

# Libraries are not compiled with the sanitizer: tests/memory/instrumented.c says what of them it is told, and
# stands in for BLAS. No ONNX, no pictures, and no exported C, which other compilers make.
MSAN_OUT  = $(BUILD)/memory-undefined
MSAN_WRAP = malloc realloc aligned_alloc free st_layer_forward st_layer_backward \
    st_double_layer_forward st_double_layer_backward
MSAN_MAKE = CC=clang SANITIZE=memory,undefined PICTURE_FLAGS= PICTURE_LIBS= \
    ONNX_PROTO= \
    ONNX_MISSING='and protoc-c (protobuf-c-compiler)' TEST_AID='$(TEST_AID) tests/memory/instrumented.c' \
    LIBS='-ljansson -lz -lm -ldl $(MSAN_WRAP:%=-Wl$(comma)--wrap=%)'
MSAN_TESTS = $(filter-out %/test_pictures %/test_faults %/test_onnx %/test_export_c,$(TEST_PROGRAMS:$(OUT)/%=$(MSAN_OUT)/%))
check-msan: ## tests under clang's memory sanitizer, which finds what is read before it was written
	@mkdir -p $(MSAN_OUT)
	@if $(call sanitizes,clang,memory); \
	 then rm -f $(MSAN_TESTS); $(MAKE) $(MSAN_MAKE) $(MSAN_TESTS) $(call in_log,$@,tests built for the memory \
	 sanitizer); \
	     STRIDE_FAST=1 MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0:allocator_may_return_null=1 \
	     tests/tools/flavours.sh msan $(MSAN_OUT)/flavours $(abspath $(MSAN_TESTS)); \
	 else echo 'skip tests under the memory sanitizer: clang does not have it here (make deps-check)'; fi

.PHONY: check-bare
check-bare: ## the README's commands on a machine with git, gcc and make alone, as root and as a user (make deps-bare)
	@RELEASE=$(RELEASE) tests/tools/bare.sh $(BUILD)/bare$(RELEASE:%=-%)

check-install: ## CMake, and a program of MPI, find what is installed (pkg-config: make check-scripts)
check-install: $(foreach p,float double,$(call lib,$p) $(call shared,$p) $(of_mpi))
	@rm -rf $(OUT)/installed
	@$(MAKE) install PREFIX=$(OUT)/installed DESTDIR= $(call in_log,install,installed library)
	@$(CHECK) cmake $(OUT)/installed $(SOVERSION)
	@$(if $(MPI),MPIRUN=$(call quoted,$(MPIRUN)) $(CHECK) install-mpi $(OUT)/installed)

# ---- campaigns -----------------------------------------------------------------------------------

# The tests again, with every BLAS and on other processors; each of minutes, and no part of `make check`.
# WAYS='openblas-*' runs those of that name only.
.PHONY: check-blas check-cpu check-x86 check-arm test-programs coverage
TEST_PROGRAMS := $(foreach p,float double,$(call tests,$p))
test-programs: $(TEST_PROGRAMS)

FLAVOURS = CC=$(call quoted,$(CC)) UNPACKED="$(abspath $(BUILD))/debian/$1/root" tests/tools/flavours.sh

check-blas: $(TEST_PROGRAMS) ## the tests with every flavour of OpenBLAS, reference BLAS, and every engine
	@$(call FLAVOURS,blas) blas $(OUT)/flavours $(abspath $^)

check-cpu: ## the tests on emulated processors: x86-64 without AVX-512, without AVX, and 64-bit Arm
	+@$(call each,check-x86 check-arm)

check-x86: $(TEST_PROGRAMS)
	@$(call FLAVOURS,x86) x86 $(OUT)/flavours $(abspath $^)

# Arm's own tree, compiled with what is in ARM_ROOT.
ARM_ROOT := $(abspath $(BUILD))/debian/arm/root
ARM_BLAS := aarch64-linux-gnu/openblas-pthread
FOR_ARM   = BUILD=$(BUILD)/arm ARCH= PKG_CONFIG=false CC='aarch64-linux-gnu-gcc --sysroot=$(ARM_ROOT)' \
            CPPFLAGS='-isystem $(ARM_ROOT)/usr/include/$(ARM_BLAS)' \
            LDFLAGS='-L$(ARM_ROOT)/usr/lib/$(ARM_BLAS)'
check-arm: ## the tests on emulated processors of 64-bit Arm (make deps-arm)
	@if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null && [ -d \
	    $(ARM_ROOT)/usr/lib ]; then \
	     mkdir -p $(BUILD); $(MAKE) $(FOR_ARM) test-programs $(call in_log,check-arm,tests built for Arm); \
	     $(call FLAVOURS,arm) arm $(OUT)/flavours $(patsubst $(BUILD)/%, \
	     $(abspath $(BUILD))/arm/%,$(TEST_PROGRAMS)); \
	 else echo 'skip tests on Arm: compiler, emulator or libraries are not there (make deps-arm)'; fi

# Faults, by the thousand; no part of `make check`, either.
CAMPAIGNS := $(wildcard tests/campaigns/*.c)
oom_LIBS  := $(if $(findstring address,$(SANITIZE)),$(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc \
    aligned_alloc free))
$(CAMPAIGNS:tests/campaigns/%.c=$(OUT)/float/campaigns/%): $(OUT)/float/campaigns/%: \
    $(OUT)/float/tests/campaigns/%.o \
    $(call helpers,float) $(call lib_all,float)
	$(call link,$($(@F)_LIBS))
.PHONY: crash-test oom-test attack
.PHONY: check-ulp
ULP ?= 101
check-ulp: $(OUT)/float/tests/test_functions ## the worst errors of the activation functions, over every 101st float; ULP=1: all
	@STRIDE_ULP=$(ULP) $< 2>/dev/null | grep '^|'
crash-test: $(OUT)/float/campaigns/crash ## kill training at 1000 random times: it comes to the same bytes
	@$< $(BUILD)/crash
attack: ## run stride in hostile surroundings: closed streams, full disks, no memory, odd files
attack: $(OUT)/float/campaigns/attack $(call stride,float) $(TWIN)
	@$< $(call stride,float) $(BUILD)/attack
oom-test: ## let every allocation of the library fail in turn: a clear error, and nothing lost
oom-test: $(OUT)/float/campaigns/oom
	@$< $(BUILD)/oom
ifeq ($(SANITIZE),)
	@if $(call sanitizes,$(CC),address$(comma)undefined); \
	 then echo 'again, under the address and undefined behaviour sanitizers'; $(MAKE) \
	 SANITIZE=address,undefined oom-test; fi
endif

check-mutations: ## mutations that are not tried are of lines that there are
	@if command -v python3 >/dev/null; then python3 tests/tools/mutate.py 0 1 0 $(MUTATION_ROOMS) && echo \
	    "ok   the rows of mutate.txt"; \
	 else echo 'skip the rows of mutate.txt: python3 is not installed'; fi

# A sample of all mutations, the same for the same MUTATION_SEED, each against the tests that reach it: some half an
# hour. One in ten changes no result, only speed, memory or a rounding, unless mutate.txt has it already; others are
# found by sanitizers or by the tests of another room alone: so the least score is 85 %. Of layers/fast, which may
# choose a slower way to the same result, some 75 % are found: MUTATION_ROOMS=layers/fast MUTATION_SCORE=70.
MUTATIONS     ?= 300
MUTATION_SEED ?= 1
MUTATION_SCORE ?= 85
MUTATION_ROOMS ?= tensor tensor/reduce layers nn
MUTATION_TESTS := tensor layers nn data ranks callbacks files
link_mutant = $(LINK) -Wl,-z,muldefs @OBJECT@ $(run_objects_$1_$2) $(call helpers,$1) $(call lib_all,$1) \
              $(PICTURE_LIBS) $(TEST_LIBS) $(LIBS) -o @PROGRAM@
.PHONY: mutations
mutations: ## mutate tensor/, layers/ and nn/ at random: how many of 300 do the tests find? MUTATION_SEED=2
mutations: $(foreach r,$(MUTATION_TESTS),$(OUT)/float/tests/$r/run) \
    $(foreach r,layers nn,$(OUT)/double/tests/$r/run)
	@OUT=$(OUT) BUILD=$(BUILD) \
	 $(foreach r,$(MUTATION_TESTS),LINK_float_$r=$(call quoted,$(call link_mutant,float,$r))) \
	 $(foreach r,layers nn,LINK_double_$r=$(call quoted,$(call link_mutant,double,$r))) \
	 python3 tests/tools/mutate.py $(MUTATIONS) $(MUTATION_SEED) $(MUTATION_SCORE) $(MUTATION_ROOMS)

# Every engine that this machine has runs, and every allocation fails once: minutes. Only the library of float is
# looked at, as functions of the two precisions lie on different lines. Nothing is inlined, so that a branch counts
# once, and not once for each place that its function is inlined at.
COVERAGE_MAKE = $(MAKE) BUILD=$(BUILD)/coverage SANITIZE= ARCH= TESTED=float CFLAGS='-O1 -fexpensive-optimizations -g \
    --coverage -fprofile-update=atomic -DCOUNTS_COVERAGE -fno-inline -Dalways_inline=unused'
coverage: ## what the tests and oom-test reach; pages in build/coverage/html (make deps-coverage)
	@command -v gcovr >/dev/null || { echo 'coverage: gcovr is not installed (make deps-coverage)' >&2; exit 1; }
	@mkdir -p $(BUILD)/coverage/html
	@$(COVERAGE_MAKE) test-programs $(BUILD)/coverage/float/campaigns/oom $(call in_log,coverage,tests built for \
	    coverage)
	@find $(BUILD)/coverage -name '*.gcda' -delete
	@STRIDE_FAST=1 $(call FLAVOURS,none) engines $(BUILD)/coverage/flavours \
	     $(patsubst $(OUT)/%,$(abspath $(BUILD))/coverage/%,$(filter $(OUT)/float/%,$(TEST_PROGRAMS)))
	@$(COVERAGE_MAKE) TEST="misuse test_stride" test
	@$(BUILD)/coverage/float/campaigns/oom $(BUILD)/coverage/oom $(call in_log,coverage-oom,every allocation \
	    fails)
	@gcovr --root . --gcov-executable "$$($(CC) -print-prog-name=gcov)" --filter tensor/ --filter layers/ \
	    --filter nn/ --txt --print-summary --html-details $(BUILD)/coverage/html/index.html \
	    --fail-under-line 98 --fail-under-branch 92 $(BUILD)/coverage/float
