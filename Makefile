# Everything lives in one virtual environment: make VENV=elsewhere to put it elsewhere.
VENV ?= .venv
PYTHON ?= python3
PORT ?= 5000
BIN = $(VENV)/bin

# uv installs in seconds what the lock file names. Where uv cannot be had, pip installs all of the lock file: it has nothing to resolve then.
uv = $$(command -v uv || echo $(BIN)/uv)
pip = $(BIN)/python -m pip install --quiet --disable-pip-version-check
install = @echo "Installing $(1) into $(VENV)" && if [ -x "$(uv)" ]; \
	then "$(uv)" pip install --quiet --python $(BIN)/python --constraint requirements.lock --build-constraints requirements.lock --editable "$(1)"; \
	else $(pip) --no-deps --require-hashes --requirement requirements.lock && $(pip) --no-deps --editable .; fi

.PHONY: help run test test-all check format schema lock ui smallmodel clean

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.installed  ## set up, then run the default experiment
	$(BIN)/python -m evals.run

test: $(VENV)/.installed-dev  ## set up, then run the tests of the main job, every command, every metric (3 minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(VENV)/.installed-dev  ## run all tests, with kills, simulations, browser, README commands; measure coverage
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile thorough --cov --cov-report term:skip-covered

check: $(VENV)/.installed-dev  ## lint, formatting, types, direction of imports, code that nothing uses
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: $(VENV)/.installed-dev  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(VENV)/.installed-dev  ## write the report's JSON Schema, the field tables of docs/report.md and the table of docs/metrics.md
	$(BIN)/python -m evals.report.generate

lock: $(VENV)/.installed-dev  ## write requirements.lock anew from pyproject.toml (needs uv)
	$(uv) pip compile --quiet --upgrade --universal --generate-hashes --custom-compile-command "make lock" --python-version 3.11 \
	  --extra dev --extra smallmodel pyproject.toml --output-file requirements.lock

ui: $(VENV)/.installed  ## show the runs in the MLflow UI (PORT, default 5000)
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow server --workers 1 \
	  --backend-store-uri sqlite:///$(CURDIR)/mlruns/mlflow.db --host 127.0.0.1 --port $(PORT)

smallmodel: $(VENV)/.installed-dev  ## install a small language model (200 MB); without it some slow tests are skipped
	$(call install,.[smallmodel])

clean:  ## remove what runs have written
	rm -rf .qdrant mlruns/* .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	command -v uv >/dev/null || $(pip) "uv>=0.9,<1" || echo "uv cannot be had; pip does its work" >&2

$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	$(call install,.)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements.lock | $(BIN)/python
	$(call install,.[dev])
	@touch $(VENV)/.installed $@
