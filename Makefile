# Everything starts here: `make demo`, then `make test`. Each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
READY := $(VENV)/.ready
LOCK := requirements.lock
JOBS ?= 2

.PHONY: help setup demo stream-demo test check fix bench bench-stream bench-nightly bench-warehouses bench-python engines flink-up flink-down kafka-up kafka-down upgrade clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make .venv with every locked dependency (quick when it is there)

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "crowdbeam needs Python 3.10 or newer; try make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep -oE '^uv==[0-9.]+' $(LOCK))
	@VIRTUAL_ENV=$(VENV) $(UV) pip sync --quiet --compile-bytecode --require-hashes $(LOCK)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat --editable .
	@$(BIN)/python -m compileall -q crowdcore pipelines schemas
	@touch $(READY)

demo: setup  ## simulate a crowd, aggregate it, compare with the hidden truth
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

stream-demo: setup  ## a stream to look at: Kafka, Prism, a crowd with spammers, a minute of labels
	@$(BIN)/python -m engines fetch kafka prism
	@$(BIN)/python -m examples.stream_demo

test: setup  ## every test, doctest and README example; those of an engine that cannot be had are skipped, not in CI
	@$(BIN)/python -m engines fetch || test -z "$$CI"
	@$(BIN)/python -m pytest -n $(JOBS) --maxschedchunk 1

check: setup  ## ruff, mypy strict, import-linter
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --no-cache --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

fix: setup  ## format, and mend what ruff can mend
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup  ## the figures of the README, measured again (about 20 minutes)
	@$(BIN)/python -m benchmarks

bench-stream: engines  ## the same for the stream, on Kafka with Prism and Flink (about 35 minutes)
	@$(BIN)/python -m benchmarks.stream

bench-nightly: setup  ## a night on ledgers of up to 10M labels beside the full batch (about 15 minutes)
	@$(BIN)/python -m benchmarks.nightly

bench-warehouses: engines  ## loads into Postgres, DuckDB and Iceberg beside their bare clients (about 3 minutes)
	@$(BIN)/python -m benchmarks.warehouses

bench-python: setup  ## the estimators on a pandas frame beside crowd-kit's (about 3 minutes)
	@$(BIN)/python -m benchmarks.door

engines: setup  ## fetch Prism, Flink, Kafka and Postgres for the tests (minutes at first, then quick)
	@$(BIN)/python -m engines fetch

flink-up: setup  ## start a Flink cluster with Beam's job server and Python workers
	@$(BIN)/python -m engines up flink

flink-down: setup  ## stop it
	@$(BIN)/python -m engines down flink

kafka-up: setup  ## start a Kafka broker
	@$(BIN)/python -m engines up kafka

kafka-down: setup  ## stop it
	@$(BIN)/python -m engines down kafka

upgrade: setup  ## lock the newest versions of all dependencies
	@$(UV) pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
		--no-emit-index-url --no-header pyproject.toml --group dev -o $(LOCK)
	@$(UV) pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
		--no-emit-index-url --no-header benchmarks/crowd-kit.in -o benchmarks/crowd-kit.lock
	@for name in $$(basename -s .in tests/environments/*.in); do $(UV) pip compile --quiet --upgrade --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		tests/environments/$$name.in -o tests/environments/$$name.lock; done

clean:  ## remove what the targets made
	rm -rf $(VENV) .cache demo-run build *.egg-info .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
