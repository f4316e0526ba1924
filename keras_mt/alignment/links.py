"""Alignments of words as links: from attention, and of two directions made one."""

import numpy as np

# The neighbours of a link, in the order in which they are tried.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
_LEAST = 0.25  # Of the phrasebook's pairs by hand, the error rate rises from 0.35 on.


def attention_links(
    attention: np.ndarray, source_words: np.ndarray, target_words: np.ndarray, least: float = _LEAST
) -> np.ndarray:
    """Links each target word to the source word that it attends to most, if above `least`.

    The attention of a word is the mean of its pieces', and that on a word the sum over its pieces.
    """
    sizes = [words.max(initial=-1) + 1 for words in (source_words, target_words)]
    if not all(sizes):
        return np.zeros((0, 2), np.int32)
    to_source, to_target = (
        (words[:, None] == np.arange(size)).astype(np.float64)
        for words, size in zip((source_words, target_words), sizes, strict=True)
    )
    weights = to_target.T @ attention @ to_source / np.maximum(to_target.sum(0), 1)[:, None]
    best = weights.argmax(axis=1)
    links = [(best[j], j) for j in range(len(best)) if weights[j].max() > least]
    return np.array(sorted(links), np.int32).reshape(-1, 2)


def grow_diag_final_and(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Symmetrizes two alignments of a sentence pair, `[links, 2]` each: source and target index.

    From the links of both, it grows over neighbouring links of either one whose source or target
    has no link yet, until there are none; then it adds those, neighbouring or not, whose source and
    target have no link yet (Koehn et al. 2005, https://aclanthology.org/2005.iwslt-1.8; Och and Ney
    2003, https://aclanthology.org/J03-1002). The result is int32, in ascending order.

    >>> grow_diag_final_and([[0, 0], [0, 1], [3, 3]], [[0, 0], [2, 3]]).tolist()
    [[0, 0], [0, 1], [3, 3]]
    """
    forward, backward = ([*map(tuple, np.array(x).tolist())] for x in (forward, backward))
    both, one = set(forward) & set(backward), set(forward) ^ set(backward)
    sources, targets = {i for i, _ in both}, {j for _, j in both}

    def add(link):
        both.add(link)
        one.discard(link)
        sources.add(link[0])
        targets.add(link[1])

    new = sorted(both)
    while new and one:
        before, new = new, []
        for i, j in before:
            for di, dj in _NEIGHBOURS:
                link = i + di, j + dj
                if link in one and (link[0] not in sources or link[1] not in targets):
                    add(link)
                    new.append(link)
    for link in forward + backward:
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return np.array(sorted(both), np.int32).reshape(-1, 2)


def pharaoh_line(links: np.ndarray) -> str:
    """The links of one sentence pair, `[links, 2]`, as a line of Pharaoh's format."""
    return " ".join(f"{source}-{target}" for source, target in links)
