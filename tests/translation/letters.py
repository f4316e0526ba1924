"""A tokenizer of letters whose padding id is the last, whose start is the padding, whose end is 0.

Other characters are read as the nearest letter. `Marked` forces a token on every translation.
`Tongues` has languages: a source begins with the one that it is in, and a translation with the one
that it shall be in. `Tongue` is one pair of them, as a tokenizer without languages.
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
        ids = tf.strings.unicode_decode(strings, "UTF-8") - (ord(self.letters[0]) - 1)
        return ids.with_values(tf.clip_by_value(ids.flat_values, 1, len(self.letters)))

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


class Tongues(Letters):
    languages = ("xx", "yy", "zz")

    @property
    def vocab_size(self):
        return self.padding_id + 4

    @property
    def forbidden_ids(self):
        return tuple(range(self.padding_id, self.vocab_size))

    def mark(self, codes):
        place = tf.argmax(codes[:, None] == tf.constant(["xx", "yy", "zz"]), axis=1)
        return self.padding_id + 1 + tf.cast(place, tf.int32)[:, None]

    def source_ids(self, pieces, source_language, target_language):
        return tf.concat([self.mark(source_language), super().source_ids(pieces)], axis=1)

    def forced_ids(self, target_language):
        return self.mark(target_language)

    def id_to_string(self, ids):
        return tf.gather(tf.constant(["</s>", *self.letters, "<pad>", "xx", "yy", "zz"]), ids)


class Tongue(Tongues):
    languages = ()

    def __init__(self, *pair):
        super().__init__()
        self.source, self.target = (tf.constant([code]) for code in pair)

    def source_ids(self, pieces):
        marks = tf.repeat(self.mark(self.source), tf.cast(pieces.nrows(), tf.int32), axis=0)
        return tf.concat([marks, Letters.source_ids(self, pieces)], axis=1)

    def forced_ids(self, target_language=None):
        return self.mark(self.target)

    def target_ids(self, pieces):
        marks = tf.repeat(self.forced_ids(), tf.cast(pieces.nrows(), tf.int32), axis=0)
        return tf.concat([marks, Letters.source_ids(self, pieces)], axis=1)
