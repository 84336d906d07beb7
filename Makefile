# Everything here works on a fresh machine with Python 3.11 or newer, make and pip.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := aws,dev,bench,client,docs,keys,mcp,openai,otel,postgres,qdrant,server,sqlserver,tiktoken,vault
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo serve test test-fast citus test-citus test-pythons test-integrations lint format docs package texts bench bench-quick clean

help:
	@echo "make demo    install into .venv and watch an agent remember"
	@echo "make serve   install into .venv and run the REST service, on this machine alone"
	@echo "make test    install what the tests need and run them all"
	@echo "make test-fast     those that need SQLite alone and take little time; under two minutes"
	@echo "make citus   start Citus in containers: a coordinator and two workers"
	@echo "make test-citus    the suites for PostgreSQL on the Citus of OCTOPUS_TEST_CITUS_URL"
	@echo "make test-pythons  run them on every Python from 3.11 on that this machine has"
	@echo "make test-integrations  test each framework's adapter with the framework installed"
	@echo "make lint    style, types, layers"
	@echo "make format  let ruff mend what it can"
	@echo "make docs    build the documentation site into build/docs/site and check every link"
	@echo "make package build wheel and sdist, check them, and use them on every Python that this machine has"
	@echo "make texts   make again what installing makes: compiled statements and the list of MCP tools, which speed up the start"
	@echo "make bench   measure everything, beside other libraries, up to a million turns; an hour"
	@echo "make bench-quick  Octopus, and the libraries that are there already, on little data, in two minutes"

# With the server, because the demo suggests to look into its data with the inspector.
demo: $(VENV)/installed-server
	@$(BIN)/octopus demo
	@echo "Here octopus is $(BIN)/octopus; to call it by its name, run: . $(BIN)/activate"

serve: $(VENV)/installed-server
	@$(BIN)/octopus serve --dev

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m 'not install'

# What a test needs is told by its markers, which conftest.py sets or enforces: no list can go stale.
FAST_TESTS := tests/unit tests/engine tests/stores tests/indexes tests/keys tests/faces tests/integrations \
	tests/evaluation tests/project
FAST_MARKERS := not server and not process and not slow and not qdrant

# The plugin of schemathesis serves tests/acceptance alone, and takes long to import.
test-fast: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -n auto --dist loadfile -p no:schemathesis --hypothesis-profile fast \
		-m '$(FAST_MARKERS)' $(FAST_TESTS)

citus:
	docker compose -f tests/support/citus.yaml up -d --wait coordinator worker-1 worker-2
	docker compose -f tests/support/citus.yaml run --rm nodes

# Every PostgreSQL that a test asks for is a database on that Citus, distributed.
CITUS_TESTS := tests/stores tests/engine tests/indexes tests/acceptance/test_isolation.py
test-citus: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m 'not install and not qdrant' \
		-k 'postgres or citus or Postgres or buckets or isolation' $(CITUS_TESTS)

# The script needs nothing but Python; each version gets an environment of its own in .venvs.
test-pythons: $(VENV)/bin/python
	$(BIN)/python scripts/test_pythons.py --extras '$(EXTRAS)'

# Each framework gets an environment of its own in .venvs/integrations.
test-integrations: $(VENV)/bin/python
	$(BIN)/python scripts/test_integrations.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed-docs
	$(BIN)/python scripts/build_docs.py

package: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -m install tests/project
	$(BIN)/python scripts/check_package.py

texts: $(VENV)/installed-dev
	$(BIN)/python scripts/build_products.py

bench: texts
	$(BIN)/python -m benchmarks

bench-quick: texts
	$(BIN)/python -m benchmarks.run --quick

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Octopus needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/installed-server: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[server]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@ $(VENV)/installed $(VENV)/installed-server

$(VENV)/installed-docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) .venvs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
