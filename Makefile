# Everything from nothing but python3: each target makes the environment it needs and reuses it afterwards.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# these begin first, so that no long lane runs alone at the end
LONGEST := targets docs
LANES := $(LONGEST) $(filter-out $(LONGEST),$(notdir $(patsubst %/requirements.txt,%,$(wildcard tests/lanes/*/requirements.txt))))
BENCHES := $(filter-out bench/gpu% bench/turns.py bench/page.py,$(wildcard bench/*.py))
WORKERS ?= auto
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder
SEED ?= $(shell date +%s)
SITE ?= build/docs
DOCS_PYTHON ?= $(CURDIR)/.venvs/docs/bin/python
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1767225600)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
# pip draws characters that a Latin-1 terminal does not have, and ends with an error there
IN_UTF8 := PYTHONUTF8=1

.PHONY: demo test test-random test-old-cpu lanes torch-matrix lint bench accuracy figures images peers house report changelog dist docs outputs tutorials clean
.SECONDARY:

demo: $(READY)  ## profile an embedded model and show it
	$(BIN)/flopsight demo

test: $(READY)  ## every test that needs torch alone, with a worker a core; what measures a GPU has it for itself
	$(PYTEST) --ignore tests/gpu
	$(BIN)/python -m pytest tests/gpu

test-random: WORKERS = 4
test-random: $(READY)  ## the same in random order; SEED=... repeats one
	$(PYTEST) --ignore tests/gpu --shuffle $(SEED)

test-old-cpu: $(READY)  ## the tests that depend on the CPU, as on one without AVX-512
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(PYTEST) tests/capture tests/training tests/agreement

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lanes:  ## tests beside other packages, two lanes at a time, each in an environment of its own (tests/lanes/README.md)
	$(MAKE) --keep-going --jobs=2 --output-sync=target $(addprefix lane-,$(LANES))

lane-%: .venvs/%/.ready
	.venvs/$*/bin/python -m pytest tests/lanes/$*

torch-matrix: $(READY)  ## the tests on every release of torch, and docs/torch-versions.md anew
	$(BIN)/python tests/lanes/releases/matrix.py

bench: $(READY)
	set -e; for script in $(BENCHES); do echo "== $$script"; $(BIN)/python $$script; done

accuracy: .venvs/accuracy/.ready  ## write docs/accuracy.md anew
	PYTHONPATH=tests .venvs/accuracy/bin/python tests/lanes/accuracy/page.py

figures: $(READY)  ## write docs/figures.md anew
	$(BIN)/python tests/docs/figures_page.py

images: .venvs/notebook/.ready  ## draw docs/images anew: profiles GPT-2 medium on this machine, which should be quiet, and takes a few minutes
	.venvs/notebook/bin/python tests/docs/images.py

peers: $(READY)  ## ask other tools the same questions, and write docs/peers.md anew; ONLY="thop page" asks some
	PYTHONPATH=tests $(BIN)/python -m peers $(ONLY)

house: $(READY)  ## write the floors and files of docs/architecture.md anew
	$(BIN)/python tests/project/house.py

report: $(READY)  ## build the report page's script and style from frontend/ (needs Node)
	PYTHONPATH=tests $(BIN)/python tests/project/shared_constants.py
	cd frontend && npm ci --silent --no-audit --no-fund && npm run --silent build

docs: .venvs/docs/.ready  ## the site, into build/docs/site: offline, and a warning is an error
	$(DOCS_PYTHON) docs/site/stage.py $(SITE)
	cd $(SITE) && $(DOCS_PYTHON) -m zensical build --clean --strict

outputs: .venvs/docs/.ready  ## run the commands of pages that show what they print, and keep that
	PYTHONPATH=tests $(DOCS_PYTHON) -m docs.shown_output

tutorials: .venvs/docs/.ready  ## run the notebooks of docs/tutorials and keep what they print
	$(DOCS_PYTHON) docs/site/tutorials.py $(ONLY)

dist: .venvs/wheel/.ready  ## wheel and sdist into dist/: the same commit gives the same bytes
	rm -rf dist
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) .venvs/wheel/bin/python -m build --no-isolation --outdir dist .
	cd dist && sha256sum *

changelog: .venvs/pull_request/.ready  ## put the fragments of changes/ into CHANGELOG.md: make changelog VERSION=0.3.0
	.venvs/pull_request/bin/towncrier build --yes --version $(VERSION)

clean:
	rm -rf $(VENV) .venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(IN_UTF8) $(BIN)/python $(PIP_INSTALL) -e '.[test]'
	touch $@

.venvs/docs/.ready: docs/site/requirements.txt

.venvs/%/.ready: tests/lanes/%/requirements.txt pyproject.toml constraints.txt
	test -x .venvs/$*/bin/python || $(PYTHON) -m venv .venvs/$*
	$(IN_UTF8) .venvs/$*/bin/python $(PIP_INSTALL) -e '.[test]' -r $<
	if test -f tests/lanes/$*/install.sh; then PATH="$(CURDIR)/.venvs/$*/bin:$$PATH" sh -e tests/lanes/$*/install.sh; fi
	touch $@
