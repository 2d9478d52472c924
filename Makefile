# Two commands on a fresh machine: `make demo` and `make test`. All others build on them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Hundreds of processes start in the tests: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Tests run side by side: threads of their own would only wait for one another.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: demo install test test-unit test-all mutants fuzz bench bench-check bench-page docs check format clean

demo: $(STAMP)
	$(BIN)/securefg demo
	@echo "The commands above need the virtual environment:"
	@echo "  . $(BIN)/activate"

install: $(STAMP)

# The command that CI runs. A worker keeps to its part of the tests, and helps others at the end, so
# that tests of one file share their fixtures. Three workers, since some tests wait for processes.
test: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not slow"

# Tests without commands, processes of parties and whole audits, for use while coding.
test-unit: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not slow" tests/unit

# With long repetitions, kills and statistical tests: over an hour.
test-all: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -q

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

# Measures all rows, stores them, and writes docs/benchmarks.md.
bench-page: $(STAMP)
	-$(BIN)/python benchmarks/bench.py --all --rows benchmarks/rows.json
	$(BIN)/python benchmarks/bench_page.py

# The pages as a site, in site/.
docs: $(STAMP)
	$(BIN)/mkdocs build --strict

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
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

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
