# Every target sets up what it needs by itself: a virtual environment in .venv, made once and
# brought up to date whenever pyproject.toml or constraints.txt change. Needs Python 3.11 and make.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.peers
PLUGIN := runefold/testing/_runefold_pytest.py
SEEDS ?= 2000
# One worker more than there are cores, four at most: many tests wait for a disk or a process.
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 3); echo $$((cores < 4 ? cores + 1 : 4)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test crash simulate lint demo bench bench-quick clean

# What happens to be active outside must not reach into our environment. Without bytecode on disk,
# each of the many processes that tests start would compile all modules anew.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX
unexport PYTHONDONTWRITEBYTECODE

# The stamp holds the directory it was installed from: a clone that was moved is set up again.
$(shell test "$$(cat $(STAMP) 2>/dev/null)" = "$$(pwd -P)" || rm -f $(STAMP))

help:
	@echo "make setup        make .venv and install everything, exact versions"
	@echo "make test         run the tests, docstring examples included"
	@echo "make crash        run the long crash sweeps"
	@echo "make simulate     play the runtime from seeds, with everything going wrong: SEEDS=2000"
	@echo "make lint         check style, types and import contracts"
	@echo "make demo         show what it does"
	@echo "make bench        measure it beside its peers; bench-quick takes three minutes"
	@echo "make clean        remove everything that was made here"

$(STAMP): pyproject.toml constraints.txt $(PLUGIN)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "setup: FAILED: needs Python 3.11 or later, which '$(PYTHON)' is not;" \
	       "try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "setup: making $(VENV) and installing; this is done once and takes a minute"
	@rm -f $@
	@"$(PY)" -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV) || { \
	  echo "setup: FAILED: '$(PYTHON)' cannot make a virtual environment;" \
	       "on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PY) -m pip install --quiet --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]' || { \
	  echo "setup: FAILED: see pip's message above"; exit 1; }
	@pwd -P > $@

setup: $(STAMP)
	@echo "setup: done: $$($(PY) --version) in $(VENV), everything installed"

test: $(STAMP)
	@echo "test: running the tests"
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS) || { echo "test: FAILED"; exit 1; }
	@echo "test: all passed"

crash: $(STAMP)
	@echo "crash: running the long sweeps; this takes a while"
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal -p tests.crash.tally -m crash --timeout 1800 $(ARGS) || { \
	  echo "crash: FAILED"; exit 1; }
	@echo "crash: all survived"

simulate: $(STAMP)
	@echo "simulate: playing $(SEEDS) seeds on all cores"
	@$(PY) -m runefold.testing.simulation --seeds $(SEEDS) $(ARGS) || { \
	  echo "simulate: FAILED"; exit 1; }
	@echo "simulate: playing a quarter as many with machines of apps"
	@PYTHONPATH=examples/order_desk $(PY) -m runefold.testing.simulation \
	  --seeds $$(($(SEEDS) / 4 + 1)) --app tests.simulation.app:APP $(ARGS) || { \
	  echo "simulate: FAILED"; exit 1; }
	@echo "simulate: nothing is wrong"

lint: $(STAMP)
	@echo "lint: style (ruff), layout (ruff format), types (mypy), import contracts (import-linter)"
	@failed=; \
	$(PY) -m ruff check || failed="$$failed style"; \
	$(PY) -m ruff format --check || failed="$$failed layout"; \
	$(PY) -m mypy || failed="$$failed types"; \
	$(PY) -c 'import sys; from importlinter.cli import lint_imports_command as main; main()' \
	  --no-cache || failed="$$failed imports"; \
	if test -n "$$failed"; then echo "lint: FAILED:$$failed"; exit 1; fi
	@echo "lint: clean"

demo: $(STAMP)
	@$(PY) -m runefold.demo || { echo "demo: FAILED"; exit 1; }
	@echo "demo: done"

# Peers that nothing but the bench imports. One that cannot be had is named and left out.
$(PEERS): $(STAMP)
	@echo "bench: installing peers; this is done once and takes half a minute"
	@$(PY) -m pip install --quiet --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev,peers]' || \
	  echo "bench: some peers could not be installed: what needs them is left out, and named"
	@touch $@

bench: $(PEERS)
	@echo "bench: measuring; this takes a quarter of an hour and wants a quiet machine"
	@$(PY) -m bench $(ARGS) || { echo "bench: FAILED"; exit 1; }
	@echo "bench: done: bench/results.json"

bench-quick: $(PEERS)
	@echo "bench-quick: measuring for three minutes"
	@$(PY) -m bench --quick $(ARGS) || { echo "bench-quick: FAILED"; exit 1; }
	@echo "bench-quick: done"

clean:
	@rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: done"
