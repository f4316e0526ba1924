"""Tries the claims of the lectures, and writes what was seen into docs/lectures/claims.md.

usage: python examples/claims/try_it.py [CLAIM ...] [--seeds N]

Without CLAIM it is all of them. Those that need training train small models on the phrasebook,
three seeds for each row, on one core; what is in results/ is not trained again. `beams` needs the
environment variable KERAS_MT_DATA, the folder that multi30k_en_de is in.
"""

import argparse
import contextlib
import datetime
import functools
import itertools
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import numpy as np
import sacrebleu
import tensorflow as tf

import keras_mt
from keras_mt import Tokenizer, Translator
from keras_mt.data import Batches, load_corpus, phrasebook
from keras_mt.layers import MultiHeadAttention, attention, blocks
from keras_mt.models import Recurrent, Transformer
from keras_mt.training import compile_for_translation

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from harness import machine
from result_lines import add, put, read, table

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = Path(__file__).parent / "results", ROOT / "docs/lectures/claims.md"
VOCAB_SIZE, BATCH_TOKENS, STEPS = 1000, 1024, 600

# What a row changes is in place of this; the Transformer is the lectures', post-norm.
RECIPE = {
    "architecture": "transformer",
    "model": {},
    "without": None,
    "label_smoothing": 0.1,
    "learning_rate": 0.002,
    "warmup_steps": 100,  # 0: a constant rate.
    "clip_norm": None,
}
PRE_NORM = {"model": {"pre_norm": True}}
CONSTANT = {"warmup_steps": 0}
GRU = {"architecture": "recurrent", "clip_norm": 5.0}
ROWS = {
    "Transformer": {},
    "no positions": {"model": {"positions": None}},
    "learned positions": {"model": {"positions": "learned"}},
    "rotary positions": {"model": {"positions": "rotary"}},
    "post-norm, constant rate": CONSTANT,
    "pre-norm, warm-up": PRE_NORM,
    "pre-norm, constant rate": {**PRE_NORM, **CONSTANT},
    "no label smoothing": {"label_smoothing": 0.0},
    "1 head": {"model": {"num_heads": 1}},
    "2 heads": {"model": {"num_heads": 2}},
    "8 heads": {"model": {"num_heads": 8}},
    "GRU, no attention": {**GRU, "model": {"attention": "none"}},
    "GRU, dot": {**GRU, "model": {"attention": "dot"}},
    "GRU, bilinear": {**GRU, "model": {"attention": "bilinear"}},
    "GRU, additive": {**GRU, "model": {"attention": "additive"}},
    "no residual": {"without": "residual"},
    "no norm": {"without": "norm"},
    "no 1/sqrt(d_k)": {"without": "scaling"},
    "GRU encoder, Transformer decoder": {"architecture": "recurrent_encoder"},
    "Transformer encoder, SSRU decoder": {"model": {"decoder_sublayers": "rcf" * 2}},
}
# The rows of each claim, by the names that its table gives them.
CLAIMS = {
    "positions": {
        "none": "no positions",
        "learned": "learned positions",
        "sinusoidal": "Transformer",
        "rotary": "rotary positions",
    },
    "warm_up": {
        "post-norm, warm-up": "Transformer",
        "post-norm, constant rate": "post-norm, constant rate",
        "pre-norm, warm-up": "pre-norm, warm-up",
        "pre-norm, constant rate": "pre-norm, constant rate",
    },
    "smoothing": {"0": "no label smoothing", "0.1": "Transformer"},
    "attention": {
        name: f"GRU, {row}"
        for name, row in {
            "none": "no attention", "dot": "dot", "bilinear": "bilinear", "additive": "additive",
        }.items()
    },
    "parts": {
        "all": "Transformer",
        "without residual connections": "no residual",
        "without normalisation": "no norm",
        "without 1/sqrt(d_k)": "no 1/sqrt(d_k)",
    },
    "heads": {"1": "1 head", "2": "2 heads", "4": "Transformer", "8": "8 heads"},
    "mixed": {
        "Transformer, Transformer": "Transformer",
        "GRU, Transformer": "GRU encoder, Transformer decoder",
        "Transformer, SSRU": "Transformer encoder, SSRU decoder",
        "GRU, GRU with additive attention": "GRU, additive",
    },
}  # fmt: skip
BEAMS, CAPTIONS, PENALTIES = (1, 2, 4, 8, 16), 300, (1.0, 0.0)
LENGTHS, WIDTH, SEQUENCES, THREADS = (8, 16, 32, 64, 128, 256, 512), 256, 8, (1, 2)


def main():
    measured = {**dict.fromkeys(CLAIMS, trained), "beams": beams, "lengths": lengths}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=", ".join(measured))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.threads:
        time_layers(arguments.threads)
        return
    if unknown := set(arguments.claims) - set(measured):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(measured)}")
    for claim in arguments.claims or measured:
        text = measured[claim](claim, arguments.seeds)
        print(f"\n{claim}\n\n{text}", flush=True)
        put(PAGE, claim, text)


# Claims that need training.


def trained(claim, seeds):
    """Trains the rows of a claim; gives its table."""
    path = RESULTS / "trained.jsonl"
    names = [f"{row}, seed {seed}" for row in ROWS for seed in range(1, seeds + 1)]
    for row, seed in itertools.product(CLAIMS[claim].values(), range(1, seeds + 1)):
        name, options = f"{row}, seed {seed}", options_of(row)
        if read(path).get(name, {}).get("options") != options:
            line = {"row": name, "options": options, **measure(options, seed), **circumstances()}
            print(f"{name}: BLEU {line['bleu']}, {line['processor_seconds']} s", flush=True)
            add(path, line, names)
    return claim_table(claim, read(path))


def claim_table(claim, lines):
    """The mean and the range over the seeds, for each row of a claim."""
    rows = []
    for label, row in CLAIMS[claim].items():
        found = [line for name, line in lines.items() if name.rpartition(", seed ")[0] == row]
        bleu = [line["bleu"] for line in found]
        rows.append([
            label,
            f"{statistics.mean(bleu):.1f}",
            f"{min(bleu):.1f} to {max(bleu):.1f}",
            f"{len(bleu)}",
            f"{found[0]['parameters']:,}",
        ])  # fmt: skip
    return table(["", "BLEU", "from, to", "seeds", "parameters"], rows)


def options_of(row):
    """All that defines the training of a row."""
    options = {**RECIPE, **ROWS[row], "steps": STEPS, "batch_tokens": BATCH_TOKENS}
    sizes = {"num_layers": 2, "d_model": 128, "dropout": 0.1}
    if options["architecture"] != "recurrent":
        sizes |= {"num_heads": 4, "d_ff": 256}
    return {**options, "model": {**sizes, **options["model"]}}


def measure(options, seed):
    """Trains a model and measures BLEU on the test sentences."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    start = time.process_time()
    with WITHOUT[options["without"]]():
        model = MODELS[options["architecture"]](tokenizer().vocab_size, **options["model"])
        compile_for_translation(
            model,
            options["label_smoothing"],
            options["warmup_steps"] or 1,
            schedule(options),
            clip_norm=options["clip_norm"],
        )
        data = batches(seed).stream()
        loss = model.fit(data, steps_per_epoch=options["steps"], verbose=0).history["loss"]
        sources, references = zip(*phrasebook.pairs("test"), strict=True)
        found = Translator(model, tokenizer()).hypotheses(sources)
    translations = [hypotheses[0].text if hypotheses else "" for hypotheses in found]
    return {
        "bleu": round(sacrebleu.corpus_bleu(translations, [references]).score, 2),
        "loss": round(loss[-1], 3),  # The mean of all steps.
        "parameters": model.count_params(),
        "processor_seconds": round(time.process_time() - start),
    }


def schedule(options):
    """The learning rate: that of the paper's schedule at its peak, or a constant one."""
    rate = options["learning_rate"]
    if options["warmup_steps"]:
        return rate
    return keras.optimizers.schedules.ExponentialDecay(rate, decay_steps=1, decay_rate=1.0)


@functools.cache
def tokenizer():
    texts = (side for pair in phrasebook.pairs("train") for side in pair)
    return Tokenizer.train(texts, VOCAB_SIZE)


@functools.cache
def batches(seed):
    pairs = load_corpus("phrasebook", *phrasebook.LANGUAGES, "train")
    return Batches(pairs, tokenizer(), BATCH_TOKENS, seed=seed)


class RecurrentEncoder(Transformer):
    """A Transformer whose encoder has bidirectional GRUs, each with its residual and norm."""

    def __init__(self, vocab_size, num_layers, d_model, **options):
        def layer(side, i, **_):
            if side == "decoder":
                return None
            gru = keras.layers.GRU(d_model // 2, return_sequences=True)
            return keras.layers.Bidirectional(gru, name=f"encoder_{i}_gru")

        super().__init__(
            vocab_size,
            num_layers,
            d_model,
            encoder_sublayers="f" * num_layers,
            _feed_forward=layer,
            **options,
        )


MODELS = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "recurrent_encoder": RecurrentEncoder,
}


# What a block computes when a part of it is left out.


@contextlib.contextmanager
def without_residual():
    def run(block, hidden, attend, mask=None, training=None, scores=None):
        for letter in block.sublayers:
            if letter == "f":
                x = block.feed_forward(hidden, training=training)
            else:
                x = attend[letter](hidden)
            norm = getattr(block, f"{blocks._SUBLAYERS[letter]}_norm")
            hidden = norm(block.dropout_layer(x, training=training))
        return hidden

    with mock.patch.object(blocks._Block, "_run", run):
        yield


@contextlib.contextmanager
def without_norm():
    def identity(kind, dtype, name, epsilon):
        return keras.layers.Identity(name=name, dtype=dtype)

    with mock.patch.object(blocks, "norm_layer", identity):
        yield


@contextlib.contextmanager
def without_scaling():
    scaled = attention.scaled_dot_product_attention

    def unscaled(query, *others):
        return scaled(query * math.sqrt(query.shape[-1]), *others)

    with mock.patch.object(attention, "scaled_dot_product_attention", unscaled):
        yield


WITHOUT = {
    None: contextlib.nullcontext,
    "residual": without_residual,
    "norm": without_norm,
    "scaling": without_scaling,
}


# Claims that need none.


def beams(claim, _):
    """BLEU and time of beams of several sizes; gives the table."""
    path = RESULTS / "beams.jsonl"
    if not read(path):
        measure_beams(path)
    lines = list(read(path).values())
    first = lines[0]["processor_seconds"]
    rows = []
    for size in BEAMS:
        whole, plain = (
            next(x for x in lines if (x["beams"], x["length_penalty"]) == (size, penalty))
            for penalty in PENALTIES
        )
        rows.append([
            f"{size}", f"{whole['bleu']:.1f}", f"{plain['bleu']:.1f}",
            f"{plain['log_probability']:.2f}",
            f"{whole['length']:.2f}", f"{plain['length']:.2f}",
            f"{whole['processor_seconds'] / first:.1f}",
        ])  # fmt: skip
    columns = [
        "beams", "BLEU, by score", "BLEU, by probability", "mean log-probability",
        "length, by score", "length, by probability", "time",
    ]  # fmt: skip
    return table(columns, rows)


def measure_beams(path):
    run = ROOT / "examples/multi30k/cased"
    folder = Path(os.environ["KERAS_MT_DATA"]) / "multi30k_en_de"
    pairs = load_corpus(folder, "en", "de", "validation").take(CAPTIONS).as_numpy_iterator()
    sources, references = zip(*((s.decode(), t.decode()) for s, t in pairs), strict=True)
    kinds = list(itertools.product(PENALTIES, BEAMS))
    translators = {
        (penalty, size): Translator.load(run, beam_size=size, length_penalty=penalty)
        for penalty, size in kinds
    }
    seconds, found = {kind: [] for kind in kinds}, {}
    for _ in range(4):  # All take turns; the first round traces the graphs.
        for kind in kinds:
            start = time.process_time()
            found[kind] = [x[0] for x in translators[kind].hypotheses(sources)]
            seconds[kind].append(time.process_time() - start)
    names = [f"{size} beams, length penalty {penalty}" for penalty, size in kinds]
    words = sum(len(reference.split()) for reference in references)
    for name, (penalty, size) in zip(names, kinds, strict=True):
        hypotheses = found[penalty, size]
        texts = [hypothesis.text for hypothesis in hypotheses]
        line = {
            "row": name,
            "beams": size,
            "length_penalty": penalty,
            "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
            "length": round(sum(len(text.split()) for text in texts) / words, 3),
            "log_probability": None,
            "processor_seconds": round(statistics.median(seconds[penalty, size][1:]), 3),
            **circumstances(),
        }
        if not penalty:
            scores = [hypothesis.score for hypothesis in hypotheses]
            line["log_probability"] = round(statistics.mean(scores), 3)
        add(path, line, names)


def lengths(claim, _):
    """The time of layers by the length of the sequence; gives the table."""
    path = RESULTS / "lengths.jsonl"
    if not read(path):
        for threads in THREADS:
            pools = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"
            environment = {**os.environ, **dict.fromkeys(pools, str(threads))}
            command = [sys.executable, __file__, "--threads", str(threads)]
            subprocess.run(command, env=environment, check=True)
    lines = read(path)
    rows = [
        [f"{layer}, {threads} thread{'s' * (threads > 1)}"]
        + [f"{lines[f'{layer}, {threads}, {n}']['milliseconds']:.1f}" for n in LENGTHS]
        for layer in layers()
        for threads in THREADS
    ]
    return table(["", *map(str, LENGTHS)], rows)


def layers():
    """The layers that are timed, and their calls on one sequence."""
    attend = MultiHeadAttention(num_heads=8)
    return {
        "GRU": keras.layers.GRU(WIDTH, return_sequences=True),
        "convolution of 3": keras.layers.Conv1D(WIDTH, 3, padding="same"),
        "self-attention": lambda x: attend(x, x),
    }


def time_layers(threads, rounds=30):
    """Times a forward and a backward pass of each layer at each length; all take turns."""
    path = RESULTS / "lengths.jsonl"
    names = [f"{n}, {t}, {size}" for n in layers() for t in THREADS for size in LENGTHS]
    passes, times = {}, {}
    for name, layer in layers().items():
        for size in LENGTHS:
            x = keras.random.normal((SEQUENCES, size, WIDTH))
            layer(x)  # Builds it.
            passes[name, size] = tf.function(functools.partial(forward_and_backward, layer, x))
            passes[name, size]()  # Traces it.
    for key in list(passes) * rounds:
        starts = time.perf_counter(), time.process_time()
        passes[key]()
        ends = time.perf_counter(), time.process_time()
        times.setdefault(key, []).append(np.subtract(ends, starts) * 1000)
    for (name, size), found in times.items():
        wall, processor = np.min(found, axis=0)  # Others use the machine too.
        line = {
            "row": f"{name}, {threads}, {size}",
            "milliseconds": round(float(wall), 3),
            "processor_milliseconds": round(float(processor), 3),
            "rounds": rounds,
            **circumstances(),
        }
        add(path, line, names)


def forward_and_backward(layer, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x) ** 2)
    return tape.gradient(loss, [x, *tape.watched_variables()])


def circumstances():
    return {
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {each.__name__: each.__version__ for each in (keras_mt, keras, tf)},
    }


if __name__ == "__main__":
    main()
