# Everything runs in .venv, made from requirements.lock. A fresh machine needs python3 >= 3.11 with
# its venv module, and a package index for pip; the types check needs node.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help demo test slow lint types format bench docs site clean

help: ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: .venv/installed ## train the digits example, offline, in under a minute
	$(BIN)/sexpgpu check examples/digits.sx
	$(BIN)/sexpgpu run examples/digits.sx --fresh
	@echo 'to have sexpgpu on the PATH:  . $(BIN)/activate'

test: lint types ## everything a change must pass: lint, layers, types, tests
	$(PYTEST) -q -n $(WORKERS) -m "not slow"

slow: .venv/installed ## the tests that take long
	$(PYTEST) -q -n $(WORKERS) -m slow || test $$? -eq 5 # 5: there are none

lint: .venv/installed ## ruff, and the order of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache

types: .venv/installed ## pyright
	$(BIN)/pyright --pythonpath $(BIN)/python

format: .venv/installed ## ruff's fixes and layout, and that of the run files
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/sexpgpu fmt examples stdlib benchmarks

bench: .venv/installed ## side by side with programs written by hand (see benchmarks/README.md)
	$(BIN)/python benchmarks/run.py

docs: .venv/installed ## write the generated tables of the documentation
	$(BIN)/python -m sexpgpu.docs.generate

site: .venv/installed ## the documentation as a static site, in build/site
	$(BIN)/python website/build.py build/site

clean: ## remove what was made here, but no runs
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/installed: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "python3 >= 3.11 is needed; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
