# ---- one file ------------------------------------------------------------------------------------

# The library as a header and a source to copy into a program (docs/one-file.md), and the poolings of
# layers/pooling/ as a source that it includes.
ONE        := $(BUILD)/one
ONE_FILES  := stride.h stride.c stride-pooling.c
ONE_PUBLIC := tensor/tensor.h tensor/error.h tensor/random.h tensor/reduce/reduce.h tensor/threads.h tensor/print/print.h layers/layers.h layers/describe/describe.h \
              $(wildcard layers/pooling/pooling.h) nn/data.h nn/net.h nn/loss.h nn/losses.h nn/optim.h nn/optimizers.h nn/schedule.h nn/schedules.h nn/train.h \
              nn/check/gradcheck.h nn/check/scores.h nn/check/summary.h nn/data/digits.h nn/data/sets.h nn/data/augment.h \
              nn/callbacks/callbacks.h nn/callbacks/watch.h nn/files/replace.h nn/files/save.h nn/files/metadata.h \
              nn/files/checkpoint.h nn/groups/groups.h nn/share/share.h stride.h
# Files that need other libraries stay out.
ONE_LEFT   := $(filter-out $(ONE_PUBLIC),$(shell sed -n 's/^.include "\(.*\)"/\1/p' stride.h))
# Algorithms of the types of layers/pooling/.
POOLING_FAST := layers/fast/windows.c layers/fast/windows_channels.c layers/fast/windows_plan.c layers/fast/windows_phases.c layers/fast/windows_sums.c layers/fast/pooling_lanes.c layers/fast/pooling_squares.c layers/fast/pooling_square_powers.c layers/fast/pooling_unpool.c layers/fast/pooling_sums.c layers/fast/pooling_maxima.c layers/fast/pooling_table.c
ONE_DATA   := digits bytes sets augment
# Files of folder $1, unless macro $2 is defined: fused those whose flags fuse products and sums.
one_files   = $(foreach f,$1,echo $(if $(findstring contract=fast,$(CFLAGS_$(subst /,_,$(basename $f)))),fused,file) $f $2;)

.PHONY: stride.c
stride.c: ## join the library to build/stride.c and build/stride.h, which need nothing else, and build/stride-pooling.c
	@mkdir -p $(ONE)
	@{ echo begin header nn/one/begin.h; echo begin source nn/one/begin.c; echo begin beside nn/one/pooling.c; \
	   echo beside ST_OMIT_POOLING stride-pooling.c; \
	   echo instead jansson.h nn/one/json.c; echo instead zlib.h nn/one/crc32.c; echo instead math.h nn/one/math.h; echo instead tgmath.h nn/one/math.h; echo instead pthread.h nn/one/pthread.h; echo instead stride.h; \
	   for h in $(ONE_PUBLIC); do echo public $$h; done; for h in $(ONE_LEFT); do echo instead $$h; done; \
	   $(call one_files,$(wildcard tensor/*.c tensor/reduce/*.c layers/*.c layers/describe/*.c nn/*.c)) \
	   $(call one_files,$(wildcard tensor/threads/*.c),ST_OMIT_THREADS) \
	   $(call one_files,$(filter-out $(POOLING_FAST),$(wildcard tensor/fast/*.c layers/fast/*.c nn/fast/*.c)),ST_OMIT_FAST) \
	   $(call one_files,tensor/print/shortest.c) $(call one_files,tensor/print/print.c,ST_OMIT_PRINT) \
	   $(call one_files,$(wildcard nn/groups/*.c nn/share/*.c)) \
	   $(call one_files,$(wildcard nn/check/*.c),ST_OMIT_CHECK) \
	   $(call one_files,$(ONE_DATA:%=nn/data/%.c),ST_OMIT_DATA) \
	   $(call one_files,$(wildcard nn/callbacks/*.c),ST_OMIT_CALLBACKS) \
	   $(call one_files,$(filter-out %/file.c %/replace.c,$(wildcard nn/files/*.c)),ST_OMIT_FILES) \
	   $(call one_files,nn/files/file.c) \
	   $(call one_files,nn/files/replace.c,_WIN32) \
	   $(call one_files,nn/one/windows.c,!_WIN32) \
	   $(call one_files,$(wildcard layers/pooling/*.c),ST_OMIT_POOLING) \
	   $(call one_files,$(wildcard $(POOLING_FAST)),ST_OMIT_FAST ST_OMIT_POOLING) \
	   cat nn/one/pasted; } >$(ONE)/list
	@awk -v version=$(VERSION) -v license=LICENSE -v programs=docs/one-file.md \
	    -v header=$(BUILD)/stride.h -v source=$(BUILD)/stride.c -f nn/one/join.awk \
	    $(ONE)/list
	@wc -c $(addprefix $(BUILD)/,$(ONE_FILES)) | awk '$$2 != "total" { print "     " $$2 ": " $$1 " bytes" }'

.PHONY: check-one everywhere
check-one: stride.c ## stride.c compiles without a warning, in C11, C17, C23 and C++20's header, and trains
	@CC=$(call quoted,$(CC)) tests/one/check.sh $(BUILD)
everywhere: stride.c ## train LeNet from stride.c with many compilers on many machines: to one hash (make deps-everywhere)
	@tests/one/everywhere.sh $(BUILD)
