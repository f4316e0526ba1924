"""Translates sentences with an exported SavedModel, in plain TensorFlow, without keras_mt.

usage: python examples/translate_with_tensorflow.py SAVED_MODEL SENTENCE...
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# At its import TensorFlow logs before it has read this level, so standard error goes nowhere then.
stderr = os.dup(2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
try:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the tokenizer's ops
finally:
    os.dup2(stderr, 2)


def main(saved_model, *sentences):
    translate = tf.saved_model.load(saved_model).signatures["serving_default"]
    outputs = translate(text=tf.constant(sentences))
    assert "keras_mt" not in sys.modules
    for sentence, translations, scores in zip(
        sentences, outputs["translations"].numpy(), outputs["scores"].numpy(), strict=True
    ):
        print(f"{sentence}\n  -> {translations[0].decode()}  ({scores[0]:.3f})")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
