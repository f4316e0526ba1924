"""A report on the confidence in translations: the corpus, each file, and each text."""

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_mt.files import atomic_write

_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95


def write_report(path: str | os.PathLike, files: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Writes lines of JSON: of the corpus, of each file, and of each text, the worst first.

    `files` has the entries of each file's texts, with a `mean_log_prob` and `warnings`. In memory
    are numbers alone.
    """
    means, places, ends, doubts = array("d"), array("q"), [], []
    with atomic_write(path) as temporary, open(f"{temporary}.texts", "w+b") as texts:
        for name, entries in files.items():
            doubts.append(Counter())
            for entry in entries:
                means.append(entry["mean_log_prob"])
                places.append(texts.tell())
                doubts[-1].update(entry["warnings"])
                texts.write(_line({"file": name, **entry}))
            ends.append(len(means))
        log_probs = np.array(means)
        with open(temporary, "wb") as report:
            report.write(_line(_summary(log_probs, sum(doubts, Counter()))))
            for name, own, doubt in zip(files, np.split(log_probs, ends), doubts, strict=False):
                report.write(_line({"file": name, **_summary(own, doubt)}))
            for i in np.argsort(log_probs, kind="stable"):
                texts.seek(places[i])
                report.write(texts.readline())


def _summary(log_probs, doubts):
    """What there is to say of several texts."""
    values = [np.mean(log_probs), *np.quantile(log_probs, _QUANTILES)] if len(log_probs) else []
    mean, *quantiles = (round(float(x), 6) for x in values) if values else (None,)
    quantiles = dict(zip(map(str, _QUANTILES), quantiles, strict=False))
    return {
        "texts": len(log_probs),
        "mean_log_prob": mean,
        "quantiles": quantiles,
        "warnings": doubts,
    }


def _line(fields):
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
