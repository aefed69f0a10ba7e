# SPDX-License-Identifier: Apache-2.0
# Everything here works on a machine with Python (3.10 or newer) and make; `make` lists it.
# Commands never ask: standard input is closed, and what only root may do is printed instead.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run eval test check format images lock bench-transport bench-batching bench-prediction bench-rollout bench-busy mini-wam docs clean

PYTHON ?= python3
BIN := .venv/bin
PIP := flock .venv/.lock $(BIN)/python -m pip --disable-pip-version-check install --quiet
EPISODE ?= --backend mini-wam --platform libero --suite libero_spatial --task 0

help: ## list these commands
	@sed -n 's/^\([a-z%-]*\):[^#]*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) \
	    | awk -F '\t' '{ printf "  make %-18s %s\n", $$1, $$2 }'

run: .venv/.host ## set everything up, then play a LIBERO episode with the built-in model
	@$(BIN)/rpent-box run --build $(EPISODE) $(ARGS) </dev/null

eval: .venv/.host ## set everything up, then score the built-in model on 50 scenes of its task
	@$(BIN)/rpent-box eval --build $(EPISODE) --episodes 50 $(ARGS) </dev/null

test: .venv/.development ## run every test that this machine can run; say what was skipped and why
	@$(BIN)/python tests/run.py $(ARGS) </dev/null

check: .venv/.development ## ruff, mypy --strict, the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

format: .venv/.development ## format, and repair what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

image-base: ## make a base image without any image registry (needs root)
	@$(PYTHON) images/base/make_base.py $(ARGS) </dev/null

image-%: .venv/.host ## build a model's image, e.g. make image-fast-wam VARIANT=cpu
	@$(BIN)/rpent-box build --launcher docker $(VARIANT:%=--variant=%) $(ARGS) $* </dev/null

sim-%: .venv/.host ## build a simulator's image, e.g. make sim-libero
	@$(BIN)/rpent-box build --launcher docker $(ARGS) $* </dev/null

images: .venv/.host ## build every image, in its default variant
	@$(BIN)/rpent-box build --launcher docker --all $(ARGS) </dev/null

lock: .venv/.host ## resolve the locked requirements anew, e.g. make lock ARGS=fast-wam
	@$(BIN)/python images/lock.py $(ARGS) </dev/null

bench-transport: .venv/.bench ## round trips, side by side with other ways of moving frames
	@$(BIN)/python -m benchmarks.transport.run $(ARGS) </dev/null

bench-batching: .venv/.host ## how long a batch waits for company, beside fixed waits; ARGS=--served: a real worker too
	@$(BIN)/python benchmarks/batching/run.py $(ARGS) </dev/null

bench-prediction: .venv/.development ## what a prediction of mini-wam costs, alone and in batches
	@$(BIN)/python benchmarks/prediction/run.py $(ARGS) </dev/null

bench-rollout: .venv/.host ## whole episodes, side by side with vla-eval and the stock loop
	@$(BIN)/rpent-box build --launcher process libero </dev/null >/dev/null
	@$(BIN)/python -m benchmarks.rollout.run $(ARGS) </dev/null

bench-busy: .venv/.host ## how busy 1 to 16 simulators keep a worker whose policy takes 100 ms
	@$(BIN)/python -m benchmarks.rollout.busy $(ARGS) </dev/null

mini-wam: .venv/.train ## make the built-in model from nothing, and score it (resumable; hours of CPU)
	@$(BIN)/rpent-box mini all --build --out runs/mini-wam $(ARGS) </dev/null

docs: .venv/.host ## write docs/cli.md from the command line itself
	@$(BIN)/python -m rpent_box.cli.reference >docs/cli.md.new && mv docs/cli.md.new docs/cli.md

clean: ## remove environments, caches and build logs; images and runs stay
	rm -rf .venv .venvs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One virtual environment for the machine that launches; each mark stands for one set of packages.
# Of two commands that make it, one waits for the other.
.venv/.host: pyproject.toml platforms/libero/pyproject.toml platforms/robocasa/pyproject.toml \
		platforms/robotwin/pyproject.toml | .venv/.made
	@echo "installing rpent-box into .venv"
	@$(PIP) --editable '.[host]' --editable platforms/libero --editable platforms/robocasa \
	    --editable platforms/robotwin </dev/null
	@touch $@

.venv/.development: .venv/.host
	@echo "installing what the tests and checks need into .venv"
	@$(PIP) --editable '.[host,mini-wam,test,dev]' </dev/null
	@touch $@

.venv/.bench: .venv/.host
	@$(PIP) --editable '.[host,bench]' </dev/null
	@touch $@

.venv/.train: .venv/.host
	@$(PIP) --editable '.[host,train]' </dev/null
	@touch $@

.venv/.made:
	@$(PYTHON) images/base/make_venv.py .venv </dev/null
