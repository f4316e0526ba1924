"""Two systems' translations side by side: where they differ, and on what kind of sentence."""

import collections
import difflib
import html
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import sacrebleu

from keras_mt.errors import InputError
from keras_mt.evaluation.scoring import aligned

# A word, a letter of a script that has no spaces, or a mark.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+|[^\w\s]|_")
# The minimum value of each bucket, and its name.
_LENGTHS = {1: "1-9 words", 10: "10-19", 20: "20-29", 30: "30-39", 40: "40 or more"}
_FREQUENCIES = {0: "never", 1: "1-9 times", 10: "10-99", 100: "100-999", 1000: "1000 or more"}
_REPETITIONS = {0: "none", 1e-9: "up to 10%", 0.1: "10-25%", 0.25: "25% or more"}


class Difference(NamedTuple):
    """A sentence and its translations by two systems.

    Attributes:
        number: Which sentence of the split it is, from 1.
        source, reference: Strs.
        translations: Both systems', two strs.
        chrf: Their sentence chrF, two floats.

    Example:

    >>> difference = Difference(1, "Oi!", "Hi!", ("Hi!", "Hello!"), (100.0, 14.2))
    >>> max(zip(difference.chrf, difference.translations, strict=True))[1]
    'Hi!'
    """

    number: int
    source: str
    reference: str
    translations: tuple[str, str]
    chrf: tuple[float, float]


class Bucket(NamedTuple):
    """Values of both systems on a part of the sentences or of their words.

    Attributes:
        name: The part, such as `"20-29"`.
        size: Number of sentences or words in it.
        values: Both systems' values.

    Example:

    >>> bucket = Bucket("20-29", 52, (24.5, 52.75))
    >>> f"{bucket.name}: {bucket.values[1] - bucket.values[0]:+.1f}"
    '20-29: +28.2'
    """

    name: str
    size: int
    values: tuple[float, float]


class Comparison:
    """Compares the translations of two systems with the references.

    Args:
        sources, references: Sequences of str, one for each sentence.
        first, second: The translations of the two systems, likewise.
        names: The systems' names, two strs.
        training: An iterable of str in the target's language, by which to count how frequent a word
            is: the target side of the training split. The references if None.

    Attributes:
        chrf: Both systems' chrF.
        differences: A list of `Difference`, the greatest difference in sentence chrF first.
        lengths: A list of `Bucket`, of sentences by the number of words in the reference; chrF.
        frequencies: A list of `Bucket`, of the references' words by how often they occur in the
            training text; F1 of the words, in percent.
        repetitions: A list of `Bucket`, of texts by the share of their word bigrams that repeat an
            earlier one; `size` counts the references, `values` the systems' translations.

    Raises:
        ValueError: If the sequences differ in length, or are empty.

    Reference:
        As in compare-mt, Neubig et al. 2019 (https://aclanthology.org/N19-4007), and MT-Telescope,
        Rei et al. 2021 (https://aclanthology.org/2021.acl-demo.9); the measure of repetition:
        Welleck et al. 2020, Neural Text Generation with Unlikelihood Training
        (https://arxiv.org/abs/1908.04319), for bigrams.

    Example:

    >>> comparison = Comparison(
    ...     ["Oi!", "O gato dorme."], ["Hi!", "The cat sleeps."],
    ...     ["Hi!", "The cat sleeps."], ["Hi!", "The dog sleeps."], names=("A", "B"))
    >>> [(difference.number, difference.translations[1]) for difference in comparison.differences]
    [(2, 'The dog sleeps.'), (1, 'Hi!')]
    """

    def __init__(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        first: Sequence[str],
        second: Sequence[str],
        names: tuple[str, str],
        training: Iterable[str] | None = None,
    ):
        sizes = [len(column) for column in (sources, references, first, second)]
        if not sizes[0] or len(set(sizes)) > 1:
            raise InputError(
                "There must be as many sources, references and translations by each system, at "
                "least one. "
                f"Received: {', '.join(map(str, sizes))}"
            )
        self.names = names
        systems = first, second
        metric = sacrebleu.CHRF()
        self.chrf = tuple(_chrf(system, references) for system in systems)
        self.differences = []
        rows = zip(sources, references, first, second, strict=True)
        for number, (source, reference, *both) in enumerate(rows, start=1):
            chrf = tuple(metric.sentence_score(one, [reference]).score for one in both)
            self.differences.append(Difference(number, source, reference, tuple(both), chrf))
        self.differences.sort(key=lambda d: -abs(d.chrf[0] - d.chrf[1]))
        self.lengths = _by_length(systems, references)
        self._counted = "references" if training is None else "training text"
        counted = references if training is None else training
        self.frequencies = _by_frequency(systems, references, counted)
        self.repetitions = _by_repetition(systems, references)

    def _tables(self):
        """The titles and the rows of the tables; the first row is the header."""
        number = f"{len(self.differences):,} sentences"
        head = [*self.names, "difference"]
        yield "chrF", [["", *head], [number, *_row(self.chrf)]]
        frequencies = f"F1 of words by how often they occur in the {self._counted}"
        for title, what, buckets in (
            ("chrF by the length of the reference", "sentences", self.lengths),
            (frequencies, "words", self.frequencies),
        ):
            rows = [[b.name, f"{b.size:,}", *_row(b.values)] for b in buckets]
            yield title, [["", what, *head], *rows]
        title = "Translations by the share of their word pairs that repeat one before"
        rows = [[b.name, *(f"{x:,}" for x in (b.size, *b.values))] for b in self.repetitions]
        yield title, [["", "references", *self.names], *rows]

    def as_text(
        self, number: int = 10, mark: Callable[[str, bool], str] = lambda word, right: word
    ) -> str:
        """The tables, and the sentences that differ most, as plain text.

        Args:
            number: Number of sentences.
            mark: Function from a word in which the translations differ, and whether it is in the
                reference, to the str that is shown for it.
        """
        lines = []
        for title, rows in self._tables():
            lines += [title, *aligned(rows), ""]
        width = max(len(name) for name in ("reference", *self.names))
        for difference in self.differences[:number]:
            lines.append(f"Sentence {difference.number}")
            for name, score, text in self._rows(difference, mark):
                lines.append(f"  {name:{width}}  {score:>5}  {text}")
            lines.append("")
        return "\n".join(lines).rstrip()

    def as_html(self, number: int = 100) -> str:
        """What `as_text` has, as an HTML page; words that differ are marked, right ones in green.

        Args:
            number: Number of sentences.
        """
        title = html.escape(" and ".join(self.names))
        parts = [f"<h1>{title}</h1>"]
        for caption, rows in self._tables():
            parts.append(f"<table><caption>{html.escape(caption)}</caption>")
            for tag, row in zip(["th"] + ["td"] * len(rows), rows, strict=False):
                cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
                parts.append(f"<tr>{cells}</tr>")
            parts.append("</table>")
        parts.append("<h2>The sentences that differ most</h2>")
        parts.append("<p>Words in which the translations differ are marked: <ins>green</ins> where "
                     "the reference has them, <del>red</del> where it has not.</p>")  # fmt: skip
        for difference in self.differences[:number]:
            parts.append(f"<table class=pair><caption>Sentence {difference.number}</caption>")
            for name, score, text in self._rows(difference, _html_mark, html.escape):
                parts.append(f"<tr><th>{name}</th><td>{score}</td><td dir=auto>{text}</td></tr>")
            parts.append("</table>")
        return _PAGE.format(title=title, body="\n".join(parts))

    def _rows(self, difference, mark, escape=str):
        """The texts of a sentence, each after its name and its score."""
        yield "source", "", escape(difference.source)
        yield "reference", "", escape(difference.reference)
        translations = zip(self.names, difference.chrf, _marked(difference), strict=True)
        for name, score, parts in translations:
            text = "".join(
                escape(part) if right is None else mark(escape(part), right)
                for part, right in parts
            )
            yield escape(name), f"{score:.1f}", text


def words(text: str) -> list[str]:
    """The words of a text; letters of scripts without spaces, and marks, are words too.

    >>> words("It's 3 o'clock: 猫だ!")
    ['It', "'", 's', '3', 'o', "'", 'clock', ':', '猫', 'だ', '!']
    """
    return _WORD.findall(text)


def repetition(text: str) -> float:
    """The share of a text's word bigrams that repeat an earlier one.

    >>> repetition("a b a b a b")
    0.6
    """
    tokens = words(text)
    pairs = list(itertools.pairwise(tokens))
    return 1 - len(set(pairs)) / len(pairs) if pairs else 0.0


def _chrf(hypotheses, references):
    return sacrebleu.CHRF().corpus_score(hypotheses, [references]).score


def _by_length(systems, references):
    def chrf(system, part):
        return _chrf([system[i] for i in part], [references[i] for i in part])

    parts = _parts(_LENGTHS, [max(1, len(words(text))) for text in references])
    return [
        Bucket(name, len(part), tuple(chrf(system, part) for system in systems))
        for name, part in parts.items()
        if part
    ]


def _by_frequency(systems, references, training):
    counts = collections.Counter(word for text in training for word in words(text))

    def total(tallies):
        """The number of words in each bucket."""
        sizes = collections.Counter()
        for tally in tallies:
            for word, count in tally.items():
                sizes[_bucket(_FREQUENCIES, counts[word])] += count
        return sizes

    wanted = [collections.Counter(words(text)) for text in references]
    sizes, f1 = total(wanted), []
    for system in systems:
        given = [collections.Counter(words(text)) for text in system]
        right = total(map(operator.and_, wanted, given))
        written = total(given)
        f1.append({name: 200 * right[name] / (n + written[name]) for name, n in sizes.items()})
    return [
        Bucket(name, sizes[name], tuple(values[name] for values in f1))
        for name in _FREQUENCIES.values()
        if sizes[name]
    ]


def _by_repetition(systems, references):
    parts, *others = (_parts(_REPETITIONS, map(repetition, x)) for x in (references, *systems))
    return [
        Bucket(name, len(part), tuple(len(other[name]) for other in others))
        for name, part in parts.items()
    ]


def _bucket(buckets, value):
    return buckets[max(least for least in buckets if least <= value)]


def _parts(buckets, values):
    """The indices of the values in each bucket, by its name."""
    parts = {name: [] for name in buckets.values()}
    for i, value in enumerate(values):
        parts[_bucket(buckets, value)].append(i)
    return parts


def _row(values):
    first, second = values
    return [f"{first:.1f}", f"{second:.1f}", f"{second - first:+.1f}"]


def _marked(difference):
    """The parts of both translations, with None for what both have, else if it is right."""
    in_reference = set(words(difference.reference))
    sides = [words(text) for text in difference.translations]
    matcher = difflib.SequenceMatcher(None, *sides, autojunk=False)
    alike = [set(), set()]
    for *starts, size in matcher.get_matching_blocks():
        for both, start in zip(alike, starts, strict=True):
            both.update(range(start, start + size))
    for text, side, both in zip(difference.translations, sides, alike, strict=True):
        parts, end = [], 0
        for i, word in enumerate(side):
            start = text.index(word, end)
            parts.append((text[end:start], None))
            parts.append((word, None if i in both else word in in_reference))
            end = start + len(word)
        yield [*parts, (text[end:], None)]


def _html_mark(word, right):
    tag = "ins" if right else "del"
    return f"<{tag}>{word}</{tag}>"


_PAGE = """\
<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.4em; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2em; }}
table {{ border-collapse: collapse; margin: 1em 0 2em; }}
caption {{ text-align: left; font-weight: bold; padding: 0.3em 0; }}
th, td {{ padding: 0.2em 0.8em; text-align: right; border-top: 1px solid #ddd; }}
th:first-child, td:first-child {{ text-align: left; }}
.pair {{ width: 100%; }}
.pair th {{ font-weight: normal; color: #555; width: 20%; overflow-wrap: anywhere; }}
.pair td {{ vertical-align: top; }}
.pair td:last-child {{ text-align: left; width: 70%; }}
ins, del {{ text-decoration: none; padding: 0 0.15em; border-radius: 0.2em; }}
ins {{ background: #c9efc9; }}
del {{ background: #fbd0d0; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
