"""Terms of a glossary, and spans that stay as they are, found in texts inside the graph."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_mt.text.base import without_control_characters
from keras_mt.text.sentences import NO_END as GUARD
from keras_mt.text.sentences import SPACE

# Control characters, which no text contains: around a kept span, and between tokens.
_SPAN, _SPAN_END, _BREAK = "\x05", "\x06", "\x04"
# Scripts that are written without spaces: there each character is a token.
ALONE = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_CLOSERS = r"""["'“”’‘»«)\]}」』）]"""
_FACTOR = 6364136223846793005  # Knuth's, for a polynomial hash modulo 2**64.

CASE = "case"  # The third column of a term that minds case.

# Characters of an address, and its last one: no punctuation of the sentence around it.
_IN_URL = r"""[^\s\p{Z}<>"()\p{Han}\p{Hiragana}\p{Katakana}。，、）」]"""  # noqa: RUF001
_URL_END = r"""[^\s\p{Z}<>"'().,;:!?…*}\]»”’\p{Han}\p{Hiragana}\p{Katakana}。，、）」]"""  # noqa: RUF001
_BRACKETS = rf"\({_IN_URL}*\)"
_PICTURE = r"[\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}\x{231A}-\x{231B}\x{23E9}-\x{23F3}\x{2B50}]"
_PICTURE += r"[\x{FE0F}\x{1F3FB}-\x{1F3FF}]*"
# What `keep` may name: RE2 expressions, tried in this order.
KINDS = {
    "email": r"[\pL\pN._%+-]*[\pL\pN_]@[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL{2,}",
    "url": rf"(?:(?:https?|ftp)://|www\.)(?:{_IN_URL}|{_BRACKETS})*(?:{_URL_END}|{_BRACKETS})|"
    r"\b(?:[a-zA-Z0-9-]+\.)+(?:com|org|net|edu|gov|info|io)\b"
    rf"(?:/(?:(?:{_IN_URL}|{_BRACKETS})*(?:{_URL_END}|{_BRACKETS}))?)?",
    "placeholder": r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}|\$[A-Za-z_][A-Za-z0-9_]*|"
    r"%\([A-Za-z0-9_]+\)[-+#0-9.]*[sdifouxXeEgGcr]|%[A-Z_][A-Z0-9_]*%|"
    r"%(?:[0-9]+\$)?[-+#0]*[0-9]*(?:\.[0-9]+)?l{0,2}[sdifuxXeEgGc@]\b",
    # +49 30 1234567, 030/1234567, (555) 123-4567.
    "phone": r"\+[0-9](?:[ ()./-]{0,2}[0-9]){6,14}\b|"
    r"\(?\b0[0-9]{1,5}\)?[ /-]{1,3}[0-9](?:[ -]?[0-9]){3,9}\b|"
    r"\(?\b[0-9]{3}\)?[ .-][0-9]{3}[.-][0-9]{4}\b",
    "number": r"\+[0-9][0-9 ()/-]*[0-9]\b|\b[0-9]+(?:[.,:/'’-][0-9]+)+\b|\b[0-9]{2,}\b",
    "emoji": rf"[\x{{1F1E6}}-\x{{1F1FF}}]{{2}}|{_PICTURE}(?:\x{{200D}}{_PICTURE})*",
}


class Terms(NamedTuple):
    """The terms of a batch."""

    row: tf.Tensor  # int32 `[terms]`: the text that each is for, in ascending order.
    source: tf.Tensor  # String `[terms]`.
    target: tf.Tensor  # String `[terms]`; "" for a term that stays as it is.
    minds_case: tf.Tensor  # Boolean `[terms]`.
    malformed: tf.Tensor  # Boolean `[batch]`: the rows with a line that is no term.


class Matches(NamedTuple):
    """The terms and the kept spans of lines, in order.

    Places are numbers of bytes that are not white space, counted through all lines.
    """

    line: tf.Tensor  # int32 `[matches]`.
    first: tf.Tensor  # int64 `[matches]`: the place of its first byte.
    last: tf.Tensor  # int64 `[matches]`: that of its last byte.
    source: tf.Tensor  # String `[matches]`: as it stands in the line.
    target: tf.Tensor  # String `[matches]`: what stands for it in the translation.
    before: tf.Tensor  # String `[matches]`: the brackets and quotation marks that come before it,
    after: tf.Tensor  # and after it.
    kept: tf.Tensor  # Boolean `[matches]`: which are kept spans.
    guarded: tf.Tensor  # String `[lines]`: the lines, with a `GUARD` between a match's tokens.


def has_kept(texts: tf.Tensor, kinds: Sequence[str]) -> tf.Tensor:
    """True for texts that have a span of one of the kinds, boolean `[batch]`."""
    return tf.strings.regex_full_match(texts, f"(?s).*(?:{_of(kinds)}).*")


def parsed(lines: tf.Tensor) -> Terms:
    """Terms from lines `source<TAB>target`, `source<TAB>target<TAB>case`, or a source alone.

    Each string has the lines for a text; blank ones are left out.
    """
    lines = tf.strings.split(without_control_characters(lines), "\n")
    row = tf.cast(lines.value_rowids(), tf.int32)
    text = tf.strings.regex_replace(lines.flat_values, r"^[ \r]+|[ \r]+$", "")
    word = r"[^\t]*[^\s\p{Z}][^\t]*"
    good = tf.strings.regex_full_match(text, rf"{word}(\t{word}(\t{CASE})?)?")
    bad = ~good & (tf.strings.length(text) > 0)
    malformed = tf.math.unsorted_segment_max(tf.cast(bad, tf.int32), row, lines.nrows()) > 0
    text, row = text[good], row[good]
    source, target, case = (
        tf.strings.regex_replace(text, r"^([^\t]*)\t?([^\t]*)\t?([^\t]*)$", rf"\{i}")
        for i in (1, 2, 3)
    )
    source, target = (
        tf.strings.regex_replace(side, rf"^{SPACE}+|{SPACE}+$", "") for side in (source, target)
    )
    return Terms(row, source, target, case == CASE, malformed)


def tokens(texts: tf.Tensor, kinds: Sequence[str] = ()) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Tokens of texts `[batch, (tokens)]`, which together are the text, and the kept spans of them.

    A token is a run of letters, marks and digits, a run of white space, a kept span, a character of
    a script that is written without spaces, or any other character.
    """
    if kinds:
        mark = rf"{_SPAN}\1{_SPAN_END}"
        texts = tf.strings.regex_replace(texts, f"({_of(kinds)})", mark)
        # Neighbours without a letter between them are one span: `{first}-{last}`.
        between = rf"{_SPAN_END}([^\pL\s\p{{Z}}{_SPAN}{_SPAN_END}]*){_SPAN}"
        texts = tf.strings.regex_replace(texts, between, r"\1")
    span = rf"{_SPAN}[^{_SPAN_END}]*{_SPAN_END}"
    texts = tf.strings.regex_replace(texts, rf"({span})|({ALONE}\pM*)", rf"\1{_BREAK}\2{_BREAK}")
    texts = tf.strings.regex_replace(
        texts, rf"({span}|[\pL\pM\pN]+|{SPACE}+|[^{_BREAK}])", rf"\1{_BREAK}"
    )
    found = tf.strings.split(texts, _BREAK)
    found = tf.ragged.boolean_mask(found, found.with_values(found.flat_values != ""))
    kept = tf.strings.regex_full_match(found.flat_values, span)
    bare = tf.strings.regex_replace(found.flat_values, f"[{_SPAN}{_SPAN_END}]", "")
    return found.with_values(bare), found.with_values(kept)


def find(lines: tf.Tensor, row: tf.Tensor, terms: Terms, kinds: Sequence[str] = ()) -> Matches:
    """Finds terms and kept spans in lines; `row` is the text that each line belongs to.

    The match with most tokens is taken first, of several the leftmost, and drops what overlaps it;
    then a term that minds case goes first, the earlier before the later, terms before spans.
    """
    # The space makes each line begin with white space, which no match does.
    words, kept = tokens(tf.strings.join([" ", lines]), kinds)
    line, text, kept = tf.cast(words.value_rowids(), tf.int32), words.flat_values, kept.flat_values
    first, length, term = _candidates(text, line, tf.gather(row, line), terms, kinds)
    spans = tf.cast(tf.where(kept)[:, 0], tf.int32)
    first = tf.concat([first, spans], 0)
    length = tf.concat([length, tf.ones_like(spans)], 0)
    term = tf.concat([term, tf.fill(tf.shape(spans), -1)], 0)
    chosen = _greedy(first, length, tf.size(text))
    first, end, term = first[chosen], (first + length)[chosen], term[chosen]
    order = tf.argsort(first)
    first, end, term = (tf.gather(x, order) for x in (first, end, term))
    inside = tf.ragged.range(first, end)
    taken = marked(inside.flat_values, tf.size(text))
    guard = marked(tf.ragged.range(first, end - 1).flat_values, tf.size(text))
    opening, closing = _around(text, first, end, taken)
    place = tf.cumsum(tf.strings.length(tf.strings.regex_replace(text, f"{SPACE}+", "")))
    source = _joined(text, first, end)
    targets = tf.concat([[""], terms.target], 0)  # Of a span none.
    target = tf.gather(targets, term + 1)
    target = tf.where(target == "", source, target)
    before, after = _joined(text, opening, first), _joined(text, end, closing)
    unbroken = tf.strings.regex_replace(text, f"({SPACE}+)", rf"{GUARD}\1")
    guarded = tf.strings.join([tf.where(kept, unbroken, text), tf.where(guard, GUARD, "")])
    guarded = tf.strings.reduce_join(words.with_values(guarded), axis=1)
    return Matches(
        tf.gather(line, first),
        tf.cast(tf.gather(place, opening - 1), tf.int64),
        tf.cast(tf.gather(place, closing - 1), tf.int64) - 1,
        source,
        target,
        before,
        after,
        term < 0,
        tf.strings.regex_replace(guarded, "^ ", ""),
    )


def _candidates(text, line, row, terms, kinds):
    """All matches of terms: their first tokens, their numbers of tokens, and their terms."""
    sources = tokens(terms.source, kinds)[0]
    case = tf.cast(terms.minds_case, tf.int64)
    owner, size = tf.cast(sources.value_rowids(), tf.int32), tf.size(text)
    exact = [_plain(text), _plain(sources.flat_values)]
    lower = [tf.strings.lower(words, encoding="utf-8") for words in exact]
    of_terms = tf.where(tf.gather(terms.minds_case, owner), exact[1], lower[1])
    values = tf.concat([lower[0], exact[0], of_terms], 0)
    values = tf.strings.to_hash_bucket_fast(values, 2**62)
    rows = 2 * tf.cast(row, tf.int64)
    begun = tf.concat(
        [rows, rows + 1, tf.gather(2 * tf.cast(terms.row, tf.int64) + case, owner)], 0
    )
    starts = tf.cast(sources.row_starts(), tf.int32) + 2 * size
    lengths = tf.cast(sources.row_lengths(), tf.int32)
    window = tf.range(size)

    def step(length, hashes, *found):
        """Matches of `length` tokens: the windows whose hash is that of a term."""
        shifted = tf.concat([values[length - 1 :], tf.zeros((length - 1,), tf.int64)], 0)
        hashes = hashes * _FACTOR + shifted
        ours = tf.cast(tf.where(lengths == length)[:, 0], tf.int32)
        keys = tf.gather(hashes, tf.gather(starts, ours))
        order = tf.argsort(keys, stable=True)
        ours, keys = tf.gather(ours, order), tf.gather(keys, order)
        ours, keys = (tf.concat([x, x[-1:], [0]], 0)[: tf.size(x) + 1] for x in (ours, keys))
        place = tf.searchsorted(keys[:-1], hashes[: 2 * size])
        hit = (tf.gather(keys, place) == hashes[: 2 * size]) & (place < tf.size(keys) - 1)
        inside = tf.gather(line, tf.minimum(window + length - 1, size - 1)) == line
        inside &= window + length <= size
        hit = tf.reshape(hit, (2, size)) & inside
        # Those that mind case come first.
        hit, place = (tf.reshape(x[::-1], [-1]) for x in (hit, tf.reshape(place, (2, size))))
        first = tf.boolean_mask(tf.tile(window, [2]), hit)
        term = tf.gather(ours, tf.boolean_mask(place, hit))
        new = first, tf.fill(tf.shape(first), length), term
        return length + 1, hashes, *(tf.concat(x, 0) for x in zip(found, new, strict=True))

    longest = tf.reduce_max(tf.concat([lengths, [0]], 0))
    state = (1, begun, *[tf.zeros((0,), tf.int32)] * 3)
    shapes = (tf.TensorShape([]), tf.TensorShape([None]), *[tf.TensorShape([None])] * 3)
    *_, first, length, term = tf.while_loop(
        lambda length, *_: length <= longest, step, state, shape_invariants=shapes
    )
    return first, length, term


def _greedy(first, length, size):
    """Boolean `[matches]`: each that is the best of all that it overlaps is taken.

    In rounds: all that nothing better overlaps are taken at once.
    """
    key = tf.cast(tf.reduce_max(tf.concat([length, [0]], 0)) - length, tf.int64)
    key = key * (tf.cast(size, tf.int64) + 1) + tf.cast(first, tf.int64)
    rank = tf.math.invert_permutation(tf.argsort(key, stable=True))
    inside = tf.ragged.range(first, first + length)
    match, token = tf.cast(inside.value_rowids(), tf.int32), inside.flat_values
    last, number = tf.size(rank), tf.size(first)

    def step(taken, free):
        ranks = tf.where(free, rank, last)
        best = tf.math.unsorted_segment_min(tf.gather(ranks, match), token, size)
        worst = tf.math.unsorted_segment_min(tf.gather(best, token), match, number)
        now = free & (worst == rank)
        covered = marked(tf.boolean_mask(token, tf.gather(now, match)), size)
        touched = tf.cast(tf.gather(covered, token), tf.int32)
        touched = tf.math.unsorted_segment_max(touched, match, number) > 0
        return taken | now, free & ~touched

    free = tf.ones_like(first, tf.bool)
    return tf.while_loop(lambda _, free: tf.reduce_any(free), step, (~free, free))[0]


def _around(text, first, end, taken):
    """The first token and the end of what a match is written in: `("Bank")`, without the period.

    Punctuation alone before it in its word belongs to it, or it would be followed by a space; and
    as many brackets and quotation marks behind it.
    """
    is_space = tf.strings.regex_full_match(text, f"{SPACE}+")
    mark = ~tf.strings.regex_full_match(text, r"(?s)(?:.*[\pL\pM\pN].*)") & ~taken & ~is_space
    others = tf.cast(tf.where(~mark)[:, 0], tf.int32)
    # A line's first token is white space.
    before = tf.gather(others, tf.searchsorted(others, first) - 1)
    opening = tf.where(tf.gather(is_space, before), before + 1, first)
    closer = tf.strings.regex_full_match(text, _CLOSERS) & ~taken
    others = tf.concat([tf.cast(tf.where(~closer)[:, 0], tf.int32), tf.size(text)[None]], 0)
    after = tf.gather(others, tf.searchsorted(others, end))
    return opening, tf.minimum(after, end + first - opening)


def _of(kinds):
    return "|".join(expression for kind, expression in KINDS.items() if kind in kinds)


def marked(places: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """Boolean `[size]`: true for the numbers among the places `[n]`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(places), places, size) > 0


def _joined(text, first, end):
    """The tokens from `first` to `end`, joined."""
    inside = tf.ragged.range(first, end)
    return tf.strings.reduce_join(inside.with_values(tf.gather(text, inside.flat_values)), axis=1)


def _plain(text):
    """Tokens with one kind of white space."""
    return tf.strings.regex_replace(text, f"{SPACE}+", " ")
