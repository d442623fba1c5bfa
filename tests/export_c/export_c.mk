# Tools for nets written as C, besides a compiler: make c-check compiles many, and runs the trained net on an emulated
# Cortex-M4.
.PHONY: deps-c c-check
deps-c: deps ## install a compiler for Cortex-M and its emulator for `make c-check`
	@command -v arm-none-eabi-gcc >/dev/null && command -v qemu-system-arm >/dev/null || \
	    { ! command -v apt-get >/dev/null && echo 'deps-c: please install arm-none-eabi-gcc, newlib, qemu-system-arm'; } || \
	    env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
	    --no-install-recommends gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
c-check: ## hold nets written as C against the reference engine, one on a Cortex-M4 (make deps-c)
c-check: $(OUT)/float/tests/test_export_c $(OUT)/float/bin/stride $(BUILD)/mnist.safetensors
	@STRIDE_C_CHECK=$(BUILD)/mnist.safetensors $<
	@CC=$(call quoted,$(CC)) tests/export_c/c_check.sh $(OUT)/float/bin/stride $(BUILD)/mnist.safetensors \
	    $(OUT)/c-check
