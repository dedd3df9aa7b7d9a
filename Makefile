# Everything one does here, by name. `make` alone lists the targets.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
# The steps are in the order in which they are quickest to fail; cargo is parallel by itself.
.NOTPARALLEL:
.PHONY: help run test check fmt clippy deny unit suites kernel browser instructions bench bench-packets fuzz docs build release setup-build setup-run setup-test setup-browser

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup-run release ## build, show the tour on the shipped example, and check it with packets (installs a C linker, nftables and iproute2 if missing: root on Debian only)
	@PALISADE="$(TARGET)/release/palisade" scripts/tour

test: setup-test fmt clippy deny unit suites kernel browser instructions ## everything CI runs (installs a C linker, python3, valgrind, nftables, iproute2 and chromium if missing: root on Debian only)

check: setup-test fmt clippy deny ## format, clippy, dependency rules; no tests (installs as `make test`)

kernel: setup-test ## programs in the real kernel, suites as packets in namespaces: needs root, nft and ip (installs as `make test`)
	$(CARGO) test --locked -p palisade-nftables -p palisade-lab -- --ignored
	$(CARGO) test --locked -p palisade --test lab --test enforce -- --ignored

browser: setup-browser build ## the page of `palisade map` in a real browser (installs python3 and chromium if missing: root on Debian only)
	@PALISADE="$(TARGET)/debug/palisade" scripts/browser-test

instructions: setup-test ## fails if something needs more instructions than it did; UPDATE=1 takes what it needs now (installs as `make test`)
	$(CARGO) build --locked --release -p palisade-bench
	@BENCH="$(TARGET)/release/palisade-bench" scripts/instructions $(if $(UPDATE),--update)

bench: setup-build ## where the time goes in a large world, the index on the peers' scenarios, maps, each step under divan, then packets in the kernel if we are root; installs as `make run`
	$(CARGO) build --locked --release -p palisade-bench
	"$(TARGET)/release/palisade-bench" core
	"$(TARGET)/release/palisade-bench" engine all
	"$(TARGET)/release/palisade-bench" events S1
	"$(TARGET)/release/palisade-bench" events S6
	"$(TARGET)/release/palisade-bench" growth
	"$(TARGET)/release/palisade-bench" map
	"$(TARGET)/release/palisade-bench" map --hard --runs 1
	$(CARGO) bench --locked -p palisade-bench --bench core --bench engine
	"$(TARGET)/release/palisade-bench" packets --if-possible

bench-packets: ## only the last of it: what rules cost a packet, and how long they take to load; needs root (installs a C linker, nftables, iproute2 and iperf3 if missing: root on Debian only)
	@scripts/setup bench
	$(CARGO) build --locked --release -p palisade-bench
	"$(TARGET)/release/palisade-bench" packets

fuzz: setup-build ## every fuzz target for FUZZ_SECONDS [30]; needs nightly Rust, installs cargo-fuzz if missing
	@scripts/fuzz

docs: release ## regenerate what docs/ has from the binary; installs as `make run`
	@PALISADE="$(TARGET)/release/palisade" scripts/docs

# ------------------------------------------------------------------ the steps of the above

setup-build:
	@scripts/setup build

setup-run:
	@scripts/setup run

setup-test:
	@scripts/setup test

setup-browser:
	@scripts/setup browser

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

deny:
	@scripts/deny

unit:
	$(CARGO) test --locked --workspace

build: setup-build
	$(CARGO) build --locked -p palisade

# The binary that the suites run is the one the tests were built with: debug, with overflow checks.
suites: build
	@PALISADE="$(TARGET)/debug/palisade" scripts/run-suites

release: setup-build
	$(CARGO) build --locked --release -p palisade
