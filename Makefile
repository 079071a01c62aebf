# Everything runs in a virtual environment that is made when it is missing or older than its two inputs.
# ARGS goes to the command: make serve ARGS='--port 9000', make test ARGS='-k queue -x'.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

ALONE := $(patsubst %,tests/e2e/test_%.py,edge feeds health)
CLIENTS_ALL := opencode ai-sdk hermes tool-eval-bench langchain aider open-webui
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.installed-peers
CLIENTS := $(VENV)/.installed-clients
TYPESCRIPT := typescript@7.0.2
TSC := $(VENV)/node/.installed-$(TYPESCRIPT)
INSTALL := $(BIN)/python -m tools.install $(BIN)/python -c constraints.txt
FLAKE8_ASYNC := --startable-in-context-manager=run,serve,supervise \
	--enable=ASYNC1,ASYNC2,ASYNC4,ASYNC900 --disable=ASYNC124
ASYNC_WORDS := \b(async|trio|anyio|asyncio)\b|BaseException|ExceptionGroup|except(\*|:)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup serve clients test test-full test-clients fuzz check check-rules check-types check-imports \
	format coverage-spec docs bench clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make the virtual environment.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Tandem needs Python 3.11 or later: make PYTHON=python3.11 …")'
	@$(PYTHON) -m venv --clear --without-pip $(VENV)

# By the pip that Python has, where it has one: to unpack the one of its library takes longer.
SEED := --disable-pip-version-check --quiet install -c constraints.txt pip uv
$(BIN)/uv: | $(BIN)/python
	@$(PYTHON) -m pip --python $(BIN)/python $(SEED) 2>/dev/null || \
		{ $(BIN)/python -m ensurepip >/dev/null && $(BIN)/python -m pip $(SEED); }

$(STAMP): pyproject.toml constraints.txt | $(BIN)/uv
	@echo "Installing Tandem into $(VENV); the first time takes a minute or more." >&2
	@$(INSTALL) -e '.[dev]'
	@touch $@

serve: $(STAMP) ## Serve the embedded model, fetched first where it is missing, on 127.0.0.1:8000.
	@$(BIN)/tandem serve --usage-ledger usage/ledger.sqlite3 --conductor-config conductor --suffix-store suffix --disk-cache on $(ARGS)

$(CLIENTS): tools/install_clients.py | $(BIN)/uv
	@echo "Installing the clients that the tests drive." >&2
	@$(BIN)/python -m tools.install_clients
	@touch $@

clients: $(CLIENTS) ## Install the real clients that the tests drive.

# The browser has a process of its own beside the two workers: it waits for what it sees, however long that takes. What
# looks at the clock comes last and runs alone. The rest shares the cores; in order, since the files with the fewest
# tests, which would come last, are not the shortest. One thread each: two teams of threads on the same cores wait for
# each other. Status 5 is "no tests": ARGS may choose from one of the three alone.
RUN := $(BIN)/python -m pytest -m 'not slow and not gpu'
test: $(STAMP) $(CLIENTS) ## Run the tests that need neither long nor a GPU.
	@seen=$$(mktemp); status=0; \
	OMP_NUM_THREADS=1 $(RUN) tests/browser $(ARGS) >$$seen 2>&1 & browser=$$!; \
	OMP_NUM_THREADS=1 $(RUN) -n 2 --dist loadfile --no-loadscope-reorder --ignore=tests/browser $(ALONE:%=--ignore=%) $(ARGS) || [ $$? -eq 5 ] || status=1; \
	wait $$browser || [ $$? -eq 5 ] || status=1; \
	cat $$seen; rm -f $$seen; exit $$status
	@$(RUN) $(ALONE) $(ARGS) || [ $$? -eq 5 ]

test-full: $(STAMP) $(CLIENTS) ## Run the slow tests too.
	@$(BIN)/python -m pytest -m 'not gpu' $(ARGS)

test-clients: $(STAMP) ## Run every real client against the server, those that take minutes to install included.
	@$(BIN)/python -m tools.install_clients $(CLIENTS_ALL)
	@$(BIN)/python -m pytest tests/clients $(ARGS)

fuzz: $(STAMP) ## Look for inputs that break codec, splitter and stop matcher: 20,000 examples a property.
	@$(BIN)/python -m pytest --hypothesis-profile=fuzz --timeout=0 tests/engine/reading $(ARGS)

# A pinned release, beside the Python packages; only the type check of the dashboard needs it.
$(TSC): | $(BIN)/python
	@command -v npm >/dev/null || { echo "make check needs npm, for the types of the dashboard's JavaScript." >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --no-save --prefix $(VENV)/node $(TYPESCRIPT)
	@touch $@

check: check-rules check-types check-imports ## Format, lint, types (Python and JavaScript), and who imports whom.

# flake8-async reads some hundred lines a second, so it gets only the files in which its rules can find anything.
check-rules: $(STAMP) $(TSC)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(VENV)/node/node_modules/.bin/tsc -p tools/dashboard
	@$(BIN)/flake8-async $(FLAKE8_ASYNC) $$(grep -rlE --include='*.py' '$(ASYNC_WORDS)' tandem)

check-types: $(STAMP)
	@$(BIN)/mypy

check-imports: $(STAMP)
	@$(BIN)/python -m pytest -q tests/project/test_imports.py

format: $(STAMP) ## Format the code and sort its imports.
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format .

coverage-spec: $(STAMP) ## List the requirements of docs/spec/ with and without a test.
	@$(BIN)/python -m tools.coverage_spec

docs: SCHEMA = tandem/conductor/monitor/supervisor.schema.json
docs: $(STAMP) ## Write docs/settings.md and docs/fields.md anew.
	@$(BIN)/python -m tools.settings_doc
	@$(BIN)/tandem policy check --schema > $(SCHEMA).new && mv $(SCHEMA).new $(SCHEMA)
	@$(BIN)/python -m tools.conductor_schemas
	@$(BIN)/python -m tools.fields_doc

$(PEERS): $(STAMP)
	@$(INSTALL) -e '.[bench]'
	@touch $@

bench: $(PEERS) ## Measure beside llama.cpp and transformers; tables go to bench/results/. A quiet machine, four minutes.
	@$(BIN)/python -m bench all --write $(ARGS)

clean: ## Remove caches and build products; the virtual environment stays.
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
