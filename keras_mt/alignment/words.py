"""Alignments of words from attention over pieces."""

import numpy as np

_LEAST = 0.25  # Of the phrasebook's pairs by hand, the error rate rises from 0.35 on.


def attention_links(
    attention: np.ndarray, source_words: np.ndarray, target_words: np.ndarray, least: float = _LEAST
) -> np.ndarray:
    """Links each target word to the source word that it attends to most.

    A word's attention is the mean of its pieces', and that on a word the sum over its pieces.

    Args:
        attention: Floats `[target_pieces, source_pieces]`, whose rows sum to 1.
        source_words, target_words: As of `keras_mt.text.words.words_of_pieces`.
        least: The least attention that makes a link; a word with less has none.

    Returns:
        int32 `[links, 2]`, in ascending order.

    >>> attention = np.array([[0.9, 0.1, 0.0], [0.2, 0.2, 0.6]])
    >>> attention_links(attention, np.array([0, 0, 1]), np.array([0, 1])).tolist()
    [[0, 0], [1, 1]]
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
