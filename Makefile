# Two commands on a fresh machine: `make demo` and `make test`. All others build on them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-all fuzz check format clean

demo: $(STAMP)
	$(BIN)/securefg run configs/quickstart.yaml --fresh
	$(BIN)/securefg audit "$$(ls -td runs/quickstart-s*/ | head -1)"

# What CI runs: about a quarter of an hour on two idle cores.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -q -m "not slow"

# With long repetitions, kills and statistical tests: over an hour.
test-all: $(STAMP)
	$(BIN)/python -m pytest -n 2 -q

# Mutated configs, tables, frames, checkpoints and folders, many more than in the tests.
fuzz: $(STAMP)
	SECUREFG_FUZZ=long $(BIN)/python -m pytest -n 2 -q tests/fuzz

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch is pinned in constraints.txt: left to choose, pip would fetch gigabytes of CUDA libraries.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("securefg needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
