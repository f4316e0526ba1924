"""A report on the confidence in translations: the corpus, each file, and each text."""

import json
import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_mt.files import atomic_write, check_new

_QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95


def write_report(path: str | os.PathLike, entries: Iterable[Mapping[str, Any]]) -> None:
    """Writes lines of JSON: of the corpus, of each file, and of each text, the worst first.

    Entries come file by file: each has a `file`, a `mean_log_prob` and `warnings`. In memory are
    numbers alone.
    """
    check_new(path)
    means, places, starts, doubts = array("d"), array("q"), {}, defaultdict(Counter)
    with atomic_write(path) as temporary, open(f"{temporary}.texts", "w+b") as texts:
        for entry in entries:
            starts.setdefault(entry["file"], len(means))
            means.append(entry["mean_log_prob"])
            places.append(texts.tell())
            doubts[entry["file"]].update(entry["warnings"])
            texts.write(_line(entry))
        log_probs = np.array(means)
        with open(temporary, "wb") as report:
            report.write(_line(_summary(log_probs, sum(doubts.values(), Counter()))))
            for name, own in zip(starts, np.split(log_probs, [*starts.values()][1:]), strict=False):
                report.write(_line({"file": name, **_summary(own, doubts[name])}))
            for i in np.argsort(log_probs, kind="stable"):
                texts.seek(places[i])
                report.write(texts.readline())


def _summary(log_probs, doubts):
    """What there is to say of several texts."""
    values = [np.mean(log_probs), *np.quantile(log_probs, _QUANTILES)] if len(log_probs) else []
    mean, *quantiles = (round(float(x), 6) for x in values) if values else (None,)
    return {
        "texts": len(log_probs),
        "mean_log_prob": mean,
        "quantiles": dict(zip(map(str, _QUANTILES), quantiles, strict=False)),
        "warnings": doubts,
    }


def _line(fields):
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
