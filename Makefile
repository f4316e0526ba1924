# `make demo`: train on the embedded corpus, measure, export, translate. `make test`: the tests.
# `make test-long`: those that take long. `make docs`: the site. All make a virtual environment and
# install what they need, and no more.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SERVING := $(CURDIR)/.venv-serving
# The Pythons of `make test-versions`.
OLDEST_PYTHON ?= python3.11
NEWEST_PYTHON ?= python3.13

PHRASEBOOK := --data phrasebook --source pt --target en
RUN := runs/pt_en
EXPORT := saved_models/pt_en/1

# What runs on every Keras backend.
NEUTRAL := tests/layers tests/models tests/test_losses.py tests/test_metrics.py \
	tests/test_schedules.py

.PHONY: demo test test-long test-exhaustive test-backends test-beam test-serving test-versions \
	lint docs lectures notebooks clean

demo: $(VENV)/installed
	$(BIN)/keras-mt train $(PHRASEBOOK) --output $(RUN) --epochs 3 --bleu-freq 0 \
		--set num_layers=3 --set d_model=128 --set d_ff=256 --vocab-size 2000 \
		--batch-tokens 1024 --dropout 0.1 --learning-rate 0.004
	$(BIN)/python examples/phrasebook_report.py $(RUN)
	test -d $(EXPORT) || $(BIN)/keras-mt export $(RUN) $(EXPORT)
	$(BIN)/python examples/translate_with_tensorflow.py $(EXPORT) \
		"Em Dezembro, Lucas irá viajar ao Rio." \
		"O livro está em cima da mesa." \
		"Olá, como vai você?"

# Each behaviour once. With ALL=1 those of test-long too, in one run that shares what they make.
test: $(VENV)/installed-test$(if $(ALL),-all)
	$(BIN)/python -m pytest -m "not $(if $(ALL),exhaustive,long)"

# Trainings, kills, clusters, other formats' engines, browsers, the documentation's blocks.
test-long: $(VENV)/installed-test-all
	$(BIN)/python -m pytest -m "long and not exhaustive"

# Wild inputs at length, all combinations.
test-exhaustive: $(VENV)/installed-test-all
	$(BIN)/pip install --quiet --constraint constraints.txt jax torch
	$(BIN)/python -m pytest -m "exhaustive or hypothesis" --hypothesis-profile=exhaustive

# Layers, models, losses, metrics and schedules on JAX and on torch, where there is no TensorFlow.
test-backends: .venv-jax/installed .venv-torch/installed
	KERAS_BACKEND=jax .venv-jax/bin/python -m pytest -m "not long" $(NEUTRAL)
	KERAS_BACKEND=torch .venv-torch/bin/python -m pytest -m "not long" $(NEUTRAL)

# Of torch the build without CUDA, a tenth of the other, where its page can be reached.
.venv-%/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/pip install --quiet --constraint constraints.txt --no-deps $* \
		--find-links https://download.pytorch.org/whl/cpu/torch/
	.venv-$*/bin/pip install --quiet --constraint constraints.txt $* hypothesis keras numpy \
		pytest pytest-xdist
	.venv-$*/bin/pip install --quiet --no-deps --editable .
	! .venv-$*/bin/python -c 'import tensorflow' 2> /dev/null
	touch $@

# Apache Beam, which needs older versions of others than the rest.
test-beam: .venv-beam/installed
	.venv-beam/bin/python -m pytest --numprocesses=0 tests/test_beam.py

.venv-beam/installed: pyproject.toml constraints.txt constraints-beam.txt
	$(PYTHON) -m venv --clear .venv-beam
	grep --invert-match --ignore-case --fixed-strings \
		"$$(sed 's/==.*/==/' constraints-beam.txt)" constraints.txt > .venv-beam/constraints.txt
	.venv-beam/bin/pip install --quiet --constraint constraints-beam.txt \
		--constraint .venv-beam/constraints.txt --editable '.[beam]' hypothesis pytest pytest-xdist
	touch $@

# An export answers the same in the versions that stock TensorFlow Serving is built on.
test-serving: $(VENV)/installed-test $(SERVING)/installed
	SERVING_PYTHON=$(SERVING)/bin/python $(BIN)/python -m pytest --numprocesses=0 \
		tests/tensorflow_serving/test_server.py -k "session or replay"

$(SERVING)/installed: Makefile
	$(PYTHON) -m venv --clear $(SERVING)
	$(SERVING)/bin/pip install --quiet tensorflow==2.20.0 tensorflow-text==2.20.1 \
		tensorflow-serving-api==2.20.0
	$(SERVING)/bin/python -c 'import tensorflow; assert tensorflow.__version__ == "2.20.0"'
	touch $@

# The oldest versions that pyproject.toml allows on the oldest Python, and the newest on the newest;
# TESTS=tests/layers for a part.
test-versions: .venv-oldest/tested .venv-newest/tested

.venv-%/tested: .venv-%/versions FORCE
	.venv-$*/bin/python -m pytest -m "not long" $(TESTS)

.venv-oldest/versions: pyproject.toml
	$(OLDEST_PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/python -c "import re, tomllib; \
		project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
		print(*(re.sub('>=([0-9.]+).*', r'==\1', x) for x in project['dependencies']), sep='\n')" \
		> .venv-oldest/constraints.txt
	.venv-oldest/bin/pip install --quiet --constraint .venv-oldest/constraints.txt \
		--editable '.[test]'
	touch $@

.venv-newest/versions: pyproject.toml
	$(NEWEST_PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/pip install --quiet --editable '.[test]'
	touch $@

FORCE:

lint: $(VENV)/installed-lint
	$(BIN)/codespell *.md docs/*.md docs/lectures/*.md benchmarks examples keras_mt
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Warnings, such as those of links that lead nowhere, are errors.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs auto docs docs/_build/html

# The pictures of docs/lectures, and what its pages quote. Of the scripts only the twelfth needs a
# training before, that of `make demo`.
lectures: $(VENV)/installed $(RUN)/model.keras
	set -e; for script in examples/lectures/[01]*.py examples/lectures/draw_architecture.py; do \
		$(BIN)/python $$script --output docs/lectures; done

$(RUN)/model.keras:
	$(MAKE) demo

# Runs the notebooks and keeps what they show.
notebooks: $(VENV)/installed-docs
	$(BIN)/python docs/run_notebooks.py

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) \
		and "keras_mt needs Python 3.11 to 3.13: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

# What an extra asks for is read from what is installed, which is not built again.
$(VENV)/installed-%: $(VENV)/installed
	$(BIN)/pip install --quiet --constraint constraints.txt 'keras_mt[$*]'
	touch $@

clean:
	rm -rf $(VENV) .venv-* build dist docs/_build *.egg-info $(RUN) $(EXPORT)
