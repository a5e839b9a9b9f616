# Two commands: `make optimize` sets everything up and tunes the embedded server, `make test` sets up and passes the tests.

PYTHON ?= python3
VENV ?= .venv
TRIALS ?= 20
BIN := $(VENV)/bin
# A study is flushed to its disk hundreds of times; that of a test need not outlive the machine, nor the test that passed.
PYTEST_IN_MEMORY := PYTEST_DEBUG_TEMPROOT=/dev/shm $(BIN)/python -m pytest -o tmp_path_retention_policy=failed

.PHONY: optimize test lint types pytest fuzz test-host test-host-as-root test-host-campaign docs lock clean

optimize: $(VENV)/.installed
	$(BIN)/autotune optimize --trials $(TRIALS)

test: lint types pytest fuzz

lint: $(VENV)/.installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell autotune docs search_spaces studies tests README.md CHANGELOG.md CONTRIBUTING.md Makefile

types: $(VENV)/.installed-test
	$(BIN)/mypy

pytest: $(VENV)/.installed-test
	@test -x /lib/systemd/systemd || { echo "missing: systemd, the judge of exported unit files (Debian: apt-get install systemd)"; exit 1; }
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4

# Half a minute of inputs nobody would write, for every reader of what servers, models and hosts say; --minutes 5 looks longer.
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz_parsers --seconds 30 --seed 1

# The product on a real systemd host, reached over SSH: containers with a network of their own. Root only.
test-host:
	@if [ "$$(id -u)" = 0 ] || [ -n "$$AUTOTUNE_TEST_HOST" ]; then $(MAKE) --no-print-directory test-host-as-root; \
	else echo "skipped: a test host is a container with systemd and a network of its own, so it needs root: sudo make test-host"; fi

test-host-as-root: $(VENV)/.installed-test
	$(PYTEST_IN_MEMORY) -q -rs -n 4 --maxschedchunk=1 -m "not campaign" tests/host

# Everything that can go wrong there, each fault at each place and each moment: an hour and more. Root only.
test-host-campaign: $(VENV)/.installed-test
	$(BIN)/python -m tests.host.campaign
	AUTOTUNE_ALL_FAULTS=1 $(PYTEST_IN_MEMORY) -q -n auto --maxprocesses 4 --maxschedchunk=1 -m "campaign or not campaign" tests/host

# The generated pages: commands and settings.
docs: $(VENV)/.installed
	$(BIN)/python -m autotune.cli.reference docs

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { echo "missing: Python 3.11 to 3.13 (set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "missing: python3-venv (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml requirements.lock
	$(BIN)/pip install --quiet -c requirements.lock hatchling
	$(BIN)/pip install --quiet -c requirements.lock --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/pip install --quiet -c requirements.lock --no-build-isolation -e '.[test]'
	@touch $@

# Take the newest versions that the ranges of pyproject.toml allow; torch stays where it is.
lock:
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet torch==2.13.0 hatchling
	$(VENV)-lock/bin/pip install --quiet --no-build-isolation '.[test]'
	{ head -n 2 requirements.lock; $(VENV)-lock/bin/pip freeze --exclude autotune | sed 's/+cpu//'; } > requirements.lock.new
	mv requirements.lock.new requirements.lock
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-lock dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
