"""The aligner against sums over all alignments, and symmetrization against another one."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.alignment import Aligner, aligner
from keras_mt.alignment.links import grow_diag_final_and

PAIRS = [([0, 1], [2, 3, 0]), ([0], [2]), ([1, 3, 1], [0, 1]), ([3], [0, 0]), ([2, 0], [4, 2])]


def arrays(pairs):
    return [[np.array(ids) for ids in side] for side in zip(*pairs, strict=True)]


def prior(i, m, n):
    """p(a_i) of target token i of m, from 1 on, of a source of n: a list, the first of none."""
    weights = [np.exp(-4 * abs(i / m - j / n)) for j in range(1, n + 1)]
    return [0.08, *(0.92 * weight / sum(weights) for weight in weights)]


def textbook(pairs, size, iterations=5):
    """EM over all alignments of each pair; the null word is None, `size` the target's ids."""
    words = {None, *(s for source, _ in pairs for s in source)}
    t = {(s, e): 1.0 for s in words for e in range(size)}
    for _ in range(iterations):
        counts = dict.fromkeys(t, 0.0)
        for source, target in pairs:
            given = [None, *source]
            weighted = []
            for a in itertools.product(range(len(given)), repeat=len(target)):
                links = [(given[j], e) for j, e in zip(a, target, strict=True)]
                p = [prior(i, len(target), len(source))[j] for i, j in enumerate(a, start=1)]
                weighted.append((links, np.prod([*p, *map(t.get, links)])))
            total = sum(weight for _, weight in weighted)
            for links, weight in weighted:
                for link in links:
                    counts[link] += weight / total
        totals = {s: sum(counts[s, e] for e in range(size)) for s in words}
        t = {(s, e): (c + 0.01) / (totals[s] + 0.01 * size) for (s, e), c in counts.items()}
    return t


@pytest.mark.parametrize("longest", [2**20, 4])  # All of them, and the short ones.
def test_learns_what_the_sums_over_all_alignments_give(longest, monkeypatch):
    monkeypatch.setattr(aligner, "_MAX_PAIR_CELLS", longest)
    pairs = [(s, t) for s, t in PAIRS if len(s) * len(t) <= longest]
    learned = Aligner.learn(*arrays(PAIRS))
    size = learned.sizes[1]
    forward = textbook(pairs, size)
    backward = textbook([pair[::-1] for pair in pairs], learned.sizes[0])
    together = {(s, t) for source, target in pairs for s in source for t in target}
    assert list(zip(*np.divmod(learned.pairs, size), strict=True)) == sorted(together)
    for (s, t), one, other in zip(sorted(together), learned.forward, learned.backward, strict=True):
        assert (one, other) == pytest.approx((forward[s, t], backward[t, s]), rel=1e-4)
    for null, expected in ((learned.null_forward, forward), (learned.null_backward, backward)):
        assert null == pytest.approx([expected[None, x] for x in range(len(null))], rel=1e-4)


def test_links_are_the_most_probable_ones():
    learned = Aligner.learn(*arrays(PAIRS))

    def links(pairs, t):
        """The most probable alignment of each pair, a list of its links."""
        for source, target in pairs:
            weights = [
                [
                    p * t.get((s, e), 1e-7)
                    for p, s in zip(
                        prior(i, len(target), len(source)), (None, *source), strict=True
                    )
                ]
                for i, e in enumerate(target, start=1)
            ]
            yield [(int(np.argmax(w)) - 1, j) for j, w in enumerate(weights) if np.argmax(w)]

    # The last one has pairs that were not learned, and ids that are not known.
    pairs = [*PAIRS, ([2, 9, 0], [4, -1, 2])]
    ways = [pairs, [pair[::-1] for pair in pairs]]
    seen = {(s, e) for source, target in PAIRS for s in source for e in target}
    tables = [textbook(way[:-1], size) for way, size in zip(ways, learned.sizes[::-1], strict=True)]
    for table, there in zip(tables, (seen, {link[::-1] for link in seen}), strict=True):
        for s, e in [link for link in table if link[0] is not None and link not in there]:
            del table[s, e]
    one, other = (list(links(way, t)) for way, t in zip(ways, tables, strict=True))
    expected = [
        grow_diag_final_and(a, [link[::-1] for link in b]).tolist()
        for a, b in zip(one, other, strict=True)
    ]
    assert [found.tolist() for found in learned.align(*arrays(pairs))] == expected
    assert sum(map(len, expected)) > 10


def test_finds_a_dictionary_in_any_order_and_for_any_number_of_pairs(monkeypatch):
    random = np.random.default_rng(0)
    words = random.permutation(30)
    sources = [random.choice(30, random.integers(3, 9), replace=False) for _ in range(400)]
    orders = [np.argsort(np.arange(len(s)) + random.normal(0, 1.5, len(s))) for s in sources]
    targets = [words[s[order]] for s, order in zip(sources, orders, strict=True)]
    monkeypatch.setattr(aligner, "_MAX_CELLS", 8_000)  # Some two thirds of them.
    learned = Aligner.learn(sources, targets)
    found = learned.align([*sources, np.array([1, 2]), []], [*targets, [], [1]])
    assert [links.tolist() for links in found[-2:]] == [[], []]
    right = [
        links.tolist() == sorted([i, j] for j, i in enumerate(order))
        for links, order in zip(found, orders, strict=False)
    ]
    assert np.mean(right) > 0.95
    assert all(links.dtype == np.int32 and links.shape[1] == 2 for links in found)


def independent(forward, backward):
    """Grow-diag-final-and on a matrix, as its authors' pseudocode has it, one link after another.

    It goes over the links in rounds until nothing changes.
    """
    shape = 8, 8
    one, other = np.zeros(shape, bool), np.zeros(shape, bool)
    for matrix, links in ((one, forward), (other, backward)):
        for link in links:
            matrix[tuple(link)] = True
    result, either = one & other, one | other
    queue = [tuple(x) for x in np.argwhere(result)]
    while queue:
        later = []
        for i, j in queue:
            for x, y in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                a, b = i + x, j + y
                inside = 0 <= a < shape[0] and 0 <= b < shape[1]
                if not inside or not either[a, b] or (result[a].any() and result[:, b].any()):
                    continue
                result[a, b] = True
                later.append((a, b))
        queue = later
    for i, j in [*forward, *backward]:
        if not result[i].any() and not result[:, j].any():
            result[i, j] = True
    return np.argwhere(result).tolist()


INDEX = st.integers(0, 7)


@given(st.dictionaries(INDEX, INDEX), st.dictionaries(INDEX, INDEX))
def test_symmetrization_is_that_on_a_matrix(by_target, by_source):
    forward = [(source, target) for target, source in by_target.items()]
    backward = list(by_source.items())
    found = grow_diag_final_and(forward, backward)
    assert found.tolist() == independent(forward, backward)
    links = {tuple(link) for link in found.tolist()}
    assert set(forward) & set(backward) <= links <= set(forward) | set(backward)


def test_symmetrization_by_hand():
    # In both: 0-0 and 2-2. 0-1 grows, since target 1 has no link; 1-1 does from it, for source 1;
    # 1-2 does not, both have one. 4-5 is no neighbour, but neither has a link; 4-6 comes too late.
    forward = [(0, 0), (0, 1), (2, 2), (4, 5), (4, 6)]
    backward = [(0, 0), (1, 1), (2, 2)]
    expected = [[0, 0], [0, 1], [1, 1], [2, 2], [4, 5]]
    assert grow_diag_final_and(forward, backward).tolist() == expected
    assert grow_diag_final_and([], []).shape == (0, 2)


def test_ids_may_be_of_the_smallest_integers():
    small = [[np.array(ids, np.uint8) for ids in ([7, 255], [7], [255])]] * 2
    wide = [[ids.astype(np.int64) for ids in side] for side in small]
    learned = Aligner.learn(*small)
    assert learned.sizes.tolist() == [256, 256]
    for one, other in zip(learned.align(*small), Aligner.learn(*wide).align(*wide), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_pickle_holds_all_of_it():
    learned = Aligner.learn(*arrays(PAIRS))
    again = pickle.loads(pickle.dumps(learned))
    for one, other in zip(again.align(*arrays(PAIRS)), learned.align(*arrays(PAIRS)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_cannot_be_learned_from_is_refused():
    some = [np.array([1, 2])]
    for sources, targets, message in (
        ([], [], "learned from sentence pairs"),
        ([[]], [[1]], "learned from sentence pairs"),
        (some, [], "1 sources and 0 targets"),
        (some, [np.array([-1])], "at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Aligner.learn(sources, targets)
    with pytest.raises(ValueError, match="iterations must be"):
        Aligner.learn(some, some, iterations=0)
    with pytest.raises(ValueError, match="1 sources and 0 targets"):
        Aligner.learn(some, some).align(some, [])
