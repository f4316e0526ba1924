"""Translates text files with Ray Data, as beam_files.py does with Apache Beam.

usage: python examples/batch/ray_files.py SAVED_MODEL OUTPUT_DIR FILE... [--workers N]

All machines must see the folders. The cluster is that of the environment variable RAY_ADDRESS;
without it Ray starts on this machine.
"""

import argparse
from pathlib import Path

import ray

from keras_mt import ExportedTranslator
from keras_mt.compressed import open_read, open_write
from keras_mt.documents.sources import as_line, line_blocks
from keras_mt.files import atomic_write

PART_LINES = 2000


def begins(path):
    """Where each part of a file begins, in the unpacked file."""
    with open_read(path) as file:
        yield 0
        for number, _ in enumerate(file, 1):
            if number % PART_LINES == 0:
                yield file.tell()


class Translate:
    """Translates parts of files; each worker process makes one, and so loads the model once."""

    def __init__(self, model):
        self.translator = ExportedTranslator(model)

    def __call__(self, part):
        limit, first = self.translator.options.max_line_bytes, part["first_line"]
        with open_read(part["path"]) as file:
            file.seek(part["begin"])
            # A file whose lines fill its parts has an empty one at its end.
            blocks = line_blocks(file, PART_LINES, limit, first)
            units, _ = next(blocks, ([], ""))
        results = self.translator.hypotheses(["" if unit.error else unit.text for unit in units])
        refused = [(unit.where, unit.error) for unit in units if unit.error]
        refused += [(f"line {first + i}", reason) for i, reason in results.refusals.items()]
        translations = [found[0].text if found else "" for found in results]
        return {"lines": b"".join(map(as_line, translations)), "refused": refused}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="SAVED_MODEL")
    parser.add_argument("output", metavar="OUTPUT_DIR", type=Path)
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--workers", metavar="N", type=int, default=2)
    given = parser.parse_args()
    outputs = {path: given.output / Path(path).name for path in given.files}
    if len({*outputs.values()}) < len(given.files) or any(map(Path.exists, outputs.values())):
        parser.error("two files have one name, or OUTPUT_DIR has one already: give a new folder")
    found = {path: [*begins(path)] for path in outputs}
    parts = [
        {"path": path, "begin": begin, "first_line": i * PART_LINES + 1}
        for path in outputs
        for i, begin in enumerate(found[path])
    ]
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    dataset = ray.data.from_items(parts, override_num_blocks=len(parts))
    pool = ray.data.ActorPoolStrategy(size=given.workers)
    translated = dataset.map(Translate, fn_constructor_args=[given.model], compute=pool)
    rows = iter(translated.iter_rows())
    for path, output in outputs.items():
        with atomic_write(output) as temporary, open_write(temporary) as file:
            for _ in found[path]:
                row = next(rows)
                file.write(row["lines"])
                for where, reason in row["refused"]:
                    print(f"{path}, {where} is left empty: {reason}")


if __name__ == "__main__":
    main()
