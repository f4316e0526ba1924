"""Vocabulary shortlists: the target tokens that a source's translation may need."""

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from keras_mt.data.encoded import EncodedPairs
from keras_mt.files import written_whole
from keras_mt.layers.validation import check_positive
from keras_mt.models import Seq2Seq
from keras_mt.text import BaseTokenizer

# The most pairs of a source and a target token, in all sentences, that a table is learned from: a
# gigabyte of memory.
_MOST_CELLS = 2**25
_ITERATIONS = 5


class Vocabulary(NamedTuple):
    """The target tokens of one batch, each of which has an index; the special ones come first.

    Attributes:
        ids: int32 `[count]`: the id at each index.
        indices: int32 `[target_vocab_size]`: the index of each id; 0 for one that is not there.
        allowed: Boolean `[rows, count]`: which tokens each row may generate.
    """

    ids: tf.Tensor
    indices: tf.Tensor
    allowed: tf.Tensor


class ShortlistedModel:
    """What a search asks of a model, with indices in a batch's `Vocabulary` for tokens.

    A row's probabilities are over its own tokens, so that they do not depend on the other rows.
    """

    def __init__(self, model: Seq2Seq, vocabulary: Vocabulary):
        self._model, self._vocabulary = model, vocabulary
        self._step = model.shortlisted(vocabulary.ids)

    def start_decoding(self, source: tf.Tensor, beams: int | tf.Tensor) -> Any:
        return self._model.start_decoding(source, beams), self._vocabulary.allowed

    def decode_step(
        self, tokens: tf.Tensor, position: tf.Tensor, cache: Any, mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        cache, allowed = cache
        tokens = tf.gather(self._vocabulary.ids, tokens)
        logits, cache = self._step(tokens, position, cache, mask)
        logits = tf.where(allowed[:, None], logits, tf.constant(-math.inf, logits.dtype))
        return logits, (cache, allowed)

    def reorder_cache(self, cache: Any, parents: tf.Tensor) -> Any:
        cache, allowed = cache
        return self._model.reorder_cache(cache, parents), allowed


class Shortlist:
    """The target tokens that each source token may be translated to.

    With a shortlist a translator computes logits only for the tokens that the sources of a batch
    may need: those of the table's rows, and those that are always there. A translation holds tokens
    of its own source alone, and probabilities are over these, so scores are a little greater. It
    pays where the product with the vocabulary is a large part of a decoding step.

    Args:
        table: Integers `[source_vocab_size, count]`: target ids for each source id; -1 for none.
        always: Integers `[n]`: target ids for all sources.
        fingerprint: The `fingerprint` of the tokenizer that the ids belong to.

    Reference:
        Jean et al. 2015, On Using Very Large Target Vocabulary for Neural Machine Translation,
        section 3.3 (https://arxiv.org/abs/1412.2007).

    Example:

    >>> pairs = keras_mt.data.load_corpus("phrasebook", "pt", "en", "train")
    >>> tokenizer = keras_mt.Tokenizer.train(pairs.take(500), vocab_size=500)
    >>> shortlist = Shortlist.learn(pairs.take(500), tokenizer, size=20)
    >>> shortlist.table.shape
    (500, 20)
    """

    def __init__(self, table: np.ndarray, always: np.ndarray, fingerprint: str):
        self.table = np.asarray(table, np.int32)
        self.always = np.asarray(always, np.int32)
        self.fingerprint = str(fingerprint)
        # Variables, so that the signatures of an export share them.
        with tf.init_scope():
            self._table = tf.Variable(self.table, trainable=False, name="shortlist")
            self._always = tf.Variable(self.always, trainable=False, name="shortlist_always")
        self.variables = [self._table, self._always]

    @classmethod
    def learn(
        cls,
        pairs: tf.data.Dataset,
        tokenizer: BaseTokenizer,
        size: int = 50,
        frequent: int = 200,
        languages: Sequence[str] = (),
    ) -> Self:
        """Learns a shortlist from sentence pairs, by word alignment.

        The probability of each target token given a source token is that of IBM Model 1, after 5
        iterations. A source token that is also a target token may always be copied.

        Args:
            pairs: `tf.data.Dataset` of pairs of strings. Of a long one, as many of its first pairs
                are used as fit into a gigabyte: some 80,000 of 20 tokens a side.
            tokenizer: The model's tokenizer.
            size: Number of target tokens for each source token, the most probable ones.
            frequent: Number of the most frequent target tokens, which are always there.
            languages: For a tokenizer with languages, the codes of the source's and the target's.

        Raises:
            ValueError: If a number is not a positive int, or there are no pairs.

        Reference:
            Brown et al. 1993, The Mathematics of Statistical Machine Translation, section 4
            (https://aclanthology.org/J93-2003).
        """
        check_positive(size=size, frequent=frequent)
        encoded = EncodedPairs(pairs, tokenizer, languages=languages)
        cells = np.cumsum(np.prod(encoded.lengths.astype(np.int64), axis=1))
        index = np.arange(max(np.searchsorted(cells, _MOST_CELLS), min(len(encoded), 1)))
        if not len(index):
            raise ValueError("A shortlist is learned from sentence pairs. Received: none")
        sources, targets = (encoded.side(side, index) for side in (0, 1))
        table = np.full((tokenizer.source_vocab_size, size), -1, np.int32)
        _fill(table[:, 1:], *_model_1(sources, targets, tokenizer.target_vocab_size))
        table[:, 0] = _copies(tokenizer)
        counts = np.bincount(np.concatenate(targets), minlength=tokenizer.target_vocab_size)
        always = np.argsort(-counts, kind="stable")[:frequent]
        return cls(table, always[counts[always] > 0], tokenizer.fingerprint)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a `.npz` file."""
        with written_whole(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(
                file, table=self.table, always=self.always, fingerprint=self.fingerprint
            )

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote.

        Raises:
            FileNotFoundError: If the file is missing.
            ValueError: If it is not such a file.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(*(file[name] for name in ("table", "always", "fingerprint")))
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ValueError(
                f"{path} is not a shortlist, which `keras-mt shortlist` writes: {error}"
            ) from None

    def check_fits(self, tokenizer: BaseTokenizer) -> None:
        """Raises ValueError if the shortlist was learned with another tokenizer."""
        if self.fingerprint != tokenizer.fingerprint:
            raise ValueError(
                "The shortlist was learned with another tokenizer: learn it anew with "
                "`keras-mt shortlist`."
            )

    def vocabulary(
        self, source: tf.Tensor, special: Sequence[int], size: int, more: tf.Tensor | None = None
    ) -> Vocabulary:
        """The tokens that the translations of a batch may hold.

        Args:
            source: int32 `[rows, length]`.
            special: Ids that come first, in this order, and that every row may generate.
            size: Number of all target tokens.
            more: int32 `[rows, n]`: further ids of each row, such as a prefix's.
        """
        rows = tf.shape(source)[0]
        chosen = tf.gather(self._table, source)
        chosen = tf.reshape(chosen, (rows, -1))
        chosen = chosen if more is None else tf.concat([chosen, more], axis=1)
        chosen = tf.where(chosen < 0, special[0], chosen)
        common = tf.concat([special, self._always], axis=0)
        tokens, _ = tf.unique(tf.concat([tf.reshape(chosen, (-1,)), common], axis=0))
        there = tf.scatter_nd(tokens[:, None], tf.ones_like(tokens, tf.bool), (size,))
        there = tf.tensor_scatter_nd_update(
            there, [[i] for i in special], tf.zeros(len(special), tf.bool)
        )
        ids = tf.concat([special, tf.cast(tf.where(there)[:, 0], tf.int32)], axis=0)
        count = tf.size(ids)
        indices = tf.scatter_nd(ids[:, None], tf.range(count), (size,))
        row = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(chosen))
        places = tf.reshape(tf.stack([row, tf.gather(indices, chosen)], axis=-1), (-1, 2))
        own = tf.scatter_nd(places, tf.ones_like(places[:, 0], tf.bool), (rows, count))
        common = tf.gather(indices, common)[:, None]
        common = tf.scatter_nd(common, tf.ones_like(common[:, 0], tf.bool), (count,))
        return Vocabulary(ids, indices, own | common)


def _model_1(sources, targets, target_vocab_size):
    """The probability of a target token given a source token, for those that occur together.

    Returns:
        Arrays of the source tokens, in ascending order, the target tokens, and the probabilities.
    """
    # A cell is a target's token with one of its source's tokens; a token's cells are adjacent.
    keys = [
        (target[:, None].astype(np.int64) + source[None].astype(np.int64) * target_vocab_size)
        for source, target in zip(sources, targets, strict=True)
    ]
    widths = np.repeat([k.shape[1] for k in keys], [k.shape[0] for k in keys])
    keys, cells = np.unique(np.concatenate([k.ravel() for k in keys]), return_inverse=True)
    cells = cells.astype(np.int32)
    starts = np.cumsum(widths) - widths
    source, target = np.divmod(keys, target_vocab_size)
    probabilities = np.ones(len(keys), np.float32)
    for _ in range(_ITERATIONS):
        shares = probabilities[cells]
        shares /= np.repeat(np.add.reduceat(shares, starts), widths)
        counts = np.bincount(cells, shares, len(keys))
        probabilities = (counts / np.bincount(source, counts)[source]).astype(np.float32)
    return source, target, probabilities


def _fill(table, source, target, probabilities):
    """Writes the most probable targets of each source into the table's rows."""
    order = np.lexsort((-probabilities, source))
    source, target = source[order], target[order]
    firsts = np.searchsorted(source, source)  # Where each source's targets begin.
    rank = np.arange(len(source)) - firsts
    kept = rank < table.shape[1]
    table[source[kept], rank[kept]] = target[kept]


def _copies(tokenizer):
    """For each source id the id of the same piece in the target, or -1."""
    targets = np.arange(tokenizer.target_vocab_size, dtype=np.int32)
    sources = np.arange(tokenizer.source_vocab_size, dtype=np.int32)
    pieces = tokenizer.id_to_string(tf.constant(targets)).numpy()
    by_piece = dict(zip(pieces[::-1], targets[::-1], strict=True))
    pieces = tokenizer.source_id_to_string(tf.constant(sources)).numpy()
    return np.array([by_piece.get(piece, -1) for piece in pieces], np.int32)
