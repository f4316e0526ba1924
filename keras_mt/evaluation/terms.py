"""The terms of a glossary that stand in translations."""

import collections
from collections.abc import Sequence

from keras_mt.text import Glossary


def terms_kept(
    glossary: Glossary, sources: Sequence[str], translations: Sequence[str]
) -> tuple[int, float | None]:
    """The number of a glossary's terms in sources, and the share that their translations have.

    A term is found as a translator finds it, and its target as whole words, whatever their case.

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
