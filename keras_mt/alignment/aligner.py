"""Word alignment: which target token comes from which source token."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Self

import numpy as np

from keras_mt.alignment.links import grow_diag_final_and
from keras_mt.errors import InputError
from keras_mt.layers.validation import check_positive

_NULL = 0.08  # The prior probability that a token comes from none of the other side.
_TENSION = 4.0  # How strongly the prior prefers the diagonal.
_SMOOTHING = 0.01  # The parameter of the Dirichlet prior of each token's probabilities.
_UNSEEN = 1e-7  # The probability of a token given one that it never occurred with.
# A table is learned from no more cells, which are pairs of a source and a target token of one
# sentence pair: about a gigabyte of memory. A sentence pair of more is left out.
_MAX_CELLS, _MAX_PAIR_CELLS = 2**25, 2**20
_MAX_KEPT_CELLS = 2**12  # Of a prior that is kept: a thousand of them have 16 megabytes.


@dataclasses.dataclass(frozen=True, eq=False)
class Aligner:
    """Aligns the tokens of sentence pairs, by IBM Model 1 with a prior for the diagonal.

    With source tokens s_1 ... s_n and target tokens t_1 ... t_m, target token i comes from the
    source token a_i, or from none (a_i = 0):

        p(t, a | s) = prod_i p(a_i) p(t_i | s_{a_i})
        p(a_i = 0) = 0.08,  p(a_i = j) = 0.92 exp(-4 |i/m - j/n|) / sum_k exp(-4 |i/m - k/n|)

    It is learned, and used, in both directions, and what they find is symmetrized. `learn` makes
    one.

    Attributes:
        sizes: Integers `[2]`: how many ids the source and the target have; greater ones, and
            negative ones, are unknown.
        pairs: int64 `[pairs]`, ascending: source id times `sizes[1]` plus target id, of the tokens
            that occurred together.
        forward: float32 `[pairs]`: the probability of the target token given the source token.
        backward: float32 `[pairs]`: that of the source token given the target token.
        null_forward: float32 `[sizes[1]]`: that of each target token given none.
        null_backward: float32 `[sizes[0]]`: that of each source token given none.

    Reference:
        Dyer, Chahuneau and Smith 2013, A Simple, Fast, and Effective Reparameterization of IBM
        Model 2 (https://aclanthology.org/N13-1073); Brown et al. 1993, The Mathematics of
        Statistical Machine Translation (https://aclanthology.org/J93-2003).

    Example:

    >>> sources = [np.array(ids) for ids in ([0, 1], [0, 2], [1], [2])]
    >>> targets = [np.array(ids) for ids in ([3, 4], [3, 5], [4], [5])]
    >>> aligner = Aligner.learn(sources, targets)
    >>> aligner.align(sources[:1], targets[:1])[0].tolist()
    [[0, 0], [1, 1]]
    """

    sizes: np.ndarray
    pairs: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    null_forward: np.ndarray
    null_backward: np.ndarray

    @classmethod
    def learn(
        cls, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], iterations: int = 5
    ) -> Self:
        """Learns from sentence pairs, by expectation maximization.

        Args:
            sources, targets: Ids of each sentence, integer arrays `[tokens]`, at least 0. To stay
                within about a gigabyte of memory, as many sentence pairs are drawn at random as
                have 32 million pairs of tokens: 80,000 of 20 tokens a side. One of more than a
                million, such as 1,000 tokens a side, is left out.
            iterations: Number of iterations.

        Returns:
            An `Aligner`.

        Raises:
            ValueError: If the sides differ in length, an id is negative, `iterations` is not a
                positive int, or no pair has a token on both sides.
        """
        check_positive(iterations=iterations)
        sources, targets = _sample(sources, targets)
        if not sources:
            raise InputError("An aligner is learned from sentence pairs. Received: none")
        if min(ids.min() for ids in (*sources, *targets)) < 0:
            raise InputError("The ids to learn from must be at least 0. Received: a negative one")
        sizes = np.array([1 + max(int(ids.max()) for ids in side) for side in (sources, targets)])
        both = list(zip(sources, targets, strict=True))
        pairs = np.unique(np.concatenate([_keys(*each, sizes[1]) for each in both], axis=None))
        links = [np.searchsorted(pairs, _keys(*e, sizes[1])).astype(np.int32) for e in both]
        forward = _learn_direction(links, targets, sizes[1], pairs // sizes[1], iterations)
        links = [each.T for each in links]
        backward = _learn_direction(links, sources, sizes[0], pairs % sizes[1], iterations)
        return cls(sizes, pairs, forward[0], backward[0], forward[1], backward[1])

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Aligns sentence pairs, any number of them.

        The most probable links of both directions are symmetrized by `grow-diag-final-and` (Koehn
        et al. 2005). A token that was not learned is aligned by its place alone.

        Args:
            sources, targets: Ids of each sentence, integer arrays `[tokens]`.

        Returns:
            For each pair int32 `[links, 2]`: the source's and the target's index of each link, in
            ascending order.

        Raises:
            ValueError: If the sides differ in length.
        """
        _check_parallel(sources, targets)
        return [
            self._align(np.asarray(source, np.int64), np.asarray(target, np.int64))
            for source, target in zip(sources, targets, strict=True)
        ]

    def _align(self, source, target):
        if not len(source) or not len(target):
            return np.zeros((0, 2), np.int32)
        known_source = (source >= 0) & (source < self.sizes[0])
        known_target = (target >= 0) & (target < self.sizes[1])
        source, target = source * known_source, target * known_target
        keys = _keys(source, target, self.sizes[1])
        places = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        seen = (self.pairs[places] == keys) & known_source[:, None] & known_target
        forward = np.where(seen, self.forward[places], _UNSEEN) * _prior(*keys.shape)
        backward = np.where(seen, self.backward[places], _UNSEEN) * _prior(*keys.T.shape).T
        no_source = np.where(known_target, self.null_forward[target], _UNSEEN) * _NULL
        no_target = np.where(known_source, self.null_backward[source], _UNSEEN) * _NULL
        to_source, to_target = _best(forward, no_source), _best(backward.T, no_target)
        return grow_diag_final_and(to_source, to_target[:, ::-1])


def _best(scores, none):
    """For each token its best given one, where that is better than none, `[links, 2]`."""
    tokens = np.flatnonzero(scores.max(axis=0) > none)
    return np.stack([scores.argmax(axis=0)[tokens], tokens], axis=1)


def _keys(source, target, target_size):
    """A number for each pair of a source and a target token, `[source, target]`."""
    return source.astype(np.int64)[:, None] * target_size + target


def _prior(given, tokens):
    """The prior probability of each of the given tokens for each token, `[given, tokens]`."""
    # Those of long sentences, kept, would fill the memory.
    return (_new_prior if given * tokens > _MAX_KEPT_CELLS else _kept_prior)(given, tokens)


def _new_prior(given, tokens):
    places = [np.arange(1, size + 1) / size for size in (given, tokens)]
    weights = np.exp(-_TENSION * np.abs(places[0][:, None] - places[1]))
    return ((1 - _NULL) * weights / weights.sum(axis=0)).astype(np.float32)


_kept_prior = functools.lru_cache(1_000)(_new_prior)


def _learn_direction(links, sentences, size, given, iterations):
    """Expectation maximization in one direction.

    Args:
        links: For each sentence the index of each pair of a given and an own token, `[given,
            tokens]`.
        sentences: Their own tokens, ids below `size`.
        given: The id of each pair's given token.

    Returns:
        The probability of each pair's own token given the other, and of each token given none.
    """
    ids = np.concatenate(sentences)
    pairs = np.concatenate([each.ravel() for each in links])
    prior = np.concatenate([_prior(*each.shape).ravel() for each in links])
    # The place in `ids` of each pair's own token.
    ends = np.cumsum([len(sentence) for sentence in sentences])
    tokens = np.split(np.arange(len(ids), dtype=np.int32), ends[:-1])
    tiled = [np.tile(own, len(each)) for own, each in zip(tokens, links, strict=True)]
    token = np.concatenate(tiled)
    table, null = np.ones(len(given), np.float32), np.ones(size, np.float32)
    for _ in range(iterations):
        linked, unlinked = table[pairs] * prior, null[ids] * _NULL
        totals = unlinked + np.bincount(token, linked, len(ids))
        counts = np.bincount(pairs, linked / totals[token], len(given))
        null_counts = np.bincount(ids, unlinked / totals, size)
        totals = np.bincount(given, counts)[given]
        table = _probabilities(counts, totals, size)
        null = _probabilities(null_counts, null_counts.sum(), size)
    return table, null


def _probabilities(counts, totals, size):
    """Expected probabilities of `size` tokens, given how often each was found."""
    return ((counts + _SMOOTHING) / (totals + _SMOOTHING * size)).astype(np.float32)


def _check_parallel(sources, targets):
    if len(sources) != len(targets):
        raise InputError(
            "sources and targets must be as many. "
            f"Received: {len(sources)} sources and {len(targets)} targets"
        )


def _sample(sources, targets):
    """The pairs to learn from, none empty or too long: all, or up to `_MAX_CELLS`."""
    _check_parallel(sources, targets)
    cells = np.array([len(s) * len(t) for s, t in zip(sources, targets, strict=True)], np.int64)
    order = np.flatnonzero((cells > 0) & (cells <= _MAX_PAIR_CELLS))
    order = np.random.default_rng(0).permutation(order)
    order = np.sort(order[np.cumsum(cells[order]) <= _MAX_CELLS])
    return [np.asarray(sources[i]) for i in order], [np.asarray(targets[i]) for i in order]
