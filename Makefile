# Stride. `make help` lists the targets, with what each is for.
#
# Both precisions stand in one graph: build/float/… and build/double/… mirror the folders, and
# PRECISION says which of them `make` and `make NAME` mean. A sanitizer's build has a tree of its own,
# build/address-undefined/float/… The variables below may be set from outside, and so may CC, CPPFLAGS,
# LDFLAGS, ARCH (-march=native, say) and V=1, which shows the commands.
#
#   make O=DIR ...              build in DIR, which may be outside the source tree, as BUILD=DIR does
#   make PRECISION=double ...   lib, programs and the programs' own targets in double
#   make CC=clang ARCH=-march=native CPPFLAGS=-I... LDFLAGS=-L... V=1 ...
#   make CROSS_COMPILE=aarch64-linux-gnu- ...
#                               CC, AR and, where there is one, pkg-config have this in front; without a pkg-config of
#                               its own, CPPFLAGS and LDFLAGS say where that machine's libraries are; RUN=qemu-aarch64,
#                               say, lets make install ask the program for its page of the manual and its completions
#   make MPI=1 ...              libstride-mpi besides, and in install, and what is built with it
#   make install PREFIX=DIR     also BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR, and DESTDIR to stage them

VERSION    := $(shell awk '$$2 == "STRIDE_VERSION" { gsub(/"/, "", $$3); print $$3 }' nn/stride.h)
PRECISION  ?= float
SANITIZE   ?=
BUILD      ?= $(if $(filter command%,$(origin O)),$(O),build)
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include/stride
DATADIR    ?= $(PREFIX)/share
MANDIR     ?= $(DATADIR)/man
DESTDIR    ?=
CROSS_COMPILE ?=
ARCH       :=
CFLAGS     ?= $(if $(SANITIZE),-O1,-O3 -fno-math-errno -fno-trapping-math) -g $(ARCH)
# What is left out of an initializer is zero, and zero is the default: no warning about that. Nor about a loop that
# may become vectors and does not, because of what it calls.
WARNINGS   ?= -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
              -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wvla -Wundef \
              -Wno-missing-field-initializers -Wno-pass-failed

PROGRAMS := stride mnist predict custom_layer gradcheck views pooling

.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.PHONY: all FORCE
all:

# Make cannot name files with spaces in their paths.
ifneq ($(or $(word 2,x$(CURDIR)),$(word 2,x$(BUILD))),)
$(error "$(if $(word 2,x$(CURDIR)),$(CURDIR),$(BUILD))": expected a source tree and a build folder without spaces in their paths)
endif

ifneq ($(CROSS_COMPILE),)
CC := $(CROSS_COMPILE)gcc
AR := $(CROSS_COMPILE)ar
PKG_CONFIG ?= $(if $(shell command -v $(CROSS_COMPILE)pkg-config),$(CROSS_COMPILE)pkg-config,false)
endif
PKG_CONFIG ?= pkg-config
ifeq ($(shell uname -s),Darwin)
# Homebrew keeps its OpenBLAS, on either kind of processor, where pkg-config does not look.
PKG_CONFIG := env PKG_CONFIG_PATH=/opt/homebrew/opt/openblas/lib/pkgconfig:/usr/local/opt/openblas/lib/pkgconfig:$(PKG_CONFIG_PATH) pkg-config
endif

# ---- what is needed ------------------------------------------------------------------------------

quoted = '$(subst ','\'',$1)'
DEPS   = CC=$(call quoted,$(strip $(CC) $(CPPFLAGS) $(LDFLAGS))) PKG_CONFIG=$(call quoted,$(PKG_CONFIG)) tests/tools/deps.sh

.PHONY: deps deps-check deps-coverage deps-report deps-conformance deps-bench deps-onnx deps-mpi
deps: ## install what building and testing need, unless it is there
	@$(DEPS) build
deps-check: deps ## install what `make check` needs besides
	@$(DEPS) check
deps-coverage: deps ## install gcovr, which `make coverage` reports with
	@$(DEPS) coverage
deps-report: deps ## install a browser, which the tests look at pages with
	@$(DEPS) report
deps-conformance: deps ## install ONNX's cases and PyTorch, which `make conformance` compares with
	@$(DEPS) conformance
deps-bench: deps ## install PyTorch, oneDNN and onnxruntime, which `make bench-peers` compares with
	@$(DEPS) bench
	@$(ONNXRUNTIME)
deps-onnx: deps ## install what writes files of ONNX, and onnxruntime and the checker, which `make onnx-check` asks
	@$(DEPS) onnx
	@$(ONNXRUNTIME)
deps-mpi: deps ## install MPI, which `make MPI=1` builds with
	@$(DEPS) mpi
ONNXRUNTIME = [ -d $(BUILD)/peers/node_modules/onnxruntime-node ] || \
    npm install --prefix $(BUILD)/peers --ignore-scripts --no-audit --no-fund --silent onnxruntime-node

.PHONY: deps-blas deps-arm
deps-blas: deps ## unpack every flavour of BLAS, which `make check-blas` runs the tests with, into build/
	@tests/tools/unpack.sh $(BUILD)/debian/blas native libopenblas0-pthread libopenblas0-openmp libopenblas0-serial libblas3
deps-arm: deps ## install a compiler for Arm and an emulator, which `make check-cpu` wants, and unpack Arm's libraries
	@$(DEPS) arm
	@tests/tools/unpack.sh $(BUILD)/debian/arm arm64 libopenblas-pthread-dev libjansson-dev zlib1g-dev libcmocka-dev libgomp1

# `make deps mnist`: deps come first, also with -j, and the rest starts make anew, so that it finds what
# was installed.
first := $(filter deps deps-%,$(MAKECMDGOALS))
rest  := $(filter-out $(first),$(MAKECMDGOALS))

ifneq ($(and $(first),$(rest)),)
.PHONY: $(rest) rest
$(rest): rest ; @:
rest: $(first) ; @$(MAKE) $(rest)
else

# These start make again, and two of them side by side would write the same files.
ifneq ($(filter test check% conformance,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

# ---- sources and places --------------------------------------------------------------------------

ifeq ($(filter $(PRECISION),float double),)
$(error PRECISION=$(PRECISION): expected float or double)
endif

comma    := ,
OUT      := $(BUILD)$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))
ROOT     := $(abspath $(OUT))
MPI_CORE := nn/ranks/mpi.c
ANNEXES  := layers/fast nn/data nn/files nn/onnx nn/ranks nn/watch
CORE     := $(filter-out $(MPI_CORE) nn/onnx/%,$(wildcard tensor/*.c layers/*.c nn/*.c $(ANNEXES:=/*.c))) nn/onnx/onnx.c
MAINS    := $(wildcard $(PROGRAMS:%=examples/%.c)) $(wildcard examples/stride/main.c)
HELPERS  := $(filter-out $(MAINS),$(wildcard examples/*.c examples/stride/*.c))
TESTS    := $(wildcard tests/test_*.c)
TEST_AID := $(filter-out $(TESTS),$(wildcard tests/*.c))
SCRIPTS  := $(wildcard tests/test_*.sh)
SUITES   := $(wildcard tests/conformance/suite_*.c)
SUITE_AID     := $(filter-out $(SUITES),$(wildcard tests/conformance/*.c))
SUITE_SCRIPTS := $(wildcard tests/conformance/suite_*.sh tests/conformance/suite_*.py)
CAMPAIGNS     := $(wildcard tests/campaigns/*.c)

# Where ONNX's description of its files is installed, beside protobuf-c, which reads and writes them; and what is
# missing of that, and the packages of Debian that bring it. Then net_export_onnx says so, suite_onnx has no case, and what needs the
# description is not built.
ONNX_MISSING := $(wordlist 2,99,$(shell \
    command -v protoc-c >/dev/null || echo 'and protoc-c (protobuf-c-compiler)'; \
    $(PKG_CONFIG) --exists libprotobuf-c || echo 'and libprotobuf-c (libprotobuf-c-dev)'; \
    [ -f /usr/include/onnx/onnx.proto ] || echo 'and onnx.proto (libonnx-dev)'))
ONNX_PROTO := $(if $(ONNX_MISSING),,/usr/include/onnx/onnx.proto)
ONNX_READ  := $(if $(ONNX_PROTO),$(OUT)/onnx/onnx.pb-c.h)
ONNX_CORE  := $(if $(ONNX_PROTO),$(filter-out nn/onnx/onnx.c,$(wildcard nn/onnx/*.c)))
ONNX_FORMAT := $(if $(ONNX_PROTO),$(OUT)/onnx/onnx.pb-c.o)
ONNX       := $(if $(ONNX_PROTO),$(wildcard tests/conformance/onnx/*.c))
CORE       += $(ONNX_CORE)

# The benchmarks' programs, in float only, with the files of tests/bench that each is made of: `bench` drives, and
# asks stride_peer for Stride's part, dnnl_peer for oneDNN's. What a peer's needs are not there for is not built.
DNNL := $(wildcard /usr/include/oneapi/dnnl/dnnl.h)
BENCHES := bench scaling stride_peer $(if $(DNNL),dnnl_peer) $(if $(ONNX_PROTO),onnx_model)
parts_bench       := bench campaign subjects networks worker report compare moonshot statistics timing peak
parts_scaling     := scaling campaign worker statistics ../../examples/stride/sketch
parts_stride_peer := stride_peer machine peak layer_work net_work networks timing allocations
parts_dnnl_peer   := dnnl_peer timing
parts_onnx_model  := onnx_model networks
BENCH_SOURCES := $(filter-out $(if $(DNNL),,%/dnnl_peer.c) $(if $(ONNX_PROTO),,%/onnx_model.c),$(wildcard tests/bench/*.c))

# Ranks that are MPI's processes: a library of its own, and what needs it, where MPI=1 asks for it.
MPI ?= $(if $(filter mpi-test mnist-mpi bench-mpi,$(MAKECMDGOALS)),1)
MPI_HEADERS := nn/ranks/mpi.h
MPI_MAINS   := $(wildcard examples/mpi/*.c)
MPI_TESTS   := $(wildcard tests/mpi/*.c)

# A fuzzer for each reader, in float only, linked with clang's libFuzzer (see `make fuzz`).
FUZZERS  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_AID := $(filter-out $(FUZZERS),$(wildcard tests/fuzz/*.c))

SOURCES := $(CORE) $(MAINS) $(HELPERS) $(TESTS) $(TEST_AID) $(SUITES) $(SUITE_AID) $(ONNX) $(wildcard tests/onnx/*.c) \
           $(if $(MPI),$(MPI_CORE) $(MPI_MAINS) $(MPI_TESTS))

# Of one precision, $1; the program gradcheck is built in double only. What the programs share is an archive, from
# which each takes what it uses. stride of double is stride-double, and lies beside that of float too.
lib      = $(OUT)/$1/lib$(NAME_$1).a
shared   = $(OUT)/$1/$(call so,$(NAME_$1),$(VERSION))
helpers  = $(OUT)/$1/examples/helpers.a
stride   = $(OUT)/$1/bin/$(NAME_$1)
simple   = $(filter-out $(OUT)/float/bin/gradcheck %/main,$(MAINS:examples/%.c=$(OUT)/$1/bin/%))
programs = $(simple) $(stride)
TWIN    := $(OUT)/float/bin/stride-double
tests    = $(TESTS:%.c=$(OUT)/$1/%)
suites   = $(SUITES:%.c=$(OUT)/$1/%)
NAME_float  := stride
NAME_double := stride-double
lib_mpi    = $(OUT)/$1/lib$(MPI_$1).a
shared_mpi = $(OUT)/$1/$(call so,$(MPI_$1),$(VERSION))
mpi        = $(MPI_MAINS:examples/mpi/%.c=$(OUT)/$1/bin/%)
mpi_tests  = $(MPI_TESTS:%.c=$(OUT)/$1/%)
MPI_float  := stride-mpi
MPI_double := stride-mpi-double

# The program stride, where there is one, its twin in double, and what runs it where this machine cannot.
PROGRAM        := $(filter %/stride,$(call programs,float))
PROGRAM_DOUBLE := $(filter %/stride-double,$(call programs,double))
RUN            ?=

# Of precision $p, where it is asked for.
of_mpi = $(if $(MPI),$(call lib_mpi,$p) $(call shared_mpi,$p))

# ---- the toolchain -------------------------------------------------------------------------------

# Asked when the first recipe needs the answer, and once: X = $(eval X := answer)$(X).

# What pkg-config $1 says of the first of the packages $2 that it knows, or else $3.
ask         = $(shell for package in $2; do $(PKG_CONFIG) $1 $$package 2>/dev/null && exit; done; echo $3)
BLAS       := openblas cblas blas
LIB_CFLAGS  = $(eval LIB_CFLAGS := $(patsubst -I%,-isystem %,$(call ask,--cflags,$(BLAS)) \
                $(call ask,--cflags,jansson) $(call ask,--cflags,zlib)))$(LIB_CFLAGS)
LIBS        = $(eval LIBS := $(call ask,--libs,$(BLAS),-lopenblas) $(call ask,--libs,jansson,-ljansson) \
                $(call ask,--libs,zlib,-lz) $(if $(ONNX_PROTO),$(call ask,--libs,libprotobuf-c,-lprotobuf-c)) -lm)$(LIBS)
TEST_CFLAGS = $(eval TEST_CFLAGS := $(patsubst -I%,-isystem %,$(call ask,--cflags,cmocka)) \
                -Wno-unused-parameter)$(TEST_CFLAGS)
ONNX_CFLAGS = $(eval ONNX_CFLAGS := -DSTRIDE_ONNX -isystem $(OUT)/onnx \
                $(patsubst -I%,-isystem %,$(call ask,--cflags,libprotobuf-c)))$(ONNX_CFLAGS)
MPI_PACKAGES := ompi mpich mpi-c
MPI_FOUND   = $(eval MPI_FOUND := $(call ask,--libs,$(MPI_PACKAGES)))$(MPI_FOUND)
MPI_LIBS    = $(or $(MPI_FOUND),-lmpi)
MPI_CFLAGS  = $(eval MPI_CFLAGS := $(patsubst -I%,-isystem %,$(call ask,--cflags,$(MPI_PACKAGES))))$(MPI_CFLAGS)
# Open MPI has to be told that there may be more ranks than cores, and who is asking; threads are OpenMP's to place.
MPIRUN     ?= $(eval MPIRUN := mpirun $(shell mpirun --version 2>/dev/null | grep -q 'Open MPI' && \
                echo --oversubscribe --bind-to none $$([ $$(id -u) = 0 ] && echo --allow-run-as-root)))$(MPIRUN)
TEST_LIBS   = $(eval TEST_LIBS := $(call ask,--libs,cmocka,-lcmocka))$(TEST_LIBS)

# Where libpng and libjpeg are there, stride reads pictures.
has           = $(shell $(PKG_CONFIG) --exists $1 2>/dev/null && echo $2)
PICTURE_FLAGS = $(eval PICTURE_FLAGS := $(call has,libpng,-DSTRIDE_PNG) $(call has,libjpeg,-DSTRIDE_JPEG) \
                  $(patsubst -I%,-isystem %,$(call ask,--cflags,libpng) $(call ask,--cflags,libjpeg)))$(PICTURE_FLAGS)
PICTURE_LIBS  = $(eval PICTURE_LIBS := $(call ask,--libs,libpng) $(call ask,--libs,libjpeg))$(PICTURE_LIBS)

# OpenMP where the compiler can build with it; its pragmas are comments elsewhere.
OPENMP ?= $(eval OPENMP := $(shell probe=$$(mktemp); echo 'int main(void) { return omp_get_max_threads() < 1; }' | \
            $(CC) $(CPPFLAGS) $(LDFLAGS) -fopenmp -include omp.h -x c - -o $$probe 2>/dev/null && echo -fopenmp || \
            echo -Wno-unknown-pragmas; rm -f $$probe))$(OPENMP)

SANITIZER := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)

COMPILE = $(CC) -std=c11 -ffp-contract=off -I. -fPIC -pthread $(WARNINGS) $(WERROR) $(OPENMP) $(SANITIZER) $(LIB_CFLAGS) \
          $(CPPFLAGS) $(CFLAGS)
# Of the libraries: a function is seen from outside only where a header that is installed declares it.
CORE_CFLAGS := -fvisibility=hidden
LINK    = $(CC) -pthread $(OPENMP) $(SANITIZER) $(CFLAGS) $(LDFLAGS)

# The file name of shared library $1 at version $2, and the flags that make it; programs ask for it at SOVERSION, within
# which they go on running. A sanitizer's symbols may come with the program.
VERSION_PARTS := $(subst ., ,$(VERSION))
SOVERSION     := $(if $(filter 0.%,$(VERSION)),0.$(word 2,$(VERSION_PARTS)),$(firstword $(VERSION_PARTS)))
ifeq ($(shell uname -s),Darwin)
so       = lib$1$(if $2,.$2).dylib
SO_FLAGS = -dynamiclib -install_name @rpath/$(call so,$1,$(SOVERSION))
else
so       = lib$1.so$(if $2,.$2)
SO_FLAGS = -shared -Wl,-soname,$(call so,$1,$(SOVERSION)) $(if $(SANITIZE),,-Wl,--no-undefined)
endif

# ---- rules ---------------------------------------------------------------------------------------

# Of two files alone: products and sums become one instruction where there is one.
CFLAGS_layers_fast_kernel := -ffp-contract=fast
CFLAGS_layers_fast_winograd_transforms := -ffp-contract=fast
# Of another, what it says when it cannot.
CFLAGS_nn_onnx_onnx := -DSTRIDE_ONNX_MISSING='"$(ONNX_MISSING)"'
CFLAGS_examples_stride_images = $(PICTURE_FLAGS)
CFLAGS_nn_ranks_mpi = $(MPI_CFLAGS)
CFLAGS_tests_test_pictures    = $(PICTURE_FLAGS)
CFLAGS_tests_fuzz_fuzz_picture = $(PICTURE_FLAGS)

say = $(if $(V),,@echo '  $1  $(@:$(BUILD)/%=%)';)

define compile
@mkdir -p $(@D)
$(call say,CC)$(COMPILE) $1 $(if $(filter tests/%,$(filter-out tests/bench/%,$<)),$(TEST_CFLAGS)) \
    $(if $(filter $(CORE) $(MPI_CORE),$<),$(CORE_CFLAGS)) $(if $(filter $(ONNX_READ),$^),$(ONNX_CFLAGS)) $(CFLAGS_$(subst /,_,$(basename $<))) -MMD -MP -c $< -o $@
endef

define archive
@rm -f $@
$(call say,AR)$(AR) rcs $@ $(filter %.o,$^)
endef

define link_shared
$(call say,LD)$(LINK) $(call SO_FLAGS,$1) $(filter %.o,$^) $(or $2,$(LIBS)) -o $@
@ln -sf $(@F) $(@D)/$(call so,$1,$(SOVERSION))
@ln -sf $(@F) $(@D)/$(call so,$1)
endef

define link
@mkdir -p $(@D)
$(call say,LD)$(LINK) $(filter %.o,$^) $(filter %.a,$^) $1 $(LIBS) -o $@
endef

# The rules of precision $1, compiled with $2.
define rules
$(OUT)/$1/%.o: %.c $(OUT)/flags
	$$(call compile,$2)
$(call lib,$1): $(CORE:%.c=$(OUT)/$1/%.o) $(ONNX_FORMAT) $(OUT)/sources
	$$(archive)
$(call shared,$1): $(CORE:%.c=$(OUT)/$1/%.o) $(ONNX_FORMAT) $(OUT)/sources
	$$(call link_shared,$(NAME_$1))
$(call helpers,$1): $(HELPERS:%.c=$(OUT)/$1/%.o) $(OUT)/sources
	$$(archive)
$(call simple,$1): $(OUT)/$1/bin/%: $(OUT)/$1/examples/%.o $(call helpers,$1) $(call lib,$1)
	$$(link)
$(call stride,$1): $(OUT)/$1/examples/stride/main.o $(call helpers,$1) $(call lib,$1)
	$$(call link,$$(PICTURE_LIBS))
$(call lib_mpi,$1): $(OUT)/$1/nn/ranks/mpi.o
	$$(archive)
$(call shared_mpi,$1): $(OUT)/$1/nn/ranks/mpi.o $(call shared,$1)
	$$(call link_shared,$(MPI_$1),-L$$(@D) -l$(NAME_$1) $$(MPI_LIBS))
$(call mpi,$1): $(OUT)/$1/bin/%: $(OUT)/$1/examples/mpi/%.o $(call helpers,$1) $(call lib_mpi,$1) $(call lib,$1)
	$$(call link,$$(MPI_LIBS))
$(call mpi_tests,$1): %: %.o $(OUT)/$1/tests/bench/networks.o $(TEST_AID:%.c=$(OUT)/$1/%.o) $(call helpers,$1) $(call lib_mpi,$1) $(call lib,$1)
	$$(call link,$$(MPI_LIBS) $$(TEST_LIBS))
$(call tests,$1): %: %.o $(TEST_AID:%.c=$(OUT)/$1/%.o) $(call helpers,$1) $(call lib,$1)
	$$(call link,$$(PICTURE_LIBS) $$(TEST_LIBS))
$(OUT)/$1/tests/test_onnx: $(OUT)/$1/tests/onnx/samples.o
$(call suites,$1): %: %.o $(SUITE_AID:%.c=$(OUT)/$1/%.o) $(TEST_AID:%.c=$(OUT)/$1/%.o) $(call lib,$1)
	$$(call link,$$(TEST_LIBS))
$(if $(ONNX_PROTO),
$(OUT)/$1/tests/conformance/suite_onnx: $(ONNX:%.c=$(OUT)/$1/%.o)
$(patsubst %.c,$(OUT)/$1/%.o,$(ONNX) $(ONNX_CORE) nn/onnx/onnx.c tests/test_onnx.c tests/conformance/suite_onnx.c): $(ONNX_READ))
endef
$(eval $(call rules,float,))
define bench_rule
$(OUT)/float/bench/$1: $(parts_$1:%=$(OUT)/float/tests/bench/%.o) $(OUT)/float/examples/stride/arguments.o $(call lib,float)
	$$(call link,$$($1_LIBS))
endef
$(foreach b,$(BENCHES),$(eval $(call bench_rule,$b)))
$(CAMPAIGNS:tests/campaigns/%.c=$(OUT)/float/campaigns/%): $(OUT)/float/campaigns/%: $(OUT)/float/tests/campaigns/%.o \
    $(call helpers,float) $(call lib,float)
	$(call link,$($(@F)_LIBS))
oom_LIBS        = $(if $(findstring address,$(SANITIZE)),$(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc aligned_alloc free))
dnnl_peer_LIBS  = -ldnnl
# a * x + b in one instruction, which strict C11 has to be asked for.
CFLAGS_tests_bench_peak := -ffp-contract=fast
$(eval $(call rules,double,-DSTRIDE_DOUBLE))

# Fuzzers are programs of a tree of its own, whose library is instrumented for them: but for kernels, which have nothing
# to do with files, and which clang instruments for minutes.
ifneq ($(findstring fuzzer,$(SANITIZE)),)
$(foreach f,layers_fast_kernel layers_fast_maxima layers_fast_winograd_transforms,$(eval CFLAGS_$f += -fno-sanitize=all))
endif
fuzzers := $(FUZZERS:tests/fuzz/%.c=$(OUT)/float/fuzz/%)
$(fuzzers): $(OUT)/float/fuzz/%: $(OUT)/float/tests/fuzz/%.o $(FUZZ_AID:%.c=$(OUT)/float/%.o) \
    $(call helpers,float) $(call lib,float)
	$(call link,-fsanitize=fuzzer $(addprefix -Wl$(comma)--wrap=,layer_new layer_clone layer_free net_build) $(PICTURE_LIBS))
fuzz-programs: $(fuzzers)
.PHONY: fuzz-programs

# What reads and writes ONNX's files, made from their description; not our code, so compiled without our warnings and
# its assertions, and hidden: a program may have its own.
ifdef ONNX_PROTO
$(ONNX_READ): $(OUT)/onnx/onnx.pb-c.c ;
$(OUT)/onnx/onnx.pb-c.c: $(ONNX_PROTO)
	@mkdir -p $(OUT)/onnx
	$(call say,GEN)protoc-c -I$(dir $(ONNX_PROTO)) --c_out=$(OUT)/onnx $<
$(OUT)/onnx/onnx.pb-c.o: $(OUT)/onnx/onnx.pb-c.c $(OUT)/flags
	$(call say,CC)$(COMPILE) $(ONNX_CFLAGS) -w -DNDEBUG -fvisibility=hidden -c $< -o $@
endif

# Files that change when what they hold changes: the commands, after which all is compiled again, and the
# list of sources, after which the libraries are made again. The + keeps make -n truthful.
hold = @mkdir -p $(@D); echo $1 | cmp -s - $@ || echo $1 >$@
$(OUT)/flags: FORCE
	+$(call hold,$(call quoted,$(COMPILE) : $(LINK) : $(VERSION) $(ONNX_MISSING) : $(PICTURE_FLAGS)))
$(OUT)/sources: FORCE
	+$(call hold,$(call quoted,$(CORE) $(HELPERS)))

OBJECTS := $(filter-out $(OUT)/float/examples/gradcheck.o,$(foreach p,float double,$(SOURCES:%.c=$(OUT)/$p/%.o))) \
           $(patsubst %.c,$(OUT)/float/%.o,$(BENCH_SOURCES) $(CAMPAIGNS) $(FUZZERS) $(FUZZ_AID))
-include $(OBJECTS:.o=.d)

# ---- building and running ------------------------------------------------------------------------

.PHONY: lib programs objects test check format install uninstall clean help

all: lib programs ## build the libraries and the programs

lib: $(call lib,$(PRECISION)) $(call shared,$(PRECISION)) $(if $(MPI),$(call lib_mpi,$(PRECISION)) $(call shared_mpi,$(PRECISION))) ## build libstride, or libstride-double with PRECISION=double

programs: $(call programs,$(PRECISION)) $(if $(MPI),$(call mpi,$(PRECISION))) $(filter %/gradcheck,$(call programs,double)) $(TWIN) ## build the programs of examples/

$(TWIN): $(call stride,double)
	@mkdir -p $(@D)
	@ln -sf ../../double/bin/$(@F) $@

# The lines that say how to run a program, for `make help`; others of PROGRAMS run likewise.
mnist: ## train on MNIST (and build predict, which reads what it saves)
mnist: $(OUT)/$(PRECISION)/bin/predict
mnist-best: $(call stride,$(PRECISION)) ## train a wider net on distorted digits for some ten minutes
	@examples/mnist.sh || :
	@$(WAITING) $< train --net examples/networks/wide.net --epochs 9 --shear 8 --rotation 10 --scale 0.1 --shift 2 \
	    --optim sgd --lr 0.1 --nesterov --weight-decay 5e-4 --schedule one-cycle --label-smoothing 0.05 \
	    --log $(BUILD)/mnist_best.csv --report $(BUILD)/mnist_best.html --save $(BUILD)/mnist_best.safetensors
.PHONY: mnist-best
gradcheck: ## compare every layer's gradient with finite differences, in double
.PHONY: $(PROGRAMS)
# Threads that soon sleep while they wait, where nobody says how they are to wait: on idle cores that costs little, on
# busy ones a thread that waits awake keeps the one that it waits for from running.
WAITING = $(if $(OMP_WAIT_POLICY),,GOMP_SPINCOUNT=$${GOMP_SPINCOUNT:-10000})
$(filter-out stride gradcheck,$(PROGRAMS)): %: $(OUT)/$(PRECISION)/bin/%
	@$(if $(filter mnist,$@),examples/mnist.sh || :)
	@$(WAITING) $<
# Ranks on this machine, each with as many threads.
RANKS ?= 2
.PHONY: mnist-mpi
mnist-mpi: $(OUT)/$(PRECISION)/bin/mnist_mpi ## train on MNIST with RANKS=2 processes (make deps-mpi)
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(MPIRUN) -n $(RANKS) $<
stride: $(call stride,$(PRECISION)) $(TWIN) ## build the program for daily use, build/float/bin/stride
gradcheck: $(OUT)/double/bin/gradcheck
	@$<

# ---- benchmarks ----------------------------------------------------------------------------------

# `make bench BENCH=conv` measures what has conv in its name; ROUNDS says how often. BENCH_FLAGS are further
# options: --cpu-time, say. Threads wait as their libraries make them wait.
BENCH       ?=
ROUNDS      ?=
BENCH_FLAGS ?=
bench_options = $(if $(ROUNDS),--rounds=$(ROUNDS)) $(BENCH_FLAGS)
bench_programs := $(foreach b,$(BENCHES),$(OUT)/float/bench/$b)

# The peers' own files: packages of node, and the networks as files of ONNX.
PEER_FILES := $(BUILD)/peers
MODELS     := $(if $(ONNX_PROTO),$(patsubst %,$(PEER_FILES)/%.onnx,lenet5 example bnnet mlp))
$(MODELS): $(PEER_FILES)/%.onnx: $(OUT)/float/bench/onnx_model
	@mkdir -p $(@D)
	$(call say,GEN)$< $* $@

# What Debian installs is found by Debian's python3. One that cannot run says why, and is left out.
PEERS = \
    --peer='torch=/usr/bin/python3 tests/bench/torch_peer.py' \
    --peer='torch channels-last=/usr/bin/python3 tests/bench/torch_peer.py --channels-last' \
    $(if $(DNNL),$(foreach setting,direct nhwc blocked winograd,--peer='dnnl $(setting)=$(OUT)/float/bench/dnnl_peer $(setting)'), \
        --peer='dnnl=echo skip oneDNN is not installed (make deps-bench)') \
    $(if $(MODELS),$(foreach batch,64 16 256,--peer='onnx batch $(batch)=node tests/bench/onnx_peer.js $(PEER_FILES) $(batch)'), \
        --peer='onnx=echo skip protobuf-c or onnx.proto is not installed (make deps-bench)')

.PHONY: bench bench-peers bench-scaling
bench: $(bench_programs) ## measure layers and networks; BENCH=conv ROUNDS=9, say
	@$< $(bench_options) --csv=$(BUILD)/bench.csv $(BENCH)
bench-peers: $(bench_programs) $(MODELS) $(OUT)/float/bin/mnist ## the same against PyTorch, oneDNN and onnxruntime, and the moonshot
	@$< $(bench_options) --csv=$(BUILD)/bench-peers.csv $(PEERS) \
	    $(if $(BENCH),,--mnist='$(OUT)/float/bin/mnist --quiet --save=$(BUILD)/bench.safetensors') $(BENCH)

bench-scaling: $(OUT)/float/bench/scaling $(OUT)/float/bench/stride_peer ## the cost of a unit of work must not grow with its size
	@$< $(if $(ROUNDS),--rounds=$(ROUNDS)) $(BENCH_FLAGS)

.PHONY: bench-mpi
bench-mpi: $(OUT)/float/tests/mpi/bench_mpi ## measure one rank and two, of one thread each, and what they say to each other (make deps-mpi)
	@for ranks in 1 2; do OMP_NUM_THREADS=1 $(MPIRUN) -n $$ranks $< || exit 1; done

# ---- tests ---------------------------------------------------------------------------------------

# Each test leaves its counts in a file; what left none did not build. -k: one that does not build does
# not keep the others from running. TESTED=float runs those of one precision.
TESTED       ?= float double
suite_counts = $(foreach p,$(TESTED),$(SUITES:tests/conformance/%.c=$(OUT)/$1/$p/%.count)) \
               $(foreach s,$(notdir $(SUITE_SCRIPTS)),$(OUT)/$1/script/$(basename $s).count)
COUNTS := $(foreach p,$(TESTED),$(TESTS:tests/%.c=$(OUT)/results/$p/%.count)) \
          $(SCRIPTS:tests/%.sh=$(OUT)/results/script/%.count) $(call suite_counts,results)

test: ## run every test in both precisions
	@rm -rf $(OUT)/results
	@$(MAKE) -k results || :
	@tests/tools/total.sh $(COUNTS)

.PHONY: results
results: $(COUNTS) ; @:

ASAN_OPTIONS  ?= detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS ?= print_stacktrace=1
TSAN_OPTIONS  ?= ignore_noninstrumented_modules=1:allocator_may_return_null=1
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

# What a script finds in its environment, all absolute: programs, libraries and how to build with them.
IN_SCRIPT = BIN="$(ROOT)/float/bin" BIN_DOUBLE="$(ROOT)/double/bin" BENCH="$(ROOT)/float/bench" LIB="$(abspath $(call lib,float))" \
    LIB_DOUBLE="$(abspath $(call lib,double))" CC=$(call quoted,$(strip $(CC) $(SANITIZER))) \
    CFLAGS=$(call quoted,-std=c11 -I$(CURDIR) -pthread $(OPENMP) $(CFLAGS)) LIBS=$(call quoted,$(LIBS)) \
    SANITIZE=$(call quoted,$(SANITIZE))
FOR_SCRIPT := $(TWIN) $(foreach p,float double,$(call programs,$p) $(call lib,$p) $(call shared,$p)) \
              $(foreach b,bench scaling stride_peer,$(OUT)/float/bench/$b)

# The tests $3 of precision $2 leave their counts in folder $1; the environment $4 is theirs besides.
define run_programs
$(patsubst tests/%.c,$(OUT)/$1/$2/%.count,$(subst /conformance/,/,$3)): $(OUT)/$1/$2/%.count: $(OUT)/$2/$(dir $(firstword $3))% FORCE
	@$4 tests/tools/run.sh "$(ROOT)/$1/$2/$$*" "$$(abspath $$<)"
endef
define run_script
$(OUT)/$1/script/$(basename $(notdir $2)).count: $2 FORCE $(FOR_SCRIPT)
	@$3 $$(IN_SCRIPT) tests/tools/run.sh "$(ROOT)/$1/script/$(basename $(notdir $2))" $(if $(filter %.py,$2),python3,bash) $$<
endef
$(foreach p,float double,$(if $(TESTS),$(eval $(call run_programs,results,$p,$(TESTS),))))
$(foreach s,$(SCRIPTS),$(eval $(call run_script,results,$s,)))

# Ranks that are processes, in both precisions.
.PHONY: mpi-test
MPI_TEST = $(foreach p,float double,$(OUT)/$p/tests/mpi/train_mpi)
mpi-test: $(if $(MPI_FOUND),$(MPI_TEST) $(OUT)/float/bin/mnist_mpi) ## train with MPI's processes: the same bits, and what is left when one dies (make deps-mpi)
	@rm -rf $(OUT)/mpi-test && mkdir -p $(OUT)/mpi-test
	@$(if $(MPI_FOUND),MPIRUN=$(call quoted,$(MPIRUN)) $(IN_SCRIPT) ROOT="$(ROOT)" tests/tools/run.sh "$(ROOT)/mpi-test/ranks" bash tests/mpi/ranks.sh; \
	    tests/tools/total.sh $(OUT)/mpi-test/ranks.count,echo 'skip ranks that are processes: there is no MPI (make deps-mpi)')

# ---- conformance ---------------------------------------------------------------------------------

# Suites that hold the library against definitions, ONNX's cases and PyTorch; `make test` runs fewer of
# their cases. A suite is a program of both precisions, or a script; each is found by its name.
$(foreach p,float double,$(if $(SUITES),$(eval $(call run_programs,results,$p,$(SUITES),STRIDE_FAST=1)) \
    $(eval $(call run_programs,conformance,$p,$(SUITES),unset STRIDE_FAST;))))
$(foreach s,$(SUITE_SCRIPTS),$(eval $(call run_script,results,$s,STRIDE_FAST=1)) \
    $(eval $(call run_script,conformance,$s,unset STRIDE_FAST;)))

.PHONY: conformance conformance-results
conformance: ## hold every layer against definitions, ONNX's cases and PyTorch
	@rm -rf $(OUT)/conformance
	@$(MAKE) -k conformance-results || :
	@tests/tools/conformance.sh $(OUT)/conformance $(call suite_counts,conformance)

conformance-results: $(call suite_counts,conformance) ; @:

# What is exported, and the trained net, run by onnxruntime: the same numbers come out, and onnx's checker accepts it.
.PHONY: onnx-check
ONNX_CHECK := $(OUT)/onnx-check
$(OUT)/float/tests/onnx/export: $(OUT)/float/tests/onnx/export.o $(OUT)/float/tests/onnx/samples.o \
    $(call helpers,float) $(call lib,float)
	$(call link)
$(BUILD)/mnist.safetensors: | $(OUT)/float/bin/mnist
	@$(WAITING) $(OUT)/float/bin/mnist --quiet --save=$@
onnx-check: $(if $(ONNX_PROTO),$(OUT)/float/tests/onnx/export $(BUILD)/mnist.safetensors) ## hold what is exported against onnxruntime (make deps-onnx)
	@$(if $(ONNX_MISSING),echo 'onnx-check: there is no $(ONNX_MISSING): make deps-onnx'; exit 1)
	@rm -rf $(ONNX_CHECK) && mkdir -p $(ONNX_CHECK)
	@$< $(ONNX_CHECK) $(BUILD)/mnist.safetensors >$(ONNX_CHECK)/nets.jsonl || cat $(ONNX_CHECK)/nets.jsonl
	@/usr/bin/python3 tests/onnx/checker.py $(ONNX_CHECK) >$(ONNX_CHECK)/verdicts || [ -s $(ONNX_CHECK)/verdicts ]
	@node tests/onnx/runtime.js $(PEER_FILES)/node_modules $(ONNX_CHECK)

# ---- checks --------------------------------------------------------------------------------------

CHECKS := check-sanitize check-threads fuzz-smoke check-warnings check-includes check-quiet check-format check-precision \
          check-exports check-documented check-docs check-memory check-install distcheck
.PHONY: checks check-msan check-exports-mpi $(CHECKS)

# In turn, to the end, whichever fails.
each = status=0; for part in $1; do $(MAKE) $$part || status=1; done; exit $$status
check: ## run the tests and every check below
	+@$(call each,test $(CHECKS))
checks: ## run every check below
	+@$(call each,$(CHECKS))

# A part that builds keeps its output in a file, shown when it fails: $(call in_log,name,what).
in_log = >$(BUILD)/$1.log 2>&1 || { cat $(BUILD)/$1.log; echo 'FAIL $2'; exit 1; }

# Threads under clang, whose OpenMP tells the sanitizer where threads meet; gcc's does not.
check-sanitize: ## the tests under the address and undefined behaviour sanitizers
check-sanitize: compiler = $(CC)
check-sanitize: sanitizer = address,undefined
check-threads: ## the tests under clang's thread sanitizer
check-threads: compiler = clang
check-threads: sanitizer = thread
check-threads: tested = TESTED=float # threads do the same in both
check-sanitize check-threads: what = tests with $(compiler) -fsanitize=$(sanitizer)
check-sanitize check-threads:
	@mkdir -p $(BUILD)
	@if echo 'int main(void) { return 0; }' | $(compiler) -fsanitize=$(sanitizer) -x c - -o $(BUILD)/probe 2>/dev/null && $(BUILD)/probe; \
	 then $(MAKE) CC=$(call quoted,$(compiler)) SANITIZE=$(sanitizer) STRIDE_FAST=1 $(tested) test $(call in_log,$@,$(what)); \
	     echo "ok   $(what): $$(tail -n 1 $(BUILD)/$@.log)"; \
	 else echo 'skip $(what): it does not work here'; fi

check-warnings: check-warnings-gcc check-warnings-clang ## gcc and clang, warnings as errors
check-warnings-%:
	@mkdir -p $(BUILD)
	@if command -v $* >/dev/null; then \
	     $(MAKE) CC=$* BUILD=$(BUILD)/warnings-$* CFLAGS=-O1 WERROR=-Werror objects $(call in_log,warnings-$*,no warning from $*); \
	     echo 'ok   no warning from $*'; \
	 else echo 'skip no warning from $*: it is not installed'; fi
objects: $(OBJECTS)

CHECK = VERSION=$(VERSION) OUT="$(ROOT)" CC=$(call quoted,$(CC)) PKG_CONFIG=$(call quoted,$(PKG_CONFIG)) \
        LIBS=$(call quoted,$(OPENMP) $(LIBS)) tests/tools/check.sh

check-includes: ## each folder includes only itself and those on its left
	@$(CHECK) includes

check-quiet: $(call lib,float) $(call lib,double) ## the library never prints, exits or asserts
	@$(CHECK) quiet $^

check-format: ## the sources are as clang-format leaves them
	@$(CHECK) format

check-precision: $(call lib,float) $(call lib,double) ## a program of one precision does not link with the other's library
	@$(CHECK) precision $^

check-exports: $(call shared,float) $(call shared,double) ## the shared libraries export what installed headers declare, and nothing else
	@$(CHECK) exports $^ $(HEADERS)
	@$(if $(MPI),$(MAKE) check-exports-mpi)

check-exports-mpi: $(call shared_mpi,float) $(call shared_mpi,double)
	@$(CHECK) exports $^ $(MPI_HEADERS)

check-documented: ## everything that installed headers declare has a comment
	@$(CHECK) documented $(HEADERS) $(MPI_HEADERS)

check-docs: $(PROGRAM) ## the manual names what there is, the changelog this version; Doxygen and mandoc find nothing to warn of
	@PROGRAM="$(PROGRAM)" $(CHECK) manual $(HEADERS) $(MPI_HEADERS)
	@if command -v doxygen >/dev/null; then mkdir -p $(BUILD); $(MAKE) docs $(call in_log,docs,make docs); echo 'ok   make docs'; \
	 else echo 'skip make docs: doxygen is not installed'; fi

# Valgrind sees what libraries do with memory, too.
check-memory: $(patsubst %,$(OUT)/float/tests/test_%,step checkpoint save anomaly threads) ## five of the tests under valgrind
	@$(call FLAVOURS,none) valgrind $(OUT)/flavours $(abspath $^)

# Libraries are not compiled with the sanitizer: tests/memory/instrumented.c says what of them it is told, and stands in
# for BLAS. No threads of OpenMP, no ONNX and no pictures.
MSAN_OUT  = $(BUILD)/memory-undefined
MSAN_WRAP = malloc realloc aligned_alloc free layer_forward layer_backward layer_forward_chain layer_backward_chain
MSAN_MAKE = CC=clang SANITIZE=memory,undefined OPENMP=-Wno-unknown-pragmas ONNX_PROTO= \
    ONNX_MISSING='and protoc-c (protobuf-c-compiler)' TEST_AID='$(TEST_AID) tests/memory/instrumented.c' \
    LIBS='-ljansson -lz -lm -ldl $(MSAN_WRAP:%=-Wl$(comma)--wrap=%)'
MSAN_TESTS = $(filter-out %/test_pictures %_onnx,$(foreach p,float double,$(patsubst %.c,$(MSAN_OUT)/$p/%,$(TESTS) $(SUITES))))
check-msan: ## tests and suites under clang's memory sanitizer, which finds what is read before it was written
	@mkdir -p $(MSAN_OUT)
	@if echo 'int main(void) { return 0; }' | clang -fsanitize=memory -x c - -o $(BUILD)/probe 2>/dev/null && $(BUILD)/probe; \
	 then rm -f $(MSAN_TESTS); $(MAKE) $(MSAN_MAKE) $(MSAN_TESTS) $(call in_log,$@,tests built for the memory sanitizer); \
	     STRIDE_FAST=1 MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0:allocator_may_return_null=1 \
	     tests/tools/flavours.sh msan $(MSAN_OUT)/flavours $(abspath $(MSAN_TESTS)); \
	 else echo 'skip tests under the memory sanitizer: clang does not have it here (make deps-check)'; fi

check-install: $(foreach p,float double,$(call lib,$p) $(call shared,$p) $(of_mpi)) ## what is installed compiles, runs and uninstalls
	@rm -rf $(OUT)/installed
	@$(MAKE) install PREFIX=$(OUT)/installed DESTDIR= $(call in_log,install,installed library)
	@$(CHECK) install $(OUT)/installed
	@$(CHECK) cmake $(OUT)/installed $(SOVERSION)
	@$(if $(MPI),MPIRUN=$(call quoted,$(MPIRUN)) $(CHECK) install-mpi $(OUT)/installed)
	@$(MAKE) uninstall PREFIX=$(OUT)/installed DESTDIR= $(call in_log,install,installed library)
	@$(CHECK) uninstalled $(OUT)/installed

format: ## format the sources with clang-format
	clang-format -i $(shell find tensor layers nn examples tests -name '*.[ch]')

# ---- the archive ---------------------------------------------------------------------------------

# The same commit gives the same bytes.
ARCHIVE = $(BUILD)/stride-$(VERSION).tar.gz
.PHONY: dist
dist: ## pack what is committed into build/stride-VERSION.tar.gz
	@git ls-files --error-unmatch Makefile >/dev/null 2>&1 || { echo 'dist: expected a clone, whose last commit is packed' >&2; exit 1; }
	@mkdir -p $(BUILD)
	@git archive --prefix=stride-$(VERSION)/ -o $(ARCHIVE:.gz=) HEAD && gzip -nf9 $(ARCHIVE:.gz=) && echo $(ARCHIVE)

distcheck: ## what is packed builds elsewhere, passes a test, installs and uninstalls
	+@if git ls-files --error-unmatch Makefile >/dev/null 2>&1; then $(MAKE) dist && MAKE=$(call quoted,$(MAKE)) $(CHECK) dist $(ARCHIVE); \
	  else echo 'skip the archive: this is no clone'; fi

# ---- campaigns -----------------------------------------------------------------------------------

# The tests again, with every BLAS and on other processors; each of minutes, and no part of `make check`.
# WAYS='openblas-*' runs those of that name only.
.PHONY: check-blas check-cpu check-x86 check-arm test-programs coverage
TEST_PROGRAMS := $(foreach p,float double,$(call tests,$p) $(call suites,$p))
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
            CPPFLAGS='-isystem $(ARM_ROOT)/usr/include/$(ARM_BLAS)' LDFLAGS='-L$(ARM_ROOT)/usr/lib/$(ARM_BLAS)'
check-arm: ## the tests on emulated processors of 64-bit Arm (make deps-arm)
	@if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null && [ -d $(ARM_ROOT)/usr/lib ]; then \
	     mkdir -p $(BUILD); $(MAKE) $(FOR_ARM) test-programs $(call in_log,check-arm,tests built for Arm); \
	     $(call FLAVOURS,arm) arm $(OUT)/flavours $(patsubst $(BUILD)/%,$(abspath $(BUILD))/arm/%,$(TEST_PROGRAMS)); \
	 else echo 'skip tests on Arm: compiler, emulator or libraries are not there (make deps-arm)'; fi

# Faults, by the thousand; no part of `make check`, either.
.PHONY: crash-test oom-test
crash-test: $(OUT)/float/campaigns/crash ## kill training at 1000 random times: it comes to the same bytes
	@$(WAITING) $< $(BUILD)/crash
oom-test: $(OUT)/float/campaigns/oom ## let every allocation of the library fail in turn: a clear error, and nothing lost
	@$< $(BUILD)/oom
ifeq ($(SANITIZE),)
	@if echo 'int main(void) { return 0; }' | $(CC) -fsanitize=address,undefined -x c - -o $(BUILD)/probe 2>/dev/null && $(BUILD)/probe; \
	 then echo 'again, under the address and undefined behaviour sanitizers'; $(MAKE) SANITIZE=address,undefined oom-test; fi
endif

# Each reader is given what libFuzzer makes up, under the address and undefined behaviour sanitizers: at least
# FUZZ_RUNS inputs, or for FUZZ_SECONDS. FUZZ=csv gives them to readers with csv in their name. Corpora grow in
# build/fuzz; what fails is kept there, and the program run with that file alone shows why.
FUZZ         ?=
FUZZ_RUNS    ?= 10000000
FUZZ_SECONDS ?=
FUZZ_FLAGS   := fuzzer-no-link,address,undefined,float-cast-overflow
FUZZ_CC      ?= clang
FUZZ_BUILD    = CC=$(call quoted,$(FUZZ_CC)) SANITIZE=$(FUZZ_FLAGS) fuzz-programs
FUZZ_FOLDER   = $(BUILD)/$(subst $(comma),-,$(FUZZ_FLAGS))/float/fuzz
run_fuzzers   = if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address -x c - -o $(BUILD)/probe 2>/dev/null; \
	then $(MAKE) $(FUZZ_BUILD) $(call in_log,fuzz-build,fuzzers) && tests/tools/fuzz.sh $1 $(BUILD)/fuzz \
	     $(foreach f,$(sort $(foreach n,$(or $(FUZZ),fuzz),$(foreach p,$(FUZZERS:tests/fuzz/%.c=%),$(if $(findstring $n,$p),$p)))),$(FUZZ_FOLDER)/$f); \
	else echo 'skip fuzzing: clang has no libFuzzer here (make deps-check)'; fi
.PHONY: fuzz fuzz-smoke
fuzz: ## give every reader of files millions of broken ones (clang's libFuzzer); FUZZ_RUNS, FUZZ_SECONDS, FUZZ=csv
	@mkdir -p $(BUILD)
	@$(call run_fuzzers,"$(FUZZ_RUNS)" "$(FUZZ_SECONDS)")
fuzz-smoke: ## the same for a few seconds each
	@mkdir -p $(BUILD)
	@$(call run_fuzzers,smoke 3)

# Counters of threads are added up atomically, which takes its time: minutes. Every engine that this machine has runs,
# and every allocation fails once.
coverage: ## what the tests and oom-test reach of tensor/, layers/ and nn/; pages in build/coverage/html (make deps-coverage)
	@command -v gcovr >/dev/null || { echo 'coverage: gcovr is not installed (make deps-coverage)' >&2; exit 1; }
	@mkdir -p $(BUILD)/coverage/html
	@$(MAKE) BUILD=$(BUILD)/coverage SANITIZE= CFLAGS='-O1 -g --coverage -fprofile-update=atomic' ARCH= \
	     test-programs $(BUILD)/coverage/float/campaigns/oom $(call in_log,coverage,tests built for coverage)
	@find $(BUILD)/coverage -name '*.gcda' -delete
	@STRIDE_FAST=1 $(call FLAVOURS,none) engines $(BUILD)/coverage/flavours \
	     $(patsubst $(OUT)/%,$(abspath $(BUILD))/coverage/%,$(TEST_PROGRAMS))
	@$(BUILD)/coverage/float/campaigns/oom $(BUILD)/coverage/oom $(call in_log,coverage-oom,every allocation fails)
	@gcovr --root . --gcov-executable "$$($(CC) -print-prog-name=gcov)" --filter tensor/ --filter layers/ --filter nn/ \
	     --json $(BUILD)/coverage/coverage.json --html-details $(BUILD)/coverage/html/index.html \
	     $(BUILD)/coverage/float $(BUILD)/coverage/double
	@python3 tests/tools/coverage.py $(BUILD)/coverage/coverage.json tests/coverage.txt 95 85

# ---- documentation -------------------------------------------------------------------------------

PAGES = README.md $(wildcard CHANGELOG.md docs/*.md)
.PHONY: docs
docs: ## make pages of the headers, the README and the tutorial in build/docs/html (Doxygen)
	@command -v doxygen >/dev/null || { echo 'docs: doxygen is not installed (make deps-check)' >&2; exit 1; }
	@mkdir -p $(BUILD)/docs
	@{ cat docs/Doxyfile; printf '%s\n' 'INPUT = $(HEADERS) $(MPI_HEADERS) $(PAGES)' 'PROJECT_NUMBER = $(VERSION)' \
	       'OUTPUT_DIRECTORY = $(BUILD)/docs'; } | doxygen -

# ---- installing ----------------------------------------------------------------------------------

# The public headers; every other header is private.
HEADERS = $(addprefix tensor/,error.h random.h real.h tensor.h) $(addprefix layers/,layer.h layers.h options.h window.h) \
          $(addprefix nn/,data.h gradcheck.h loss.h net.h optim.h schedule.h stride.h train.h) \
          $(addprefix nn/data/,augment.h classes.h csv.h digits.h normalize.h npy.h) \
          nn/files/save.h nn/onnx/onnx.h nn/ranks/team.h nn/watch/watch.h

# What an archive needs besides: LIBS, by packages as far as its user's pkg-config knows them.
libs_of          = $(shell $(lastword $(PKG_CONFIG)) --libs $1 2>/dev/null)
REQUIRES_PRIVATE = $(foreach p,$(BLAS) jansson zlib libprotobuf-c,$(if $(filter $(filter -l%,$(LIBS)),$(call libs_of,$p)),$p))
LIBS_PRIVATE     = $(filter-out $(foreach p,$(REQUIRES_PRIVATE),$(call libs_of,$p)),$(LIBS)) -pthread $(filter-out -W%,$(OPENMP))

of_both   = $(call quoted,$(foreach p,float double,$(call $1,$p)))
so_file   = $(call so,$(NAME_$1),$(VERSION))
so_linked = $(call so,$(NAME_$1),$(SOVERSION))
so_named  = $(call so,$(NAME_$1))
installer = DESTDIR=$(call quoted,$(DESTDIR)) \
            $(foreach v,PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR VERSION,$v=$(call quoted,$($v))) \
            STATIC=$(call of_both,lib) SHARED=$(call of_both,so_file) SHARED_SO=$(call of_both,so_linked) \
            SHARED_DEV=$(call of_both,so_named) SOVERSION=$(SOVERSION) HEADERS=$(call quoted,$(HEADERS)) \
            PROGRAM=$(call quoted,$(PROGRAM)) PROGRAM_DOUBLE=$(call quoted,$(PROGRAM_DOUBLE)) RUN=$(call quoted,$(RUN)) \
            MPI=$(call quoted,$(MPI)) MPI_LIBS=$(call quoted,$(if $(MPI),$(MPI_LIBS))) MPI_HEADERS=$(call quoted,$(MPI_HEADERS)) \
            REQUIRES_PRIVATE=$(call quoted,$(strip $(REQUIRES_PRIVATE))) LIBS_PRIVATE=$(call quoted,$(strip $(LIBS_PRIVATE))) \
            tests/tools/install.sh

install: $(foreach p,float double,$(call lib,$p) $(call shared,$p) $(of_mpi)) $(PROGRAM) $(PROGRAM_DOUBLE) ## install libraries, headers, the program stride, the manual, and files for pkg-config and CMake
	@$(installer) install

uninstall: ## remove what `make install` put there
	@$(installer) uninstall

clean: ## remove everything built
	rm -rf $(BUILD)

# Targets under the sections of this file that have any, then what may be set.
help: ## list the targets
	@awk -F ': .*## |:## ' ' \
	    /^# ---- / { section = $$0; gsub(/^# -+ | -+$$/, "", section) } \
	    /^[a-z-]+:.*## / { if (section != "") print "\n" section; section = ""; printf "  make %-16s %s\n", $$1, $$2 } \
	    /^#   / && !ended { settings = settings "\n" substr($$0, 2) } /^$$/ { ended = 1 } \
	    END { print "\nsettings" settings }' $(firstword $(MAKEFILE_LIST))

endif
