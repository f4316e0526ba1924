"""The claims of try_it.py that need no training: sizes of the beam, and the time of layers."""

import functools
import itertools
import multiprocessing
import os
import sys
import time
from pathlib import Path
from statistics import median

import keras
import numpy as np
import sacrebleu
import tensorflow as tf
from matplotlib.figure import Figure

from keras_mt import Translator
from keras_mt.data import load_corpus
from keras_mt.layers import MultiHeadAttention

sys.path.append(str(Path(__file__).parents[1]))

from result_lines import add, circumstances, read, table

ROOT = Path(__file__).parents[2]
BEAM_LINES = Path(__file__).parent / "results" / "beams.jsonl"
LENGTH_LINES = Path(__file__).parent / "results" / "lengths.jsonl"
PICTURE = ROOT / "docs/lectures/claims_lengths.png"

BEAMS, PENALTIES, CAPTIONS = (1, 2, 4, 8, 16), (1.0, 0.0), 300
LENGTHS, WIDTH, SEQUENCES = (8, 16, 32, 64, 128, 256, 512), 256, 8
THREADS = (1, 2)


def tables():
    """The tables of what was measured, by claim."""
    lines = {"beams": read(BEAM_LINES), "lengths": read(LENGTH_LINES)}
    made = {"beams": beams_table, "lengths": lengths_table}
    return {claim: made[claim](each) for claim, each in lines.items() if each}


def beams_table(lines):
    first = lines[f"{BEAMS[0]} beams, length penalty {PENALTIES[0]}"]["processor_seconds"]
    rows = []
    for size in BEAMS:
        by_score, by_probability = (
            lines[f"{size} beams, length penalty {penalty}"] for penalty in PENALTIES
        )
        rows.append([
            f"{size}", f"{by_score['bleu']:.1f}", f"{by_score['length']:.3f}",
            f"{by_probability['bleu']:.1f}", f"{by_probability['length']:.3f}",
            f"{by_probability['log_probability']:.2f}",
            f"{by_score['processor_seconds'] / first:.1f}",
        ])  # fmt: skip
    columns = [
        "beams", "BLEU, by score", "length, by score", "BLEU, by probability",
        "length, by probability", "log-probability", "time",
    ]  # fmt: skip
    return table(columns, rows)


def measure_beams():
    """BLEU, length and time of each size, with the score's length penalty and without."""
    if read(BEAM_LINES):
        return
    run = ROOT / "examples/multi30k/cased"
    folder = Path(os.environ.get("KERAS_MT_DATA", ".")) / "multi30k_en_de"
    pairs = load_corpus(folder, "en", "de", "validation").take(CAPTIONS).as_numpy_iterator()
    sources, references = zip(*((s.decode(), t.decode()) for s, t in pairs), strict=True)
    translators = {
        (size, penalty): Translator.load(run, beam_size=size, length_penalty=penalty)
        for penalty, size in itertools.product(PENALTIES, BEAMS)
    }
    names = {key: f"{key[0]} beams, length penalty {key[1]}" for key in translators}
    seconds, found = {key: [] for key in translators}, {}
    for _ in range(3):  # All take turns; the first round traces the graphs.
        for key, translator in translators.items():
            start = time.process_time()
            found[key] = [hypotheses[0] for hypotheses in translator.hypotheses(sources)]
            seconds[key].append(time.process_time() - start)
    words = sum(len(reference.split()) for reference in references)
    for key, name in names.items():
        texts = [hypothesis.text for hypothesis in found[key]]
        line = {
            "row": name,
            "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
            "length": round(sum(len(text.split()) for text in texts) / words, 4),
            "processor_seconds": round(min(seconds[key][1:]), 3),
            "captions": CAPTIONS,
            **circumstances(),
        }
        if key[1] == 0:  # The score is the log-probability.
            line["log_probability"] = round(float(np.mean([x.score for x in found[key]])), 3)
        add(BEAM_LINES, line, names.values())


def lengths_table(lines):
    rows = []
    for layer, threads in itertools.product(layers(), THREADS):
        times = (lines[length_name(layer, size, threads)]["milliseconds"] for size in LENGTHS)
        rows.append([layer, f"{threads}", *(f"{time:.1f}" for time in times)])
    return table(["", "threads", *map(str, LENGTHS)], rows)


def length_name(layer, size, threads):
    return f"{layer}, {size} tokens, {threads} thread{'s' * (threads > 1)}"


def measure_lengths():
    """Times the layers, with each number of threads in a process of its own, and draws."""
    if len(read(LENGTH_LINES)) < len(THREADS) * len(LENGTHS) * len(layers()):
        for threads in THREADS:
            process = multiprocessing.get_context("spawn").Process(
                target=time_layers, args=(threads,)
            )
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(f"timing with {threads} threads failed")
    draw_lengths(read(LENGTH_LINES), PICTURE)


MEASURES = {"beams": measure_beams, "lengths": measure_lengths}


def layers():
    """The layers that are timed; each is called on its input alone."""
    attend = MultiHeadAttention(num_heads=8)
    return {
        "GRU": keras.layers.GRU(WIDTH, return_sequences=True),
        "convolution": keras.layers.Conv1D(WIDTH, 3, padding="same"),
        "self-attention": lambda x: attend(x, x),
    }


def time_layers(threads, rounds=20):
    """The median time of a forward and a backward pass, of each layer at each length, in turns."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    passes, times = {}, {}
    for name, layer in layers().items():
        for size in LENGTHS:
            x = keras.random.normal((SEQUENCES, size, WIDTH))
            layer(x)  # Builds it.
            passes[name, size] = tf.function(functools.partial(forward_and_backward, layer, x))
            passes[name, size]()  # Traces it.
    for key in list(passes) * rounds:
        start = time.perf_counter()
        passes[key]()
        times.setdefault(key, []).append(1000 * (time.perf_counter() - start))
    names = [length_name(*key) for key in itertools.product(layers(), LENGTHS, THREADS)]
    for (name, size), found in times.items():
        line = {"row": length_name(name, size, threads), "milliseconds": round(median(found), 3)}
        add(LENGTH_LINES, line | {"rounds": rounds, **circumstances()}, names)


def forward_and_backward(layer, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x) ** 2)
    return tape.gradient(loss, [x, *tape.watched_variables()])


def draw_lengths(lines, path):
    """Milliseconds against the length, a line for each layer."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    for number, layer in enumerate(layers()):
        for threads, style in zip(THREADS, ("-", ":"), strict=True):
            times = [lines[length_name(layer, size, threads)]["milliseconds"] for size in LENGTHS]
            color = f"C{number}"
            axes.plot(LENGTHS, times, style, color=color, marker="o", markersize=4)
            label = f"{layer}, {threads} thread{'s' * (threads > 1)}"
            axes.text(LENGTHS[-1] * 1.1, times[-1], label, color=color, va="center")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(LENGTHS, LENGTHS)
    axes.set_yticks((1, 10, 100), (1, 10, 100))
    axes.set_xlim(LENGTHS[0] / 1.1, LENGTHS[-1] * 3)
    axes.set_xlabel("tokens of a sequence")
    axes.set_ylabel("forward and backward, milliseconds")
    axes.grid(alpha=0.3)
    figure.savefig(path)
