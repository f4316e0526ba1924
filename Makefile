# `make demo`: train on the embedded corpus, measure, export, translate. `make test`: the tests.
# Both make a virtual environment and install all that they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

PHRASEBOOK := --data phrasebook --source pt --target en
RUN := runs/pt_en
EXPORT := saved_models/pt_en/1

.PHONY: demo test lint clean

demo: $(INSTALLED)
	$(BIN)/keras-mt train $(PHRASEBOOK) --preset tiny --output $(RUN) --epochs 8 --vocab-size 2000 \
		--max-length 64 --batch-tokens 2048 --dropout 0.1 --warmup-steps 400 \
		--checkpoint-steps 60 --average 5
	$(BIN)/python examples/phrasebook_report.py $(RUN)
	test -d $(EXPORT) || $(BIN)/keras-mt export $(RUN) $(EXPORT)
	$(BIN)/python examples/translate_with_tensorflow.py $(EXPORT) \
		"Em Dezembro, Lucas irá viajar ao Rio." \
		"O livro está em cima da mesa." \
		"Olá, como vai você?"

test: $(INSTALLED)
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) \
		and "keras_mt needs Python 3.11 to 3.13: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info $(RUN) $(EXPORT)
