# Needs python3 (3.11 or newer, with venv) and make; the first target used sets up the virtual environment.
#   make VENV=elsewhere PYTHON=python3.12 test

VENV   ?= .venv
PYTHON ?= python3
PY      = $(VENV)/bin/python
STAMP   = $(VENV)/.kofm-installed

.PHONY: theorem test slow lint style types layers benchmarks clean

theorem: $(STAMP)  ## build and measure the networks of the theorem
	$(VENV)/bin/kofm check

test: $(STAMP)  ## the tests, without the slow ones
	$(PY) -m pytest

slow: $(STAMP)  ## only the slow tests
	$(PY) -m pytest -m slow

lint: style types layers

style: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(STAMP)
	$(PY) -m mypy

layers: $(STAMP)
	$(PY) tools/check_layers.py

benchmarks: $(STAMP)
	$(PY) benchmarks/run.py

# The stamp is written last, so an environment without one was interrupted and is made anew. With a stamp
# only pyproject.toml has changed: installing again is enough, and the stamp is taken away meanwhile.
# A folder that is no virtual environment is never emptied (before pyvenv.cfg one holds no regular file,
# hence pyvenv.cfg goes last).
$(STAMP): pyproject.toml
	@command -v "$(PYTHON)" >/dev/null 2>&1 || \
	  { echo "kofm: no command '$(PYTHON)'; name a Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "kofm: Python 3.11 or newer is needed, '$(PYTHON)' is" \
	    "$$("$(PYTHON)" --version 2>&1 | tail -n 1); name a newer one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "kofm: '$(PYTHON)' cannot make virtual environments; install its venv module" \
	    "(Debian, Ubuntu: the package python3-venv)" >&2; exit 1; }
	@if [ -f "$(STAMP)" ] && "$(PY)" -m pip --version >/dev/null 2>&1; then \
	  rm -f "$(STAMP)"; \
	else \
	  if [ -e "$(VENV)" ] && [ ! -f "$(VENV)/pyvenv.cfg" ] && [ -n "$$(find "$(VENV)/" ! -type d ! -type l | head -n 1)" ]; then \
	    echo "kofm: '$(VENV)' exists and is no virtual environment; choose another folder: make VENV=folder" >&2; exit 1; \
	  fi; \
	  if [ -d "$(VENV)" ]; then find "$(VENV)/" -mindepth 1 -depth ! -name pyvenv.cfg ! -type d -exec rm -f {} +; fi; \
	  "$(PYTHON)" -m venv --clear "$(VENV)"; \
	fi
	$(PY) -m pip install --quiet --editable '.[dev]'
	@touch "$(STAMP)"

clean:
	@if [ -f "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find theory constructions verify paper_figures tests tools benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
