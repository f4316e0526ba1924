"""Reuses two layers in a model of your own, which tells the language of a sentence from its bytes.

usage: python examples/classify_with_a_layer.py [EPOCHS]
"""

import sys

import keras
import numpy as np

from keras_mt.data import phrasebook
from keras_mt.layers import EncoderBlock, PositionalEmbedding

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 2


def load(split):
    texts = [text for pair in phrasebook.pairs(split) for text in pair][:4000]
    labels = np.arange(len(texts)) % 2  # Portuguese and English take turns.
    return np.array([list(text.encode()[:64].ljust(64, b"\0")) for text in texts]), labels


inputs = keras.Input((64,), dtype="int32")
hidden = PositionalEmbedding(vocab_size=256, d_model=32, max_length=64)(inputs)
hidden = EncoderBlock(num_heads=4, d_ff=64, dropout=0.1)(hidden)
hidden = keras.layers.GlobalAveragePooling1D()(hidden)  # Leaves the padding out.
classifier = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))

classifier.compile("adam", "binary_crossentropy", metrics=["accuracy"])
classifier.fit(*load("train"), epochs=EPOCHS)
print(classifier.evaluate(*load("test"), verbose=0, return_dict=True))
