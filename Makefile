# One front door: `make` says what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Show the main job on a Kubernetes of its own (KEEP=1 leaves it running, KUBECONFIG=… uses yours)
	@bash tests/lab/demo.sh

test: ## Run all tests, on a real API server, kubelet and Squid (needs root; installs what is missing)
	@bash tests/lab/needs.sh
	cargo test --workspace --no-fail-fast

lint: ## Check format, lints and that generated files are up to date
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	cargo test --quiet --package crds yaml
	@for script in .ci/run tests/lab/*.sh; do bash -n "$$script" || exit 1; done

crds: ## Write the custom resource definitions from the types
	cargo run --quiet --package crds --example generate

bench: ## Measure, as ratios within one run (ONLY=<name> for one row); also in target/bench.json
	@bash tests/lab/needs.sh
	cargo bench --quiet --bench bench

.PHONY: help demo test lint crds bench
