# Everything here needs only `make` and a `python3` of version 3.11 or newer:
# each target first builds its own environment in .venv, and again only when its inputs change.

PYTHON ?= python3
# Another interpreter gets another environment: make PYTHON=python3.12 test
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet

# BLAS threads do not pay on the tests' small matrices, and they fight with tests in parallel.
export OPENBLAS_NUM_THREADS ?= 1

# Tests start Python many times: what is compiled is kept, also where the shell says otherwise.
export PYTHONDONTWRITEBYTECODE :=

# Test files are spread over the cores, the longest first; a file stays on one, with the servers that it starts.
PARALLEL := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test quick fuzz check thorough lint coverage format rooms bench gallery docs lock clean

help: ## Show this list
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1	\2/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.demo ## Audit the shipped example: a dashboard that singles out two homes
	@mkdir -p build
	@$(BIN)/sightline demo --html build/report.html --force

test: export SIGHTLINE_EXAMPLES = test
test: $(VENV)/.dev ## Run the tests, the docstring examples and the examples in the docs: under four minutes on two cores
	$(BIN)/pytest $(PARALLEL) -m "not thorough"

quick: export SIGHTLINE_EXAMPLES = quick
quick: $(VENV)/.dev ## Run the fast tests, with few examples each: about half a minute on two cores
	$(BIN)/pytest $(PARALLEL) -m "not slow" tests

# FUZZ_SEED=... repeats a hunt; without it the seed is random, and printed.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.dev ## Hunt for failures with random seeds, for FUZZ_SECONDS (600); prints how to repeat each
	$(BIN)/python -m tools.fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

rooms: ## Print how large the house is, which rooms and modules import which, and the cycles
	@$(PYTHON) tools/rooms.py

check: export SIGHTLINE_EXAMPLES = check
check: lint docs ## What must hold before a change lands: lint, types, docs, tests, also with Spark, Postgres, a browser: under 25 minutes
	$(BIN)/pytest $(PARALLEL)

thorough: export SIGHTLINE_EXAMPLES = thorough
thorough: $(VENV)/.dev ## The tests of make check with all examples and all drawn cases: every night
	$(BIN)/pytest $(PARALLEL)

lint: $(VENV)/.dev ## Check the format, the linter's rules and the types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

coverage: export SIGHTLINE_EXAMPLES = check
coverage: $(VENV)/.dev ## Run all tests and print the branch coverage of src; slower than make check
	$(BIN)/pytest $(PARALLEL) --cov --cov-report=
	@echo "Branch coverage of src: $$($(BIN)/coverage report --format=total)%"

format: $(VENV)/.dev ## Format the code and repair what the linter can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# A rival that is BLAS has all cores, and so has the library.
bench: OPENBLAS_NUM_THREADS = $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
bench: $(VENV)/.dev ## Run every benchmark beside what was recorded; QUICK=1 in three minutes, RECORD=1 adds to the history
	@PYTHONPATH=. $(BIN)/python -m benchmarks.history $(if $(QUICK),--quick) $(if $(RECORD),--record)

gallery: $(VENV)/.dev ## Audit twelve real deployments again and write docs/gallery.md with its pictures: half a minute
	$(BIN)/python -m examples.gallery

docs: $(VENV)/.dev ## Build the documentation into docs/_build/html
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "Built docs/_build/html/index.html"

lock: ## Choose the newest allowed versions again and write requirements/*.txt
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/$(notdir $(BIN))/python -m pip --disable-pip-version-check --quiet install uv
	PATH="$(VENV)-lock/$(notdir $(BIN)):$$PATH"; export PATH; \
	$(COMPILE) --upgrade --group build --group test --group check --group docs --all-extras \
	  --output-file requirements/dev.txt && \
	$(COMPILE) --upgrade --group build --extra report \
	  --constraint requirements/dev.txt --output-file requirements/demo.txt
	rm -rf $(VENV)-lock

clean: ## Remove the environment and everything built
	rm -rf .venv .venv-* build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit("Sightline needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; name one: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Making a Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# What `sightline` itself needs, and the package in place (editable).
$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "Installing what Sightline needs (requirements/demo.txt)"
	@$(PIP) install --require-hashes --no-deps -r requirements/demo.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# What its developers need on top; the versions of the first part stay as they are.
$(VENV)/.dev: requirements/dev.txt $(VENV)/.demo
	@echo "Installing what its tests, checks and docs need (requirements/dev.txt)"
	@$(PIP) install --require-hashes --no-deps -r requirements/dev.txt
	@touch $@
