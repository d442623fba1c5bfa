# Ranks that are MPI's processes: a library of its own, and what needs it, where MPI=1 asks for it.

MPI ?= $(if $(filter mpi-test mnist-mpi bench-mpi,$(MAKECMDGOALS)),1)
MPI_HEADERS  := nn/ranks/mpi.h
MPI_MAINS    := $(wildcard examples/mpi/*.c)
MPI_TESTS    := $(wildcard tests/mpi/*.c)
MPI_PACKAGES := ompi mpich mpi-c
MPI_FOUND     = $(eval MPI_FOUND := $(call ask,--libs,$(MPI_PACKAGES)))$(MPI_FOUND)
MPI_LIBS      = $(or $(MPI_FOUND),-lmpi)
MPI_CFLAGS    = $(eval MPI_CFLAGS := $(patsubst -I%,-isystem %, \
    $(call ask,--cflags,$(MPI_PACKAGES))))$(MPI_CFLAGS)
CFLAGS_nn_ranks_mpi = $(MPI_CFLAGS)
# Open MPI has to be told that there may be more ranks than cores, and who is asking; threads are the
# system's to place.
MPIRUN ?= $(eval MPIRUN := mpirun $(shell mpirun --version 2>/dev/null | grep -q 'Open MPI' && \
            echo --oversubscribe --bind-to none $$([ $$(id -u) = 0 ] && echo --allow-run-as-root)))$(MPIRUN)

MPI_float  := stride-mpi
MPI_double := stride-mpi-double
lib_mpi     = $(OUT)/$1/lib$(MPI_$1).a
shared_mpi  = $(OUT)/$1/$(call so,$(MPI_$1),$(VERSION))
mpi         = $(MPI_MAINS:examples/mpi/%.c=$(OUT)/$1/bin/%)
mpi_tests   = $(MPI_TESTS:%.c=$(OUT)/$1/%)
of_mpi      = $(if $(MPI),$(call lib_mpi,$p) $(call shared_mpi,$p))

define mpi_rules
$(call lib_mpi,$1): $(OUT)/$1/nn/ranks/mpi.o
	$$(archive)
$(call shared_mpi,$1): $(OUT)/$1/nn/ranks/mpi.o $(call shared,$1)
	$$(call link_shared,$(MPI_$1),-L$$(@D) -l$(NAME_$1) $$(MPI_LIBS))
$(call mpi,$1): $(OUT)/$1/bin/%: $(OUT)/$1/examples/mpi/%.o $(call helpers,$1) $(call lib_mpi,$1) \
    $(call lib_all,$1)
	$$(call link,$$(MPI_LIBS))
$(call mpi_tests,$1): %: %.o $(OUT)/$1/tests/bench/networks.o $(TEST_AID:%.c=$(OUT)/$1/%.o) \
    $(call helpers,$1) \
    $(call lib_mpi,$1) $(call lib_all,$1)
	$$(call link,$$(MPI_LIBS) $$(TEST_LIBS))
endef
$(foreach p,float double,$(eval $(call mpi_rules,$p)))

# Ranks on this machine, each with as many threads.
RANKS ?= 2
.PHONY: mnist-mpi mpi-test bench-mpi
mnist-mpi: $(OUT)/$(PRECISION)/bin/mnist_mpi ## train on MNIST with RANKS=2 processes (make deps-mpi)
	@STRIDE_THREADS=$${STRIDE_THREADS:-$${OMP_NUM_THREADS:-1}} $(MPIRUN) -n $(RANKS) $<

MPI_TEST = $(foreach p,float double,$(OUT)/$p/tests/mpi/train_mpi)
mpi-test: ## train with MPI's processes: the same bits, and what is left when one dies (make deps-mpi)
MPI_RUNS = $(if $(MPI_FOUND),$(shell command -v $(firstword $(MPIRUN))))
mpi-test: $(if $(MPI_RUNS),$(MPI_TEST) $(OUT)/float/bin/mnist_mpi)
	@rm -rf $(OUT)/mpi-test && mkdir -p $(OUT)/mpi-test
	@$(if $(MPI_RUNS),MPIRUN=$(call quoted,$(MPIRUN)) $(IN_SCRIPT) ROOT="$(ROOT)" \
	      tests/tools/run.sh "$(ROOT)/mpi-test/ranks" bash tests/mpi/ranks.sh; tests/tools/total.sh \
	      $(OUT)/mpi-test/ranks.count,\
	    echo 'skip ranks that are processes: there is no MPI (make deps-mpi)')

bench-mpi: ## measure one rank and two, of one thread each, and what they say to each other (make deps-mpi)
bench-mpi: $(OUT)/float/tests/mpi/bench_mpi
	@for ranks in 1 2; do STRIDE_THREADS=1 $(MPIRUN) -n $$ranks $< || exit 1; done
