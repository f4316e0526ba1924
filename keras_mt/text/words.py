"""The words of a text and of its translation, and which of them belong together."""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

# Characters of scripts that are written without spaces: Chinese and Japanese, Thai, Lao, Khmer and
# Burmese. Each is a word there, since nothing separates words.
WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u30ff\u3100-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Kinds of characters: white space, joiners within a word, other marks, those that are words alone,
# combining ones, and all others, which words are made of.
_JOINERS = frozenset("-'’.,:·@\u2010\u2011")
_WORD = re.compile(r"[wc]+(?:j[wc]+)*|ic*|[mj]")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_AHEAD = 16  # How many letters may differ between a text and its pieces.


class Words:
    """The words and punctuation marks of a text, in order.

    `real` is false for marks, and `alone` true for characters that nothing separates from others.

    Each of the `units`, places in order, is one word, whatever is in it, even nothing; their
    numbers among the words are the attribute `units`. If they are not `whole`, words end at their
    edges, and that is all.
    """

    def __init__(self, text: str, units: Sequence[tuple[int, int]] = (), whole: bool = True):
        self.text, kinds, found = text, kinds_of(text), []
        edges = itertools.pairwise([0, *itertools.chain(*units), len(text)])
        for place, is_unit in zip(edges, itertools.cycle([False, whole]), strict=False):
            matches = [place] if is_unit else [m.span() for m in _WORD.finditer(kinds, *place)]
            found += [(*match, is_unit) for match in matches]
        self.starts, self.ends, is_unit = np.array(found, int).reshape(-1, 3).T
        self.units = np.flatnonzero(is_unit)
        words = [kinds[start:end] for start, end, _ in found]
        self.real = np.array([bool(re.search("[wic]", word)) for word in words], bool)
        self.alone = np.array([bool(re.fullmatch("ic*", word)) for word in words], bool)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> str:
        return self.text[self.starts[i] : self.ends[i]]


def kinds_of(text: str) -> str:
    """The kinds of a text's characters, a letter each.

    `w` in words, `i` a word alone, `c` combining, `j` and `m` marks, and white space.
    """
    return "".join(map(_kind, text))


@functools.cache
def _kind(character):
    category = unicodedata.category(character)
    if character.isspace() or category[0] == "Z" or category == "Cc":
        return " "
    if category[0] == "M":
        return "c"
    if category[0] in "PS" and character != "_":
        return "j" if character in _JOINERS else "m"
    is_alone = character >= WITHOUT_SPACES[0] and re.match(f"[{WITHOUT_SPACES}]", character)
    return "i" if is_alone else "w"


def word_alignment(source: Words, target: Words, attention: np.ndarray | None) -> np.ndarray:
    """The share of each target word that belongs to each source word, `[target, source]`.

    The attention of words counts less what a source word gets of every target word. Words at like
    places and of like letters count for more; words go with words, marks with marks. Columns and
    rows are normalized in turn, as by Sinkhorn and Knopp 1967, so that no word attracts all.
    Without attention places and letters alone count.
    """
    shares = np.ones((len(target), len(source)))
    if attention is not None:
        shares = _normalized(attention * target.real[:, None] * source.real, axis=1)
        usual = shares.sum(axis=0) / max(1, target.real.sum())
        shares = np.maximum(shares - usual, 0) + 1e-4
    places = [(np.arange(len(words)) + 0.5) / max(1, len(words)) for words in (target, source)]
    shares *= np.exp(-3 * np.abs(places[0][:, None] - places[1]))
    shares *= (1 + _likeness(target, source)) ** 4
    shares *= target.real[:, None] == source.real
    lines, target_lines = line_numbers(source, target)
    shares *= target_lines[:, None] == lines
    for _ in range(2):
        shares = _normalized(_normalized(shares, axis=0, least=0.1), axis=1)
    return shares


def line_numbers(source: Words, target: Words) -> tuple[np.ndarray, np.ndarray]:
    """The line of each word; all are of one line where the texts have not as many."""
    apart = source.text.count("\n") == target.text.count("\n")
    return tuple(
        np.array([words.text.count("\n", 0, i) * apart for i in words.starts], int)
        for words in (source, target)
    )


def best_gap(
    shares: np.ndarray, first: int, last: int, spaces: Sequence[bool], allowed: Iterable[int]
) -> int:
    """The best place for something between source words: the target word that it goes before.

    It stands behind `first` source words and before the word `last`. A place is good if the words
    on its left stood on the left in the source, and those on its right on the right. Near words
    count more, above all without white space between: `spaces` says if there is some before, and
    after.
    """
    left = shares[:, :first] @ 0.5 ** np.arange(first)[::-1]
    right = shares[:, last:] @ 0.5 ** np.arange(shares.shape[1] - last)
    scores = np.append(right * (1 if spaces[1] else 2), 0)
    scores[1:] += left * (1 if spaces[0] else 2)
    return max(allowed, key=lambda g: scores[g])


def words_of_pieces(words: Sequence[str], pieces: Sequence[str]) -> np.ndarray:
    """The index of the word that each piece belongs to, by their letters; -1 for none.

    The last piece is the end. A piece without a letter or digit has none if its word has others.
    """
    shares = coverage(words, pieces)
    if not shares.size:
        return np.full(len(pieces), -1, np.int32)
    found = np.where(shares.any(axis=1), shares.argmax(axis=1), -1)
    for i in range(len(pieces) - 2, -1, -1):  # The last byte of a character stands for all.
        if found[i] < 0 and _BYTE.fullmatch(pieces[i]):
            found[i] = found[i + 1]
    has_letters = np.array([any(map(str.isalnum, piece)) for piece in pieces], bool)
    return np.where(has_letters | ~np.isin(found, found[has_letters]), found, -1).astype(np.int32)


def _normalized(shares, axis, least=1e-9):
    return shares / np.maximum(shares.sum(axis=axis, keepdims=True), least)


def _likeness(target, source):
    """The Dice coefficients of the pairs of letters of words; of marks, 1 for the same."""
    sides = [[_pairs(words[i]) for i in range(len(words))] for words in (target, source)]
    shared = [[2 * len(a & b) / (len(a) + len(b)) for b in sides[1]] for a in sides[0]]
    return np.array(shared).reshape(len(target), len(source))


@functools.lru_cache(10_000)
def _pairs(word):
    return {*itertools.pairwise(["", *letters(word)])} or {word}


def coverage(words: Words | Sequence[str], pieces: Sequence[str]) -> np.ndarray:
    """The share of each piece that each word has, `[pieces, words]`; the end token has none."""
    spelled = [(letter, i) for i in range(len(words)) for letter in letters(words[i])]
    shares = np.zeros((len(pieces), len(words)))
    for piece, word in _matched(_spelled(pieces), spelled):
        shares[piece, word] += 1
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)


@functools.lru_cache(10_000)
def letters(text: str) -> tuple[str, ...]:
    """The letters of a text without accents, white space and case, as no tokenizer changes them."""
    text = unicodedata.normalize("NFKD", text).casefold()
    return tuple(c for c in text if not (c.isspace() or unicodedata.combining(c)))


def _spelled(pieces):
    """The letters of pieces, each with the number of its piece; of bytes, that of the last one."""
    found, begun = [], b""
    for i, piece in enumerate(pieces):
        if byte := _BYTE.fullmatch(piece):
            begun += bytes.fromhex(byte[1])
            try:
                text, begun = begun.decode(), b""
            except UnicodeDecodeError:
                continue
        else:
            text = "" if piece == pieces[-1] else piece.replace("▁", "")
        found += [(letter, i) for letter in letters(text)]
    return found


def _matched(one, other):
    """Pairs of the numbers of equal letters, in order, in two lists of (letter, number)."""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][0] != other[j][0]:
            i, j = _resumed(one, other, i, j)
            continue
        yield one[i][1], other[j][1]
        i, j = i + 1, j + 1


def _resumed(one, other, i, j):
    """The places where two lists of letters agree again; one letter further if not soon."""
    for skipped in range(1, _AHEAD):
        for k in range(skipped + 1):
            pair = [x[0] for x in one[i + k : i + k + 2]]
            if pair and pair == [x[0] for x in other[j + skipped - k : j + skipped - k + 2]]:
                return i + k, j + skipped - k
    return i + 1, j + 1
