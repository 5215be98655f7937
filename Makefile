# Each target makes the environment it needs; nothing is installed by hand. Needed: make and a
# Python 3.11 or newer (tools/find-python looks for one; PYTHON=... names one).
PYTHON ?= $(shell tools/find-python)
JOBS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
VERSIONS := 3.11 3.12 3.13

PIP := -m pip --disable-pip-version-check install -qq
PINNED := -c constraints.txt --build-constraint constraints.txt
PYTEST := -m pytest -q -n $(JOBS) --dist worksteal
# Without it pyright asks the network whether a newer one is out.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DELETE_ON_ERROR:
.PHONY: help demo test test-all lock bench soak clean

help:
	@echo "make demo      see it work: qworker's demo, run-time packages only (ARGS=... goes to it)"
	@echo "make test      format, lint, types, imports, tests with coverage: what CI runs"
	@echo "make test-all  the tests on every Python of $(VERSIONS) found here"
	@echo "make bench     the measurements in benchmarks/"
	@echo "make soak      every test, soak ones too, with many more random examples"
	@echo "make lock      renew constraints.txt"
	@echo "make clean     remove what the other targets made"

demo: $(VENV)/run.stamp
	$(BIN)/python -m slotq_app demo $(ARGS)

test: $(VENV)/dev.stamp
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run $(PYTEST) $(ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

# A Python that is not here is named and passed over; one that fails fails the target, but
# only after the others had their turn.
test-all:
	@found= missing= failed=; \
	for version in $(VERSIONS); do \
	  python=$$(tools/find-python $$version 2>/dev/null) || { missing="$$missing $$version"; continue; }; \
	  echo "== Python $$version"; found="$$found $$version"; \
	  $(MAKE) --no-print-directory .venv-$$version/test.stamp PYTHON="$$python" \
	    && .venv-$$version/bin/python $(PYTEST) $(ARGS) || failed="$$failed $$version"; \
	done; \
	echo "ran on:$${found:- none}"; \
	echo "not found:$${missing:- none}"; \
	echo "failed on:$${failed:- none}"; \
	[ -n "$$found" ] && [ -z "$$failed" ]

# No time-out: one test may take an hour. The seed of a failure is printed by its test.
soak: $(VENV)/dev.stamp
	HYPOTHESIS_PROFILE=soak $(BIN)/python $(PYTEST) -m "soak or not soak" --timeout=0 $(ARGS)

bench: $(VENV)/run.stamp
	@set -e; for script in $(or $(sort $(wildcard benchmarks/*.py)),$(error no benchmarks/*.py here)); do \
	  echo "== $$script"; $(BIN)/python $$script $(ARGS); \
	done

# Made with the oldest supported Python, so that every release chosen still runs on it.
lock:
	rm -rf .venv-lock
	python=$$(tools/find-python $(firstword $(VERSIONS))) && "$$python" -m venv .venv-lock
	.venv-lock/bin/python $(PIP) -U pip hatchling editables
	.venv-lock/bin/python $(PIP) -e . --group dev
	{ echo "# Tested together; renewed by: make lock"; \
	  .venv-lock/bin/python -m pip freeze --all --exclude-editable --exclude setuptools; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) .venv-* dist build .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache \
	  .ruff_cache .import_linter_cache constraints.new
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# A folder that is there and starts is kept: what is in it is brought up to date.
define environment
@$(1)/bin/python -c "" 2>/dev/null || { [ -n "$(PYTHON)" ] && "$(PYTHON)" -m venv --clear $(1); }
$(1)/bin/python $(PIP) -c constraints.txt -U pip
endef

$(VENV)/run.stamp: pyproject.toml constraints.txt
	$(call environment,$(VENV))
	$(BIN)/python $(PIP) $(PINNED) -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(BIN)/python $(PIP) $(PINNED) --group dev
	@touch $@

.venv-%/test.stamp: pyproject.toml constraints.txt
	$(call environment,.venv-$*)
	.venv-$*/bin/python $(PIP) $(PINNED) -e . --group test
	@touch $@
