# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

# Machine code of the numerical kernels, as Numba keeps it.
KERNELS := mechanisms/__pycache__/.compiled

.PHONY: demo test lint types docs clean

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed: call make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

demo: .venv/.ready
	$(BIN)/tabularium demo

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.ready
	$(BIN)/mypy

# Once, beside the type check: every worker of the tests would otherwise compile them for itself.
$(KERNELS): $(wildcard mechanisms/*/*.py mechanisms/*/*/*.py) | .venv/.ready
	$(BIN)/python -m tests.mechanisms.histograms.results > /dev/null
	@mkdir -p $(@D) && touch $@

test: .venv/.ready
	$(MAKE) --no-print-directory --jobs=2 lint types $(KERNELS)
	$(BIN)/pytest -n 2 --dist loadgroup

docs: .venv/.ready  ## the documentation as a site that can be searched, under build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'Read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site'

clean:
	rm -rf .venv build *.egg-info .hypothesis .mypy_cache .ruff_cache .pytest_cache
