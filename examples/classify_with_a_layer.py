"""Reuses one layer in a model of one's own: which language is a sentence in, seen as bytes?

usage: python examples/classify_with_a_layer.py [EPOCHS]
"""

import sys

import keras
import numpy as np

from keras_mt.data import phrasebook
from keras_mt.layers import EncoderBlock, PositionalEmbedding

LENGTH = 64


def load(split):
    pairs = list(phrasebook.pairs(split))[:2000]
    texts = [text.encode()[:LENGTH].ljust(LENGTH, b"\0") for pair in pairs for text in pair]
    labels = [language for _ in pairs for language in (0, 1)]  # Portuguese, English
    return np.array([list(text) for text in texts]), np.array(labels)


def main(epochs=2):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((LENGTH,), dtype="int32")
    hidden = PositionalEmbedding(vocab_size=256, d_model=32, max_length=LENGTH)(inputs)
    hidden = EncoderBlock(num_heads=4, d_ff=64, dropout=0.1)(hidden)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)  # The padding's mask came along.
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(*load("train"), epochs=epochs, verbose=2)
    _, accuracy = model.evaluate(*load("test"), verbose=0)
    print(f"accuracy on unseen sentences: {accuracy:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
