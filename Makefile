# The one front door. `make setup` once, then `make check` before every commit.
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
JOBS ?= 2
# Benchmarks and fault tests run on a PostgreSQL cluster of their own, made and removed by tests/cluster.py.

.PHONY: help setup lock check fix dev lint types imports site test requirements mutants check-databases decay bare against chaos deploys endings floods hostile hostile-clients limits redrive lists fuzz metrics outside webhooks console console-quick client screenshots worker-rates endure bench bench-setup bench-quick locks clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s '	'

setup: ## install what development needs, at locked versions with hashes
	@command -v uv >/dev/null || $(PYTHON) -m pip install --quiet uv
	test -x $(BIN)/python || uv venv --quiet --python $(PYTHON) $(VENV)
	uv pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock
	uv pip install --quiet --python $(BIN)/python --no-deps -e .

lock: ## resolve the dependencies anew
	uv pip compile --quiet pyproject.toml --group dev --generate-hashes --universal --python-version 3.11 --no-header -o requirements.lock

check: console lint imports types site test ## all that must hold before a commit

console: console/node_modules console/tools/node_modules ## check the console's sources and build it into the package
	cd console && npm run --silent lint && npm run --silent test && npm run --silent build

console/node_modules: console/package-lock.json
	cd console && npm ci --silent --no-audit --no-fund
	touch console/node_modules

# What checks and writes sources; the build needs none of it.
# `npm ci` wants every platform's build of the linter in the lock file, also those that a registry lacks. Versions are
# exact in package.json, and `npm install` checks the hashes in the lock file.
console/tools/node_modules: console/tools/package-lock.json
	cd console/tools && npm install --silent --no-save --no-audit --no-fund
	touch console/tools/node_modules

client: console/tools/node_modules ## write the console's client anew from the OpenAPI document
	console/tools/node_modules/.bin/openapi-typescript docs/reference/openapi.json -o console/src/api/document.d.ts

screenshots: console ## every page of the console: light, dark, empty, loaded, without a database, narrow
	$(BIN)/python -m tests.console.screenshots build/console

lint: ## format, lint, spelling
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet --output-format concise .
	$(BIN)/codespell --skip src/holdfast/http/pages src tests benchmarks docs *.md

imports: ## rooms import downward only
	$(BIN)/lint-imports --no-logo

types: ## mypy, strict
	$(BIN)/mypy --no-error-summary

test: ## every test, on a real PostgreSQL
	$(BIN)/pytest -n $(JOBS)

site: ## the documentation as a site, without a warning
	$(BIN)/mkdocs build --quiet --strict

fix: ## format and mend what can be mended
	$(BIN)/ruff check --fix --quiet --output-format concise .
	$(BIN)/ruff format --quiet .

dev: ## rerun the tests that failed last, stop at the first
	$(BIN)/pytest --last-failed --exitfirst

requirements: ## run the tests that show a numbered requirement, a line per number
	$(BIN)/pytest -n $(JOBS) -q --requirements

mutants: ## seed each fault of tests/faults.py and name the test that catches it
	$(BIN)/python -m tests.mutants

check-databases: ## all tests on PostgreSQL 15, on 18, and through PgBouncer
	$(BIN)/python -m tests.databases

bare: ## bare rates against the frozen statements, ABAB, as JSON
	$(BIN)/python -m benchmarks.bare --write docs/benchmarks/bare.json

against: ## the working tree against a release: BASE=0.1.0 WHAT=drain|enqueue|finish|limits [GATE=0.97] [WRITE=FILE]
	$(BIN)/python -m benchmarks.against --base $(BASE) --what $(WHAT) $(if $(GATE),--gate $(GATE)) $(if $(WRITE),--write $(WRITE))

decay: ## enqueue, claim, settle under old snapshots and large tables, as JSON
	$(BIN)/python -m benchmarks.decay --write docs/benchmarks/decay.json

clean: ## remove what was built
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

chaos: ## 100,000 tasks under kills, stops, cuts and restarts of the database; the seed is printed
	$(BIN)/python -m tests.chaos --tasks 100000 --seconds 150 --write docs/benchmarks/chaos.json $(if $(SEED),--seed $(SEED))

deploys: ## twenty rolling restarts under load, half of them with a version that lacks a kind
	HOLDFAST_TEST_DEPLOYS=20 $(BIN)/pytest -q -s -k rolling_restarts tests/worker/test_deploys.py

endings: ## kill 200 executors between the end of their handlers and the settle
	$(BIN)/python -m tests.endings --rounds 200

floods: ## a million tasks of one tenant beside another tenant's few: how long those wait
	$(BIN)/python -m tests.floods --write docs/benchmarks/floods.json

limits: ## limits, rates, turns and lanes while workers are killed, then limits at size, as JSON
	$(BIN)/python -m tests.pressure --write docs/benchmarks/pressure.json
	$(BIN)/python -m tests.pressure --only "fifty at once" --slower 10 --write docs/benchmarks/pressure-slower.json
	$(BIN)/python -m benchmarks.limits --write docs/benchmarks/limits.json

locks: ## every table locked while a worker runs: backends, log lines, how soon it resumes
	$(BIN)/python -m tests.locks

bench-setup: ## install the peers that `make bench` measures, each in an environment of its own
	$(BIN)/python -m benchmarks.systems

bench: ## PostgreSQL itself, Holdfast and its peers side by side, then other shapes of work: JSON and charts
	$(BIN)/python -m benchmarks.suite --write docs/benchmarks/suite.json
	$(BIN)/python -m benchmarks.shapes --write docs/benchmarks/shapes.json
	$(BIN)/python -m benchmarks.charts

bench-quick: ## PostgreSQL itself and Holdfast, under a minute; fails below the floor
	$(BIN)/python -m benchmarks.suite --quick

lists: ## every list of the HTTP API beside millions, as JSON
	$(BIN)/python -m benchmarks.lists --write docs/benchmarks/lists.json

fuzz: ## a hundred thousand requests made of the API's own document
	HOLDFAST_TEST_FUZZ=90000 $(BIN)/python -m pytest -q -n 2 tests/http_api/test_fuzz.py
	$(BIN)/python -m benchmarks.fuzzing

metrics: ## what a real Prometheus sees while processes are killed, and what counting costs, as JSON
	$(BIN)/python -m benchmarks.scraped --write docs/benchmarks/metrics.json

outside: ## ten thousand tasks by workers in shell, with kills
	HOLDFAST_TEST_OUTSIDE_TASKS=10000 $(BIN)/python -m pytest -q tests/http_api/test_shell_worker.py

hostile-clients: ## an operator's requests while one viewer holds 500 exports, 500 streams and 1,000 half-sent requests
	$(BIN)/python -m tests.hostile_clients --each 500 --seconds 60

redrive: ## a million dead letters redriven beside live work, then while drivers are killed, as JSON
	$(BIN)/python -m benchmarks.redrive --write docs/benchmarks/redrive.json

webhooks: ## deliveries at speed, beside dead receivers, and while processes are killed, as JSON
	$(BIN)/python -m benchmarks.webhooks --write docs/benchmarks/webhooks.json

hostile: ## ten thousand hostile payloads, messages and answers through every door
	$(BIN)/python -m tests.hostile

console-quick: console ## how quick the console is beside a million dead letters, as JSON
	$(BIN)/python -m benchmarks.console --write docs/benchmarks/console.json

worker-rates: ## how fast a whole worker drains and starts, and what it costs when idle, as JSON
	$(BIN)/python -m benchmarks.worker --write docs/benchmarks/worker.json

endure: ## two million tasks through one worker that replaces its processes, as JSON
	$(BIN)/python -m benchmarks.endure --write docs/benchmarks/endure.json
