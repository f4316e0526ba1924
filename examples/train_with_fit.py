"""Trains a small translator with `model.fit` in a Keras script, and translates with it.

usage: python examples/train_with_fit.py [EPOCHS]
"""

import sys

import keras

import keras_mt
from keras_mt.data import Batches, load_corpus

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 10

pairs = load_corpus("phrasebook", source="pt", target="en", split="train")
texts = (text for pair in pairs.as_numpy_iterator() for text in pair)
tokenizer = keras_mt.Tokenizer.train(texts, vocab_size=2000)
batches = Batches(pairs, tokenizer, tokens_per_batch=2048, max_length=64, seed=1)

model = keras_mt.Transformer(
    tokenizer.vocab_size, num_layers=2, d_model=128, num_heads=4, d_ff=256, max_length=64
)
model.compile(
    optimizer=keras.optimizers.Adam(
        keras_mt.WarmupInverseSquareRoot(d_model=128, warmup_steps=400), 0.9, 0.98, 1e-9
    ),
    loss=keras_mt.losses.CrossEntropy(label_smoothing=0.1),
    metrics=[keras_mt.metrics.TokenAccuracy(), keras_mt.metrics.Perplexity()],
    jit_compile=False,  # XLA would compile each batch shape anew.
)
model.fit(batches.stream(), steps_per_epoch=batches.counts.batches, epochs=EPOCHS)

translator = keras_mt.Translator(model, tokenizer, beam_size=4)
print(translator("O livro está em cima da mesa."))
print(translator(["Olá, como vai você?", "Em Dezembro, Lucas irá viajar ao Rio."]))
