# What a newcomer needs is `make demo`, what a contributor needs is `make test`; both set everything up.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup -rs

# Machine code of the numerical kernels, as Numba keeps it.
KERNELS := mechanisms/__pycache__/.compiled

# Install an extra, by uv where it can be had and reach the index that pip is told of.
define install
	uv() { \
	  index=$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}; \
	  export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$$index}"; \
	  [ -n "$$UV_DEFAULT_INDEX" ] || unset UV_DEFAULT_INDEX; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check uv && \
	  { $(BIN)/uv pip install --python $(BIN)/python -c constraints.txt -e '.[$(1)]' 2>&1; echo "ended $$?"; } | \
	    awk '/^ended /{code = $$2; next} !/^ [-+~] /{print; fflush()} END{exit code}'; }; \
	{ while sleep 8 > /dev/null 2>&1 && kill -0 $$$$; do echo '  still installing'; done; } 2> /dev/null & \
	uv || { echo 'uv could not; now with pip'; \
	  $(BIN)/python -m pip install --progress-bar off --disable-pip-version-check -c constraints.txt -e '.[$(1)]'; }; \
	code=$$?; kill $$!; exit $$code
endef

.PHONY: help demo test audit lint types debian bench docs clean

help:  ## these lines
	@sed -n 's/^\([a-z]*\):.*##  */\1:/p' $(MAKEFILE_LIST) | while IFS=: read -r target text; do \
	  printf '  make %-8s %s\n' "$$target" "$$text"; done

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed: call make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	@echo 'Installing into .venv, half a minute with uv, some minutes where pip has to do it'
	@$(call install,test)
	@touch $@

demo: .venv/.ready  ## the whole story on synthetic people, from delivery to published tables, under ./demo
	$(BIN)/tabularium demo

test:  ## lint, types, and every test at its usual size; within twenty minutes on two cores
	$(MAKE) --no-print-directory --jobs=2 .venv/.ready debian
	$(MAKE) --no-print-directory --jobs=2 lint types $(KERNELS)
	$(PYTEST)

audit:  ## every test at full size: kills, races, damage, audits of the mechanisms; more than an hour
	$(MAKE) --no-print-directory --jobs=2 .venv/.ready debian
	$(MAKE) --no-print-directory $(KERNELS)
	TABULARIUM_TEST_SIZE=full $(PYTEST)

lint: .venv/.ready  ## ruff: rules and format; no small module that one neighbour alone imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m benchmarks.weight --lonely

types: .venv/.ready  ## mypy, strict
	$(BIN)/mypy

debian:  ## as root: install PostgreSQL and Chromium, which some tests need
	@$(PYTHON) -m tests.debian

# Once, beside the type check: every worker of the tests would otherwise compile them for itself. Numba compiles
# a file anew when it has changed, so only files with kernels are asked about.
$(KERNELS): $(shell grep -rl --include='*.py' '@compiled' mechanisms) | .venv/.ready
	$(BIN)/python -m tests.mechanisms.histograms.results > /dev/null
	@mkdir -p $(@D) && touch $@

bench:  ## name the benchmarks
	@for file in benchmarks/bench_*.py; do \
	  printf '  %s -m benchmarks.%-18s %s\n' $(BIN)/python "$$(basename "$$file" .py)" \
	    "$$(sed -n '1s/^"""\([^.:]*\).*/\1/p' "$$file")"; done

docs: .venv/.ready  ## the documentation as a site that can be searched, under build/site
	@$(call install,docs)
	$(BIN)/python -m tests.docs.sample_release build/sample-release.zip
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'Read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site'

clean:  ## remove what was made, but no demo
	rm -rf .venv build *.egg-info .hypothesis .mypy_cache .ruff_cache .pytest_cache
