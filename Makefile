# Two commands do everything on a fresh checkout: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/.demo
	$(BIN)/membra demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

bench: $(VENV)/.test
	@for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file || exit 1; done

# A stamp for each set of extras: it is made again when the pins or the project's requirements change.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,test]'
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache
