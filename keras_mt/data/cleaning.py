"""Cleaning of parallel text by rules."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_mt.data.cleaning_rules import RULES, pair_hash, rule_names
from keras_mt.data.corpus import open_corpus
from keras_mt.errors import CorpusError
from keras_mt.files import check_new, new_folder
from keras_mt.version import __version__

_EXAMPLES = 2  # Of what each rule drops, in the table.


class Cleaning:
    """The verdicts of rules on the training pairs of a corpus, which are read as a stream.

    `verdicts`, uint8 `[pairs]`, are 0 for a pair that is kept, else the number of the first rule,
    from 1, that drops it; `counts` says how many pairs each rule drops, by its name.
    """

    def __init__(self, data: str | os.PathLike, source: str, target: str, rules: Sequence[str]):
        self.corpus, self.rules = open_corpus(data, source, target), tuple(rules)
        judged = np.fromiter(map(self._judged, self._pairs()), "u1,u8")
        self.verdicts, hashes = judged["f0"].copy(), judged["f1"]
        if "duplicate" in self.rules:
            kept = np.flatnonzero(self.verdicts == 0)
            first = np.unique(hashes[kept], return_index=True)[1]
            self.verdicts[np.delete(kept, first)] = self.rules.index("duplicate") + 1
        counts = np.bincount(self.verdicts, minlength=len(self.rules) + 1).tolist()
        self.kept, self.counts = counts[0], dict(zip(self.rules, counts[1:], strict=True))
        if not len(self.verdicts):
            raise CorpusError(f"The split train of {data} is empty.")
        if not self.kept:
            raise CorpusError(
                f"Nothing of the split train of {data} is left: {self}. Is it {source!r} and "
                f"{target!r}? `keras-mt clean --without RULE` leaves a rule out."
            )

    def __str__(self) -> str:
        dropped = ", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count)
        return f"{self.kept:,} of {len(self.verdicts):,} pairs kept; dropped: {dropped or 'none'}"

    def _pairs(self):
        return map(_texts, self.corpus.pairs("train", checked=False))

    def _judged(self, pair):
        """The verdict of all rules but `duplicate`, and the pair's hash."""
        rules, languages = enumerate(self.rules, start=1), self.corpus.languages
        dropping = (number for number, name in rules if RULES[name].drops(*pair, *languages))
        return next(dropping, 0), pair_hash(*pair)

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """The pairs in order, each with its verdict; line breaks within a text become spaces."""
        for verdict, pair in zip(self.verdicts, self._pairs(), strict=True):
            yield verdict, *pair

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """The pairs that are kept."""
        return ((a.encode(), b.encode()) for verdict, a, b in self.texts() if not verdict)


def clean(
    data: str | os.PathLike,
    source: str,
    target: str,
    output: str | os.PathLike,
    *,
    identify: bool = False,
    without: Sequence[str] = (),
    report: Callable[[str], Any] = print,
) -> None:
    """Writes a new corpus folder with the training pairs that break no rule, and other splits.

    Of other splits it leaves out pairs that have a blank side or are not UTF-8, which no command
    takes. Each line of a table is reported, and `cleaning.json` in the folder has it.
    """
    check_new(output)
    cleaning = Cleaning(data, source, target, rule_names(identify, without))
    examples = {name: [] for name in cleaning.rules}

    def kept():
        for verdict, *pair in cleaning.texts():
            if not verdict:
                yield pair
            elif len(shown := examples[cleaning.rules[verdict - 1]]) < _EXAMPLES:
                shown.append(pair)

    with new_folder(output) as folder:
        _write(folder, cleaning.corpus.languages, "train", kept())
        others = sorted({*cleaning.corpus.splits} - {"train"})
        copied = [_copy_split(cleaning.corpus, split, folder) for split in others]
        results = _results(cleaning, examples)
        text = json.dumps(results, indent=2, ensure_ascii=False)
        (folder / "cleaning.json").write_text(text + "\n", encoding="utf-8")
    for line in [*_table(results), *copied]:
        report(line)


def _results(cleaning, examples):
    """The content of `cleaning.json`: counts, and examples of what each rule drops."""
    pairs, (source, target) = len(cleaning.verdicts), cleaning.corpus.languages
    rules = {
        name: {
            "description": RULES[name].description,
            "dropped": count,
            "share": count / pairs,
            "examples": examples[name],
        }
        for name, count in cleaning.counts.items()
    }
    found = {"data": cleaning.corpus.data, "source": source, "target": target}
    found |= {"keras_mt": __version__, "pairs": pairs, "kept": cleaning.kept}
    return found | {"rules": rules}


def _table(results):
    """The lines that show results."""
    yield f"{'rule':10} {'dropped':>10} {'share':>7}  what it drops, and examples"
    for name, row in results["rules"].items():
        yield f"{name:10} {row['dropped']:>10,} {row['share']:>7.2%}  {row['description']}"
        for texts in row["examples"]:
            yield " " * 31 + " | ".join(map(_shortened, texts))
    kept = results["kept"]
    yield f"{'kept':10} {kept:>10,} {kept / results['pairs']:>7.2%}"


def _shortened(text):
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _copy_split(corpus, split, folder):
    """Copies the pairs that `load_corpus` takes, and returns a line that says so."""
    copied = _write(folder, corpus.languages, split, map(_texts, corpus.usable_pairs(split)))
    left_out = sum(1 for _ in corpus.pairs(split, checked=False)) - copied
    without = f", without {left_out:,} pairs that are blank or not UTF-8" if left_out else ""
    return f"copied: {split}{without}"


def _texts(pair):
    return [side.decode("utf-8", "replace").replace("\n", " ") for side in pair]


def _write(folder, languages, split, pairs):
    """Writes pairs of texts to the two files of a split, and returns their number."""
    paths = [folder / f"{language}.{split}.txt" for language in languages]
    count = 0
    with open(paths[0], "wb") as sources, open(paths[1], "wb") as targets:
        for source, target in pairs:
            sources.write(source.encode() + b"\n")
            targets.write(target.encode() + b"\n")
            count += 1
    return count
