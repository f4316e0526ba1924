"""What a report of `keras-mt translate-files --report` tells of quality: correlation with chrF.

usage: python benchmarks/calibration.py REPORT.jsonl TRANSLATIONS REFERENCES [BLOCK]

The folders have files of lines of the same names. Prints a table: Pearson's and Spearman's
correlation of measures of confidence with chrF, by line and by block of BLOCK lines (50).
"""

import json
import sys
from pathlib import Path

import numpy as np
import sacrebleu


def ranks(values):
    """Ranks; equal values have the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def correlations(a, b):
    """Pearson's and Spearman's."""
    return [np.corrcoef(*pair)[0, 1] for pair in ((a, b), (ranks(a), ranks(b)))]


def lines_of(folder, name):
    return Path(folder, name).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def measured(report, translations, references):
    """For each line, in order: the mean and the worst log-probability, translation, reference."""
    with open(report, encoding="utf-8") as file:
        texts = [row for row in map(json.loads, file) if "where" in row]
    found = []
    for name in sorted({row["file"] for row in texts}):
        new, old = lines_of(translations, name), lines_of(references, name)
        if len(new) != len(old):
            sys.exit(
                f"{Path(translations, name)} has {len(new):,} lines, and {Path(references, name)} "
                f"{len(old):,}: give a reference for each line."
            )
        own = {int(row["where"].split()[1]): row for row in texts if row["file"] == name}
        for number, row in sorted(own.items()):
            worst = row["worst_token"][1] if row["worst_token"] else 0.0
            found.append((row["mean_log_prob"], worst, new[number - 1], old[number - 1]))
    return found


def main(report, translations, references, block="50"):
    rows, metric = measured(report, translations, references), sacrebleu.CHRF()
    print(f"{len(rows):,} lines\n\n| of each | measure | Pearson | Spearman |")
    print("| --- | --- | --- | --- |")
    for name, size in (("line", 1), (f"block of {block} lines", int(block))):
        blocks = [rows[i : i + size] for i in range(0, len(rows) // size * size, size)]
        columns = [list(zip(*each, strict=True)) for each in blocks]
        chrf = [metric.corpus_score(new, [old]).score for *_, new, old in columns]
        for i, measure in enumerate(("mean log-probability", "worst token")):
            values = correlations([np.mean(column[i]) for column in columns], chrf)
            print(f"| {name} | {measure} | {values[0]:.2f} | {values[1]:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
