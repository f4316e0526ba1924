"""Alignments of pieces as alignments of words."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_mt.text import BaseTokenizer


def words_of_pieces(
    text: str, pieces: Sequence[str], tokenizer: BaseTokenizer, target: bool = False
) -> np.ndarray | None:
    """The word that each piece of a text belongs to; words are what white space separates.

    Args:
        text: The text, one line.
        pieces: Its pieces as strings, special ones included.
        tokenizer: The tokenizer.
        target: Whether it is a target.

    Returns:
        int32 `[pieces]`: the word's index in `text.split()`, -1 for special pieces; None if the
        text has other pieces than its words have by themselves.

    Example:

    >>> words_of_pieces("A book.", ["▁A", "▁boo", "k", ".", "</s>"], tokenizer)  # doctest: +SKIP
    array([0, 1, 1, 1, -1], dtype=int32)
    """
    encode = tokenizer.target_pieces if target else tokenizer.pieces
    strings = tokenizer.id_to_string if target else tokenizer.source_id_to_string
    ids = encode(tf.constant(text.split(), tf.string))
    own = [piece.decode("utf-8") for piece in strings(ids.flat_values).numpy()]
    words = np.repeat(np.arange(ids.nrows()), ids.row_lengths())
    for start in range(len(pieces) - len(own) + 1):
        if list(pieces[start : start + len(own)]) == own:
            found = np.full(len(pieces), -1, np.int32)
            found[start : start + len(own)] = words
            return found
    return None


def word_links(links: np.ndarray, source_words: np.ndarray, target_words: np.ndarray) -> np.ndarray:
    """The links of words, from those of their pieces.

    Args:
        links: Integers `[links, 2]`, of pieces.
        source_words, target_words: The word of each piece; -1 for none.

    Returns:
        int32 `[links, 2]` of words, in ascending order.

    >>> word_links([[0, 0], [1, 0], [2, 1]], np.array([0, 0, -1]), np.array([0, 1])).tolist()
    [[0, 0]]
    """
    links = np.asarray(links, np.int32).reshape(-1, 2)
    found = np.stack([source_words[links[:, 0]], target_words[links[:, 1]]], axis=1)
    return np.unique(found[(found >= 0).all(axis=1)], axis=0).astype(np.int32)


def attention_links(
    attention: np.ndarray, source_words: np.ndarray, target_words: np.ndarray, least: float = 0.0
) -> np.ndarray:
    """Links each target word to the source word that it attends to most.

    A word's attention is the mean of its pieces', and that on a word the sum over its pieces.

    Args:
        attention: Floats `[target_pieces, source_pieces]`, whose rows sum to 1.
        source_words, target_words: The word of each piece, as from `words_of_pieces`.
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
