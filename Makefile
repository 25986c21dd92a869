# Set-up is keyed on the files that decide it. uv installs in seconds what takes pip a minute; where it
# cannot (an index that only pip is configured for), pip does.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check

# Images of containers often set it. Each of the many processes here would then compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup wheel run test compile lint format binaries e2e bench mutants lock clean

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("koordpy needs Python 3.11 or newer, found " + sys.version.split()[0] + "; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
	    || $(PIP) --require-hashes -r requirements/dev.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# An installable wheel, dist/*.whl: uv tool install dist/*.whl, or pipx install dist/*.whl.
wheel: setup
	rm -rf dist
	$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python

run: setup
	$(BIN)/koordpy demo

# Twice as many workers as cores: tests wait for sockets, watches and child processes.
test: setup
	$(BIN)/python -m pytest -n 4 --dist worksteal

# Write down the tests as pytest compiles them. Where none are yet, each worker would do it for itself.
compile: setup
	$(BIN)/python -m pytest --collect-only --quiet >/dev/null

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What end-to-end tests need of Go. Minutes when cold, then found in the user's cache folder.
binaries: setup
	$(BIN)/python -m tests.e2e.build

# Three control planes side by side: each mostly waits.
e2e: binaries
	$(BIN)/python -m pytest tests/e2e --timeout 1200 -n 3

bench: setup
	$(BIN)/python -m bench

# Mutation runs of the critical modules (pyproject.toml, tool.koordpy.mutants): make mutants MODULES="leader fence".
mutants: $(VENV)/.mutants
	$(BIN)/python -m tests.mutants $(MODULES)

$(VENV)/.mutants: $(STAMP) requirements/mutants.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/mutants.txt \
	    || $(PIP) --require-hashes -r requirements/mutants.txt
	@touch $@

# Re-pin every dependency: one file with hashes for all supported Python versions, a file a purpose.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-annotate --no-header

lock: setup
	$(COMPILE) pyproject.toml --extra network -o requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra dev --extra network --extra plots -c requirements/runtime.txt -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra mutants -c requirements/dev.txt -o requirements/mutants.txt
	printf 'hatchling\neditables\n' | $(COMPILE) - -c requirements/dev.txt -o requirements/build.txt
	printf 'uv\n' | $(COMPILE) - -c requirements/dev.txt -o requirements/uv.txt

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
