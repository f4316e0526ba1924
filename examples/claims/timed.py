"""The claims of try_it.py that need no training: sizes of the beam, and the time of layers.

usage: python examples/claims/timed.py THREADS

times the layers with so many threads, as try_it.py does with one and with two.
"""

import functools
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if __name__ == "__main__":
    os.environ.update(
        dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), sys.argv[1])
    )

import keras
import matplotlib
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
LENGTHS, WIDTH, SEQUENCES, THREADS = (8, 16, 32, 64, 128, 256, 512), 256, 8, (1, 2)


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
    rows = [
        [f"{layer}, {threads} thread{'s' * (threads > 1)}"]
        + [f"{lines[f'{layer}, {threads}, {size}']['milliseconds']:.1f}" for size in LENGTHS]
        for layer in layers()
        for threads in THREADS
    ]
    return table(["", *map(str, LENGTHS)], rows)


def measure_lengths():
    """Times the layers in a process for each number of threads, and draws."""
    if not read(LENGTH_LINES):
        for threads in THREADS:
            subprocess.run([sys.executable, __file__, str(threads)], check=True)
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
    """The least time of a forward and a backward pass, of each layer at each length.

    All take turns; the least, since other programs use the machine too.
    """
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
    names = [f"{name}, {n}, {size}" for n in THREADS for name, size in passes]
    for (name, size), found in times.items():
        wall, processor = np.min(found, axis=0)
        line = {
            "row": f"{name}, {threads}, {size}",
            "milliseconds": round(float(wall), 3),
            "processor_milliseconds": round(float(processor), 3),
            "rounds": rounds,
            **circumstances(),
        }
        add(LENGTH_LINES, line, names)


def forward_and_backward(layer, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x) ** 2)
    return tape.gradient(loss, [x, *tape.watched_variables()])


def draw_lengths(lines, path):
    """Milliseconds against the length: a panel for each number of threads, a line a layer."""
    from keras_mt.plots import STYLE, save_figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 3.4))
        panels = figure.subplots(1, len(THREADS), sharey=True)
        for axes, threads in zip(panels, THREADS, strict=True):
            for layer in layers():
                times = [lines[f"{layer}, {threads}, {n}"]["milliseconds"] for n in LENGTHS]
                (line,) = axes.plot(LENGTHS, times, marker="o", markersize=3.5)
                axes.text(LENGTHS[-1] * 1.15, times[-1], layer, color=line.get_color(), va="center")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(LENGTHS, LENGTHS)
            axes.set_xlim(LENGTHS[0] / 1.2, LENGTHS[-1] * 6)
            axes.set_xlabel("tokens of a sequence")
            axes.set_title(f"{threads} thread{'s' * (threads > 1)}", loc="left")
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("forward and backward, milliseconds")
        save_figure(figure, path)


if __name__ == "__main__":
    time_layers(int(sys.argv[1]))
