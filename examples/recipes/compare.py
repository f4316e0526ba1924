"""Trains recipes on parts of a corpus, each for the same time, and writes the tables.

usage: python examples/recipes/compare.py CORPUS [ROW ...] [--dtype float32] [--output FOLDER]

CORPUS is a number of pairs, the first ones of multi30k_en_de in the folder that the environment
variable KERAS_MT_DATA names, or en_fr, for all of multi30k_en_fr, or phrasebook. The baseline is
what `keras_mt.training.recipe.recommend` says for that corpus; each row changes some of it, and is
trained for `MINUTES` on one core, so nothing else should run on it. A row that is in results/ is
not trained again; an interrupted one resumes.
"""

import functools
import os
import sys
from pathlib import Path

os.environ.update(dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"))
sys.path.append(str(Path(__file__).parents[1]))

import keras
import rows

from keras_mt import Translator
from keras_mt.files import atomic_write
from keras_mt.run_folder import RunFolder
from keras_mt.training import recipe, train

HERE = Path(__file__).parent
DATA = Path(os.environ.get("KERAS_MT_DATA", "."))
MINUTES = {"1000": 8, "3000": 4, "10000": 8, "29000": 12, "en_fr": 12, "phrasebook": 8}
# What is recommended for a training that measures BLEU on its way.
ON_THE_WAY = {"epochs", "bleu_freq", "weights", "stop_after"}


class Factor(float):
    """So many times the baseline's value."""


GATED = {"gated": True, "activation": "silu"}
NARROW = {"model": {"d_model": 128}, "learning_rate": Factor(2)}
# What each row changes.
ROWS = {
    "baseline": {},
    "float32": {"dtype": "float32"},
    "post-norm": {"model": {"pre_norm": False}},
    "rotary positions": {"model": {"positions": "rotary"}},
    "rotary, gated": {"model": {"positions": "rotary", "d_ff": Factor(11 / 16), **GATED}},
    "128 wide": NARROW,
    "128 wide, dropout 0.1": {**NARROW, "dropout": 0.1},
    "384 wide": {"model": {"d_model": 384, "num_heads": 6}, "learning_rate": Factor(2 / 3)},
    "twice the feed-forward": {"model": {"d_ff": Factor(2)}},
    "2 + 2 layers": {"model": {"num_layers": 2}},
    "2 + 2 layers, dropout 0.1": {"model": {"num_layers": 2}, "dropout": 0.1},
    "6 + 2 layers": {"model": {"num_encoder_layers": 6, "num_decoder_layers": 2}},
    "half the pieces": {"vocab_size": Factor(0.5)},
    "twice the pieces": {"vocab_size": Factor(2)},
    "half the batch": {"batch_tokens": Factor(0.5)},
    "twice the batch": {"batch_tokens": Factor(2)},
    "dropout 0.1": {"dropout": 0.1},
    "dropout 0.2": {"dropout": 0.2},
    "label smoothing 0.2": {"label_smoothing": 0.2},
    "half the rate": {"learning_rate": Factor(0.5)},
    "twice the rate": {"learning_rate": Factor(2)},
    "R-Drop 1": {"rdrop_weight": 1.0},
    "R-Drop 5": {"rdrop_weight": 5.0},
    "subword sampling": {"subword_sampling": 0.4},
}


def main():
    parser = rows.parser(__doc__, ROWS, corpora=MINUTES)
    parser.add_argument("--output", type=Path, default=Path("runs/recipes"))
    parser.add_argument("--dtype", default="mixed_bfloat16", help="float32 where it is faster")
    arguments = parser.parse_args()
    corpus, folder = arguments.corpus, arguments.output / arguments.corpus
    measure = functools.partial(measured, corpus, arguments.dtype, folder)
    results = HERE / "results" / f"{corpus}.jsonl"
    rows.put(
        HERE / "README.md", corpus, table(rows.measured(results, ROWS, measure, arguments.names))
    )


def table(lines):
    columns = ["", "BLEU", "chrF", "steps", "epochs", "parameters"]
    return rows.table(columns, [
        [
            name, f"{x['bleu']:.1f}", f"{x['chrf']:.1f}", f"{x['steps']:,}", f"{x['epochs']}",
            f"{x['parameters']:,}",
        ]
        for name, x in lines.items()
    ])  # fmt: skip


def measured(corpus, dtype, folder, row):
    """Trains a row, and measures it on the validation split."""
    keras.backend.clear_session()
    data, source, target = corpus_of(corpus, folder)
    run = folder / row.replace(" ", "_")
    pairs = rows.load_corpus(data, source, target, "train").as_numpy_iterator()
    recommended = recipe.recommend(recipe.measure(pairs))
    options = {n: x for n, (x, _) in recommended.items() if n not in ON_THE_WAY}
    options = changed(options | {"dtype": dtype, "weights": "last"}, ROWS[row])
    train(data, source, target, run, minutes=MINUTES[corpus], **options)
    translator, log = Translator.load(run), RunFolder(run).read_log()
    return {
        **rows.scores(translator, rows.texts(data, source, target, "validation")),
        "seconds": round(float(log[-1]["seconds"])),
        "steps": int(log[-1]["step"]),
        "epochs": int([x for x in log if x["epoch"]][-1]["epoch"]),
        "val_loss": float([x for x in log if x["val_loss"]][-1]["val_loss"]),
        "parameters": translator.models[0].count_params(),
        "dtype": options["dtype"],
    }


def changed(options, changes):
    """Options with a row's changes, also in what they hold."""
    options = dict(options)
    for name, value in changes.items():
        if isinstance(value, Factor):
            options[name] = type(options[name])(value * options[name])
        else:
            options[name] = changed(options[name], value) if name == "model" else value
    return options


def corpus_of(name, folder):
    """The corpus and its languages; the first pairs of Multi30k are written into a folder."""
    if name == "phrasebook":
        return name, "pt", "en"
    if name == "en_fr":
        return DATA / "multi30k_en_fr", "en", "fr"
    part = folder / "corpus"
    for language in ("en", "de"):
        for split, count in (("train", int(name)), ("validation", None)):
            lines = (DATA / "multi30k_en_de" / f"{language}.{split}.txt").read_bytes()
            lines = lines.splitlines(keepends=True)[:count]
            with atomic_write(part / f"{language}.{split}.txt") as temporary:
                temporary.write_bytes(b"".join(lines))
    return part, "en", "de"


if __name__ == "__main__":
    main()
