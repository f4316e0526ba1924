"""Word alignment: which target token comes from which source token."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from keras_mt.alignment.arrays import SavedArrays
from keras_mt.alignment.symmetrization import grow_diag_final_and
from keras_mt.errors import InputError
from keras_mt.layers.validation import check_positive

_NULL = 0.08  # The prior probability that a token comes from none of the other side.
_TENSION = 4.0  # How strongly the prior prefers the diagonal.
_SMOOTHING = 0.01  # The parameter of the Dirichlet prior of each token's probabilities.
_UNSEEN = 1e-7  # The probability of a token given one that it never occurred with.
# A table is learned from no more cells, which are pairs of a source and a target token of one
# sentence pair: about a gigabyte of memory. A block has as many cells as this, or one pair.
_MAX_CELLS, _BLOCK = 2**25, 2**20


class Aligner(SavedArrays):
    """Aligns the tokens of sentence pairs, by IBM Model 1 with a prior for the diagonal.

    With source tokens s_1 ... s_n and target tokens t_1 ... t_m, target token i comes from the
    source token a_i, or from none (a_i = 0):

        p(t, a | s) = prod_i p(a_i) p(t_i | s_{a_i})
        p(a_i = 0) = 0.08,  p(a_i = j) = 0.92 exp(-4 |i/m - j/n|) / sum_k exp(-4 |i/m - k/n|)

    It is learned, and used, in both directions, and what they find is symmetrized.

    The arguments are what `learn` finds; they are also attributes.

    Args:
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

    _fields = "sizes", "pairs", "forward", "backward", "null_forward", "null_backward"
    _kind = "an aligner that was saved"

    def __init__(
        self,
        sizes: np.ndarray,
        pairs: np.ndarray,
        forward: np.ndarray,
        backward: np.ndarray,
        null_forward: np.ndarray,
        null_backward: np.ndarray,
    ):
        self.sizes, self.pairs = np.asarray(sizes, np.int64), np.asarray(pairs, np.int64)
        self.forward, self.backward, self.null_forward, self.null_backward = (
            np.asarray(x, np.float32) for x in (forward, backward, null_forward, null_backward)
        )

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
        blocks = _blocks(*_sample(sources, targets))
        if not blocks:
            raise InputError("An aligner is learned from sentence pairs. Received: none")
        ids = [np.concatenate([np.concatenate(block[side]) for block in blocks]) for side in (0, 1)]
        if min(side.min() for side in ids) < 0:
            raise InputError("The ids to learn from must be at least 0. Received: a negative one")
        sizes = [int(side.max()) + 1 for side in ids]
        pairs, places = _pairs(blocks, sizes[1])
        given = np.divmod(pairs, sizes[1])
        tables = [np.ones(len(pairs), np.float32) for _ in sizes]
        nulls = [np.ones(size, np.float32) for size in sizes[::-1]]
        for _ in range(iterations):
            counts = [np.zeros(len(pairs)) for _ in sizes]
            null_counts = [np.zeros(size) for size in sizes[::-1]]
            for block, where in zip(blocks, places, strict=True):
                cells = _cells(*block)
                for x in (0, 1):  # The direction: which side is given.
                    found, found_null = _expected(cells, x, tables[x][where], nulls[x])
                    counts[x] += np.bincount(where, found, len(pairs))
                    null_counts[x] += np.bincount(cells.ids[1 - x], found_null, sizes[1 - x])
            for x in (0, 1):
                totals = np.bincount(given[x], counts[x], sizes[x])[given[x]]
                tables[x] = _probabilities(counts[x], totals, sizes[1 - x])
                nulls[x] = _probabilities(null_counts[x], null_counts[x].sum(), sizes[1 - x])
        return cls(sizes, pairs, *tables, *nulls)

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Aligns sentence pairs, any number of them.

        Each direction's most probable links are symmetrized by `grow_diag_final_and`. A token that
        was not learned is aligned by its place alone.

        Args:
            sources, targets: Ids of each sentence, integer arrays `[tokens]`.

        Returns:
            For each pair int32 `[links, 2]`: the source's and the target's index of each link, in
            ascending order.

        Raises:
            ValueError: If the sides differ in length.
        """
        _check_parallel(sources, targets)
        links = [np.zeros((0, 2), np.int32)] * len(sources)
        order = [
            i for i, pair in enumerate(zip(sources, targets, strict=True)) if all(map(len, pair))
        ]
        blocks = _blocks([sources[i] for i in order], [targets[i] for i in order])
        found = (each for block in blocks for each in self._align(*block))
        for i, each in zip(order, found, strict=True):
            links[i] = each
        return links

    def _align(self, sources, targets):
        """Yields the links of each pair of a block."""
        cells = _cells(sources, targets)
        known, ids = [], []
        for side, size in zip(cells.ids, self.sizes, strict=True):
            known.append((side >= 0) & (side < size))
            ids.append(np.where(known[-1], side, 0))
        keys = ids[0][cells.token[0]] * self.sizes[1] + ids[1][cells.token[1]]
        places = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        seen = known[0][cells.token[0]] & known[1][cells.token[1]] & (self.pairs[places] == keys)
        tables, nulls = (self.forward, self.backward), (self.null_forward, self.null_backward)
        scores = [np.where(seen, tables[x][places], _UNSEEN) * cells.prior[x] for x in (0, 1)]
        nulls = [np.where(known[1 - x], nulls[x][ids[1 - x]], _UNSEEN) * _NULL for x in (0, 1)]
        start, starts = 0, [0, 0]
        for source, target in zip(sources, targets, strict=True):
            n, m = len(source), len(target)
            forward, backward = (x[start : start + m * n].reshape(m, n) for x in scores)
            null_target, null_source = (
                null[at : at + size]
                for null, at, size in zip(nulls, starts[::-1], (m, n), strict=True)
            )
            best = forward.argmax(1), backward.argmax(0)
            one = np.flatnonzero(forward.max(1) > null_target)
            other = np.flatnonzero(backward.max(0) > null_source)
            yield grow_diag_final_and(
                np.stack([best[0][one], one], axis=1), np.stack([other, best[1][other]], axis=1)
            )
            start, starts = start + m * n, [starts[0] + n, starts[1] + m]


class _Cells(NamedTuple):
    """The pairs of a source and a target token of a block's sentence pairs; each field has two."""

    ids: list[np.ndarray]  # int64 `[tokens]`: of all tokens of the source, and of the target.
    token: list[np.ndarray]  # For each cell the index in them of its source, and its target token.
    # For each cell, float32: the prior of the source's place given the target's, and the other.
    prior: list[np.ndarray]


def _cells(sources, targets):
    n, m = (np.array([len(side) for side in sides]) for sides in (sources, targets))
    sizes = n * m  # Cell k of a pair is of target k // n and source k % n.
    at = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    target, source = np.divmod(at, np.repeat(n, sizes))
    places = [(at + 1) / np.repeat(size, sizes) for at, size in ((source, n), (target, m))]
    weights = np.exp(-_TENSION * np.abs(places[0] - places[1]))
    source += np.repeat(np.cumsum(n) - n, sizes)
    target += np.repeat(np.cumsum(m) - m, sizes)
    prior = [  # Each is of the other side's tokens.
        ((1 - _NULL) * weights / np.bincount(token, weights)[token]).astype(np.float32)
        for token in (target, source)
    ]
    ids = [np.concatenate(side).astype(np.int64) for side in (sources, targets)]
    return _Cells(ids, [source, target], prior)


def _expected(cells, x, table, null):
    """The probability that each cell's tokens are linked, and that each token has no link."""
    ids, owner = cells.ids[1 - x], cells.token[1 - x]
    shares = table * cells.prior[x]
    nulls = _NULL * null[ids]
    totals = nulls + np.bincount(owner, shares, len(ids))
    return shares / totals[owner], nulls / totals


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
    """The pairs to learn from, none empty or longer than a block: all, or up to `_MAX_CELLS`."""
    _check_parallel(sources, targets)
    cells = np.array([len(s) * len(t) for s, t in zip(sources, targets, strict=True)], np.int64)
    order = np.flatnonzero((cells > 0) & (cells <= _BLOCK))
    order = np.random.default_rng(0).permutation(order)
    order = np.sort(order[np.cumsum(cells[order]) <= _MAX_CELLS])
    return [sources[i] for i in order], [targets[i] for i in order]


def _blocks(sources, targets):
    """Consecutive pairs: each block has one pair, or no more than `_BLOCK` cells."""
    blocks, size = [], _BLOCK
    for source, target in zip(sources, targets, strict=True):
        size += len(source) * len(target)
        if size > _BLOCK:
            blocks.append(([], []))
            size = len(source) * len(target)
        blocks[-1][0].append(source)
        blocks[-1][1].append(target)
    return blocks


def _pairs(blocks, target_size):
    """The pairs of tokens that occur together, ascending, and for each block its cells' places."""
    found = []
    for block in blocks:
        (source, target), token, _ = _cells(*block)
        keys = source[token[0]] * target_size + target[token[1]]
        keys, cells = np.unique(keys, return_inverse=True)
        found.append((keys, cells.astype(np.int32)))
    pairs = np.unique(np.concatenate([keys for keys, _ in found]))
    return pairs, [np.searchsorted(pairs, keys).astype(np.int32)[cells] for keys, cells in found]
