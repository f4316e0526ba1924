"""Training data for a small student: a big teacher's translations (Kim and Rush 2016).

usage: python examples/distil/distil.py translate TEACHER FOLDER --data DATA --source en --target de
           [--set KEY=VALUE ...]
       python examples/distil/distil.py filter FOLDER DISTILLED.tsv [--best 0.95] [--most-ratio 2]
       keras-mt train --data DISTILLED.tsv --source en --target de --output STUDENT ...

translate makes the teacher, a run folder, translate the training split into FOLDER, part by part.
If interrupted, the same command resumes. --set is any option of a Translator, such as beam_size=5
or target_language=deu_Latn.

filter leaves out the worst translations by the teacher's score, and those far longer or shorter
than usual, and writes a corpus whose validation split is the original one.
"""

import argparse
import functools
import itertools
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_mt import Translator
from keras_mt.data import load_corpus
from keras_mt.data.corpus import has_split
from keras_mt.documents import translate_files
from keras_mt.files import atomic_write

PART_LINES = 2048


def main():
    step, arguments = arguments_of()
    try:
        step(**arguments)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; give the same command again to go on.")


def arguments_of(line=None):
    """The function for a command line, and its arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True, metavar="translate|filter")
    step = steps.add_parser("translate")
    step.set_defaults(step=translate)
    step.add_argument("teacher", metavar="TEACHER")
    step.add_argument("folder", type=Path, metavar="FOLDER")
    for name in ("--data", "--source", "--target"):
        step.add_argument(name, required=True)
    step.add_argument("--set", type=setting, action="append", default=[], metavar="KEY=VALUE")

    step = steps.add_parser("filter")
    step.set_defaults(step=filter_)
    step.add_argument("folder", type=Path, metavar="FOLDER")
    step.add_argument("output", type=Path, metavar="DISTILLED.tsv")
    step.add_argument("--best", type=float, default=0.95, metavar="SHARE")
    step.add_argument("--most-ratio", type=float, default=2.0, metavar="R")
    arguments = vars(parser.parse_args(line))
    return arguments.pop("step"), arguments


def setting(text):
    """KEY=VALUE, the value as JSON or else as it stands."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE. Received: {text}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def translate(teacher, folder, data, source, target, set):
    """Writes FOLDER/translated/pairs.jsonl: the pairs, each with its split and, in the training
    split, with the teacher's translation of the source and its score.
    """
    translator = Translator.load(teacher, **dict(set))
    pairs, corpus = folder / "pairs.jsonl", (data, source, target)
    splits = ["train", *(["validation"] if has_split(*corpus, "validation") else [])]
    with atomic_write(pairs) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for split in splits:
            for sides in load_corpus(*corpus, split).as_numpy_iterator():
                texts = zip((source, target), (side.decode("utf-8") for side in sides), strict=True)
                row = {"split": split, **dict(texts)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    outcome = translate_files(
        functools.partial(with_translations, translator, source),
        [pairs],
        folder / "translated",
        {"model": translator.fingerprint, "source": source, "target": target, **dict(set)},
        format="lines",
        part_lines=PART_LINES,
        max_line_bytes=2**24,
        progress=lambda done, total: print(f"{done:,} of {total:,} lines", flush=True),
    )
    if error := outcome[pairs.name].get("error"):
        raise ValueError(error)


def with_translations(translator, source, lines):
    """The lines of pairs, with translations and scores where they are for training."""
    rows = [json.loads(line) for line in lines]
    train = [row for row in rows if row["split"] == "train"]
    found = translator.hypotheses([row[source] for row in train])
    for row, hypotheses in zip(train, found, strict=True):
        if hypotheses:
            row |= {"translation": hypotheses[0].text, "score": hypotheses[0].score}
    return [json.dumps(row, ensure_ascii=False) for row in rows], {}


def filter_(folder, output, best, most_ratio):
    """Writes the pairs of source and translation that are kept, as a corpus in one file."""
    if not 0 < best <= 1:
        raise ValueError(f"--best must be above 0 and at most 1. Received: {best}")
    if most_ratio < 1:
        raise ValueError(f"--most-ratio must be at least 1. Received: {most_ratio}")
    if output.suffix != ".tsv":
        raise ValueError(f"{output} must end in .tsv, as keras-mt train takes it.")
    path = folder / "translated" / "pairs.jsonl"
    if not path.exists():
        raise ValueError(
            f"{folder} is not all translated: give the command that translates to its end."
        )
    _, source, target, *_ = next(rows(path))
    # The file is read several times: only lengths and scores are held in memory.
    columns = (measures(row, source) for row in rows(path, "train"))
    kept, counts = choose(*np.fromiter(columns, np.dtype((float, 3))).T, best, most_ratio)
    with atomic_write(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(f"{source}\t{target}\tsplit\n")
        for split, side, chosen in (("train", "translation", kept), ("validation", target, None)):
            found = rows(path, split)
            for row in found if chosen is None else itertools.compress(found, chosen):
                texts = (" ".join(row[name].split()) for name in (source, side))
                file.write("\t".join([*texts, split]) + "\n")
    print(json.dumps(counts))


def rows(path, split=None):
    with open(path, encoding="utf-8", newline="\n") as file:
        yield from (row for row in map(json.loads, file) if split in (None, row["split"]))


def measures(row, source):
    """The characters of the source and of the translation, and the score."""
    translation = row.get("translation", "").strip()
    return len(row[source].strip()), len(translation), row.get("score", -np.inf)


def choose(source_lengths, target_lengths, scores, best, most_ratio):
    """Which translations are kept, a Boolean array, and why others are not, a dict of counts.

    A translation's ratio is its length over its source's, in characters, divided by the median of
    these, so that 1 is usual between the two languages. It must be from 1 / most_ratio to
    most_ratio. Of those that are not empty, the share `best` with the best scores is kept; of equal
    scores the first.
    """
    there = (source_lengths > 0) & (target_lengths > 0) & np.isfinite(scores)
    if not there.any():
        raise ValueError("No translation has a text and a score.")
    ratios = target_lengths / np.maximum(source_lengths, 1)
    ratios = ratios / np.median(ratios[there])
    usual = (ratios <= most_ratio) & (ratios * most_ratio >= 1)
    order = np.argsort(np.where(there, -scores, np.inf), kind="stable")
    good = np.zeros(len(scores), bool)
    good[order[: round(best * there.sum())]] = True
    kept = there & usual & good
    return kept, {
        "lines": len(kept),
        "kept": int(kept.sum()),
        "empty": int((~there).sum()),
        "of_unusual_length": int((there & ~usual).sum()),
        "of_low_score": int((there & ~good).sum()),
        "least_score": round(float(scores[kept].min()), 4) if kept.any() else None,
    }


if __name__ == "__main__":
    main()
