# Two commands do everything: `make demo` and `make test`. Both make .venv first, from python3 and the network.
PYTHON ?= python3
PY := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE  # compile a module at its first import, not in every process

# most modules of the packages are never imported: no time is spent on compiling them all
INSTALL := $(PY) -m pip install --quiet --no-compile

.PHONY: demo test reproduce hostile torture docs check-release clean

demo: .venv/fgsv
	$(PY) -m fgsv demo --out fgsv-demo --force

# while mypy works, the modules that the tests import are compiled; a third process of pytest works while others wait
test: .venv/test
	.venv/bin/ruff check src tests benchmarks experiments docs tools
	.venv/bin/ruff format --check src tests benchmarks experiments docs tools
	{ $(PY) -m pytest --collect-only -q; $(PY) -c 'import diffusers, peft'; } >/dev/null & .venv/bin/mypy; found=$$?; wait; exit $$found
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 3 --dist worksteal

reproduce: .venv/test  ## every experiment of the paper in small, ten minutes: `python -m experiments` for full size
	$(PY) -m experiments motivation --budget 2000
	$(PY) -m experiments sou 64 --budget 2000 --repeats 3
	$(PY) -m experiments copyright --small
	$(PY) -m experiments diabetes --budget 2000 --repeats 3
	$(PY) -m experiments code --small

hostile: .venv/test  ## every hostile case, campaigns at full length: forged records, kills, awkward files and games
	FGSV_HOSTILE=all OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist worksteal tests/hostile

torture: .venv/test  ## kill a run with workers 100 times, resume each to the end, compare bit for bit
	$(PY) benchmarks/torture.py --kills 100

docs: .venv/test
	.venv/bin/mkdocs build --strict

check-release:  ## build, install into clean environments of every Python, run: 10 minutes; needs git and every Python
	$(PYTHON) tools/check_release.py

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade pip

.venv/fgsv: .venv/bin/python pyproject.toml src/fgsv/__init__.py
	$(INSTALL) --editable '.[report]'
	touch $@

.venv/test: .venv/bin/python pyproject.toml src/fgsv/__init__.py constraints.txt
	$(INSTALL) --constraint constraints.txt --editable '.[all]' --group test
	touch $@ .venv/fgsv

include benchmarks.mk

clean:
	rm -rf .venv .venv-peers .venv-pydvl .venv-flower fgsv-demo bench-out dist site .mypy_cache .ruff_cache .pytest_cache
