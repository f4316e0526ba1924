"""Trains a language model on one side of a corpus with `model.fit`, and continues prompts with it.

usage: python examples/language_model.py [--text FILE] [--epochs N] [PROMPT ...]
"""

import argparse

import tensorflow as tf

import keras_mt
from keras_mt.data import load_corpus
from keras_mt.models import DecoderOnly
from keras_mt.training import compile_for_translation

parser = argparse.ArgumentParser(description="Trains a language model and continues prompts.")
parser.add_argument("prompts", nargs="*", default=["The book", "In December,", "Where is"])
parser.add_argument("--text", help="a file, a sentence a line; default: the phrasebook's English")
parser.add_argument("--epochs", type=int, default=4)
arguments = parser.parse_args()

if arguments.text:
    lines = tf.data.TextLineDataset(arguments.text)
    held_out = int(lines.reduce(0, lambda n, _: n + 1)) // 20
    train, test = lines.skip(held_out), lines.take(held_out)
else:
    train, test = (
        load_corpus("phrasebook", "pt", "en", split).map(lambda _, english: english)
        for split in ("train", "test")
    )
tokenizer = keras_mt.Tokenizer.train(train.as_numpy_iterator(), vocab_size=2000)


def batch(texts):
    """Each source is only the end token, as for an empty text; the target is the line."""
    labels = tokenizer.target_ids(tokenizer.pieces(texts)).to_tensor()[:, :64]
    ends = tf.fill((tf.size(texts), 1), tokenizer.eos_id)
    target = tf.concat([tf.fill(tf.shape(ends), tokenizer.bos_id), labels[:, :-1]], axis=1)
    return {"source": ends, "target": target}, labels


batches = train.shuffle(50_000, seed=1).batch(64).map(batch).prefetch(4)
model = DecoderOnly.from_preset(
    "tiny", vocab_size=tokenizer.vocab_size, num_layers=4, dropout=0.1, max_length=64
)
compile_for_translation(model, label_smoothing=0.0, warmup_steps=400)
model.fit(batches, epochs=arguments.epochs)
print("test:", model.evaluate(test.batch(64).map(batch), verbose=0, return_dict=True))

best = keras_mt.Translator(model, tokenizer, beam_size=1, max_length=64)
drawn = keras_mt.Translator(model, tokenizer, max_length=64, n_best=3, temperature=1.0)
for prompt in arguments.prompts:
    print(f"{prompt}\n  greedy: {best('', prompt)}")
    print(*(f"  drawn: {text}" for text in drawn("", prompt)), sep="\n")
