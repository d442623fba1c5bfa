# ---- programs ------------------------------------------------------------------------------------

# Code that the programs share is an archive, from which each links what it uses. The program gradcheck is built
# in double only. stride built in double is called stride-double, and is copied beside the one in float.
PROGRAMS := stride mnist predict custom_layer gradcheck views pooling callbacks pictures
MAINS    := $(wildcard $(PROGRAMS:%=examples/%.c)) $(wildcard examples/stride/main.c)
HELPERS  := $(filter-out $(MAINS),$(wildcard examples/*.c examples/stride/*.c))
shared_code = $(OUT)/$1/examples/helpers.a
helpers   = $(shared_code) $(lib_pictures)
stride    = $(OUT)/$1/bin/$(NAME_$1)
simple    = $(filter-out $(OUT)/float/bin/gradcheck %/main,$(MAINS:examples/%.c=$(OUT)/$1/bin/%))
programs  = $(simple) $(stride)
TWIN     := $(OUT)/float/bin/stride-double

# The program stride, where there is one, its twin in double, and what runs it where this machine cannot.
PROGRAM        := $(filter %/stride,$(call programs,float))
PROGRAM_DOUBLE := $(filter %/stride-double,$(call programs,double))
RUN            ?=

define program_rules
$(call shared_code,$1): $(HELPERS:%.c=$(OUT)/$1/%.o) $(OUT)/sources
	$$(archive)
$(call simple,$1): $(OUT)/$1/bin/%: $(OUT)/$1/examples/%.o $(call helpers,$1) $(call lib,$1)
	$$(link)
$(call stride,$1): $(OUT)/$1/examples/stride/main.o $(call helpers,$1) $(call lib,$1)
	$$(call link,$$(PICTURE_LIBS))
endef
$(foreach p,float double,$(eval $(call program_rules,$p)))
$(TWIN): $(call stride,double)
	@mkdir -p $(@D)
	@ln -sf ../../double/bin/$(@F) $@

# The page of reports in one piece (head, style and script stand in place of these words), as strings of C, one a line.
PAGE      := $(OUT)/examples/stride/page.inc
PAGE_FROM := examples/stride/page.html examples/head.html examples/style.css examples/stride/page.css \
             examples/elements.js examples/stride/page.js
CFLAGS_examples_stride_page := -I$(OUT)
$(foreach p,float double,$(OUT)/$p/examples/stride/page.o): $(PAGE)
$(PAGE): $(PAGE_FROM)
	@mkdir -p $(@D)
	$(call say,GEN)sed -e '/^HEAD$$/{r examples/head.html' -e 'd;}' \
	    -e '/^STYLE$$/{r examples/style.css' -e 'r examples/stride/page.css' -e 'd;}' \
	    -e '/^SCRIPT$$/{r examples/elements.js' -e 'r examples/stride/page.js' -e 'd;}' $< | sed 's/[\\"?]/\\&/g; s/.*/"&\\n",/' >$@

# The lines that say how to run a program, for `make help`; others of PROGRAMS run likewise.
mnist: ## train on MNIST (and build predict, which reads what it saves)
mnist: $(OUT)/$(PRECISION)/bin/predict
mnist-best: $(call stride,$(PRECISION)) ## train a wider net on distorted digits for some ten minutes
	@examples/mnist.sh || :
	@$< train --net examples/networks/wide.net --epochs 9 --shear 8 --rotation 10 --scale 0.1 --shift 2 \
	    --optim sgd --lr 0.1 --nesterov --weight-decay 5e-4 --schedule one-cycle --label-smoothing 0.05 \
	    --log $(BUILD)/mnist_best.csv --report $(BUILD)/mnist_best.html --save $(BUILD)/mnist_best.safetensors
.PHONY: mnist-best
gradcheck: ## compare every layer's gradient with finite differences, in double
.PHONY: $(PROGRAMS)
$(filter-out stride gradcheck pictures,$(PROGRAMS)): %: $(OUT)/$(PRECISION)/bin/%
	@$(if $(filter mnist,$@),examples/mnist.sh || :)
	@$<
stride: $(call stride,$(PRECISION)) $(TWIN) ## build the program for daily use, build/float/bin/stride
gradcheck: $(OUT)/double/bin/gradcheck
	@$<
pictures: $(OUT)/float/bin/pictures ## draw docs/pictures/windows.svg, the picture of the README
	@$< >$(BUILD)/windows.svg && mv $(BUILD)/windows.svg docs/pictures/windows.svg
