# ---- the atlas of poolings -------------------------------------------------------------------------

# Its results are kept in build/atlas, one file a run; the page is made of them.
ATLAS         ?=
ATLAS_PROGRAM := $(OUT)/float/bin/atlas
ATLAS_SOURCES := $(wildcard examples/atlas/*.c)
ATLAS_FOLDER   = $(BUILD)/atlas$(if $(ATLAS),/$(ATLAS))
$(ATLAS_PROGRAM): $(ATLAS_SOURCES:%.c=$(OUT)/float/%.o) $(call helpers,float) $(call lib,float)
	$(call link,$(PICTURE_LIBS))

# The page in one piece: head, style, data and script stand in place of these words.
atlas_page = sed -e '/^HEAD$$/{r examples/head.html' -e 'd;}' \
    -e '/^STYLE$$/{r examples/style.css' -e 'r examples/stride/page.css' -e 'r examples/atlas/page.css' -e 'd;}' \
    -e '/^DATA$$/{r $1/atlas.json' -e 'd;}' -e '/^SCRIPT$$/{r examples/elements.js' \
    -e 'r examples/atlas/page.js' -e 'd;}' examples/atlas/page.html
ATLAS_PAGE = $(BUILD)/atlas.html
.PHONY: atlas atlas-page
atlas-page:
	@$(call atlas_page,$(ATLAS_FOLDER)) >$(ATLAS_PAGE)
atlas: $(ATLAS_PROGRAM) ## try poolings of the literature again, in an hour at most; ATLAS=quick: in five minutes
	@examples/mnist.sh || :
	@mkdir -p $(ATLAS_FOLDER)
	@$< --scale=$(or $(ATLAS),full) --folder=$(ATLAS_FOLDER) >$(ATLAS_FOLDER)/atlas.md
	@$(call atlas_page,$(ATLAS_FOLDER)) >$(ATLAS_PAGE)
	@echo "$(ATLAS_PAGE) has the results, $(ATLAS_FOLDER)/atlas.md the same tables as text"
