"""A tokenizer of letters whose padding id is the last, whose start is the padding, whose end is 0.

`Marked` forces a token on every translation.
"""

import numpy as np
import tensorflow as tf

from keras_mt.text import BaseTokenizer


class Letters(BaseTokenizer):
    eos_id = 0

    def __init__(self, letters="abcd"):
        self.letters = letters
        self.bos_id = self.padding_id = len(letters) + 1

    @property
    def vocab_size(self):
        return len(self.letters) + 2

    def pieces(self, strings):
        return tf.strings.unicode_decode(strings, "UTF-8") - (ord(self.letters[0]) - 1)

    def text(self, ids):
        real = (ids > 0) & (ids < self.padding_id)
        return tf.strings.unicode_encode(
            tf.ragged.boolean_mask(ids, real) + (ord(self.letters[0]) - 1), "UTF-8"
        )

    @property
    def begins_word(self):
        return np.zeros(self.vocab_size, bool)

    def id_to_string(self, ids):
        return tf.gather(tf.constant(["</s>", *self.letters, "<pad>"]), ids)

    @property
    def fingerprint(self):
        return self.letters

    def save(self, folder):
        (folder / "letters").write_text(self.letters)

    @classmethod
    def load(cls, folder):
        return cls((folder / "letters").read_text())


class Marked(Letters):
    def forced_ids(self, target_language=None):
        return tf.constant([[2]])
