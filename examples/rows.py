"""What the comparisons share: rows that are measured once, their JSON lines, and their tables."""

import argparse
import datetime
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sacrebleu

from keras_mt.data import load_corpus
from keras_mt.files import atomic_write
from keras_mt.version import __version__

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from harness import machine


def parser(doc, names=(), corpora=()):
    """The parser of a command line: a corpus and names, of which none are all, if there are any."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if corpora:
        parser.add_argument("corpus", choices=corpora)
    if names:
        # Python 3.11 looks for the empty list, too, among the choices.
        choices, listed = [*names, []], ", ".join(names)
        parser.add_argument("names", nargs="*", choices=choices, metavar="NAME", help=listed)
    return parser


def measured(path, names, measure, chosen=()):
    """The lines of a file by row, after `measure` was called with each row that it lacks.

    Each line is written as soon as it is measured, so the same command goes on after a stop.

    Args:
        path: The file, a JSON line for each row.
        names: All rows, in the order of the table.
        measure: Function from the name of a row to a dict of what was measured.
        chosen: The rows to measure; none are all.
    """
    for name in chosen or names:
        if name not in read(path):
            print(f"\n{name}", flush=True)
            line = {"row": name, **measure(name), **circumstances()}
            add(path, line, names)
            print(json.dumps(line), flush=True)
    return read(path)


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
    """The lines of a file by row, in the file's order; none if it is not there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line["row"]: line for line in map(json.loads, lines)}


def add(path, line, names):
    """Puts a line into a file, whose rows are in the order of `names`.

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
    """Prints a table, and puts it between its markers, `<!-- name -->` and `<!-- end -->`."""
    print(f"\n{name}\n\n{text}", flush=True)
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    before = page.read_text(encoding="utf-8")
    after = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", before, flags=re.DOTALL)
    with atomic_write(page) as temporary:
        temporary.write_text(after, encoding="utf-8")


def texts(data, source, target, split):
    """The pairs of a split, as tuples of str."""
    pairs = load_corpus(data, source, target, split).as_numpy_iterator()
    return [tuple(side.decode("utf-8") for side in pair) for pair in pairs]


def scores(translator, pairs, tokenize="13a"):
    """BLEU and chrF of a translator's best translations of pairs."""
    sources, references = zip(*pairs, strict=True)
    found = [each[0].text if each else "" for each in translator.hypotheses(sources)]
    bleu = sacrebleu.corpus_bleu(found, [references], tokenize=tokenize, force=True)
    chrf = sacrebleu.corpus_chrf(found, [references])
    return {"bleu": round(bleu.score, 2), "chrf": round(chrf.score, 2)}
