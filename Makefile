# Two commands on a fresh machine: `make demo` and `make test`. All others build on them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FLOWER := .venv-flower
# Hundreds of processes start in the tests: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Tests run side by side: threads of their own would only wait for one another.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: demo install test test-failed test-unit test-all coverage test-flower language mutants fuzz bench bench-check bench-page docs check format clean test-gpu

demo: $(STAMP)
	$(BIN)/securefg demo
	@echo "The commands above need the virtual environment:"
	@echo "  . $(BIN)/activate"

install: $(STAMP)

# The command that CI runs. A worker keeps to its part of the tests, and helps others at the end, so
# that tests of one file share their fixtures. Three workers, since some tests wait for processes.
test: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not slow"

# The tests that failed in the last run, one by one, if they are at most ten.
test-failed: $(STAMP)
	$(BIN)/python -c 'import json, sys; n = len(json.load(open(".pytest_cache/v/cache/lastfailed"))); sys.exit(f"{n} tests failed, more than ten." if n > 10 else 0)'
	$(ONE_THREAD) $(BIN)/python -m pytest -q -m "not slow" --last-failed --last-failed-no-failures none

# Tests without commands, processes of parties and whole audits, for use while coding.
test-unit: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not slow" tests/unit

# Which lines the tests of a package run, in the terminal and in htmlcov/index.html.
coverage: $(STAMP)
	$(BIN)/pip install -q -c constraints.txt pytest-cov
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not slow" \
	  --cov=securefg --cov=attacks --cov=audits --cov-report=term:skip-covered --cov-report=html

# With long repetitions, kills and statistical tests: over an hour.
test-all: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -q

# Every method on this machine's GPU against the CPU. Without a GPU nothing is proved, and it fails.
test-gpu: $(STAMP)
	$(BIN)/python -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "GPU: found none that PyTorch can use; expected one. Install a PyTorch build with CUDA")'
	$(BIN)/python -m pytest -q tests/gpu
	$(BIN)/securefg doctor

# Flower needs an older protobuf than NVIDIA FLARE, so its tests have an environment of their own.
test-flower: $(FLOWER)/.installed
	$(ONE_THREAD) $(FLOWER)/bin/python -m pytest -q -W ignore::DeprecationWarning tests/flower

# How plain our English is, and the sentences and names to mend first.
language: $(STAMP)
	$(BIN)/python tests/language.py --list 20

# Small changes of privacy, secure aggregation and verdicts, and how many of them the tests notice.
mutants: $(STAMP)
	$(ONE_THREAD) $(BIN)/python tests/mutants.py --count 60

# Mutated configs, tables, frames, checkpoints and folders, many more than in the tests.
fuzz: $(STAMP)
	SECUREFG_FUZZ=long $(ONE_THREAD) $(BIN)/python -m pytest -n 2 -q tests/fuzz

# Quick ratios against peers and limits, at most six minutes; rows go to build/bench_rows.json.
bench: $(STAMP)
	$(BIN)/python benchmarks/bench.py

# Compares the ratios of the last `make bench` with the stored ones, at a margin of two.
bench-check: $(STAMP)
	$(BIN)/python benchmarks/bench_check.py

# Measures all rows, stores them, and writes docs/research/benchmarks.md.
bench-page: $(STAMP)
	-$(BIN)/python benchmarks/bench.py --all --rows benchmarks/rows.json
	$(BIN)/python benchmarks/bench_page.py

# The pages as a site, in site/.
docs: $(STAMP)
	$(BIN)/mkdocs build --strict

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/language.py --check
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch is pinned in constraints.txt: left to choose, pip would fetch gigabytes of CUDA libraries.
# Python compiles what is imported when it is: most of what is installed never is.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("securefg needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "Installing into $(VENV), once: about two minutes and 2 GB of disk, most of it for PyTorch."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	touch $(STAMP)

# The pins of constraints.txt, without those of the packages that Flower wants older.
FLOWER_OWN := certifi|click|packaging|pathspec|protobuf|rich|typer
$(FLOWER)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FLOWER)
	grep -v -E '^($(FLOWER_OWN))==' constraints.txt > $(FLOWER)/constraints.txt
	$(FLOWER)/bin/python -m pip install --quiet --no-compile -c $(FLOWER)/constraints.txt -e '.[flower]' pytest hypothesis
	touch $(FLOWER)/.installed

clean:
	rm -rf $(VENV) $(FLOWER) .mypy_cache .ruff_cache .pytest_cache .hypothesis
