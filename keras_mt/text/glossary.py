"""Glossaries: terms whose translations are given."""

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from keras_mt.errors import InputError
from keras_mt.text.words import kinds_of

# What no term has: control characters, tabs and line ends too; and what UTF-8 has no bytes for.
_STRANGE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_SHOWN = 5  # What is wrong that an error tells at once.
CASE = "case"  # The third column of a term whose case counts.
# A run of letters, marks and digits; a character of a script without spaces; white space; another.
_TOKEN = re.compile(r"[wc]+|ic*| +|.")
# Korean syllables that end in a vowel, and in ㄹ; and what may stand behind a word, whose rest is
# what a glossary has: a pattern that takes long to compile.
_OPEN, _RIEUL = ("".join(map(chr, range(first, 0xD7A4, 28))) for first in (0xAC00, 0xAC08))
PARTICLE = (
    rf"(?<![{_OPEN}])(?:은|이|을|과|으로|이나|이라)|(?<=[^가-힣]|[{_OPEN}])(?:는|가|를|와)|"
    rf"(?<=[^가-힣]|[{_OPEN}{_RIEUL}])로|의|에|도|만|에서|에게|에는|에도|까지|부터|처럼|보다|마다|"
    "들|들은|들이|들을|들의|라는|"
)


class Term(NamedTuple):
    """A term of a glossary.

    Attributes:
        source: What it is in the source.
        target: What it shall be in the translation; None for a term that stays as it is.
        case_sensitive: Whether the source counts only with its own upper and lower case.

    Example:

    >>> Term("IT", "EDV", case_sensitive=True).target
    'EDV'
    """

    source: str
    target: str | None = None
    case_sensitive: bool = False


class Glossary:
    """Terms whose translations are given.

    A term is found in a text as a sequence of whole words, which end where letters and digits end;
    in scripts without spaces, as a sequence of characters. A Korean word may have a particle behind
    it. Of two that overlap, the one of more words counts, and then the one further left. Upper and
    lower case are the same in sources, but for a `Term` that is case-sensitive. A term without a
    target stays as it is.

    Args:
        pairs: Pairs `(source, target)`, a dict of them, or a list of `Term`; a target of None, or
            a str in place of a pair, is a term that stays.

    Raises:
        ValueError: If a term is empty, has a control character in it, or two targets.

    Example:

    >>> glossary = Glossary([("bank", "Institut"), "Keras"])
    >>> len(glossary), [term.source for term in glossary]
    (2, ['bank', 'Keras'])
    """

    def __init__(self, pairs: Mapping[str, str | None] | Iterable[str | Sequence[str | None]]):
        pairs = pairs.items() if isinstance(pairs, Mapping) else pairs
        if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
            raise InputError(
                "pairs must be pairs (source, target), such as of a dict. "
                f"Received: {type(pairs).__name__}"
            )
        rows = ((f"pairs[{i}]", pair) for i, pair in enumerate(pairs))
        self._terms = _unless_wrong(*_checked(rows, _columns_of_pair))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads a glossary from a file of lines `source<TAB>target`, in UTF-8.

        A source alone stays as it is; a third column `case` says that the source's upper and lower
        case count. Blank lines, and those that begin with `#`, are left out.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If a line is no term, or its source has another target above; the message
                names the file and the lines.
        """
        glossary = cls([])
        glossary._terms = _unless_wrong(*read_terms(path))
        return glossary

    def __len__(self) -> int:
        return len(self._terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self._terms)

    def __repr__(self) -> str:
        return f"<Glossary of {len(self):,} terms>"

    @property
    def fingerprint(self) -> str:
        """A hash of its terms."""
        return hashlib.sha256(repr(self._terms).encode()).hexdigest()

    @functools.cached_property
    def _index(self):
        """The terms by their tokens and whether case counts; and their numbers of tokens."""
        index = {}
        for term in self._terms:
            tokens, _ = _tokens(term.source, term.case_sensitive)
            index.setdefault((*tokens, term.case_sensitive), term)
        return index, {len(key) - 1 for key in index}

    def find(self, text: str, whole: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int, Term]]:
        """The terms in a text, in its order: triples of start, end and `Term`.

        No term has a part of the `whole` places of the text, pairs of start and end.

        >>> glossary = Glossary({"bank": "Institut", "river bank": "Ufer"})
        >>> [(start, end, term.target) for start, end, term in glossary.find("A river bank.")]
        [(2, 12, 'Ufer')]
        """
        taken, found = np.zeros(len(text), bool), []
        for _, start, end, term in sorted(self._candidates(text), key=lambda row: row[0]):
            apart = all(b <= start or end <= a or start <= a < b <= end for a, b in whole)
            if apart and not taken[start:end].any():
                taken[start:end] = True
                found.append((start, end, term))
        return sorted(found, key=lambda row: row[0])

    def _candidates(self, text):
        """Yields the rank, the place and the term of all that may be one.

        Most tokens count first, then the leftmost, then one whose case counts, then one without a
        particle.
        """
        index, sizes = self._index
        for case_sensitive in (True, False):
            tokens, places = _tokens(text, case_sensitive)
            runs = ((i, size) for size in sizes for i in range(len(tokens) - size + 1))
            for i, size in runs:
                *first, last = tokens[i : i + size]
                for particle in particles(last):
                    key = (*first, last.removesuffix(particle), case_sensitive)
                    if term := index.get(key):
                        start, end = places[i][0], places[i + size - 1][1] - len(particle)
                        rank = -size, start, not case_sensitive, len(particle)
                        yield rank, start, end, term


def read_terms(path: str | os.PathLike) -> tuple[dict[str, Term], list[str]]:
    """The terms of a glossary's file by their lines, `PATH:1`; and all that is wrong with it."""
    lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rows = ((f"{path}:{i}", line.removesuffix(b"\r")) for i, line in enumerate(lines, start=1))
    rows = (row for row in rows if row[1].strip() and not row[1].lstrip().startswith(b"#"))
    return _checked(rows, _columns_of_line)


def _tokens(text, case_sensitive=True):
    """The tokens of a text, of which white space is all alike, and their places."""
    places = [match.span() for match in _TOKEN.finditer(kinds_of(text))]
    tokens = [" " if text[a].isspace() else text[a:b] for a, b in places]
    return [token if case_sensitive else token.lower() for token in tokens], places


def particles(word: str) -> list[str]:
    """The Korean particles that a word may end with, from none to the longest."""
    starts = range(len(word), max(0, len(word) - 3), -1)
    return [word[i:] for i in starts if re.compile(PARTICLE).fullmatch(word, i)]


def _columns_of_pair(name, pair):
    columns = (pair,) if isinstance(pair, str) else pair
    is_pair = isinstance(columns, Sequence) and 1 <= len(columns) <= 3
    if not is_pair or not all(map(isinstance, columns, (str, str | None, object))):
        raise InputError(f"{name} must be a pair of str, source and target. Received: {pair!r}.")
    return columns


def _columns_of_line(name, line):
    try:
        columns = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 at byte {error.start + 1}.") from None
    if len(columns) > 3 or (len(columns) == 3 and columns[2].strip() != CASE):
        raise InputError(
            f"{name} must be source<TAB>target, a source alone, or have {CASE} as its third "
            f"column. Received: {len(columns)} columns."
        )
    return columns


def _checked(rows, columns_of):
    """The terms of named rows by their names, each source once; and what is wrong with the rows."""
    terms, wrong, known = {}, [], {}
    for name, row in rows:
        try:
            source, target, case = (*columns_of(name, row), None, None)[:3]
            source = _stripped(name, "source", source)
            target = None if target is None else _stripped(name, "target", target)
            if target is None and "  " in source:
                raise InputError(f"{name} has spaces where a tab belongs: {source!r}.")
        except InputError as error:
            wrong.append(str(error))
            continue
        key = " ".join(source.split())
        key = key if case else key.lower(), bool(case)
        first = known.setdefault(key, name)
        if first == name:
            terms[name] = Term(source, target, bool(case))
        elif terms[first].target != target:
            wrong.append(
                f"{name} has another target for {source!r} than {first}: leave one of them out."
            )
    return terms, wrong


def _unless_wrong(terms, wrong):
    """The terms, as a tuple; InputError if something is wrong."""
    if wrong:
        more = f" And {len(wrong) - _SHOWN:,} more." if len(wrong) > _SHOWN else ""
        raise InputError(" ".join(wrong[:_SHOWN]) + more)
    return tuple(terms.values())


def _stripped(name, side, text):
    """A side of a term without white space around it; InputError, which names it, if it is none."""
    if not text.strip():
        raise InputError(f"{name} has an empty {side}: give it, or leave the line out.")
    if strange := _STRANGE.search(text.strip()):
        raise InputError(
            f"{name} has the character {strange[0]!a} in its {side}, which no term has."
        )
    return text.strip()
