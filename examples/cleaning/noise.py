"""What `keras-mt clean` finds of noise that is mixed into a clean corpus.

usage: python examples/cleaning/noise.py MULTI30K_EN_DE MULTI30K_EN_FR [--output FOLDER]
           [--identify] [--model RUN_DIR] [--split validation] [--pairs N]

Every third pair of the training split, or of the first N pairs of another one, is replaced by noise
of a kind, in turn: another pair's target (misaligned), the source itself (copied), the French
translation (wrong language), and the first third of the target's words (truncated). A table says
which share of each kind the rules drop, and how many of the pairs that were left as they are. With
--model, a run that translates English to German, pairs whose targets gain little by their sources
are dropped too: `score` in the table. With --output the noisy corpus is written there, with the
validation and test splits as they are, for training with and without --clean.
"""

import argparse
import collections
import itertools
import shutil
import tempfile
from pathlib import Path

import numpy as np

from keras_mt import Translator
from keras_mt.data.cleaning import Cleaning
from keras_mt.data.cleaning_rules import rule_names
from keras_mt.data.corpus import open_corpus

MIN_GAIN = 0.25
KINDS = ("misaligned", "copied", "wrong language", "truncated")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("french", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--identify", action="store_true")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--pairs", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.output or Path(temporary) / "noisy"
        folder.mkdir(parents=True)
        corpora = arguments.data, arguments.french
        kinds = write(folder, *corpora, arguments.split, arguments.pairs)
        rules = rule_names(arguments.identify)
        cleaning = Cleaning(folder, "en", "de", rules)
        verdicts = [
            cleaning.rules[verdict - 1] if verdict else None for verdict in cleaning.verdicts
        ]
        if arguments.model:
            add_scores(Translator.load(arguments.model), [*cleaning.texts()], verdicts)
    print("| pairs | number | dropped | by |\n| --- | ---: | ---: | --- |")
    for kind in (*KINDS, None):
        of_kind = [v for v, k in zip(verdicts, kinds, strict=True) if k == kind]
        by = collections.Counter(filter(None, of_kind))
        names = ", ".join(f"{name} {count:,}" for name, count in by.most_common())
        share = by.total() / len(of_kind)
        print(f"| {kind or 'as they were'} | {len(of_kind):,} | {share:.2%} | {names} |")


def add_scores(translator, texts, verdicts):
    """Sets the verdict `score` where a pair gains less than a quarter of the median pair's gain.

    A gain is what the mean log-probability of a target's tokens gains by its own source, over
    that of another pair.
    """
    kept = [i for i, verdict in enumerate(verdicts) if verdict is None]
    sources, targets = ([texts[i][side] for i in kept] for side in (1, 2))
    half = len(kept) // 2
    own, other = (
        np.array([s.log_prob / len(s.tokens) for s in translator.score(each, targets)])
        for each in (sources, sources[half:] + sources[:half])
    )
    gains = own - other
    for i in np.flatnonzero(gains < MIN_GAIN * np.median(gains)):
        verdicts[kept[i]] = "score"


def write(folder, data, french, split="train", number=None):
    """Writes the noisy corpus, and returns the kind of noise of each pair, or None."""
    pairs = list(itertools.islice(open_corpus(data, "en", "de").pairs(split), number))
    others = list(itertools.islice(open_corpus(french, "en", "fr").pairs(split), number))
    kinds, noisy = [], []
    for i, (source, target) in enumerate(pairs):
        words = target.split(b" ")
        targets = {
            None: target,
            "misaligned": pairs[(i + 1) % len(pairs)][1],
            "copied": source,
            "wrong language": others[i][1],
            "truncated": b" ".join(words[: max(len(words) // 3, 1)]),
        }
        kinds.append(KINDS[i // 3 % len(KINDS)] if i % 3 == 2 else None)
        noisy.append((source, targets[kinds[-1]]))
    for side, language in enumerate(("en", "de")):
        lines = b"".join(pair[side] + b"\n" for pair in noisy)
        (folder / f"{language}.train.txt").write_bytes(lines)
        for split in ("validation", "test"):
            shutil.copy(data / f"{language}.{split}.txt", folder)
    return kinds


if __name__ == "__main__":
    main()
