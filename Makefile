# One front door: `make` says what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash

help: ## Say what there is
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Show the main job on a Kubernetes of its own (KVM=1 with a VM, GCP=local with one of a stand-in for Google, KEEP=1 leaves it running, KUBECONFIG=… uses yours)
	@bash tests/lab/demo.sh

needs: ## Install what the build and the tests need beside Rust, where it is missing (needs root)
	@bash tests/lab/needs.sh

test: needs ## Run all tests, on a real API server, kubelet and Squid (needs root)
	cargo test --workspace --no-fail-fast

lint: needs ## Check format, lints and that generated files are up to date
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	cargo test --quiet --package crds yaml
	cargo test --quiet --package proxy-operator --lib reference
	@for script in .ci/run tests/lab/*.sh; do bash -n "$$script" || exit 1; done

crds: needs ## Write the custom resource definitions from the types
	cargo run --quiet --package crds --example generate

reference: needs ## Write docs/reference.md from the flags, metrics and reasons in the code
	cargo run --quiet --example reference

bench: needs ## Measure, as ratios within one run (ONLY=<name> for one row); also in target/bench.json
	cargo bench --quiet --bench bench

.PHONY: help demo needs test lint crds reference bench
