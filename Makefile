# One word per task; `make` alone lists them.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DEMO := build/demo
TEST_JOBS ?= auto
PYTEST := $(BIN)/python -m pytest -n $(TEST_JOBS) --maxprocesses 8 --dist worksteal
SPARK43 := .venv-spark43
SPARK43_TESTS := tests/spark tests/unit/test_database.py tests/spec -k "compat or database or test_specs_together and aggregates"

export PYSPARK_PYTHON := $(abspath $(BIN)/python)
# Spark starts many Python processes: without stored bytecode each of them compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo docs test-unit test test-all test-spark43 chaos bench lint fetch postgres redis servers clean
.DEFAULT_GOAL := help

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## .venv with everything, from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or say where it is: make PYTHON=/path/to/python3 setup" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "could not make $(VENV): on Debian, install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	@touch $@

demo: setup ## a live pipeline on generated data, under a minute, no services
	@rm -rf $(DEMO)
	@$(BIN)/tidegate run examples/demo.sql --data $(DEMO) --once --show

docs: setup ## the documentation site, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test-unit: setup ## the tests that need neither Spark nor a server
	$(PYTEST) --tier unit

test: setup lint fetch ## lint, then every test but the slow ones
	$(PYTEST) --durations 30 --durations-min 20

test-all: setup lint fetch test-spark43 ## every test, with long random and kill runs, and PySpark 4.3
	$(PYTEST) --tier all --durations 30 --durations-min 20

test-spark43: $(SPARK43)/.installed ## the tests of Spark's internals and some spec files on PySpark 4.3
	PYSPARK_PYTHON=$(abspath $(SPARK43)/bin/python) TIDEGATE_JARS=$(abspath $(SPARK43)) $(SPARK43)/bin/python -m pytest $(SPARK43_TESTS)

$(SPARK43)/.installed: requirements.lock pyproject.toml | setup
	@test -x $(SPARK43)/bin/python || $(PYTHON) -m venv $(SPARK43)
	grep -v '^pyspark==' requirements.lock > $(SPARK43)/requirements.txt
	$(SPARK43)/bin/python -m pip install --quiet -r $(SPARK43)/requirements.txt 'pyspark==4.3.*'
	$(SPARK43)/bin/python -m pip install --quiet --no-deps -e .
	@touch $@

chaos: setup fetch ## 200 random faults in a row, with a comparison after each
	$(BIN)/python -m tests.chaos --faults 200

bench: setup ## measures against Spark's own streaming, writes benchmarks/latest.json
	$(BIN)/python benchmarks/run.py

lint: setup ## ruff, mypy --strict and the order of imports
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

fetch: setup postgres redis ## what the tests' servers are made of, with Maven, into ~/.cache/tidegate
	@$(BIN)/python -m tests.servers fetch

postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
	  || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -y -q postgresql-15; } \
	  || { echo "the tests need PostgreSQL's server: apt-get install -y postgresql-15" >&2; exit 1; }

redis:
	@command -v redis-server >/dev/null \
	  || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -y -q redis-server; } \
	  || { echo "the tests need Redis: apt-get install -y redis-server" >&2; exit 1; }

servers: setup ## a Spark master, two workers, Kafka and a schema registry on loopback, until Ctrl-C
	@$(BIN)/python -m tests.servers

clean: ## removes everything that can be made again
	rm -rf $(VENV) $(SPARK43) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
