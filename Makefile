# The one entry. Each target is a line over xtask/, where the work is done; `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help setup run test test-guest test-kubernetes test-prometheus lint ui bench soak fuzz install install-library uninstall package test-package

# rustup puts cargo here, and a shell opened before it was installed does not know.
ifeq (,$(findstring /.cargo/bin,$(PATH)))
export PATH := $(HOME)/.cargo/bin:$(PATH)
endif

# Some users' PATH lacks the folders of smartctl, dmsetup and other programs for administrators.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

# What `make run` passes to surefoot, such as ARGS="watch --replay FILE".
ARGS ?= watch

# `make run SUDO=` and `make test SUDO=` never ask for root; they then see and test less, and say so.
SUDO ?= sudo
export SUDO

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

setup: ## install what running and testing need and this machine lacks
	@sh xtask/setup.sh test

run: ## build surefoot and watch this host, in the terminal and on a web page
	@sh xtask/setup.sh run
	cargo build --profile quick --locked --package surefoot-cli
	@sh xtask/run.sh $(ARGS)

test: ## set up, then run every check and every test
	@sh xtask/setup.sh test
	@cargo xtask test

test-guest: ## the tests that boot another kernel in QEMU, alone: machine checks, lost pages, drives, an older verifier
	@sh xtask/setup.sh test
	@cargo xtask guest

test-kubernetes: ## the tests with a real Kubernetes API server, alone; needs Go, and builds the server once (some five minutes)
	@sh xtask/setup.sh test
	@sh xtask/setup.sh kubernetes
	@cargo xtask kubernetes

test-prometheus: ## the tests with Prometheus, alone, also with a current one; needs Go, and builds it once (some three minutes)
	@sh xtask/setup.sh test
	@sh xtask/setup.sh prometheus
	@cargo xtask prometheus

lint: ## the checks alone: format, clippy, layers, licences, house rules, links, shell
	@sh xtask/setup.sh test
	@cargo xtask lint

ui: ## build the web page anew into ui/dist
	@sh xtask/setup.sh test
	@cargo xtask ui

soak: ## checkpoints and remedies at full size, 10,000 seeded runs of each with faults, and all planted faults of the interface
	@sh xtask/setup.sh test
	@cargo xtask soak

# `make fuzz SECONDS=180 TARGETS="frames symbols"`; SANITIZE=1 with the address sanitizer of a nightly compiler.
SECONDS ?= 60
TARGETS ?=
SANITIZE ?=

fuzz: ## look for bytes that harm whoever reads them: every target for SECONDS=60
	@cargo xtask fuzz $(if $(SANITIZE),--sanitize) $(SECONDS) $(TARGETS)

bench: ## measure side by side with other tools and print ratios
	@sh xtask/setup.sh bench
	@cargo xtask bench

# `make install PREFIX=/usr DESTDIR=/tmp/package`; xtask/install.sh explains these, LIBDIR, PROFILE and BUILT.
install: ## build and install the command with man pages, completions and units, and the C libraries, below PREFIX (/usr/local)
	@$(if $(BUILT),,sh xtask/setup.sh run)
	@sh xtask/install.sh all

install-library: ## the C libraries alone: headers, pkg-config and CMake files, Fortran modules
	@$(if $(BUILT),,sh xtask/setup.sh library)
	@sh xtask/install.sh library

# `make package PACKAGES="deb wheel"`; xtask/package.sh explains BUILT and others.
PACKAGES ?=

package: ## build the .deb, the .rpm and the wheel for Python into target/package
	@$(if $(BUILT),,sh xtask/setup.sh run)
	@sh xtask/package.sh $(PACKAGES)

test-package: ## install, upgrade, remove and purge the .deb that make package built, in a fresh Debian, as root
	@sh xtask/setup.sh package
	@sh e2e/package.sh

uninstall: ## remove what was installed below PREFIX, and nothing else
	@sh xtask/install.sh uninstall
