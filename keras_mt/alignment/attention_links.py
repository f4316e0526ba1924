"""Alignments of words from attention over pieces."""

import numpy as np

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
