"""What a glossary does to translations: terms in them, their quality, and the time.

usage: python benchmarks/terms.py MODEL --data FOLDER [--source en] [--target de]
    [--split validation] [--pairs N] [--terms N] [--rounds N] [--output FILE]

MODEL is a run folder or an export. Each pair of FOLDER's split gets a glossary of its own, of up to
N terms: words of its source, and those of the reference that a word aligner, which learns from the
training split, links with these alone ("reference"); then the same words with made-up ones in place
of the reference's ("made up"). Prints a JSON line: for both the share of terms that the
translations hold, with the glossary and without; BLEU and chrF; and the ratio of the seconds
without and with, in batches of 32, in turns.
"""

import argparse
import random
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness

BATCH = 32


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--pairs", type=int, default=512)
    parser.add_argument("--terms", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="File to append the JSON line to.")
    arguments = parser.parse_args()
    harness.write_line(measure(arguments), arguments.output)


def measure(arguments):
    import sacrebleu

    from keras_mt import Glossary
    from keras_mt.cli.models import load_translator

    given = arguments.data, arguments.source, arguments.target
    pairs = texts_of(*given, arguments.split)
    random.Random(0).shuffle(pairs)
    pairs = pairs[: arguments.pairs]
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    found = linked_words(texts_of(*given, "train"), pairs, arguments.terms)
    letters = random.Random(1)
    kinds = {
        "reference": found,
        "made up": [[(word, made_up(letters)) for word, _ in terms] for terms in found],
    }
    translator = load_translator(
        arguments.model, dict.fromkeys(("source_language", "target_language"))
    )
    plain, _ = timed(translator, sources, [None] * len(sources))
    line = {"model": arguments.model, "pairs": len(pairs), "terms": sum(map(len, found))}
    for kind, terms in kinds.items():
        glossaries = [Glossary(dict(row)) for row in terms]
        timed(translator, sources[:BATCH], glossaries[:BATCH])  # Traces the search.
        rounds = []
        for _ in range(arguments.rounds):
            _, without = timed(translator, sources, [None] * len(sources))
            translations, seconds = timed(translator, sources, glossaries)
            rounds.append(without / seconds)
        scores = {}
        for name, texts in (("without", plain), ("with", translations)):
            held = [
                re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE) is not None
                for text, row in zip(texts, terms, strict=True)
                for _, term in row
            ]
            bleu = sacrebleu.corpus_bleu(texts, [references])
            chrf = sacrebleu.corpus_chrf(texts, [references])
            scores[name] = {
                "share": round(sum(held) / max(len(held), 1), 4),
                "bleu": round(bleu.score, 2),
                "chrf": round(chrf.score, 2),
            }
        line[kind] = {**scores, "speed": round(statistics.median(rounds), 3)}
    return line


def timed(translator, sources, glossaries):
    """The translations, in batches of pairs in their order, and the seconds."""
    start, texts = time.perf_counter(), []
    for i in range(0, len(sources), BATCH):
        batch = glossaries[i : i + BATCH]
        more = {} if batch[0] is None else {"glossary": batch}
        texts += translator(sources[i : i + BATCH], **more)
    return texts, time.perf_counter() - start


def texts_of(data, source, target, split):
    from keras_mt.data import load_corpus

    pairs = load_corpus(data, source, target, split).as_numpy_iterator()
    return [tuple(text.decode() for text in pair) for pair in pairs]


def linked_words(training, pairs, count):
    """For each pair up to `count` words of four letters or more that are linked one to one."""
    import numpy as np

    from keras_mt.alignment import Aligner

    numbers = {}

    def ids(text):
        words = [word.strip('.,;:!?"()').lower() for word in text.split()]
        return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32)

    sides = [[ids(pair[side]) for pair in [*training, *pairs]] for side in (0, 1)]
    aligner = Aligner.learn(*sides)
    drawn, rows = random.Random(2), []
    links = aligner.align(*(side[len(training) :] for side in sides))
    for (source, target), row in zip(pairs, links, strict=True):
        words = [text.split() for text in (source, target)]
        alone = [
            (i, j) for i, j in row.tolist() if (row[:, 0] == i).sum() == (row[:, 1] == j).sum() == 1
        ]
        terms = {}
        for i, j in drawn.sample(alone, len(alone)):
            term = [side[k].strip('.,;:!?"()') for side, k in zip(words, (i, j), strict=True)]
            whole = all(len(word) > 3 and word.isalpha() for word in term)
            if whole and len(terms) < count and source.lower().count(term[0].lower()) == 1:
                terms[term[0]] = term[1]
        rows.append(list(terms.items()))
    return rows


def made_up(letters):
    syllables = [letters.choice("bdfgklmnprstvw") + letters.choice("aeiou") for _ in range(3)]
    return "".join(syllables).title()


if __name__ == "__main__":
    main()
