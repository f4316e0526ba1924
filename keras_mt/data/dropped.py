"""What rules drop of a corpus: counted, with examples, as a table and as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_mt.version import __version__

REPORT_FILE = "cleaning.json"
_EXAMPLES = 2


class Dropped:
    """Counts what each rule drops, and keeps the first examples.

    `whats` says what each rule drops, in a line, by its name.

    >>> dropped = Dropped({"empty": "a side has no letter or digit"})
    >>> dropped.add("empty", "A dog.", "")
    >>> dropped.counts
    {'empty': 1}
    """

    def __init__(self, whats: Mapping[str, str]):
        self._whats = dict(whats)
        self.counts = dict.fromkeys(whats, 0)
        self._examples = {name: [] for name in whats}

    def add(self, rule: str, *texts: str) -> None:
        """Counts a pair, or a text, for a rule."""
        self.counts[rule] += 1
        if len(self._examples[rule]) < _EXAMPLES:
            self._examples[rule].append(texts)

    def write(self, folder: Path, pairs: int, **fields: Any) -> list[str]:
        """Writes `cleaning.json`, with further fields, and returns the lines of the table."""
        kept = pairs - sum(self.counts.values())
        rules = {
            name: {
                "what": self._whats[name],
                "dropped": count,
                "share": count / pairs,
                "examples": self._examples[name],
            }
            for name, count in self.counts.items()
        }
        result = {**fields, "keras_mt": __version__, "pairs": pairs, "kept": kept, "rules": rules}
        text = json.dumps(result, indent=2, ensure_ascii=False)
        (folder / REPORT_FILE).write_text(text + "\n", encoding="utf-8")
        table = [f"{'rule':10} {'dropped':>10} {'share':>7}  what it drops, and examples"]
        for name, row in rules.items():
            table.append(f"{name:10} {row['dropped']:>10,} {row['share']:>7.2%}  {row['what']}")
            table += [" " * 31 + " | ".join(map(_shown, texts)) for texts in row["examples"]]
        return [*table, f"{'kept':10} {kept:>10,} {kept / pairs:>7.2%}"]


def _shown(text):
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= 60 else f"{text[:59]}…"
