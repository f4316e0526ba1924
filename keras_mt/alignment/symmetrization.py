"""Alignments of two directions, made one."""

import numpy as np

# The neighbours of a link, in the order in which they are tried.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Symmetrizes the word alignments of a sentence pair in its two directions.

    From the links of both, it grows over neighbouring links of either one whose source or target
    has no link yet, until there are none; then it adds those, neighbouring or not, whose source and
    target have no link yet.

    Args:
        forward: Integers `[links, 2]`: the source's and the target's index of each link, of the
            direction that gives each target token one source token at most.
        backward: The same of the other direction, source and target in the same order.

    Returns:
        int32 `[links, 2]`, in ascending order.

    Reference:
        Koehn et al. 2005, Edinburgh System Description for the 2005 IWSLT Speech Translation
        Evaluation (https://aclanthology.org/2005.iwslt-1.8); Och and Ney 2003, A Systematic
        Comparison of Various Statistical Alignment Models (https://aclanthology.org/J03-1002).

    Example:

    >>> grow_diag_final_and([[0, 0], [0, 1], [3, 3]], [[0, 0], [2, 3]]).tolist()
    [[0, 0], [0, 1], [2, 3]]
    """
    forward, backward = ([(int(i), int(j)) for i, j in links] for links in (forward, backward))
    both = set(forward) & set(backward)
    either = set(forward) | set(backward)
    sources, targets = {i for i, _ in both}, {j for _, j in both}

    def add(link):
        both.add(link)
        sources.add(link[0])
        targets.add(link[1])

    new = sorted(both)
    while new and len(both) < len(either):
        before, new = new, []
        for i, j in before:
            for di, dj in _NEIGHBOURS:
                link = i + di, j + dj
                free = link[0] not in sources or link[1] not in targets
                if link in either and link not in both and free:
                    add(link)
                    new.append(link)
    for link in forward + backward:
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return np.array(sorted(both), np.int32).reshape(-1, 2)
