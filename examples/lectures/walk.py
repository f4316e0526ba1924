"""What the lectures' scripts share: their options, trained runs, and how they print."""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Before TensorFlow is imported.

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples"))  # For `phrasebook`.
CAPTIONS = str(ROOT / "examples/multi30k/cased")  # A trained run, English to German.


def options(doc, **more):
    """The command line: `--output FOLDER`, and `--NAME VALUE` for each default in `more`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("runs/lectures"), help="for pictures")
    for name, default in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def trained(run, **search):
    """The translator of a run, and its only model."""
    import keras_mt
    from keras_mt.run_folder import RunFolder

    if not RunFolder(run).model_file.exists():
        raise SystemExit(f"{run} is not a trained run: train one with `make demo`, or give --run.")
    translator = keras_mt.Translator.load(run, **search)
    return translator, translator.models[0]


def table(title, values, rows=None, columns=None, digits=2):
    """Prints a matrix, with its labels."""
    values = np.atleast_2d(np.asarray(values))
    texts = [[f"{x:.{digits}f}" for x in row] for row in values]
    rows = [""] * len(values) if rows is None else list(rows)
    columns = [] if columns is None else [[str(column) for column in columns]]
    widths = [max(map(len, column)) for column in zip(*columns, *texts, strict=True)]
    margin = max(map(len, rows))
    print(f"\n{title}")
    for label, row in zip([""] * len(columns) + rows, columns + texts, strict=True):
        cells = "  ".join(f"{x:>{w}}" for x, w in zip(row, widths, strict=True))
        print(f"  {label:{margin}}  {cells}")


def pieces_of(tokenizer, ids):
    return [piece.decode() for piece in tokenizer.id_to_string(np.array(ids, "int32")).numpy()]


def words(pieces):
    """Pieces as one reads them: "▁walk", "ing", "▁" are "walk", "-ing", "␣"."""
    return [
        piece[1:] or "␣" if piece[0] == "▁" else f"-{piece}" if piece.isalpha() else piece
        for piece in pieces
    ]


def by_word(pieces):
    """The words that pieces make, and which piece belongs to which: 0 and 1, `[words, pieces]`."""
    begins = [piece[0] == "▁" or not piece.isalpha() for piece in pieces]
    member = np.eye(sum(begins))[np.cumsum(begins) - 1].T
    return ["".join(np.array(pieces)[row > 0]).strip("▁") for row in member], member


def save(figure, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / name, dpi=150)
    picture = Image.open(folder / name).convert("RGB")
    picture.quantize().save(folder / name, optimize=True)  # A third of the size.
    print(f"\npicture: {folder / name}")
