# make c-check compiles many nets written as C, and runs the trained net on an emulated Cortex-M4.
.PHONY: c-check
c-check: ## hold nets written as C against the reference engine, one on a Cortex-M4 (make deps-c)
c-check: $(OUT)/float/tests/test_export_c $(OUT)/float/bin/stride $(BUILD)/mnist.safetensors
	@STRIDE_C_CHECK=$(BUILD)/mnist.safetensors $<
	@CC=$(call quoted,$(CC)) tests/export_c/c_check.sh $(OUT)/float/bin/stride $(BUILD)/mnist.safetensors \
	    $(OUT)/c-check
