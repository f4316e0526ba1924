"""The claims of try_it.py that need no training: sizes of the beam, and the time of layers."""

import itertools
import multiprocessing
import os
import sys
import time
from pathlib import Path
from statistics import mean, median

sys.path.append(str(Path(__file__).parents[1]))

import keras
import rows
import tensorflow as tf
from matplotlib.figure import Figure

from keras_mt import Translator
from keras_mt.layers import MultiHeadAttention

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
PICTURE = ROOT / "docs/lectures/claims_lengths.png"

SIZES, PENALTIES, CAPTIONS = (1, 2, 4, 8, 16), (1.0, 0.0), 300
BEAMS = {
    f"{size} beams, length penalty {penalty}": (size, penalty)
    for penalty, size in itertools.product(PENALTIES, SIZES)
}
LAYERS = ("GRU", "convolution", "self-attention")
TOKENS, WIDTH, SEQUENCES, ROUNDS, THREADS = (8, 16, 32, 64, 128, 256, 512), 256, 8, 20, (1, 2)
LENGTHS = {
    f"{layer}, {size} tokens, {threads} thread{'s' * (threads > 1)}": (layer, size, threads)
    for layer, size, threads in itertools.product(LAYERS, TOKENS, THREADS)
}


def measure(claim):
    names, measured, _ = CLAIMS[claim]
    lines = rows.measured(RESULTS / f"{claim}.jsonl", names, measured)
    if claim == "lengths":
        draw_lengths(lines)


def tables():
    """The tables of the claims that were measured, by name."""
    found = {claim: rows.read(RESULTS / f"{claim}.jsonl") for claim in CLAIMS}
    return {
        claim: table(found[claim])
        for claim, (names, _, table) in CLAIMS.items()
        if len(found[claim]) == len(names)
    }


def measured_beam(name):
    """BLEU, length and time of a size of the beam, with the score's length penalty or without."""
    size, penalty = BEAMS[name]
    folder = Path(os.environ.get("KERAS_MT_DATA", ".")) / "multi30k_en_de"
    pairs = rows.texts(folder, "en", "de", "validation")[:CAPTIONS]
    run = ROOT / "examples/multi30k/cased"
    translator = Translator.load(run, beam_size=size, length_penalty=penalty)
    seconds = []
    for _ in range(3):  # The first round traces the graphs.
        start = time.process_time()
        found = translator.hypotheses([source for source, _ in pairs])
        seconds.append(time.process_time() - start)
    best = [hypotheses[0] for hypotheses in found]
    words = sum(len(reference.split()) for _, reference in pairs)
    line = {
        "bleu": rows.scores(translator, pairs)["bleu"],
        "length": round(sum(len(each.text.split()) for each in best) / words, 4),
        "processor_seconds": round(min(seconds[1:]), 3),
        "captions": CAPTIONS,
    }
    if penalty == 0:  # The score is the log-probability.
        line["log_probability"] = round(mean(each.score for each in best), 3)
    return line


def beams_table(lines):
    found = {BEAMS[name]: line for name, line in lines.items()}
    first, cells = found[SIZES[0], PENALTIES[0]]["processor_seconds"], []
    for size in SIZES:
        by_score, by_probability = (found[size, penalty] for penalty in PENALTIES)
        cells.append([
            f"{size}", f"{by_score['bleu']:.1f}", f"{by_score['length']:.3f}",
            f"{by_probability['bleu']:.1f}", f"{by_probability['length']:.3f}",
            f"{by_probability['log_probability']:.2f}",
            f"{by_score['processor_seconds'] / first:.1f}",
        ])  # fmt: skip
    columns = [
        "beams", "BLEU, by score", "length, by score", "BLEU, by probability",
        "length, by probability", "log-probability", "time",
    ]  # fmt: skip
    return rows.table(columns, cells)


def measured_length(name):
    """Measured in a process of its own, whose number of threads is its own too."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        milliseconds = pool.apply(time_layer, LENGTHS[name])
    return {"milliseconds": round(milliseconds, 3), "rounds": ROUNDS}


def time_layer(name, size, threads):
    """The median time of a forward and a backward pass of a layer."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    attend = MultiHeadAttention(num_heads=8)
    layer = {
        "GRU": keras.layers.GRU(WIDTH, return_sequences=True),
        "convolution": keras.layers.Conv1D(WIDTH, 3, padding="same"),
        "self-attention": lambda x: attend(x, x),
    }[name]
    x, times = keras.random.normal((SEQUENCES, size, WIDTH)), []
    layer(x)  # Builds it.

    @tf.function
    def both_passes():
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, [x, *tape.watched_variables()])

    for _ in range(ROUNDS + 1):  # The first round traces the graph.
        start = time.perf_counter()
        both_passes()
        times.append(1000 * (time.perf_counter() - start))
    return median(times[1:])


def curves(lines):
    """The milliseconds at each length, by layer and threads."""
    found = {LENGTHS[name]: line["milliseconds"] for name, line in lines.items()}
    return {
        (layer, threads): [found[layer, size, threads] for size in TOKENS]
        for layer, threads in itertools.product(LAYERS, THREADS)
    }


def lengths_table(lines):
    cells = [
        [layer, f"{threads}", *(f"{time:.1f}" for time in times)]
        for (layer, threads), times in curves(lines).items()
    ]
    return rows.table(["", "threads", *map(str, TOKENS)], cells)


def draw_lengths(lines):
    """Milliseconds against the length, a line for each layer."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    for (layer, threads), times in curves(lines).items():
        color, style = f"C{LAYERS.index(layer)}", {1: "-", 2: ":"}[threads]
        axes.plot(TOKENS, times, style, color=color, marker="o", markersize=4)
        label = f"{layer}, {threads} thread{'s' * (threads > 1)}"
        axes.text(TOKENS[-1] * 1.1, times[-1], label, color=color, va="center")
    axes.set(xscale="log", yscale="log", xlim=(TOKENS[0] / 1.1, TOKENS[-1] * 3))
    axes.set(xlabel="tokens of a sequence", ylabel="forward and backward, milliseconds")
    axes.set_xticks(TOKENS, TOKENS)
    axes.set_yticks((1, 10, 100), (1, 10, 100))
    axes.grid(alpha=0.3)
    figure.savefig(PICTURE)


# The rows of each claim, what measures one, and what makes the table.
CLAIMS = {
    "beams": (BEAMS, measured_beam, beams_table),
    "lengths": (LENGTHS, measured_length, lengths_table),
}
