"""Texts with markup: their plain texts are translated, and the elements put back."""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_mt.text.markup import Fragment
from keras_mt.text.sentences import split_lines, split_sentences


def protected_lines(fragment: Fragment) -> str:
    """Lines of terms that stay: what the fragment protects, where its text has it but once.

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
    """Puts the fragments' elements into the hypotheses of their texts, in place.

    The `translator` aligns them; of the languages there is a code for each fragment, or None.
    """
    places = [(i, j) for i, row in enumerate(results) for j in range(len(row or ()))]
    texts = {(i, j): results[i][j].text for i, j in places}
    marked = [(i, j) for i, j in places if fragments[i].has_markup and texts[i, j].strip()]
    sides = _apart([fragments[i].text for i, _ in marked], [texts[place] for place in marked])
    codes = (
        codes and [codes[i] for i, _ in marked] for codes in (source_language, target_language)
    )
    # None for a line that is too long to be aligned.
    alignments = dict(zip(marked, translator.align(*sides, *codes), strict=True))
    for i, j in places:
        text = fragments[i].translated(texts[i, j], *(alignments.get((i, j)) or ()))
        results[i][j] = results[i][j]._replace(text=text)


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
