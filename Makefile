# `make` alone prints the targets.
SHELL = /bin/sh
CARGO = cargo
BOB ?= $(CURDIR)/target/debug/bob

.PHONY: help build release demo test check smoke clients real bench ci install clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

build: ## build the debug binary
	@$(CARGO) build

release: ## build the release binary
	@$(CARGO) build --release

demo: build ## hold one conversation with the demo model and show what is said on the wire
	@BOB='$(BOB)' sh tests/smoke/show tests/smoke/demo_tool.sh

test: ## run every test
	$(CARGO) test

check: ## formatting, lints, documentation, number of crates
	$(CARGO) fmt --check
	$(CARGO) clippy --quiet --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --quiet --no-deps
	@printf 'crates: %s\n' "$$($(CARGO) tree -e normal --prefix none | sed 's/ (.*//' | sort -u | wc -l)"

smoke: build ## run the heredoc scripts of tests/smoke
	@passed=0; failed=0; \
	for script in tests/smoke/*.sh; do \
	  if output=$$(BOB='$(BOB)' sh "$$script" 2>&1); then passed=$$((passed + 1)); \
	  else failed=$$((failed + 1)); printf '%s\n--- %s failed\n' "$$output" "$$script"; fi; \
	done; \
	echo "smoke: $$passed passed, $$failed failed"; [ "$$failed" -eq 0 ]

clients: build ## drive bob with the official ACP clients (installs them from npm and PyPI into target/)
	@BOB='$(BOB)' sh tests/clients/run '$(CURDIR)/target/clients'

real: build ## drive bob with a small real model and a mock of three providers (installs them into target/; WITH_LITELLM=1: one more)
	@BOB='$(BOB)' sh tests/real/run '$(CURDIR)/target/real'

bench: release ## measure the release binary against plain programs that do the same (ROWS='start memory': only these)
	@BOB='$(CURDIR)/target/release/bob' $(CARGO) bench --quiet --profile measure --bench measure -- $(ROWS)

ci: check test smoke clients ## what has to pass before a change goes in

install: ## install bob into cargo's bin folder
	$(CARGO) install --locked --path .

clean: ## remove what was built
	$(CARGO) clean
