"""Pretrains an encoder on raw text, then fine-tunes it on 100 labels to tell who does what to whom.

usage: python examples/masked_language_model.py [--text FILE] [--lines N] [--epochs N]
           [--seeds N] [--output FOLDER]

The cat is the subject of `Ontem, o gato viu a médica.`, but not of `Ontem, a médica viu o gato.`:
they have the same words, so no single word tells. The same network learns it from the same
sentences twice, from scratch and on the pretrained encoder. A bag of words, which knows no order,
shows what single words are worth.
"""

import argparse
import os
from pathlib import Path
from random import Random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from phrasebook import constructions as c
from phrasebook import grammar as g
from phrasebook import lexicon as lex

import keras_mt
from keras_mt.data import phrasebook
from keras_mt.layers import TokenMasking

DEEDS = [verb for verb in lex.VERBS if verb.pt in ("ajudar", "esperar", "procurar", "ver")]
LENGTH = 32  # The most tokens of a sentence, with its start and end.
LABELS, LABEL_EPOCHS = 100, 20


def twins(rng):
    """An animal and a person with a job, each doing the same to the other: is it the animal's deed?

    The time comes first, so that both sentences have the same words, capitals included.
    """
    animal, human = (
        g.noun_phrase(rng, rng.choice(g.BY_CLASS[kind]), ("the", "this", "that"), plurals=0)
        for kind in ("animal", "job")
    )
    verb, time, mood = rng.choice(DEEDS), g.when(rng, "past").pt, c.mood(rng, 0.2, 0.2)
    deeds = (
        g.finish(g.clause(doer, "past", verb.pt, verb.en, other, mood), mood).pt
        for doer, other in ((animal, human), (human, animal))
    )
    time = time[0].upper() + time[1:]
    return {f"{time}, {deed}": label for deed, label in zip(deeds, (1, 0), strict=True)}


def labelled(rng, number, each=1, unlike=()):
    """Different sentences, one or both of each pair of twins, with their labels."""
    texts = {}
    while len(texts) < number:
        found = twins(rng)
        if not {*unlike, *texts} & {*found}:
            texts.update(rng.sample(list(found.items()), each))
    return list(texts), np.array(list(texts.values()))


def tokens_of(tokenizer, texts):
    """Ragged int32 [texts, (tokens)]: start, pieces, end."""
    pieces = tokenizer.tokenize(texts)[:, : LENGTH - 2]
    start, end = (
        tf.fill([pieces.nrows(), 1], token) for token in (tokenizer.bos_id, tokenizer.eos_id)
    )
    return tf.concat([start, pieces, end], axis=1)


def pretrain(model, tokens, epochs):
    """Trains the model to fill in masked tokens, different ones in each epoch."""
    data = tf.data.Dataset.from_tensor_slices(tokens).shuffle(tokens.nrows(), seed=1)
    data = data.ragged_batch(64).map(lambda rows: rows.to_tensor())
    data = data.map(TokenMasking(model.vocab_size - 1, seed=1)).prefetch(2)
    steps = epochs * len(data)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=2e-3, warmup_steps=steps // 10
    )
    model.compile(
        keras.optimizers.AdamW(rate),
        keras_mt.losses.CrossEntropy(),
        metrics=[keras_mt.metrics.TokenAccuracy(), keras_mt.metrics.Perplexity()],
        jit_compile=False,  # XLA would compile each length anew.
    )
    model.fit(data, epochs=epochs, verbose=2)


def words(vocab_size):
    """An embedding of each token by itself, in place of an encoder."""
    tokens = keras.Input((None,), dtype="int32")
    return keras.Model(tokens, keras.layers.Embedding(vocab_size, 128)(tokens))


def classify(encoder, train, test):
    """The accuracy of a classifier on top of an encoder; both are trained."""
    real = keras.ops.not_equal(encoder.input, 0)[..., None]
    greatest = keras.ops.max(keras.ops.where(real, encoder.output, -1e4), axis=1)
    classifier = keras.Model(encoder.input, keras.layers.Dense(1, activation="sigmoid")(greatest))
    adam = keras.optimizers.Adam(5e-4)
    classifier.compile(adam, "binary_crossentropy", metrics=["accuracy"], jit_compile=False)
    classifier.fit(*train, batch_size=20, epochs=LABEL_EPOCHS, verbose=0)
    return classifier.evaluate(*test, verbose=0, return_dict=True)["accuracy"]


def main():
    parser = argparse.ArgumentParser(description="Pretrains an encoder and classifies with it.")
    parser.add_argument("--text", help="a file, a sentence a line; default: the phrasebook's")
    parser.add_argument("--lines", type=int, help="the most lines to read")
    parser.add_argument("--epochs", type=int, default=4, help="of the pretraining")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("runs/masked_language_model"))
    options = parser.parse_args()

    if options.text:
        lines = Path(options.text).read_text(encoding="utf-8").split("\n")
    else:
        lines = [portuguese for portuguese, _ in phrasebook.pairs("train")]
    lines = [line for line in lines if line.strip()][: options.lines]
    tokenizer = keras_mt.Tokenizer.train(lines, vocab_size=1000)
    vocab_size = tokenizer.vocab_size + 1  # The mask token is one more.
    sizes = {"num_layers": 4, "vocab_size": vocab_size, "max_length": LENGTH}
    keras.utils.set_random_seed(1)
    model = keras_mt.models.EncoderOnly.from_preset("tiny", **sizes)
    pretrain(model, tokens_of(tokenizer, lines), options.epochs)
    options.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(options.output / "tokenizer.model")
    model.encoder.save(options.output / "encoder.keras")

    def arrays(texts, labels):
        return tokens_of(tokenizer, texts).to_tensor().numpy(), labels

    test_texts, test_labels = labelled(Random(0), 500, each=2, unlike=lines)
    test = arrays(test_texts, test_labels)
    accuracies = {"single words": [], "from scratch": [], "pretrained": []}
    for seed in range(1, options.seeds + 1):
        train = arrays(*labelled(Random(seed), LABELS, unlike=test_texts))
        keras.utils.set_random_seed(seed)
        for name, encoder in {
            "single words": words(vocab_size),
            "from scratch": keras_mt.models.EncoderOnly.from_preset("tiny", **sizes).encoder,
            "pretrained": keras.models.load_model(options.output / "encoder.keras"),
        }.items():
            found = classify(encoder, train, test)
            accuracies[name].append(found)
            print(f"seed {seed}, {name}: {found:.1%}", flush=True)
    print(f"\naccuracy on {len(test_texts)} sentences, mean (std) of {options.seeds} seeds")
    for name, found in accuracies.items():
        print(f"{name:14} {np.mean(found):6.1%} ({np.std(found, ddof=len(found) > 1):.1%})")
    gain = np.mean(accuracies["pretrained"]) - np.mean(accuracies["from scratch"])
    print(f"gain of pretraining: {100 * gain:+.1f} points")


if __name__ == "__main__":
    main()
