"""How the input pipeline copes with a corpus of millions of pairs.

usage: python benchmarks/input.py [--pairs N] [--vocab-size N] [--folder FOLDER]

Writes a corpus of N pairs, each of one to three phrasebook sentences, trains a tokenizer on it, and
then, as `keras-mt train --preset tiny` would, encodes it and trains. Prints the seconds until the
first step, the memory, how far an epoch moves a pair, and the pipeline's tokens per second over
those of a training step; and a JSON line for each.
"""

import argparse
import datetime
import itertools
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[1]))

import harness


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--vocab-size", type=int, default=4000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--folder", type=Path, help="Of the corpus; reused if there.")
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "pt.train.txt").exists():
            write_corpus(folder, arguments.pairs)
        for system, (value, unit) in measure(folder, arguments).items():
            print(f"{system:32} {value:12.4g} {unit}")
            line = {
                "benchmark": "input",
                "workload": f"{arguments.pairs:,} pairs",
                "system": system,
                "value": round(value, 4),
                "unit": unit,
                "date": datetime.date.today().isoformat(),
                "machine": harness.machine(),
            }
            harness.write_line(line, arguments.output)


def write_corpus(folder, count):
    from keras_mt.data import phrasebook

    folder.mkdir(parents=True, exist_ok=True)
    pairs, choose = list(phrasebook.pairs("train")), random.Random(1)
    with open(folder / "pt.train.txt", "w") as source, open(folder / "en.train.txt", "w") as target:
        for _ in range(count):
            chosen = choose.choices(pairs, k=choose.randint(1, 3))
            for file, side in ((source, 0), (target, 1)):
                file.write(" ".join(pair[side] for pair in chosen) + "\n")


def measure(folder, arguments):
    import numpy as np

    import keras_mt
    from keras_mt.data import Batches, load_corpus
    from keras_mt.training import compile_for_translation

    pairs = load_corpus(folder, "pt", "en", "train")
    texts = (text for pair in pairs.take(100_000).as_numpy_iterator() for text in pair)
    tokenizer = keras_mt.Tokenizer.train(texts, arguments.vocab_size)
    model = keras_mt.Transformer.from_preset("tiny", vocab_size=tokenizer.vocab_size)
    compile_for_translation(model)
    tokens = np.ones((16, arguments.batch_tokens // 16), "int32")
    model.fit({"source": tokens, "target": tokens}, tokens, batch_size=16, verbose=0)
    before = memory()

    start = time.perf_counter()
    batches = Batches(pairs, tokenizer, arguments.batch_tokens, seed=1, directory=folder)
    print(batches.counts)
    model.fit(batches.stream(), steps_per_epoch=1, verbose=0)
    first_step = time.perf_counter() - start

    steps = 40
    rates = {"the pipeline alone": [], "a training step": []}
    for number in range(3):
        start = time.perf_counter()
        model.fit(batches.stream(number * steps), steps_per_epoch=steps, verbose=0)
        seconds = time.perf_counter() - start
        iterator = batches.stream(number * steps).as_numpy_iterator()
        labels = [next(iterator)[1]]  # An epoch's order is made before its first batch.
        start = time.perf_counter()
        labels += [labels for _, labels in itertools.islice(iterator, 10 * steps - 1)]
        alone = time.perf_counter() - start
        tokens = [int((each != 0).sum()) for each in labels]
        rates["a training step"].append(sum(tokens[:steps]) / seconds)
        rates["the pipeline alone"].append(sum(tokens[1:]) / alone)
    rates = {name: statistics.median(values) for name, values in rates.items()}

    order = np.concatenate(batches._plan(0)).astype(np.int64)
    moved = np.abs(order - np.arange(len(order))).mean() / len(order)
    return {
        "first step, after tokenizer": (first_step, "s"),
        "memory above the model's": (memory() - before, "MB"),
        **{name: (value, "target tokens/s") for name, value in rates.items()},
        "pipeline / training step": (
            rates["the pipeline alone"] / rates["a training step"],
            "times",
        ),
        "mean move of a pair": (moved, "of the corpus (1/3: at random)"),
    }


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
