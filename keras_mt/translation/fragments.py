"""Texts with markup: their plain texts are translated, and the elements put back."""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_mt.text import Fragment
from keras_mt.text.sentences import split_lines, split_sentences


def protected_lines(fragment: Fragment) -> str:
    """Lines of terms that stay: what the fragment protects, where it stands but once in the text.

    A term is found wherever it stands; elsewhere it may be translated.
    """
    lines = []
    for kept in dict.fromkeys(fragment.kept):
        whole = rf"(?<!\w){re.escape(kept)}(?!\w)"
        plain = kept.strip() and not re.search(r"[\t\n\r]", kept)
        if plain and len(re.findall(whole, fragment.text, re.IGNORECASE)) == 1:
            lines.append(kept)
    return "\n".join(lines)


def put_into(
    results: list[Any],
    translator: Any,
    fragments: Sequence[Fragment],
    source_language: Sequence[str] | None = None,
    target_language: Sequence[str] | None = None,
) -> None:
    """Puts the fragments' elements into the hypotheses of their texts, in place: see `put_back`.

    `results` has for each fragment a list of hypotheses, or None.
    """
    found = [(i, j) for i, row in enumerate(results) for j in range(len(row or ()))]
    owners = [i for i, _ in found]
    codes = (_chosen(given, owners) for given in (source_language, target_language))
    texts = [results[i][j].text for i, j in found]
    written = put_back(translator, _chosen(fragments, owners), texts, *codes)
    for (i, j), text in zip(found, written, strict=True):
        results[i][j] = results[i][j]._replace(text=text)


def put_back(
    translator: Any,
    fragments: Sequence[Fragment],
    translations: Sequence[str],
    source_language: Sequence[str] | str | None = None,
    target_language: Sequence[str] | str | None = None,
) -> list[str]:
    """Translations of the fragments' texts with the fragments' elements put in.

    Args:
        translator: What can `align` them.
        fragments: The fragments.
        translations: A translation of the text of each.
        source_language, target_language: As of `align`.
    """
    marked = [
        i for i, fragment in enumerate(fragments) if fragment.has_markup and translations[i].strip()
    ]
    texts = [fragment.text for fragment in fragments]
    sources, targets = _apart(_chosen(texts, marked), _chosen(translations, marked))
    codes = (_chosen(given, marked) for given in (source_language, target_language))
    # None for a line that is too long to be aligned.
    alignments = dict(zip(marked, translator.align(sources, targets, *codes), strict=True))
    return [
        fragment.translated(translation, *(alignments.get(i) or ()))
        for i, (fragment, translation) in enumerate(zip(fragments, translations, strict=True))
    ]


def _chosen(values, places):
    """Those at some places; a code for all, or None, as it is."""
    if values is None or isinstance(values, str):
        return values
    return [values[i] for i in places]


def _apart(sources, targets):
    """Both sides with a line for each sentence, where both have the same number of them.

    Lines are aligned one by one: each sentence was translated by itself.
    """
    pairs = []
    for texts in zip(sources, targets, _sentences(sources), _sentences(targets), strict=True):
        *whole, source, target = texts
        same = [len(line) for line in source] == [len(line) for line in target]
        sides = ("\n".join(s for line in side for s in line) for side in (source, target))
        pairs.append(tuple(sides) if same else tuple(whole))
    return [list(side) for side in zip(*pairs, strict=True)] or ([], [])


def _sentences(texts):
    lines = split_lines(tf.constant(texts, tf.string))[0]
    sentences = lines.with_flat_values(split_sentences(lines.flat_values)[0])
    return [[[s.decode() for s in line] for line in text] for text in sentences.to_list()]
