# ---- benchmarks ----------------------------------------------------------------------------------

# The benchmarks' programs, in float only, with the files of tests/bench that each is made of: `bench` drives,
# and asks stride_peer for Stride's part, dnnl_peer for oneDNN's. What a peer's needs are not there for is not
# built.
# DNNL is oneDNN's prefix, of version 2; TORCH a python that has PyTorch.
comma := ,
TORCH ?= /usr/bin/python3
DNNL  ?= /usr
HAS_DNNL := $(wildcard $(DNNL)/include/oneapi/dnnl/dnnl.h)
BENCHES := bench scaling stride_peer $(if $(HAS_DNNL),dnnl_peer) $(if $(ONNX_PROTO),onnx_model)
parts_bench       := bench campaign subjects networks worker report compare moonshot statistics timing peak
parts_scaling     := scaling campaign worker statistics ../../examples/stride/sketch ../../examples/stride/text
parts_stride_peer := stride_peer machine peak layer_work net_work networks timing allocations
parts_dnnl_peer   := dnnl_peer timing
parts_onnx_model  := onnx_model networks
dnnl_peer_LIBS    := $(if $(filter-out /usr,$(DNNL)),-L$(DNNL)/lib -Wl$(comma)-rpath$(comma)$(DNNL)/lib) -ldnnl
CFLAGS_tests_bench_dnnl_peer := $(if $(filter-out /usr,$(DNNL)),-I$(DNNL)/include)
# a * x + b in one instruction, which strict C11 has to be asked for.
CFLAGS_tests_bench_peak := -ffp-contract=fast
BENCH_SOURCES := $(filter-out $(if $(HAS_DNNL),,%/dnnl_peer.c) $(if $(ONNX_PROTO),,%/onnx_model.c), \
    $(wildcard tests/bench/*.c))

define bench_rule
$(OUT)/float/bench/$1: $(parts_$1:%=$(OUT)/float/tests/bench/%.o) $(OUT)/float/tests/bench/arguments.o \
    $(call lib_all,float)
	$$(call link,$$($1_LIBS))
endef
$(foreach b,$(BENCHES),$(eval $(call bench_rule,$b)))

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

# Debian's python3 finds Debian's packages. A peer that cannot run says why, and is left out.
PEERS = \
    --peer='torch=$(TORCH) tests/bench/torch_peer.py' \
    --peer='torch channels-last=$(TORCH) tests/bench/torch_peer.py --channels-last' \
    $(if $(HAS_DNNL),$(foreach setting,direct nhwc blocked winograd, \
        --peer='dnnl $(setting)=$(OUT)/float/bench/dnnl_peer $(setting)'), \
        --peer='dnnl=echo skip oneDNN is not installed (make deps-bench)') \
    $(if $(MODELS),$(foreach batch,64 16 256, \
        --peer='onnx batch $(batch)=node tests/bench/onnx_peer.js $(PEER_FILES) $(batch)'), \
        --peer='onnx=echo skip protobuf-c or onnx.proto is not installed (make deps-bench)')

.PHONY: bench bench-peers bench-busy bench-scaling
bench: $(bench_programs) ## measure layers and networks; BENCH=conv ROUNDS=9, say
	@$< $(bench_options) --csv=$(BUILD)/bench.csv $(BENCH)
bench-peers: ## the same against PyTorch, oneDNN and onnxruntime, and the moonshot
bench-peers: $(bench_programs) $(MODELS) $(OUT)/float/bin/mnist
	@$< --rounds=$(or $(ROUNDS),2) $(BENCH_FLAGS) --csv=$(BUILD)/bench-peers.csv $(PEERS) \
	    $(if $(BENCH),,--mnist='$(OUT)/float/bin/mnist --quiet --save=$(BUILD)/bench.safetensors') $(BENCH)
bench-busy: ## the networks beside a process that is always busy
bench-busy: $(bench_programs) $(MODELS)
	@while :; do :; done & busy=$$!; trap "kill $$busy" EXIT; $< $(bench_options) $(PEERS) $(or $(BENCH),train)
bench-scaling: ## the cost of a unit of work must not grow with its size
bench-scaling: $(OUT)/float/bench/scaling $(OUT)/float/bench/stride_peer
	@$< $(if $(ROUNDS),--rounds=$(ROUNDS)) $(BENCH_FLAGS)
