"""Trains a small translator with `model.fit` in a Keras script and translates with it.

usage: python examples/train_with_fit.py [EPOCHS]
"""

import sys

import keras

import keras_mt
from keras_mt.data import Batches, load_corpus


def main(epochs=10):
    keras.utils.set_random_seed(1)
    pairs = load_corpus("phrasebook", source="pt", target="en", split="train")
    texts = (text for pair in pairs.as_numpy_iterator() for text in pair)
    tokenizer = keras_mt.Tokenizer.train(texts, vocab_size=2000)
    batches = Batches(pairs, tokenizer, tokens_per_batch=4096, max_length=64, seed=1)

    model = keras_mt.Transformer(
        tokenizer.vocab_size,
        num_layers=2,
        d_model=64,
        num_heads=4,
        d_ff=128,
        dropout=0.1,
        max_length=64,
    )
    model.compile(
        optimizer=keras.optimizers.Adam(
            keras_mt.WarmupInverseSquareRoot(d_model=64, warmup_steps=400),
            beta_1=0.9,
            beta_2=0.98,
            epsilon=1e-9,
        ),
        loss=keras_mt.losses.CrossEntropy(label_smoothing=0.1),
        metrics=[keras_mt.metrics.TokenAccuracy(), keras_mt.metrics.Perplexity()],
        jit_compile=False,
    )
    model.fit(batches.epoch(0), epochs=epochs)

    translator = keras_mt.Translator(model, tokenizer, beam_size=4)
    for text in ("O livro está em cima da mesa.", "Olá, como vai você?"):
        print(f"{text} -> {translator(text)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
