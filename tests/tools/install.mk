# ---- installing ----------------------------------------------------------------------------------

PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include/stride
DATADIR    ?= $(PREFIX)/share
MANDIR     ?= $(DATADIR)/man
DESTDIR    ?=

# The public headers; every other header is private.
HEADERS = stride.h $(addprefix tensor/,api.h error.h names.h print/print.h random.h real.h reduce/reduce.h tensor.h threads.h) \
          $(addprefix layers/,describe/describe.h layer.h layers.h options.h pool.h pooling/pooling.h) \
          $(addprefix nn/,data.h loss.h losses.h net.h optim.h optimizers.h schedule.h schedules.h train.h) \
          $(addprefix nn/data/,augment.h classes.h digits.h formats.h normalize.h sets.h \
            table.h) \
          $(addprefix nn/files/,checkpoint.h metadata.h replace.h save.h) $(addprefix nn/callbacks/,callbacks.h watch.h) \
          $(addprefix nn/check/,gradcheck.h scores.h summary.h) nn/export_c/export_c.h nn/groups/groups.h nn/share/share.h nn/onnx/onnx.h $(addprefix nn/ranks/,ranks.h team.h)

# An archive needs LIBS besides: packages, if its user's pkg-config knows them.
libs_of          = $(shell $(lastword $(PKG_CONFIG)) --libs $1 2>/dev/null)
REQUIRES_PRIVATE = $(foreach p,$(BLAS) jansson zlib libprotobuf-c,$(if $(filter $(filter -l%,$(LIBS)), \
    $(call libs_of,$p)),$p))
LIBS_PRIVATE     = $(filter-out $(foreach p,$(REQUIRES_PRIVATE),$(call libs_of,$p)),$(LIBS)) -pthread

of_both   = $(call quoted,$(foreach p,float double,$(call $1,$p)))
so_file   = $(call so,$(NAME_$1),$(VERSION))
so_linked = $(call so,$(NAME_$1),$(SOVERSION))
so_named  = $(call so,$(NAME_$1))
installer = DESTDIR=$(call quoted,$(DESTDIR)) \
            $(foreach v,PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR VERSION,$v=$(call quoted,$($v))) \
            STATIC=$(call of_both,lib) SHARED=$(call of_both,so_file) SHARED_SO=$(call of_both,so_linked) \
            SHARED_DEV=$(call of_both,so_named) SOVERSION=$(SOVERSION) HEADERS=$(call quoted,$(HEADERS)) \
            PROGRAM=$(call quoted,$(PROGRAM)) PROGRAM_DOUBLE=$(call quoted,$(PROGRAM_DOUBLE)) \
            RUN=$(call quoted,$(RUN)) MPI=$(call quoted,$(MPI)) \
            MPI_LIBS=$(call quoted,$(if $(MPI),$(MPI_LIBS))) \
            MPI_HEADERS=$(call quoted,$(MPI_HEADERS)) \
            PICTURES=$(call quoted,$(PICTURES)) \
            PICTURE_LIBS=$(call quoted,$(if $(PICTURES),$(PICTURE_LIBS))) \
            PICTURES_HEADERS=$(call quoted,$(PICTURES_HEADERS)) \
            REQUIRES_PRIVATE=$(call quoted,$(strip $(REQUIRES_PRIVATE))) \
            LIBS_PRIVATE=$(call quoted,$(strip $(LIBS_PRIVATE))) LIBS=$(call quoted,$(LIBS) -pthread) \
            tests/tools/install.sh

# The list of public functions, before anything is compiled; it is written if one was added.
$(OUT)/flags: tensor/names.h
tensor/names.h: tests/tools/names.sh $(filter-out tensor/names.h,$(HEADERS)) $(MPI_HEADERS) \
    $(PICTURES_HEADERS)
	@names=$$($^) && { echo "$$names" | cmp -s - $@ || echo "$$names" >$@; }

.PHONY: install uninstall dist distcheck headers
headers: ; @echo $(HEADERS)
install: ## install libraries, headers, the program stride, the manual, and files for pkg-config and CMake
install: $(foreach p,float double,$(call lib,$p) $(call shared,$p) $(of_pictures) $(of_mpi)) $(PROGRAM) $(PROGRAM_DOUBLE)
	@$(installer) install
uninstall: ## remove what `make install` put there
	@$(installer) uninstall

# The same commit gives the same bytes.
ARCHIVE = $(BUILD)/stride-$(VERSION).tar.gz
IS_CLONE = git ls-files --error-unmatch Makefile >/dev/null 2>&1
dist: ## pack what is committed, and the files of make stride.c, into build/stride-VERSION.tar.gz
dist: stride.c
	@$(IS_CLONE) || { echo 'dist: expected a clone, whose last commit is packed' >&2; exit 1; }
	@mkdir -p $(BUILD)
	@git archive --prefix=stride-$(VERSION)/one-file/ $(addprefix --add-file=$(BUILD)/,$(ONE_FILES)) \
	    --prefix=stride-$(VERSION)/ -o $(ARCHIVE:.gz=) HEAD && gzip -nf9 $(ARCHIVE:.gz=) && echo \
	    $(ARCHIVE)
distcheck: ## what is packed builds elsewhere, passes a test, installs and uninstalls
	+@if $(IS_CLONE); then $(MAKE) dist && MAKE=$(call quoted,$(MAKE)) $(CHECK) dist $(ARCHIVE); \
	  else echo 'skip the archive: this is no clone'; fi
