# `make walk` trains a walking Go2, `make test` proves that everything works. Both set up .venv first.

PYTHON ?= python3.11
PY := .venv/bin/python
RUN := $(PY) -m

.PHONY: help walk test test-slow check format docs clean

help:
	@echo "make walk       train a Go2 to walk, evaluate it, film it and export its policy (minutes, two cores)"
	@echo "make test       fast tests with coverage      make test-slow  trainings and other slow proofs"
	@echo "make check      format, lint, types, Python 3.8 syntax"
	@echo "make docs       build the pages of docs/ as a site in build/site, with links checked"

.venv/installed: setup.py constraints.txt Makefile
	test -x $(PY) || $(PYTHON) -m venv .venv || python3 -m venv .venv
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[sim,warp,video,export,viewer,sweep,dev]"
	touch $@

# ends when three evaluations in a row have passed with margin, each of 256 robots that get a new command after 5 s;
# with milder pushes than go2_flat, because policies learn faster
WALK := --task go2_flat --evaluate_interval 10 --until_gate 3 \
	--progress.evaluate_robots 256 --progress.evaluate_command_period 5 \
	--env.randomization.terms.push.period 6 --env.randomization.terms.push.params.push_turning 0

walk: .venv/installed
	$(PY) scripts/train.py $(WALK)
	$(PY) scripts/evaluate.py --task go2_flat --num_seeds 3
	$(PY) scripts/play.py --task go2_flat

test: .venv/installed
	$(RUN) coverage erase
	$(RUN) coverage run -m pytest -n 2 --dist loadfile
	$(RUN) coverage combine --quiet
	$(RUN) coverage report

test-slow: .venv/installed
	$(RUN) pytest -m slow

check: .venv/installed
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	.venv/bin/vermin --quiet --no-tips --target=3.8- --violations rsl_rl
	.venv/bin/vermin --quiet --no-tips --target=3.9- --violations gymapi-mujoco/gymapi_mujoco
	$(RUN) pyright

format: .venv/installed
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

docs: .venv/docs_installed
	$(RUN) mkdocs build --strict --quiet --config-file docs/config/mkdocs.yml
	@echo "site: build/site/index.html"

.venv/docs_installed: .venv/installed
	$(RUN) pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

clean:
	rm -rf .venv .coverage* build *.egg-info
