# ---- documentation -------------------------------------------------------------------------------

PAGES = README.md $(wildcard CHANGELOG.md CONTRIBUTING.md SECURITY.md docs/*.md)
.PHONY: docs
docs: ## make pages of the headers, the README and the tutorial in build/docs/html (Doxygen)
	@command -v doxygen >/dev/null || { echo 'docs: doxygen is not installed (make deps-check)' >&2; exit 1; }
	@mkdir -p $(BUILD)/docs
	@{ cat docs/Doxyfile; printf '%s\n' 'INPUT = $(HEADERS) $(MPI_HEADERS) $(PICTURES_HEADERS) $(PAGES)' \
	    'PROJECT_NUMBER = $(VERSION)' \
	       'OUTPUT_DIRECTORY = $(BUILD)/docs'; } | doxygen -
