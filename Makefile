# Treeline's two commands are `make up` and `make test`; `make help` lists the rest.
# Each step of the set-up has a stamp and is skipped while the stamp is newer than what the step reads.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3))
VENV := .venv
BIN := $(VENV)/bin
ESTATE ?= estates/unbalanced.yaml
PYTEST_ARGS ?=
WORDS ?=
MINUTES ?= 5
SEED ?=
# Side by side, more than there are processors, since many tests wait; which stay together: tests/parallel_groups.py.
# The order is that of the folders: of files sorted by their number of tests, the longest tests would come last, and
# one worker would wait for the other.
PYTEST_WORKERS ?= 5
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

VENV_MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime-installed
SPARK := $(VENV)/.spark-installed
PROJECT := $(VENV)/.project-installed
DEV := $(VENV)/.dev-installed
CLIENT := $(VENV)/.client-installed
OLDER_CLIENTS := $(VENV)/.older-clients-installed
NATIVE := $(VENV)/.native-built
FRONTEND := frontend/node_modules/.package-lock.json

# Programs that start are read as they were compiled the last time, whatever the machine says: tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help up down test nightly mutants soak bench lint docs pictures reports wheel install install-dev programs test-programs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: install ## Install what is missing, boot the estate (ESTATE=FILE) and prove that it distributes
	@$(BIN)/treeline up --estate $(ESTATE)

down: ## Stop the estate, keep its data
	@if [ -x $(BIN)/treeline ]; then $(BIN)/treeline down; fi

test: install-dev ## Run all tests but the long ones (PYTEST_ARGS=...)
	@$(BIN)/python -m pytest -m "not nightly" -n $(PYTEST_WORKERS) --no-loadscope-reorder -q $(PYTEST_ARGS)

nightly: install-dev ## Run the long tests
	@$(BIN)/python -m pytest -m nightly $(PYTEST_ARGS)

mutants: install-dev ## Break one promise of the docs after the other and see that tests notice (WORDS=...)
	@$(BIN)/python -m tests.mutants $(WORDS)

soak: install-dev ## Random faults for MINUTES=5 with SEED=n, then the checker
	@$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

bench: install-dev ## Run the benchmarks, each with its peer
	@shopt -s nullglob; for bench in bench/*/run.py; do echo "$$bench"; $(BIN)/python "$$bench"; done

lint: install-dev ## Check style, types and import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: install-dev ## Build the docs site to site/, with warnings as errors
	@$(BIN)/python -m sphinx -q -E -W --keep-going -d .cache/docs docs site
	@echo "site/index.html"

pictures: install-dev ## Take the pictures of all pages of the console anew (docs/images/gallery)
	@TREELINE_GALLERY=docs/images/gallery $(BIN)/python -m pytest -q tests/browser/console/test_gallery.py
	@$(BIN)/python docs/generate.py

reports: install-dev ## Run the checks of pages and REST again and write docs/reports
	@$(BIN)/python -m tests.reports

# The wheel is built from the sdist, which is thereby known to be complete.
wheel: programs $(RUNTIME) $(FRONTEND) ## Build the wheels and sdists of Treeline and of its client package into dist/
	@rm -rf dist
	@for folder in . client; do (cd $$folder && $(CURDIR)/$(BIN)/python -c \
	  'import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])' $(CURDIR)/dist >/dev/null); done
	@for sdist in dist/*.tar.gz; do \
	  $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist $$sdist; done
	@ls dist/*

install: programs $(SPARK) $(PROJECT) $(NATIVE) $(FRONTEND)

install-dev: install test-programs $(DEV) $(CLIENT) $(OLDER_CLIENTS)

programs:
	@.ci/ensure-programs java:openjdk-17-jre-headless mvn:maven npm:npm

test-programs:
	@.ci/ensure-programs chromium:chromium ip:iproute2 curl:curl

$(VENV_MADE):
	@if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	  echo "Treeline needs Python 3.11 or newer; set PYTHON=/path/to/python3.11." >&2; exit 1; fi
	@if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then .ci/ensure-programs --package python3-venv; fi
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@touch $@

$(RUNTIME): requirements/runtime.txt $(VENV_MADE)
	@echo "installing pinned packages" >&2
	@.ci/install-packages $(BIN)/python requirements/runtime.txt --compile
	@touch $@

# PySpark comes as source; it is built with the setuptools that is pinned.
$(SPARK): requirements/spark.txt $(RUNTIME)
	@echo "installing Spark" >&2
	@$(PIP) --require-hashes --no-deps --no-build-isolation -r requirements/spark.txt
	@touch $@

$(PROJECT): pyproject.toml requirements/runtime.in $(RUNTIME)
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# The loop in C for the confluent-kafka installed; says in one line if there will be none.
$(NATIVE): $(wildcard backend/kafka/copy/native/*.[ch]) backend/kafka/copy/native/build.py \
  backend/kafka/base/confluent_version.py $(PROJECT)
	@$(BIN)/python -m backend.kafka.copy.native.build
	@touch $@

$(DEV): requirements/dev.txt $(PROJECT)
	@echo "installing pinned packages for tests" >&2
	@.ci/install-packages $(BIN)/python requirements/dev.txt
	@touch $@

# The client package is one of its own: applications install it without the rest.
$(CLIENT): client/pyproject.toml $(PROJECT)
	@$(PIP) --no-deps --no-build-isolation -e client
	@touch $@

# Releases of confluent-kafka that clients still use, each in a folder of its own.
$(OLDER_CLIENTS): $(wildcard requirements/confluent-kafka-*.txt) tests/support/kafka/older_clients.py $(DEV)
	@echo "installing older clients for tests" >&2
	@$(BIN)/python -m tests.support.kafka.older_clients
	@touch $@

$(FRONTEND): frontend/package.json frontend/package-lock.json frontend/.npmrc
	@echo "installing third-party front-end files" >&2
	@cd frontend && npm ci --no-progress --loglevel=error >/dev/null
	@touch $@
