# ---- benchmarks ----------------------------------------------------------------------------------

# The benchmarks' programs, in float only, with the files of tests/bench that each is made of: `bench` drives,
# and asks stride_peer for Stride's part, dnnl_peer for oneDNN's. What a peer's needs are not there for is not
# built.
# DNNL are prefixes of oneDNN, of version 2 or 3; TORCH pythons that have PyTorch; ONNX one that has onnxruntime.
TORCH ?= /usr/bin/python3
ONNX  ?= $(firstword $(TORCH))
DNNL  ?= /usr
HAS_DNNL := $(foreach prefix,$(DNNL),$(if $(wildcard $(prefix)/include/oneapi/dnnl/dnnl.h),$(prefix)))
BENCHES := bench scaling stride_peer $(if $(ONNX_PROTO),onnx_model)
parts_bench       := bench campaign subjects networks arrays worker report sweep limits moonshot timing peak
parts_scaling     := scaling campaign subjects networks arrays worker timing
parts_stride_peer := stride_peer machine peak layer_work net_work networks arrays timing allocations
parts_onnx_model  := onnx_model networks arrays
# a * x + b in one instruction, which strict C11 has to be asked for.
CFLAGS_tests_bench_peak := -ffp-contract=fast
BENCH_SOURCES := $(filter-out $(if $(filter /usr,$(HAS_DNNL)),,%/dnnl_peer.c) $(if $(ONNX_PROTO),,%/onnx_model.c), \
    $(wildcard tests/bench/*.c))

define bench_rule
$(OUT)/float/bench/$1: $(parts_$1:%=$(OUT)/float/tests/bench/%.o) $(call helpers,float) $(call lib_all,float)
	$$(call link)
endef
$(foreach b,$(BENCHES),$(eval $(call bench_rule,$b)))

# The rollers of the tests' layers, which use cmocka.
$(OUT)/float/bench/draw: $(patsubst %,$(OUT)/float/tests/%.o,bench/draw layers/cases layers/pooling_cases layers/naive support) \
    $(call helpers,float) $(call lib_all,float)
	$(call link,$(TEST_LIBS))

# No library but C's: `once` is to be small.
$(OUT)/float/bench/once: $(patsubst %,$(OUT)/float/tests/bench/%.o,once timing)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) $^ -lm -o $@

dnnl_peer = $(OUT)/float/bench/dnnl_peer$(subst /,_,$1)
define dnnl_rule
$(call dnnl_peer,$1): tests/bench/dnnl_peer.c $(OUT)/float/tests/bench/timing.o
	@mkdir -p $$(@D)
	$$(call say,LD)$$(COMPILE) $(if $(filter-out /usr,$1),-isystem $1/include) $$^ $$(LDFLAGS) \
	    $(if $(filter-out /usr,$1),-L$1/lib -Wl$$(comma)-rpath$$(comma)$1/lib) -ldnnl -lm -o $$@
endef
$(foreach prefix,$(HAS_DNNL),$(eval $(call dnnl_rule,$(prefix))))

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

# Debian's python3 finds Debian's packages. A peer that cannot run says why, and is left out. $(call of,LIST,ITEM) is a
# setting's word for which one of several it is.
of = $(if $(word 2,$1), $2)
torch = --peer='torch$(call of,$(TORCH),$1)$2=$1 -B tests/bench/torch_peer.py $3'
PEERS = $(foreach python,$(TORCH),$(call torch,$(python)) \
        $(call torch,$(python), channels-last,--channels-last) \
        $(call torch,$(python), fused@train,--fused) \
        $(call torch,$(python), fused channels-last@train,--fused --channels-last) \
        $(call torch,$(python), compiled@net ,--fused --compiled) \
        $(call torch,$(python), compiled channels-last@net ,--fused --compiled --channels-last)) \
    $(foreach prefix,$(HAS_DNNL),$(foreach setting,direct nhwc blocked winograd, \
        --peer='dnnl$(call of,$(HAS_DNNL),$(prefix)) $(setting)=$(call dnnl_peer,$(prefix)) $(setting)')) \
    $(if $(HAS_DNNL),,--peer='dnnl=echo skip oneDNN is not installed (make deps-bench)') \
    $(if $(MODELS),$(onnx),--peer='onnx=echo skip protobuf-c or onnx.proto is not installed (make deps-bench)')
onnx = --peer='onnx node@infer=node tests/bench/onnx_peer.js $(PEER_FILES)' \
    $(foreach batch,16 256, \
        --peer='onnx node batch $(batch)@infer=node tests/bench/onnx_peer.js $(PEER_FILES) $(batch)') \
    $(foreach provider,CPU Dnnl Xnnpack, \
        --peer='onnx $(provider)@infer=$(ONNX) -B tests/bench/onnx_peer.py $(PEER_FILES) $(provider)ExecutionProvider')

# The test holds against Stride what peers there are.
DNNL_PEERS := $(foreach prefix,$(HAS_DNNL),$(call dnnl_peer,$(prefix)))
$(OUT)/results/script/test_bench.count: $(DNNL_PEERS) $(MODELS)

# A black picture of 28x28, and `stride predict` with the net that `mnist` has saved.
PICTURE := iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAAAAABXZoBIAAAAEElEQVR42mNgGAWjYBQQAwADLAAB1wvpfAAAAABJRU5ErkJggg==
WHOLE_PROGRAMS = --mnist='$(OUT)/float/bin/mnist --quiet --save=$(BUILD)/bench.safetensors' \
    --once='$(OUT)/float/bench/once $(OUT)/float/bin/stride predict $(BUILD)/bench.safetensors $(BUILD)/bench.png'

# Everything in five minutes: the second round and later ones begin only if there is time for them.
.PHONY: bench bench-peers bench-sweep bench-nets bench-scaling bench-poolings
bench: $(bench_programs) ## measure layers and networks; BENCH=conv ROUNDS=9, say
	@$< $(bench_options) --csv=$(BUILD)/bench.csv $(BENCH)
bench-peers: ## the same against PyTorch, oneDNN and onnxruntime; ends with the goals
bench-peers: $(bench_programs) $(DNNL_PEERS) $(MODELS) \
    $(OUT)/float/bench/once $(OUT)/float/bin/mnist $(OUT)/float/bin/stride
	@sed -n '/^model name/{s/.*: /processor: /p;q;}' /proc/cpuinfo 2>/dev/null || :
	@echo $(PICTURE) | base64 -d >$(BUILD)/bench.png
	@$< $(bench_options) $(if $(ROUNDS),,--seconds=285) --csv=$(BUILD)/bench-peers.csv --log=$(BUILD)/bench-peers.log \
	    $(PEERS) \
	    $(if $(BENCH),,$(WHOLE_PROGRAMS)) $(BENCH)
PROCESSOR = sed -n '/^model name/{s/.*: /processor: /p;q;}' /proc/cpuinfo 2>/dev/null || :; \
    sed 's/^/load: /' /proc/loadavg 2>/dev/null || :

# Layers drawn at random from the rollers of the tests, and networks of the literature: PyTorch in either memory format.
# THREADS=2 measures by the clock what one thread is measured by the time of its processor; LIST measures a list of one's
# own instead. Steps of 20 ms, where nothing is shared among threads, are long enough.
SEED    ?= 1
COUNT   ?= 200
THREADS ?= 1
LIST    ?=
FORMATS = $(foreach python,$(TORCH),$(call torch,$(python)) $(call torch,$(python), channels-last,--channels-last))
SGD     = $(foreach python,$(TORCH),$(call torch,$(python), fused@train,--fused) \
        $(call torch,$(python), fused channels-last@train,--fused --channels-last))
sweep_threads = $(if $(filter 1,$(words $(THREADS))),--threads=$(THREADS))
bench-sweep: ## random layers against PyTorch; SEED=1 COUNT=200 THREADS=2 BENCH=conv LIST=FILE
bench-sweep: $(bench_programs) $(if $(LIST),,$(OUT)/float/bench/draw)
	@$(if $(LIST),,$(OUT)/float/bench/draw $(SEED) $(COUNT) >$(BUILD)/sweep-$(SEED).txt)
	@$(PROCESSOR)
	@$(if $(LIST),,grep '^#' $(BUILD)/sweep-$(SEED).txt || :)
	@$(if $(filter 2,$(THREADS)),,BENCH_SECONDS=0.02) $< $(bench_options) $(if $(ROUNDS),,--rounds=3) $(sweep_threads) \
	    --cpu-time --list=$(or $(LIST),$(BUILD)/sweep-$(SEED).txt) --csv=$(BUILD)/sweep-$(SEED).csv \
	    --log=$(BUILD)/sweep.log $(FORMATS) $(BENCH)
bench-nets: ## networks of the literature against PyTorch, on one thread and two; THREADS=1 BENCH=resnet
bench-nets: THREADS = 1 2
bench-nets: $(bench_programs)
	@$(PROCESSOR)
	@$< $(bench_options) $(if $(ROUNDS),,--rounds=5) $(sweep_threads) --cpu-time \
	    --list=$(or $(LIST),tests/bench/networks/list.txt) --csv=$(BUILD)/nets.csv --log=$(BUILD)/nets.log \
	    $(FORMATS) $(SGD) $(BENCH)
bench-poolings: $(OUT)/float/bench/stride_peer ## each pooling's speed relative to max pooling's; ROUNDS=5
	@$(PROCESSOR)
	@tests/bench/poolings.sh "$(abspath $<)" $(ROUNDS)
bench-scaling: ## the cost of a unit of work must not grow with its size
bench-scaling: $(OUT)/float/bench/scaling $(OUT)/float/bench/stride_peer
	@$<
