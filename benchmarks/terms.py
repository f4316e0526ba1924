"""What terms and kept spans do to translations: whether they are there, the rest, and the time.

usage: python benchmarks/terms.py MODEL --data FOLDER [--source en] [--target de]
    [--split SPLIT ...] [--pairs N] [--rounds N] [--mistakes N] [--output FILE]

MODEL is a run folder or an export. Prints a JSON line for each kind of terms, of the first N pairs
that have some, in an order by chance. Of the kind "reference" the targets are the reference's own
words. Of the others they are not, and the reference is changed alike: everyday English words with
uncommon German synonyms ("synonym"), words with made-up ones ("made up"), and terms of two or three
words with as many made-up ones ("longer"). Words of the two sides belong together by a word aligner
that learns from the training split. Of German, words are nouns, if case says so.

once: the share of terms that the translation holds as often as the source, or that a warning names
old: the share of those whose words, in the translation without terms, still stand
chrf, bleu: of the translations; "plain" has those without terms, of the references as they are
speed: the ratio of the seconds without terms and with them, in batches of 32, in turns

Kept spans stand at a random border of words ("border") or in the place of a word ("word"): "once"
is the share that is there once, apart from other words; "place" the share that has the linked word
before or behind it that it had in the source; "chrf" and "bleu" are those of the rest, and "plain"
has those of sources without a span, or with the corpus's most frequent word in its place.
"""

import argparse
import bisect
import collections
import random
import re
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness

BATCH = 32
# Words, the expressions of their translations, and the terms.
SYNONYMS = {
    "man": ("Mann(?:e?s)?", "Kerl"),
    "dog": ("Hund(?:e?s|e)?", "Köter"),
    "woman": ("Frau", "Dame"),
    "boy": ("Jungen?", "Bub"),
    "street": ("Straße", "Gasse"),
    "shirt": ("Hemd|T-Shirt|Shirt|Oberteil|Trikot", "Leibchen"),
    "girl": ("Mädchen", "Göre"),
    "ball": ("Ball(?:e?s)?", "Lederding"),
}
SPANS = "jane@example.org", "https://example.org/x?id=3", "{name}", "+49 30 1234567", "👍"


class Term(NamedTuple):
    source: str
    words: tuple[str, ...]  # Expressions of its words in the reference.
    target: str


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--split", nargs="+", default=["validation", "test"])
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mistakes", type=int, default=0, help="How many to list of each kind.")
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    arguments = parser.parse_args()
    for line in measure(arguments):
        harness.write_line({"model": arguments.model, **line}, arguments.output)


def measure(arguments):
    from keras_mt.cli.models import load_translator

    def texts_of(split):
        from keras_mt.data import load_corpus

        pairs = load_corpus(arguments.data, arguments.source, arguments.target, split)
        return [tuple(text.decode() for text in pair) for pair in pairs.as_numpy_iterator()]

    aligner = WordAligner(texts_of("train"))
    pairs = [pair for split in arguments.split for pair in texts_of(split)]
    random.Random(0).shuffle(pairs)
    found = [
        [linked(pair, links, sizes, arguments.target == "de") for sizes in ((1,), (2, 3))]
        for pair, links in zip(pairs, aligner(pairs), strict=True)
    ]
    translator = load_translator(
        arguments.model, dict.fromkeys(("source_language", "target_language"))
    )
    for kind in ("synonym", "reference", "made up", "longer"):
        draw = random.Random(1)
        rows = [
            (pair, terms)
            for pair, links in zip(pairs, found, strict=True)
            if (terms := terms_of(kind, pair, links[kind == "longer"], draw))
        ]
        if rows:
            yield {"kind": kind, **of_terms(translator, rows[: arguments.pairs], arguments)}
    alone = [(pair, words) for pair, (words, _) in zip(pairs, found, strict=True) if words]
    for kind in ("border", "word"):
        rows = with_spans(kind, alone)[: arguments.pairs]
        yield {"kind": kind, **of_spans(translator, rows, aligner, arguments)}


def of_terms(translator, rows, arguments):
    from keras_mt import Glossary

    sources, references = zip(*(pair for pair, _ in rows), strict=True)
    glossaries = [Glossary({term.source: term.target for term in terms}) for _, terms in rows]
    plain, found, speed = turns(translator, sources, sources, glossaries, arguments.rounds)
    texts, changed, once, old, mistakes = [result.text for result in found], [], [], [], []
    for (pair, terms), before, result in zip(rows, plain, found, strict=True):
        reference = pair[1]
        named = {placed.target for placed in result.placed if placed.warning == "compound"}
        for term in terms:
            reference = re.sub(whole(r"\s+".join(term.words)), term.target, reference, flags=re.I)
            number = count(re.escape(term.source), pair[0])
            counts = [[count(w, x.text) for w in term.words] for x in (before, result)]
            stands = any(b > max(0, a - number) for a, b in zip(*counts, strict=True))
            is_named = term.target in named
            once.append(count(re.escape(term.target), result.text) == number or is_named)
            if any(counts[0]):
                old.append(stands and not is_named and term.target not in term.words)
            if not once[-1] or old[-1:] == [True]:
                mistakes.append((term.source, term.target, pair[0], before.text, result.text))
        changed.append(reference)
    return {
        "pairs": len(rows),
        "terms": len(once),
        "once": share(once),
        "old": share(old),
        **scores(texts, changed),
        "plain": scores([result.text for result in plain], references),
        "speed": speed,
        **({"mistakes": mistakes[: arguments.mistakes]} if arguments.mistakes else {}),
    }


def with_spans(kind, rows):
    """For each row a span, texts without and with it, the rest's reference, and a known word."""
    draw, found = random.Random(2), []
    known = collections.Counter(word for _, words in rows for word in words).most_common(1)[0][0]
    for i, ((source, reference), words) in enumerate(rows):
        span = SPANS[i % len(SPANS)]
        if kind == "border":
            place = draw.choice([match.end() for match in re.finditer(r"\s(?=\S)", source)])
            sides = source[:place], source[place:]
            found.append((span, source, f"{span} ".join(sides), reference, None))
        else:
            word, own = draw.choice(words)
            sides = re.split(whole(word), source, maxsplit=1)
            rest = " ".join(re.sub(whole(own), "", reference, count=1).split())
            found.append((span, known[0].join(sides), span.join(sides), rest, known[1]))
    return found


def of_spans(translator, rows, aligner, arguments):
    spans, without, sources, references, known = zip(*rows, strict=True)
    plain, found, speed = turns(translator, without, sources, None, arguments.rounds)
    plain = [
        result.text if word is None else cut(result.text, whole(word))[0]
        for result, word in zip(plain, known, strict=True)
    ]
    texts, once, place, mistakes = [result.text for result in found], [], [], []
    pairs = list(zip(sources, texts, strict=True))
    ends = [
        [cut(text, re.escape(span)) for text in pair]
        for span, pair in zip(spans, pairs, strict=True)
    ]
    rest = [tuple(text for text, _ in pair) for pair in ends]
    for span, pair, sides, links in zip(spans, pairs, ends, aligner(rest), strict=True):
        apart = re.findall(rf"(?<!\w){re.escape(span)}(?!\w)", pair[1])
        once.append(pair[1].count(span) == len(apart) == 1)
        place.append(once[-1] and has_its_neighbour(links, [number for _, number in sides]))
        mistakes += [] if place[-1] else [pair]
    return {
        "pairs": len(rows),
        "once": share(once),
        "place": share(place),
        **scores([text for _, text in rest], references),
        "plain": scores(plain, references),
        "speed": speed,
        **({"mistakes": mistakes[: arguments.mistakes]} if arguments.mistakes else {}),
    }


def cut(text, expression):
    """A text without the first match of an expression, and the number of words before it."""
    before, *after = re.split(expression, text, maxsplit=1)
    return " ".join(" ".join([before, *after]).split()), len(before.split())


def has_its_neighbour(links, places):
    """Whether the linked words before two places of the sides are linked, or those behind them."""
    words = [sorted({link[k] for link in links}) for k in (0, 1)]
    numbers = [bisect.bisect_left(*both) for both in zip(words, places, strict=True)]
    before = tuple(side[n - 1] if n else -1 for side, n in zip(words, numbers, strict=True))
    behind = tuple(side[n] if n < len(side) else -1 for side, n in zip(words, numbers, strict=True))
    return before in links or behind in links


def turns(translator, without, sources, glossaries, rounds):
    """The best hypotheses without and with terms, and the median ratio of their seconds."""
    ratios = []
    for turn in range(rounds + 1):  # The first traces the searches.
        plain, seconds = timed(translator, without, None)
        found, more = timed(translator, sources, glossaries)
        ratios += [seconds / more] * (turn > 0)
    return plain, found, round(statistics.median(ratios), 3) if ratios else None


def timed(translator, sources, glossaries):
    """The best hypotheses, in batches of texts in their order, and the seconds."""
    start, results = time.perf_counter(), []
    for i in range(0, len(sources), BATCH):
        batch = glossaries and glossaries[i : i + BATCH]
        results += translator.hypotheses(sources[i : i + BATCH], glossary=batch)
    return [hypotheses[0] for hypotheses in results], time.perf_counter() - start


def terms_of(kind, pair, words, draw):
    """Terms of a pair, which the source has as often as the reference has their translations."""
    if kind == "synonym":
        found = [Term(word, (old,), new) for word, (old, new) in SYNONYMS.items()]
        return [t for t in found if 0 < count(t.source, pair[0]) == count(t.words[0], pair[1])]
    terms = []
    for word, own in draw.sample(words, min(len(words), 1 if kind == "longer" else 2)):
        new = own if kind == "reference" else " ".join(made_up(draw) for _ in own.split())
        terms.append(Term(word, tuple(own.split()), new))
    return terms


def linked(pair, links, sizes, has_nouns):
    """Runs of words of four letters or more, and those that they alone are linked with."""
    words, found = [[stripped(word) for word in text.split()] for text in pair], []
    for size in sizes:
        for i in range(len(words[0]) - size + 1):
            mine = {t for s, t in links if i <= s < i + size}
            a, b = min(mine, default=0), max(mine, default=0) + 1
            theirs = {s for s, t in links if a <= t < b}
            run = words[0][i : i + size], words[1][a:b]
            if len(mine) == b - a in sizes and theirs <= {*range(i, i + size)}:
                term = tuple(map(" ".join, run))
                plain = all(len(word) > 3 and word.isalpha() for side in run for word in side)
                once = all(count(*both) == 1 for both in zip(term, pair, strict=True))
                is_noun = run[1][-1][:1].isupper() or pair[1].islower() or not has_nouns
                found += [term] * (plain and once and is_noun)
    return found


def stripped(word):
    return word.strip('.,;:!?"()')


def whole(expression):
    return rf"(?<![\w-])(?:{expression})(?![\w-])"


def count(expression, text):
    return len(re.findall(whole(expression), text, re.IGNORECASE))


def share(values):
    return round(statistics.mean(values), 4) if values else None


def scores(texts, references):
    import sacrebleu

    return {
        "chrf": round(sacrebleu.corpus_chrf(texts, [references]).score, 2),
        "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
    }


class WordAligner:
    """The links of the words of pairs, learned from others."""

    def __init__(self, pairs):
        from keras_mt.alignment import Aligner

        self._numbers = {}
        self._aligner = Aligner.learn(*self._ids(pairs))

    def __call__(self, pairs):
        return [{*map(tuple, links.tolist())} for links in self._aligner.align(*self._ids(pairs))]

    def _ids(self, pairs):
        import numpy as np

        def number(word):
            return self._numbers.setdefault(stripped(word).lower(), len(self._numbers))

        sides = ([pair[k].split() for pair in pairs] for k in (0, 1))
        return [[np.array([*map(number, words)], np.int32) for words in side] for side in sides]


def made_up(letters):
    syllables = [letters.choice("bdfgklmnprstvw") + letters.choice("aeiou") for _ in range(3)]
    return "".join(syllables).title()


if __name__ == "__main__":
    main()
