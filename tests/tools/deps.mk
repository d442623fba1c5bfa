# ---- what is needed ------------------------------------------------------------------------------

DEPS = CC=$(call quoted,$(strip $(CC) $(CPPFLAGS) $(LDFLAGS))) PKG_CONFIG=$(call quoted,$(PKG_CONFIG)) \
    tests/tools/deps.sh
ONNXRUNTIME = [ -d $(BUILD)/peers/node_modules/onnxruntime-node ] || \
    npm install --prefix $(BUILD)/peers --ignore-scripts --no-audit --no-fund --silent onnxruntime-node

.PHONY: deps deps-check deps-bare deps-coverage deps-conformance deps-bench deps-onnx deps-c deps-mpi deps-blas \
    deps-arm deps-web deps-everywhere
deps: ## install what building and testing need, unless it is there
	@$(DEPS) build
deps-check: deps ## install what `make check` needs besides
	@$(DEPS) check
deps-bare: ## install debootstrap, which `make check-bare` makes a machine with
	@$(DEPS) bare
deps-coverage: deps ## install gcovr, which `make coverage` reports with
	@$(DEPS) coverage
deps-conformance: deps ## install ONNX's cases and PyTorch, which `make conformance` compares with
	@$(DEPS) conformance
deps-bench: deps ## install PyTorch, oneDNN and onnxruntime, which `make bench-peers` compares with
	@$(DEPS) bench
	@$(ONNXRUNTIME)
deps-onnx: ## install what writes files of ONNX, and onnxruntime and the checker, which `make onnx-check` asks
deps-onnx: deps
	@$(DEPS) onnx
	@$(ONNXRUNTIME)
deps-c: deps ## install a compiler for Cortex-M and its emulator for `make c-check`
	@command -v arm-none-eabi-gcc >/dev/null && command -v qemu-system-arm >/dev/null || \
	    { ! command -v apt-get >/dev/null && echo 'deps-c: please install arm-none-eabi-gcc, newlib, qemu-system-arm'; } || \
	    env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
	    --no-install-recommends gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
deps-mpi: deps ## install MPI, which `make MPI=1` builds with
	@$(DEPS) mpi
deps-web: deps ## install emscripten, and a browser with its driver, which `make web-check` needs
	@$(DEPS) web
deps-blas: deps ## unpack every flavour of BLAS, which `make check-blas` runs the tests with, into build/
	@tests/tools/unpack.sh $(BUILD)/debian/blas native libopenblas0-pthread libopenblas0-openmp \
	    libopenblas0-serial libblas3
deps-arm: ## install a compiler for Arm and an emulator for `make check-cpu`, and unpack Arm's libraries
deps-arm: deps
	@$(DEPS) arm
	@tests/tools/unpack.sh $(BUILD)/debian/arm arm64 libopenblas-pthread-dev libjansson-dev zlib1g-dev \
	    libcmocka-dev
deps-everywhere: ## install the compilers and emulators that `make everywhere` trains with
	@$(DEPS) everywhere
