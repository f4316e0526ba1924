"""Trains, translates, exports and serves, with TensorFlow as users have it.

usage: main_paths.py RUN CORPUS FOLDER < TEXTS

Goes on from RUN in FOLDER/run, exports to FOLDER/1, and prints what came of it as JSON.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

from keras_mt import ExportedTranslator, Glossary, Translator
from keras_mt.run_folder import RunFolder
from keras_mt.training import train


def trained_and_translated(run, corpus, output, texts):
    """A translator of some more steps, the log of these, and what it makes of the texts."""
    options = {
        "steps": 3,
        "warmup_steps": 1,
        "seed": 3,
        "batch_tokens": 512,
        "dropout": 0.0,
        "learning_rate": 3e-4,
    }
    train(corpus, "pt", "en", output, init=run, report=lambda _: None, **options)
    translator = Translator.load(output, beam_size=2, max_length=12)
    (scored,) = translator.score(texts[:1], ["The book is on the table."])
    return translator, {
        "log": RunFolder(output).read_log(),
        "hypotheses": hypotheses(translator, texts),
        "log_prob": scored.log_prob,
    }


def hypotheses(translator, texts):
    """The translations of texts, with terms and a kept span, and their scores."""
    glossary = Glossary({"livro": "volume", "jornal": "gazette"})
    texts = [*texts, "O livro {x} é novo."]
    return [
        [found.text, found.score] for (found,) in translator.hypotheses(texts, glossary=glossary)
    ]


if __name__ == "__main__":
    run, corpus, folder = map(Path, sys.argv[1:])
    texts = sys.stdin.read().splitlines()
    translator, results = trained_and_translated(run, corpus, folder / "run", texts)
    signatures = ["serving_default", "align"]
    translator.export(folder / "1", signatures=signatures)
    exported = ExportedTranslator(folder / "1")
    results["exported"] = hypotheses(exported, texts)
    results["eager"] = tf.config.functions_run_eagerly()
    results["options"] = tf.config.optimizer.get_experimental_options()
    print(json.dumps(results))
