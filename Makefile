# Every target makes .venv and installs what it needs, once; `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(SUPPORTED)' 2>/dev/null && echo $$python && break; done)
ARGS ?=
KERNEL_TESTS := tests/tabular/test_kernel.py tests/tiles tests/numerics/test_quantiles.py tests/distributions \
	tests/agent/test_robustness.py tests/worlds/test_motion.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE # modules are compiled when first imported (see below): let that be once

.DEFAULT_GOAL := help
.NOTPARALLEL: # two installs into one .venv would race
.PHONY: help setup test test-bounds check format bench fuzz torture reproduce docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.all ## create .venv and install the project with all extras

test: $(VENV)/.dev ## run the tests (ARGS="-k redpill -x" to choose)
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

test-bounds: $(VENV)/.dev ## run the tests of compiled code once with every index checked
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest $(KERNEL_TESTS) $(ARGS)

fuzz: $(VENV)/.all ## read mutated agents, results and studies (ARGS="--files 1000"; docs/robustness.md)
	$(BIN)/python tests/hostile/fuzz.py $(ARGS)

torture: $(VENV)/.dev ## kill studies and trainings at random moments (ARGS="--kills 100" or "--ray-nodes 10"; docs/robustness.md)
	$(BIN)/python tests/hostile/torture.py $(ARGS)

check: $(VENV)/.dev ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## fix lint and formatting in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## measure speed against peers, as ratios
	$(BIN)/python benchmarks/run.py $(ARGS)

reproduce: $(VENV)/.core ## the paper's validation study and theory at full scale, into results/
	$(BIN)/perstep reproduce redpill pendulum theory --scale paper --out results $(ARGS)

docs: $(VENV)/.docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir site
	@echo "perstep: the documentation is in $(CURDIR)/site"

clean: ## remove .venv, caches and the built site; results/ and runs/ stay
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# What is installed is remembered by stamps. A larger set covers the smaller ones, so nothing is installed twice,
# and constraints.txt gives every machine the versions the tests ran with. Python compiles a module when it is first
# imported; letting pip compile all of them would double the wait.
define install
	@echo "perstep: installing $(2)"
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.$(1)'
	@touch $(addprefix $(VENV)/.,$(3))
endef

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "perstep needs Python 3.11 to 3.14 and found none: install one, or run make PYTHON=/path/to/python"; exit 1; }
	@echo "perstep: creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.created pyproject.toml constraints.txt
	$(call install,,the library (once, about half a minute),core)

$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt
	$(call install,[dev],the library and the tools of its tests (once, about a minute),core dev)

$(VENV)/.docs: $(VENV)/.created pyproject.toml constraints.txt
	$(call install,[docs],the library and the tools of its documentation (once, about a minute),core docs)

$(VENV)/.bench: $(VENV)/.created pyproject.toml constraints.txt
	$(call install,[bench],the library and its peers (once, about a minute),core bench)

$(VENV)/.all: $(VENV)/.created pyproject.toml constraints.txt
	$(call install,[all],the library with all extras (once, about a minute),core dev docs bench all)
