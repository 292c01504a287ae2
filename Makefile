# `make` alone lists the targets. Every target installs what it needs first.
NODE := bin/node --disable-warning=ExperimentalWarning
INSTALLED := node_modules/.package-lock.json
.PHONY: $(shell sed -n 's/^\([a-z-][a-z -]*\):.*/\1/p' Makefile)

help: ## print the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-24s %s\n", $$1, $$2 }'

# `make ingest-run` needs only the packages of the programs. Everything else needs all packages.
$(INSTALLED): package-lock.json package.json
	@bin/install-packages all
node_modules/.runtime: package-lock.json package.json
	@[ $(INSTALLED) -nt package-lock.json ] && touch $@ || bin/install-packages runtime
setup: $(INSTALLED) redis ## install the dependencies, and Redis if it is missing
redis postgres: ; @bin/ensure-$@ >/dev/null

ingest-run: node_modules/.runtime redis ## start Redis, a consumer with a SQLite warehouse, and the gateway; Ctrl-C stops all
	@exec $(NODE) --disable-sigusr1 bin/ingest-run.ts
dev: setup ## ingest-run, whose programs restart when a file of lib or bin changes
	@exec $(NODE) node_modules/tsx/dist/cli.mjs watch --clear-screen=false \
	  --include 'lib/**/*' --include 'bin/ingest-*' bin/ingest-run.ts
dev-cert: ## make a development certificate for another producer: make dev-cert NAME=shop AUD=ingest-gateway
	@bin/development-certificates "$${INGEST_STATE_DIR:-.ingest}/tls" 'urn:ingest:aud:$(or $(AUD),ingest-gateway)' '$(NAME)'

# The last lines of a run of all tests name its failures. Compiled code is kept for the next process.
export FAILURES_FILE := $(CURDIR)/node_modules/.cache/failures.txt
NAME_FAILURES = { cat '$(FAILURES_FILE)' >&2; exit 1; }
ingest-test ingest-test-long test: export NODE_COMPILE_CACHE := $(CURDIR)/node_modules/.cache/compile
ingest-test: setup postgres ## run all tests except the long ones; COVERAGE=1: under c8, with the thresholds of lib
	@rm -f '$(FAILURES_FILE)'; $(if $(COVERAGE),$(C8)) $(MAKE) --no-print-directory test || $(NAME_FAILURES)
# Thresholds in percent of lib: the values that the ordinary suite reaches. A killed program reports no coverage.
C8 := bin/node node_modules/c8/bin/c8.js --reporter=text-summary --include 'lib/**' --all --src lib --merge-async \
  --temp-directory node_modules/.cache/coverage --check-coverage --lines 97 --branches 93 --functions 0 --statements 0

# The files of a list of folders share a process, and their cases run one after the other. A file in another folder, or
# named *.apart.test.ts, has a process of its own. More of these run than there are cores, because most wait for others.
together := bench deploy gateway http identity ingest process simulation telemetry
waiting := admin send
analyzing := toollint/*
SHARED := together waiting analyzing
CONCURRENCY ?= 6
RUN_TESTS = $(NODE) --test --test-concurrency=$(CONCURRENCY) --test-timeout=180000 --test-reporter=./test/support/reporter.ts
files = $(filter-out %.apart.test.ts,$(wildcard $(patsubst %,test/%/*.test.ts,$(1))))
# A case has the tag `long` if a cheaper case tests the same promise.
NOT_LONG := --experimental-test-tag-filter='not long'
# A killed program does not save its compiled code, so in a fresh clone each program runs once before the tests.
node_modules/.cache/compile: | $(INSTALLED)
	@for program in gateway consumer admin; do bin/ingest-$$program --version >/dev/null & done; wait
test: setup postgres node_modules/.cache/compile ## run the tests without the list of failures; TESTS='test/http/*.test.ts' selects files
	@$(if $(TESTS),$(RUN_TESTS) $(NOT_LONG) $(TESTS),$(MAKE) --no-print-directory -j4 $(SHARED) apart)
# A case that times out leaves handles open, so a shared process is forced to exit after its last test. The others run
# hooks after it, so only a watchdog ends them. The shared ones last longest, so the others leave them the processor.
$(SHARED):
	@$(RUN_TESTS) $(NOT_LONG) --test-isolation=none --test-force-exit $(call files,$($@))
apart:
	@timeout 900 nice -n 4 $(RUN_TESTS) $(NOT_LONG) $(filter-out $(call files,$(foreach list,$(SHARED),$($(list)))),$(shell find test -name '*.test.ts'))
ingest-test-long: setup postgres ## run the long tests (nightly and before a release): files *.long.ts, and cases with the tag
	@rm -f '$(FAILURES_FILE)'; failed=; $(RUN_TESTS) 'test/**/*.long.ts' || failed=1; \
	$(RUN_TESTS) --experimental-test-tag-filter=long $$(grep -rlF "['long']" --include=*.test.ts test) || failed=1; \
	[ -z "$$failed" ] || $(NAME_FAILURES)
careless: setup postgres ## which tests notice each careless change of test/careless? Hours; CARELESS=http,consumer selects, CARELESS_ALL=1 runs all tests
	@$(NODE) test/careless/matrix.ts

# Long runs of one kind of test, with a report of each case.
campaign: FILES = test/campaign/*.long.ts ## run random faults under load, after the broken builds; CAMPAIGN_ROUNDS, CAMPAIGN_WAREHOUSE, CAMPAIGN_SEED
campaign: export CAMPAIGN_ROUNDS ?= 200
soak: FILES = test/soak/soak.ts ## check that memory stays level under load for 15 minutes; SOAK_SECONDS, SOAK_RATE
fuzz: FILES = test/fuzz/fuzz.test.ts ## send a million mutated requests to a gateway; FUZZ_REQUESTS, FUZZ_SEED, FUZZ_FROM
fuzz: export FUZZ_REQUESTS ?= 1000000
rolling-restart: FILES = test/rolling/rolling-restart.long.ts ## restart two gateways ten times each under load, behind a balancer and with a shared port
rolling-restart: export ROLLING_RESTARTS ?= 10
fail-over: FILES = test/fail-over/fail-over.ts ## lose masters under 2,000 events a second; FAIL_OVER_ROUNDS (50), FAIL_OVER_ON='sentinel cluster', FAIL_OVER_REPLICAS='2 1 0'
campaign soak fuzz rolling-restart fail-over: setup postgres
	$(NODE) --test --test-concurrency=1 --test-reporter=spec $(FILES)
simulate: setup ## run interleavings with faults in virtual time, after the broken builds; SIM_SEEDS (300), SIM_FROM (skips the builds)
	@[ -n "$(SIM_FROM)" ] || SIM_BUILDS=all $(NODE) --test --test-reporter=spec test/simulation/broken-builds.long.ts
	@$(NODE) test/simulation/simulate.ts

# Tests that need more than this machine may have: a browser, compilers, other runtimes, or a mirror of packages.
image-test: FILES = test/deploy/container.ts ## build the Containerfile with buildah on a local base image, and land events with it
installed-test: FILES = test/deploy/installed.ts ## type the commands of deploy/install.md on an empty Debian under systemd, as root; needs Debian's mirror
snippets: FILES = test/clients/ways.long.ts ## run all programs of openapi/PRODUCERS.md, with Debian's golang-go and default-jdk-headless
snippets: export SNIPPETS = all
browser-test: FILES = test/browser/status-page.ts test/browser/report.ts ## test the status page and toollint's HTML report in Chromium; pictures are in .ingest/pictures
status-picture: FILES = test/browser/picture.ts ## take the README's picture of the status page, on a quiet machine
sarif-check: FILES = test/toollint/convert/sarif-multitool.check.ts ## check toollint's SARIF with Microsoft's sarif-multitool and GitHub's rules; installs 100 MB
runtimes: FILES = test/package/client.long.ts ## test ingest-client on Node 20, 22, 24 and 26, Bun and Deno (Linux x64), from npm packages in .ingest/runtimes
runtimes: export RUNTIMES = all
image-test: postgres
image-test installed-test snippets browser-test status-picture sarif-check runtimes: setup
	@$(RUN_TESTS) --test-timeout=900000 $(FILES)

package: typecheck ## build package/: three npm packages with bills of materials, an archive and a Debian package with node
	@$(NODE) bin/make-package.ts && bin/make-archives package
bench: setup ## run all measurements; BENCH_ROUNDS, BENCH_SECONDS, BENCH_CASES=name,name
	@exec $(NODE) bench/run.ts
bench-gate: setup ## compare latency and CPU with their limits; the last line is the verdict, after which make adds `Error 1` (worse) or `Error 3` (no verdict) and exits with 2
	@exec $(NODE) bench/gate.ts
bench-gate-check: setup ## show that the gate calls six worse builds worse; 45 minutes on a quiet machine; GATE_CHECK='stands,answers' selects builds
	@exec $(NODE) bench/gate-check.ts

# `report` applies the rules of `lint` with a stricter gate, so `checks` does not run `lint` too. Types are computed once
# and do not follow changes as in an editor, which needs a tenth of the CPU time. Unchanged files keep their format check.
checks: $(INSTALLED) ## run the type check, the format check and the linter
	@$(MAKE) --no-print-directory -j2 --output-sync typecheck format-check report
lint report: export TSESTREE_SINGLE_RUN := true
lint: $(INSTALLED) format-check ## run eslint, including the layer table, and the format check
	bin/node node_modules/eslint/bin/eslint.js --max-warnings 0 .
PRETTIER := bin/node node_modules/prettier/bin/prettier.cjs --log-level=warn
format: $(INSTALLED) ## format all code (prettier, 120 columns)
	$(PRETTIER) --write .
format-check: $(INSTALLED)
	$(PRETTIER) --check --cache --cache-strategy=content --cache-location=node_modules/.cache/prettier.json .
report: $(INSTALLED) ## scan this repository with toollint and the strict gate
	@bin/toollint scan --gate strict --format pretty
typecheck: $(INSTALLED) ## run the TypeScript compiler without output
	@$(NODE) node_modules/typescript-native/bin/tsc --project tsconfig.json
prometheus-rule: ## write deploy/alerts.yml into the object for the Prometheus operator
	@{ printf '# Written by `make prometheus-rule`.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: ingest\nspec:\n'; \
	  sed 's/^\(.\)/  \1/' deploy/alerts.yml; } >deploy/kubernetes/components/prometheus-rule/prometheus-rule.yaml
