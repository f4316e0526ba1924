"""Trains, and translates and scores with an export, with TensorFlow as users have it.

usage: main_paths.py RUN EXPORT CORPUS < TEXTS

Prints what came of it as JSON.
"""

import json
import sys

import tensorflow as tf

from keras_mt import ExportedTranslator, Glossary, Translator
from keras_mt.data import Batches, load_corpus
from keras_mt.models import copy_of
from keras_mt.training import compile_for_translation


def trained(run, corpus):
    """The losses and the accuracy of three more steps of a run, and of validation after them."""
    translator = Translator.load(run)
    model = copy_of(translator.models[0], dropout=0.0)
    pairs = load_corpus(corpus, "pt", "en", "train")
    batches = Batches(pairs, translator.tokenizer, tokens_per_batch=512, seed=3)
    compile_for_translation(model, warmup_steps=1, learning_rate=3e-4)
    return model.fit(
        batches.stream(), steps_per_epoch=3, verbose=0,
        validation_data=batches.epoch(0), validation_steps=1,
    ).history  # fmt: skip


def answers(exported, texts):
    """The best translations of texts, with terms and a kept span, and a score of one."""
    glossary = Glossary({"livro": "volume", "jornal": "gazette"})
    found = exported.hypotheses([*texts, "O livro {x} é novo."], glossary=glossary)
    (scored,) = exported.score(texts[:1], ["The book is on the table."])
    return [[best.text, best.score] for best, *_ in found], scored.log_prob


if __name__ == "__main__":
    run, export, corpus = sys.argv[1:]
    texts = sys.stdin.read().splitlines()
    results = {
        "history": trained(run, corpus),
        "answers": answers(ExportedTranslator(export), texts),
        "eager": tf.config.functions_run_eagerly(),
        "options": tf.config.optimizer.get_experimental_options(),
    }
    print(json.dumps(results))
