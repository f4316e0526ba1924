"""Word alignment: which target token comes from which source token."""

from collections.abc import Sequence

import numpy as np

_ITERATIONS = 5


def ibm_model_1(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], target_vocab_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The probability of a target token given a source token, for those that occur together.

    Args:
        sources, targets: Ids of each sentence, arrays `[tokens]`, of pairs of sentences.
        target_vocab_size: Number of target tokens.

    Returns:
        Arrays of the source tokens, in ascending order, the target tokens, and the probabilities.

    Reference:
        Brown et al. 1993, The Mathematics of Statistical Machine Translation, section 4
        (https://aclanthology.org/J93-2003).
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
