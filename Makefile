# On a fresh checkout `make install`, `make demo` and `make test` each set up what they need, in .venv.
PYTHON ?= python3
EXTRAS ?= web
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# One more process than processors, since some wait for a server or a clock.
WORKERS = $(shell $(BIN)/python -c "import os; print(min(4, os.cpu_count() + 1))")
TOGETHER = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

VENDOR := src/membra/show/web/vendor
SCRIPTS := $(VENDOR)/openseadragon.LICENSE.txt

.PHONY: install demo test test-long coverage lint docs bench dist scripts clean

# `make install EXTRAS=web,train` to adapt and train as well (PyTorch is large).
install: $(SCRIPTS) | $(VENV)/bin/python
	@echo "installing the pinned packages into $(VENV); a minute or two"
	@$(PIP) '.[$(EXTRAS)]'
	@echo "installed: $(CURDIR)/$(BIN)/membra --help"

demo: $(VENV)/.demo $(SCRIPTS)
	$(BIN)/membra demo --out demo

test: $(VENV)/.test $(SCRIPTS)
	$(TOGETHER) -m "not alone"
	$(BIN)/python -m pytest -q -m alone

# The faults and loads of docs/reliability.md as often as it says that they were tried; `make test` repeats them a few times.
test-long: export MEMBRA_LENGTH ?= long
test-long: $(VENV)/.test $(SCRIPTS)
	$(TOGETHER) -m "long and not alone"
	$(BIN)/python -m pytest -q -m "long and alone"

# Without the tests in which writing fails: what is counted cannot be written there either.
coverage: $(VENV)/.test $(SCRIPTS)
	$(TOGETHER) -m "not alone" \
		--ignore tests/reliability/test_r03_r04_writes_that_fail.py \
		--cov=membra --cov-branch --cov-report=term --cov-fail-under=90

lint: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/mypy

# The pages of docs/ as a site in site/: open site/index.html, also from the disk. Nothing is fetched.
docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.test
	@for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file || exit 1; done

# A wheel and an sdist for others, in dist/. Either carries the scripts, so that nobody else needs npm.
dist: $(VENV)/.test $(SCRIPTS)
	rm -rf dist
	MEMBRA_RELEASE=1 $(BIN)/python -m build

scripts: $(SCRIPTS)

# A stamp for each set of extras: it is made again when the pins or the project's requirements change.
$(VENV)/.demo: pyproject.toml setup.py constraints.txt | $(VENV)/bin/python
	@echo "installing the pinned packages into $(VENV); a minute or two"
	@$(PIP) '.[web]'
	@touch $@

$(VENV)/.test: pyproject.toml setup.py constraints.txt | $(VENV)/bin/python
	@echo "installing the pinned packages into $(VENV); some minutes, PyTorch is large"
	@$(PIP) '.[cluster,docs,train,web,test]'
	@touch $@

# Scripts of others for the workbench's pages, pinned in package-lock.json. The pages work without them, less well.
$(SCRIPTS): package.json package-lock.json
	@if command -v npm >/dev/null && npm ci --silent --no-audit --no-fund; then \
		mkdir -p $(VENDOR) && cp node_modules/htmx.org/dist/htmx.min.js $(VENDOR)/htmx.js && \
		cp node_modules/htmx.org/LICENSE $(VENDOR)/htmx.LICENSE.txt && \
		cp node_modules/openseadragon/build/openseadragon/openseadragon.min.js $(VENDOR)/openseadragon.js && \
		cp node_modules/openseadragon/LICENSE.txt $@; \
	else echo "npm is missing or cannot fetch: the workbench's pages will do without deep zoom"; fi

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) $(VENDOR) node_modules demo build dist site .mypy_cache .ruff_cache .pytest_cache
