# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
MARKS ?= not slow
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "$(MARKS)" --numprocesses auto --dist loadfile --no-loadscope-reorder
DATA := $(or $(CLDRANK_DATA),$(CURDIR)/build/data)

.PHONY: help demo test data coverage lint format bench slow docs site release-check lowest clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    the whole road in a minute: a log, audit, propensities, training, verdict, export, a page"
	@echo "make test    lint, types, the direction of imports, the documentation, all tests but the slow ones"
	@echo "make data    download MSRD and RankLens, which some pages need, into CLDRANK_DATA or build/data"
	@echo "make bench   the benchmarks and the slow tests;   make slow   the slow tests;   make coverage   which lines are reached"
	@echo "make site    the documentation as a site;   make docs   regenerate what is generated in docs/"
	@echo "make release-check   build, inspect, install and try what would be published;   make lowest   tests with the lowest versions"
	@echo "make lint    ruff, mypy, import-linter;   make format   let ruff rewrite"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "cldrank needs Python 3.11 or newer; choose one with: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp a set of dependencies: the demo does not wait for what only tests and benchmarks need.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[neural,trees]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev,bench]'
	@touch $@ $(VENV)/.dev $(VENV)/.demo

$(VENV)/.release: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[release]'
	@touch $@

demo: $(VENV)/.demo
	@$(BIN)/cldrank demo --out build/demo

lint: $(VENV)/.dev
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > build/imports.log 2>&1 || { cat build/imports.log; exit 1; }

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 lint site
	@$(BIN)/python -m compileall -q -j 2 src  # commands start sooner
	$(PYTEST)

data: $(DATA)/msrd $(DATA)/ranklens

$(DATA)/msrd $(DATA)/ranklens: | $(VENV)/.dev
	$(BIN)/python tools/prepare.py $(@F) --out $@

coverage: $(VENV)/.dev
	$(PYTEST) --cov --cov-report=term:skip-covered

bench: $(VENV)/.bench
	@for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark || exit 1; done
	@$(MAKE) --no-print-directory slow

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

docs: $(VENV)/.dev
	$(BIN)/python tools/docs.py

site: $(VENV)/.dev
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/site
	@echo "the documentation is in build/site/index.html"

release-check: $(VENV)/.release
	@$(BIN)/python tools/release_check.py $(ARGUMENTS)

lowest: $(VENV)/.release
	@$(BIN)/python tools/release_check.py --only lowest $(ARGUMENTS)

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

$(shell mkdir -p build)
