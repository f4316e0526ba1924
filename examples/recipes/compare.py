"""Trains recipes on parts of a corpus, each for the same time, and writes the tables.

usage: python examples/recipes/compare.py CORPUS [ROW ...] [--processes N] [--dtype float32]
       [--output FOLDER]

CORPUS is a number of pairs, the first ones of multi30k_en_de in the folder that the environment
variable KERAS_MT_DATA names, or en_fr, for all of multi30k_en_fr, or phrasebook. The baseline is
what `keras_mt.training.recipe.recommend` says for that corpus; each row changes some of it, and is
trained with `minutes` on one core, so nothing else should run, but for as many processes as there
are cores. A row that is in results/ is not trained again; an interrupted one resumes.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from keras_mt.files import atomic_write

sys.path.append(str(Path(__file__).parents[1]))

from result_lines import add, circumstances, put, read, table

HERE = Path(__file__).parent
DATA = Path(os.environ.get("KERAS_MT_DATA", "."))
# The minutes of a row.
CORPORA = {"1000": 8, "3000": 4, "10000": 8, "29000": 12, "en_fr": 12, "phrasebook": 8}
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--output", type=Path, default=Path("runs/recipes"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--dtype", default="mixed_bfloat16", help="float32 where it is faster")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.corpus, arguments.dtype, *arguments.worker)
        return
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    results = HERE / "results" / f"{arguments.corpus}.jsonl"
    folder = arguments.output / arguments.corpus
    folder.mkdir(parents=True, exist_ok=True)

    def measured(row):
        if row not in read(results):
            command = [sys.executable, __file__, arguments.corpus, "--dtype", arguments.dtype]
            command += ["--worker", row, str(folder)]
            threads = dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")
            environment = {**os.environ, **threads, "OMP_NUM_THREADS": "1"}
            with open(folder / f"{row}.log", "a", encoding="utf-8") as log:
                done = subprocess.run(
                    command,
                    check=False,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            if done.returncode:
                print(f"{row} failed: see {folder / row}.log", file=sys.stderr)
                return
            line = json.loads(done.stdout.splitlines()[-1])
            add(results, line, ROWS)
            print(json.dumps(line), flush=True)

    with ThreadPoolExecutor(arguments.processes) as pool:
        list(pool.map(measured, arguments.rows or ROWS))
    put(HERE / "README.md", arguments.corpus, table_of(read(results)))


def table_of(rows):
    """The table in Markdown."""
    lines = [
        [
            row, f"{x['bleu']:.1f}", f"{x['chrf']:.1f}", f"{x['steps']:,}", f"{x['epochs']}",
            f"{x['parameters']:,}",
        ]
        for row, x in rows.items()
    ]  # fmt: skip
    return table(["", "BLEU", "chrF", "steps", "epochs", "parameters"], lines)


def corpus_of(name, folder):
    """The corpus and its languages; the first pairs of Multi30k are written into a folder."""
    if name == "phrasebook":
        return name, "pt", "en"
    if name == "en_fr":
        return DATA / "multi30k_en_fr", "en", "fr"
    part = folder / "corpus"
    part.mkdir(exist_ok=True)
    for language in ("en", "de"):
        for split, count in (("train", int(name)), ("validation", None)):
            lines = (DATA / "multi30k_en_de" / f"{language}.{split}.txt").read_bytes()
            lines = lines.splitlines(keepends=True)[:count]
            with atomic_write(part / f"{language}.{split}.txt") as temporary:
                temporary.write_bytes(b"".join(lines))
    return part, "en", "de"


def work(name, dtype, row, folder):
    """Trains a row and prints its line."""
    import sacrebleu

    from keras_mt import Translator
    from keras_mt.data import load_corpus
    from keras_mt.training import train
    from keras_mt.training.recipe import measure, recommend

    folder = Path(folder)
    data, source, target = corpus_of(name, folder)
    run = folder / row.replace(" ", "_")
    pairs = load_corpus(data, source, target, "train").as_numpy_iterator()
    recommended = recommend(measure(pairs))
    options = {n: x for n, (x, _) in recommended.items() if n not in ON_THE_WAY}
    options = changed(options | {"dtype": dtype, "weights": "last"}, ROWS[row])
    train(
        data,
        source,
        target,
        output=run,
        minutes=CORPORA[name],
        report=lambda message: print(message, file=sys.stderr),
        **options,
    )
    translator = Translator.load(run)
    pairs = load_corpus(data, source, target, "validation").as_numpy_iterator()
    sources, references = zip(*((s.decode(), t.decode()) for s, t in pairs), strict=True)
    found = [x[0].text if x else "" for x in translator.hypotheses(sources)]
    with open(run / "log.csv", encoding="utf-8", newline="") as file:
        log = list(csv.DictReader(file))
    line = {
        "row": row,
        "bleu": round(sacrebleu.corpus_bleu(found, [references]).score, 2),
        "chrf": round(sacrebleu.corpus_chrf(found, [references]).score, 2),
        "seconds": round(float(log[-1]["seconds"])),
        "steps": int(log[-1]["step"]),
        "epochs": int([x for x in log if x["epoch"]][-1]["epoch"]),
        "val_loss": float([x for x in log if x["val_loss"]][-1]["val_loss"]),
        "parameters": translator.models[0].count_params(),
        "dtype": options["dtype"],
        **circumstances(),
    }
    print(json.dumps(line))


def changed(options, changes):
    """Options with a row's changes, also in what they hold."""
    options = dict(options)
    for name, value in changes.items():
        if isinstance(value, Factor):
            value = type(options[name])(value * options[name])  # noqa: PLW2901
        options[name] = changed(options[name], value) if name == "model" else value
    return options


if __name__ == "__main__":
    main()
