"""The terms of a glossary that stand in translations."""

import collections
from collections.abc import Sequence

from keras_mt.text import Glossary


def terms_kept(
    glossary: Glossary, sources: Sequence[str], translations: Sequence[str]
) -> tuple[int, float | None]:
    """Counts the terms of a glossary in sources, and the share that their translations have.

    The terms of the sources are found as a translator finds them. A translation has one if its
    target stands in it, as whole words and whatever their case; for a term that occurs several
    times, as often.

    Args:
        glossary: The `Glossary`.
        sources: The sources.
        translations: A translation of each.

    Returns:
        The number of occurrences, and the share, None if there are none.

    Example:

    >>> terms_kept(Glossary({"bank": "Institut"}), ["A bank, a bank."], ["Ein Institut."])
    (2, 0.5)
    """
    wanted = collections.Counter(
        (i, term.target or source[start:end])
        for i, source in enumerate(sources)
        for start, end, term in glossary.find(source)
    )
    found = sum(
        min(number, len(Glossary([target]).find(translations[i])))
        for (i, target), number in wanted.items()
    )
    total = wanted.total()
    return total, found / total if total else None
