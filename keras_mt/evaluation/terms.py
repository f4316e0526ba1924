"""The terms of a glossary that stand in translations."""

import collections
from collections.abc import Sequence

import tensorflow as tf

from keras_mt.text.sentences import split_lines
from keras_mt.text.terms import find, parsed, tokens
from keras_mt.translation import Glossary


def terms_kept(
    glossary: Glossary, sources: Sequence[str], translations: Sequence[str]
) -> tuple[int, float | None]:
    """Counts the terms of a glossary in sources, and the share that their translations have.

    The terms of the sources are found as a translator finds them. A translation has one if its
    target stands in it, as whole words and whatever their case; for a term that occurs several
    times, as often.

    Args:
        glossary: The `Glossary`.
        sources: The sources, each of which is one line.
        translations: A translation of each.

    Returns:
        The number of occurrences, and the share, None if there are none.

    Example:

    >>> terms_kept(Glossary({"bank": "Institut"}), ["A bank, a bank."], ["Ein Institut."])
    (2, 0.5)
    """
    lines = tf.strings.regex_replace(tf.constant(list(sources), tf.string), "\n", " ")
    lines = split_lines(lines)[0].flat_values
    terms = parsed(tf.constant([glossary.lines(text) for text in sources], tf.string))
    matches = find(lines, tf.range(tf.size(lines)), terms)
    wanted = collections.Counter(zip(matches.line.numpy(), _cut(matches.target), strict=True))
    written = _cut(tf.constant(list(translations), tf.string))
    found = sum(min(n, _count(target, written[i])) for (i, target), n in wanted.items())
    total = wanted.total()
    return total, found / total if total else None


def _cut(texts):
    """A tuple of each text's tokens, in lower case and without white space."""
    lines = split_lines(tf.strings.regex_replace(texts, "\n", " "))[0].flat_values
    rows = tokens(tf.strings.lower(lines, encoding="utf-8"))[0].to_list()
    return [tuple(token for token in row if token.decode().strip()) for row in rows]


def _count(target, text):
    """The number of times that one sequence of tokens stands in another, apart."""
    number = i = 0
    while i + len(target) <= len(text):
        found = text[i : i + len(target)] == target
        number += found
        i += len(target) if found else 1
    return number
