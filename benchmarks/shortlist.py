"""What a vocabulary shortlist saves, by the size of the vocabulary.

usage: python benchmarks/shortlist.py [--rounds N] [--vocab-sizes N,...] [--output FILE]

Transformer-base with random weights, frozen in bfloat16, 20 source tokens, beam 4, exactly 40
target tokens, one thread. Source tokens, and the 50 target tokens of each, are drawn by Zipf's law;
the 200 most frequent ones are always there. The searches with and without a shortlist take turns.
Prints a JSON line for each vocabulary and batch size: the ratio of the median seconds, and how many
tokens the shortlist of a batch has.
"""

import argparse
import datetime
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import harness

BEAM_SIZE, SOURCE_LENGTH, TARGET_LENGTH, BATCHES = 4, 20, 40, (32, 1)
BASE = {"num_layers": 6, "d_model": 512, "num_heads": 8, "d_ff": 2048}
SPECIAL = {"padding_id": 0, "bos_id": 2, "eos_id": 3}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocab-sizes", default="8000,32000,58000")
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    arguments = parser.parse_args()
    for vocab_size in map(int, arguments.vocab_sizes.split(",")):
        for line in measure(vocab_size, arguments.rounds):
            harness.write_line(line, arguments.output)


def measure(vocab_size, rounds):
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_mt.alignment import Shortlist
    from keras_mt.decoding import beam_search
    from keras_mt.inference import Predictor
    from keras_mt.models import Transformer

    random = np.random.default_rng(0)
    ranks = np.arange(4, vocab_size)
    law = 1 / (ranks + 2.7)

    def tokens(*shape):
        return random.choice(ranks, shape, p=law / law.sum()).astype("int32")

    keras.utils.set_random_seed(0)
    model = Transformer(vocab_size, **BASE)
    model = model.for_inference("bfloat16")
    shortlist = Shortlist(tokens(vocab_size, 50), np.arange(4, 204), "")

    def function(short):
        frozen = Predictor([model], shortlist if short else None).frozen("freeze", "")

        def search(source):
            predictor = frozen.for_batch(source, [0, 1, 2, 3], None)
            return beam_search(
                predictor.decode_step,
                predictor.start_decoding(source, BEAM_SIZE),
                tf.fill((tf.shape(source)[0],), TARGET_LENGTH),
                beam_size=BEAM_SIZE,
                min_length=TARGET_LENGTH,
                **SPECIAL,
            ).tokens

        spec = [tf.TensorSpec([None, SOURCE_LENGTH], tf.int32)]
        return tf.function(search, autograph=False, input_signature=spec)

    functions = {short: function(short) for short in (False, True)}
    for batch in BATCHES:
        source = tf.constant(tokens(batch, SOURCE_LENGTH))
        seconds = {short: [] for short in functions}
        for i in range(rounds + 1):  # The first one traces.
            for short, search in functions.items():
                start = time.perf_counter()
                search(source)
                if i:
                    seconds[short].append(time.perf_counter() - start)
        medians = {short: statistics.median(each) for short, each in seconds.items()}
        yield {
            "benchmark": "shortlist",
            "workload": f"base-b{batch}",
            "vocab_size": vocab_size,
            "shortlist": int(tf.size(shortlist.vocabulary(source, [0, 1, 2, 3], vocab_size).ids)),
            "value": round(medians[False] / medians[True], 2),
            "unit": "times as fast",
            "seconds": {name: round(medians[s], 3) for s, name in ((0, "all"), (1, "short"))},
            "date": datetime.date.today().isoformat(),
            "machine": harness.machine(),
        }


if __name__ == "__main__":
    main()
