"""What the comparisons share: measured rows as JSON lines, and their tables in a page."""

import datetime
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

from keras_mt.files import atomic_write
from keras_mt.version import __version__

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from harness import machine


def circumstances():
    """What a line says of when and where it was measured."""
    packages = ("keras", "tensorflow")
    return {
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {"keras_mt": __version__, **{x: metadata.version(x) for x in packages}},
    }


def read(path):
    """The measured rows of a file by name, in the file's order; none if it is not there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line["row"]: line for line in map(json.loads, lines)}


def add(path, line, names):
    """Puts a row into a file, whose rows are in the order of `names`.

    The file is read again: another process may have added others.
    """
    lines = {**read(path), line["row"]: line}
    with atomic_write(path) as temporary:
        ordered = (json.dumps(lines[name]) + "\n" for name in names if name in lines)
        temporary.write_text("".join(ordered), encoding="utf-8")


def table(columns, rows):
    """A table in Markdown, the first column left-aligned and the others right-aligned."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def put(page, name, text):
    """Puts a table between its markers, `<!-- name -->` and `<!-- end -->`, in a page."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    before = page.read_text(encoding="utf-8")
    after = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", before, flags=re.DOTALL)
    with atomic_write(page) as temporary:
        temporary.write_text(after, encoding="utf-8")
