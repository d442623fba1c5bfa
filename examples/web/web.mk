# ---- a page for browsers --------------------------------------------------------------------------

# The core without BLAS, and drawn digits, compiled by emscripten, in one file with the page that uses them.
EMCC      ?= emcc
WEB       := $(BUILD)/web
WEB_CORE  := $(wildcard tensor/*.c tensor/fast/*.c layers/*.c layers/fast/*.c nn/*.c nn/fast/*.c) nn/data/bytes.c nn/data/digits.c \
             examples/web/web.c
# Debian's emscripten uses Debian's modules of node, whichever node runs it.
WEB_EMCC   = NODE_PATH=$(call quoted,/usr/share/nodejs:$(NODE_PATH)) $(EMCC) -O3
WEB_CFLAGS = -std=c11 -ffp-contract=off -fno-math-errno -fno-trapping-math -msimd128 -I.

$(WEB)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,EMCC)$(WEB_EMCC) $(WEB_CFLAGS) -MMD -MP -c $< -o $@
-include $(WEB_CORE:%.c=$(WEB)/%.d) $(OUT)/float/examples/web/web.d

$(WEB)/engine.js: $(WEB_CORE:%.c=$(WEB)/%.o) examples/web/web.mk
	$(call say,EMCC)$(WEB_EMCC) $(filter %.o,$^) -o $@ -sSINGLE_FILE -sMODULARIZE -sEXPORT_NAME=engine \
	    -sENVIRONMENT=web,worker -sINITIAL_MEMORY=33554432 -sFILESYSTEM=0 \
	    -sEXPORTED_RUNTIME_METHODS=UTF8ToString

# A file of safetensors is the length of its header in eight bytes, the header, and the data.
$(WEB)/save: $(OUT)/float/examples/web/web.o $(call lib,float)
	$(call link)
$(WEB)/header.json: $(WEB)/save
	@$< $(WEB)/untrained.safetensors
	@tail -c +9 $(WEB)/untrained.safetensors | \
	    head -c $$(od -An -tu8 -N8 $(WEB)/untrained.safetensors | tr -d ' ') >$@

$(WEB)/stride.html: examples/web/page.html examples/style.css $(WEB)/engine.js $(WEB)/header.json
	$(call say,PAGE)sed -e '/^STYLE$$/{r examples/style.css' -e 'd;}' -e '/^ENGINE$$/{r $(WEB)/engine.js' -e 'd;}' \
	    -e '/^HEADER$$/{r $(WEB)/header.json' -e 'd;}' $< >$@

.PHONY: web web-check
web: $(WEB)/stride.html ## build a page that trains a net in the browser, build/web/stride.html (make deps-web)
web-check: $(call stride,float) ## train, draw, save and load there, in a headless browser
	@EMCC=$(call quoted,$(EMCC)) MAKE=$(call quoted,$(MAKE)) tests/web/web_check.sh $< $(WEB)
