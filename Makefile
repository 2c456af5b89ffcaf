# Everything a newcomer needs: `make demo`, `make test`. Each sets up its own environment in .venv first, from
# nothing but Python >= 3.10, make and the package index that pip is configured for on this machine.
#
#   make demo       profile a small training run twice, pinned and oversubscribed, and show the difference
#   make example    find the best settings of a real training: NAME=chainermn, torch_loader or keras_dataset
#   make test       the tests on all CPUs, of this Python and one other; CI runs them on all Pythons that it finds
#                                                       (ARGS="-k name" is passed to pytest)
#   make coverage   the same with the lines and branches of the package that they run (TABLE=FILE puts them there)
#   make fuzz       fuzz every target for a few seconds  (ARGS="pstats --seconds 600" is passed to fuzz/)
#   make lint       ruff check, ruff format --check, mypy --strict
#   make docs       build the documentation's site in build/site; a warning is an error
#   make wheel      build dist/profkit-*.whl
#   make clean      remove the environment and what tools left behind
#
# PYTHON=/path/to/python picks the interpreter, VENV=directory the place of the environment.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo example test coverage fuzz lint docs wheel clean

VENV ?= .venv
PYTHON ?=
ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# mpi4py is of use only beside an MPI; without one its tests skip and say why.
TEST_EXTRAS := test$(if $(shell command -v mpirun 2>/dev/null), mpi)
# How an environment was made is part of the names of its stamps: another choice makes it again.
empty :=
TEST_READY := $(VENV)/.ready-$(subst $(empty) ,-,$(TEST_EXTRAS))

help:
	@sed -n 's/^#   make/make/p' Makefile

demo: $(VENV)/.ready
	@$(BIN)/profkit demo $(ARGS)

example: $(VENV)/.ready-tune
	@PATH="$(abspath $(BIN)):$$PATH" examples/run "$(NAME)" $(ARGS)

test: $(TEST_READY)
	@$(BIN)/python -m pytest -n auto $(ARGS)

# Where the tests fail, the figures are shown all the same, and make fails.
coverage: $(TEST_READY)
	@$(BIN)/coverage erase
	@status=0; $(BIN)/coverage run -m pytest $(ARGS) || status=$$?; \
	$(BIN)/coverage combine --quiet && $(BIN)/python .ci/coverage $(TABLE) && exit $$status

fuzz: $(VENV)/.ready-fuzz
	@$(BIN)/python -m fuzz run $(or $(ARGS),--quick)

lint: $(VENV)/.ready-lint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: $(VENV)/.ready-docs
	@$(BIN)/sphinx-build --quiet --fail-on-warning --fresh-env --conf-dir docs/site docs build/site
	@echo "build/site/index.html"

wheel: $(VENV)/.ready
	@rm -rf dist
	@$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

clean:
	rm -rf $(VENV) examples/*/.venv examples/*/out build dist profkit-demo .fuzz .pytest_cache .hypothesis .mypy_cache .ruff_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A new pyproject.toml starts from an empty environment, so that what it no longer names is gone.
$(VENV)/.ready: pyproject.toml hatch_build.py $(wildcard profkit/capture/native/build.py profkit/*/native/*/*.[ch])
	@python=$$(sh .ci/find-python $(PYTHON)) || exit 1; \
	echo "Setting up $(VENV) with $$python; this happens once."; \
	"$$python" -m venv --clear $(VENV)
	@$(PIP) install --quiet --editable .
	@touch $@

# Tests capture programs of older Pythons, too, each of which needs a tracer of its own.
OLDER := $(wildcard $(foreach version,8 9 10,$(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.$(version).*/bin/python))

$(TEST_READY): $(VENV)/.ready pytest-profkit/pyproject.toml
	@echo "Installing what the tests need ($(TEST_EXTRAS))."
	@$(if $(OLDER),PROFKIT_TRACER_PYTHONS='$(subst $(empty) ,:,$(OLDER))' $(PIP) install --quiet --editable .)
	@extras=$$($(BIN)/python .ci/extras $(TEST_EXTRAS)) && $(PIP) install --quiet $$extras --editable ./pytest-profkit
	@touch $@

$(VENV)/.ready-tune: $(VENV)/.ready
	@extras=$$($(BIN)/python .ci/extras tune) && $(PIP) install --quiet $$extras
	@touch $@

$(VENV)/.ready-fuzz: $(VENV)/.ready
	@echo "Installing what fuzzing needs."
	@extras=$$($(BIN)/python .ci/extras test fuzz) && $(PIP) install --quiet $$extras
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready
	@echo "Installing what the documentation's site needs."
	@extras=$$($(BIN)/python .ci/extras docs) && $(PIP) install --quiet $$extras
	@touch $@

$(VENV)/.ready-lint: $(VENV)/.ready
	@echo "Installing the linters."
	@extras=$$($(BIN)/python .ci/extras test lint) && $(PIP) install --quiet $$extras
	@touch $@
