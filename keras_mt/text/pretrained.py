"""SentencePiece with a separate table of ids: the tokenizer of imported models."""

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.text.base_tokenizer import BaseTokenizer, ids_of, rewritten
from keras_mt.text.patterns import TAG
from keras_mt.text.ragged import kept, ragged_rows
from keras_mt.text.tokenizer import SentencePiece
from keras_mt.text.vocabulary import TableVocabulary


class _Side(tf.Module):
    """One side's SentencePiece model and table of ids, as constants of the graph.

    The search is binary, by hashes: a hash table would be one more resource to initialize.
    """

    def __init__(self, model, pieces, is_text, unknown_id) -> None:
        super().__init__()
        self._unknown_id = unknown_id
        self._model = SentencePiece(model, tf.string)
        self.pieces = tf.constant([piece.encode() for piece in pieces])
        self._is_text = tf.constant(is_text)
        ids = np.flatnonzero(is_text)
        hashes = _hashed(tf.gather(self.pieces, ids)).numpy()
        order = np.argsort(hashes, kind="stable")
        if (np.diff(hashes[order]) == 0).any():
            raise InputError("two pieces are the same, or have the same hash")
        self._ids = tf.constant(ids[order], tf.int32)
        self._hashes = tf.constant(hashes[order])

    def ids(self, strings):
        """Ragged int32 `[batch, (tokens)]`."""
        return tf.ragged.map_flat_values(self._look_up, self._model.tokenize(strings))

    def _look_up(self, pieces):
        place = tf.searchsorted(self._hashes, _hashed(pieces))
        ids = tf.gather(self._ids, tf.minimum(place, tf.size(self._hashes) - 1))
        return tf.where(tf.gather(self.pieces, ids) == pieces, ids, self._unknown_id)

    def strings(self, ids):
        return tf.gather(self.pieces, ids)

    def text(self, ids):
        pieces = ids.with_values(tf.gather(self.pieces, ids.flat_values))
        text = self._model.detokenize(kept(pieces, tf.gather(self._is_text, ids.flat_values)))
        return tf.strings.strip(tf.strings.regex_replace(text, "▁", " "))


class PretrainedTokenizer(TableVocabulary, tf.Module, BaseTokenizer):
    """SentencePiece with a table of the ids of its pieces; each may be shared by both sides.

    Text is normalized only as the SentencePiece model says. A piece that is not in the table is
    unknown. What looks like a special token, such as `</s>`, is treated as plain text; but a source
    may begin with one of the `language_tags`, such as `>>fra<<`. For arguments, see
    `TableVocabulary`.
    """

    side_class = _Side

    def pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """See `BaseTokenizer.pieces`; for sources, whose tag is a piece too."""
        if not self.tag_ids:
            return self._sides[0].ids(strings)
        tag, text = self._without_tag(strings)
        return tf.concat([tag, self._sides[0].ids(text)], axis=1)

    def language_tags(self, strings: tf.Tensor) -> tf.RaggedTensor | None:
        return self._without_tag(strings)[0] if self.tag_ids else None

    def _without_tag(self, strings):
        """The id of the tag that each text begins with, ragged, and the rest of the text."""
        tag = rewritten(strings, TAG)
        ids = ids_of(tag, self.tag_ids)
        length = tf.where(ids >= 0, tf.strings.length(tag), 0)
        text = tf.strings.substr(strings, length, tf.strings.length(strings) - length)
        return ragged_rows(ids[:, None], tf.cast(ids >= 0, tf.int32)), text


def _hashed(strings):
    return tf.strings.to_hash_bucket_fast(strings, 2**63 - 1)
