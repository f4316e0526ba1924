"""Trains every architecture on the same text, measures each, and writes the table and the picture.

usage: python examples/architectures/compare.py phrasebook|multi30k [ROW ...]
           [--output FOLDER] [--steps N | --speed]

Without ROW it is all of them. A row that is in results/ is not trained again, and an interrupted
training resumes: give the same command again. multi30k is the folder multi30k_en_de inside the one
that the environment variable KERAS_MT_DATA names. --steps N is for a trial: each row is trained for
N steps and measured on 8 sentences, and everything is written below FOLDER/trial. --speed measures
how fast the rows train, all in turn on the same batches, in place of what is in results/.
"""

import argparse
import contextlib
import datetime
import itertools
import os
import random
import statistics
import sys
import time
import unittest.mock
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import sacrebleu
import tensorflow as tf
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

import keras_mt
from keras_mt import ExportedTranslator, Tokenizer, Translator
from keras_mt.data import Batches, load_corpus
from keras_mt.files import atomic_write
from keras_mt.models import find_architecture
from keras_mt.run_folder import RunFolder
from keras_mt.training import compile_for_translation, train

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from harness import machine
from result_lines import add, put, read, table

HERE = Path(__file__).parent
# Each training pair is seen alone and, once, in a line of 2, 3 or 4 pairs; tests go up to 8.
TRAINED_LINES, TEST_LINES = (2, 3, 4), (1, 2, 3, 4, 6, 8)
SANDWICH = {
    "encoder_sublayers": "ss" + "sf" * 2 + "ff",
    "decoder_sublayers": "scsc" + "scf" * 2 + "ff",
}
LLAMA = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True}

# In the order of the lectures; the sizes are near those of Transformer tiny.
ROWS = {
    "fixed_vector": {
        "title": "GRU, no attention",
        "architecture": "recurrent",
        "model": {"cell": "gru", "attention": "none"},
    },
    "additive": {
        "title": "GRU, additive attention",
        "architecture": "recurrent",
        "model": {"cell": "gru", "attention": "additive"},
    },
    "bilinear": {
        "title": "LSTM, bilinear attention",
        "architecture": "recurrent",
        "model": {"cell": "lstm", "attention": "bilinear"},
    },
    "transformer": {"title": "Transformer, as in the paper", "architecture": "transformer"},
    "pre_norm": {
        "title": "Transformer, pre-norm",
        "architecture": "transformer",
        "model": {"pre_norm": True},
    },
    "sandwich": {
        "title": "sandwich, pre-norm",
        "architecture": "transformer",
        "model": {"pre_norm": True, **SANDWICH},
    },
    "ssru": {
        "title": "Transformer, pre-norm, SSRU decoder",
        "architecture": "transformer",
        "model": {"pre_norm": True, "decoder_sublayers": "rcf" * 4},
    },
    "deep_encoder": {
        "title": "8 encoder blocks, 1 decoder block, pre-norm",
        "architecture": "transformer",
        "model": {"pre_norm": True, "num_encoder_layers": 8, "num_decoder_layers": 1},
    },
    "experts": {
        "title": "mixture of experts, 2 of 4",
        "architecture": "mixture_of_experts",
        "model": {"num_experts": 4, "experts_per_token": 2},
    },
    "decoder_only": {
        "title": "decoder-only, Llama's blocks",
        "architecture": "decoder_only",
        "model": {"num_layers": 8},
    },
    "modern": {
        "title": "encoder-decoder, Llama's blocks",
        "architecture": "transformer",
        "model": {"pre_norm": True, "num_key_value_heads": 2, "d_ff": 208, **LLAMA},
    },
}
CORPORA = {
    "phrasebook": {
        "data": "phrasebook",
        "languages": ("pt", "en"),
        "vocab_size": 2000,
        "training": {"epochs": 4, "dropout": 0.1, "warmup_steps": 400, "checkpoint_steps": 60},
    },
    "multi30k": {
        "data": f"{os.environ.get('KERAS_MT_DATA', '.')}/multi30k_en_de",
        "languages": ("en", "de"),
        "vocab_size": 4000,
        "training": {"epochs": 8, "dropout": 0.2, "warmup_steps": 1000, "checkpoint_steps": 200},
    },
}
COMMON = {"preset": "tiny", "batch_tokens": 2048}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--output", type=Path, default=Path("runs/architectures"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    folder, results = arguments.output, HERE / "results"
    if arguments.steps:
        folder = results = folder / "trial"
    folder = folder / arguments.corpus
    folder.mkdir(parents=True, exist_ok=True)
    results.mkdir(parents=True, exist_ok=True)
    lines = results / f"{arguments.corpus}.jsonl"
    if arguments.speed:
        rows = [row for row in arguments.rows or ROWS if row in read(lines)]
        for row, rates in speeds(arguments.corpus, rows, folder).items():
            add(lines, {**read(lines)[row], "training_tokens_per_second": rates}, ROWS)
    for row in arguments.rows or ROWS:
        if row not in read(lines):
            line = {"row": row, **measure(arguments.corpus, row, folder, arguments.steps)}
            add(lines, line, ROWS)
    measured = {corpus: read(results / f"{corpus}.jsonl") for corpus in CORPORA}
    measured = {corpus: rows for corpus, rows in measured.items() if rows}
    draw(measured, results / "bleu_by_length.png")
    for corpus, rows in measured.items():
        for row, line in rows.items():
            if "expert_load" in line:
                load_figure(line["expert_load"]).savefig(results / f"{corpus}_{row}_load.png")
    for corpus, rows in measured.items():
        print(f"\n{corpus}\n\n{table_of(rows)}")
        if not arguments.steps:
            put(HERE / "README.md", corpus, table_of(rows))


def measure(corpus, row, folder, steps):
    """Trains a row, exports it, and measures the export."""
    keras.backend.clear_session()
    settings, row_settings = CORPORA[corpus], dict(ROWS[row])
    data, (source, target) = settings["data"], settings["languages"]
    title = row_settings.pop("title")
    print(f"\n{corpus}: {title}", flush=True)
    options = {
        **COMMON,
        **settings["training"],
        "weights": "average",
        **row_settings,
    }
    if steps:
        options = {**options, "epochs": None, "steps": steps, "weights": "last"}
    pairs = {split: texts(data, source, target, split) for split in ("train", "validation", "test")}
    tokenizer, lines = prepared(corpus, folder, pairs["train"])
    run, export = folder / row, folder / "exports" / row / "1"
    before, start = steps_of(run), time.process_time()
    train([data, lines], source, target, run, tokenizer=tokenizer, **options)
    trained, seconds = steps_of(run) - before, time.process_time() - start
    load = os.getloadavg()[2]
    translator = Translator.load(run, split_sentences=False)
    if not export.exists():
        translator.export(export)
    exported = ExportedTranslator(export)

    def bleu(pairs):
        sources, references = zip(*pairs, strict=True)
        found = exported.hypotheses(sources)
        translations = [hypotheses[0].text for hypotheses in found]
        return round(sacrebleu.corpus_bleu(translations, [references]).score, 2)

    if steps:
        pairs = {split: part[:8] for split, part in pairs.items()}
    by_length = []
    for size in TEST_LINES:
        test = list(joined(pairs["test"], [size]))
        pieces = translator.tokenizer.pieces([pair[0] for pair in test])
        tokens = pieces.row_lengths().numpy().mean() + 1  # The end.
        by_length.append([size, round(float(tokens), 1), bleu(test)])
        print(f"{size} in a line, {tokens:.0f} tokens: BLEU {by_length[-1][-1]}", flush=True)
    clocks = {"processor": time.process_time, "wall": time.perf_counter}
    sources, times = [pair[0] for pair in pairs["test"]], {name: [] for name in clocks}
    for _ in range(3):
        starts = {name: clock() for name, clock in clocks.items()}
        exported.hypotheses(sources)
        for name, clock in clocks.items():
            times[name].append(clock() - starts[name])
    decoded = {
        name: round(len(sources) / statistics.median(each), 1) for name, each in times.items()
    }
    log = RunFolder(run).read_log()
    rates = [float(line["tokens_per_second"]) for line in log if line["tokens_per_second"]]
    counts = batches(corpus, lines, translator.tokenizer).counts
    tokens = trained * counts.target_tokens / counts.batches
    load_of_experts = expert_load(translator, pairs["test"])
    return {
        "title": title,
        "options": options,
        "parameters": translator.models[0].count_params(),
        "steps": steps_of(run),
        "minutes": round(float(log[-1]["seconds"]) / 60, 1),
        # Of this process: None if another had already trained it all.
        "training_tokens_per_second": {
            "processor": round(tokens / seconds) if tokens else None,
            "wall": round(statistics.median(rates or [0])),
        },
        "validation_bleu": bleu(pairs["validation"]),
        "test_bleu": by_length[0][-1],
        "bleu_by_length": by_length,
        "decoded_sentences_per_second": decoded,
        **({"expert_load": load_of_experts} if load_of_experts else {}),
        "export_bytes": sum(file.stat().st_size for file in export.rglob("*") if file.is_file()),
        "load": round(load, 1),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {each.__name__: each.__version__ for each in (keras_mt, keras, tf)},
    }


def prepared(corpus, folder, pairs):
    """The files of the tokenizer and of the lines of several pairs, which are made."""
    tokenizer, lines = folder / "tokenizer.model", folder / "lines.tsv"
    if not tokenizer.exists():
        sides = (side for pair in pairs for side in pair)
        Tokenizer.train(sides, CORPORA[corpus]["vocab_size"]).save(tokenizer)
    with atomic_write(lines) as temporary:
        rows = [CORPORA[corpus]["languages"], *joined(pairs, TRAINED_LINES)]
        temporary.write_text("".join("\t".join(pair) + "\n" for pair in rows), encoding="utf-8")
    return tokenizer, lines


def batches(corpus, lines, tokenizer):
    """What all rows are trained on."""
    data, languages = CORPORA[corpus]["data"], CORPORA[corpus]["languages"]
    corpora = [load_corpus(each, *languages, "train") for each in (data, lines)]
    return Batches(corpora, tokenizer, COMMON["batch_tokens"], seed=1)


def speeds(corpus, rows, folder, steps=10, rounds=5):
    """Target tokens trained in a second of processor time, in a dict by row.

    The rows take turns, each with the same batches; the first round, which traces, is left out.
    """
    data, languages = CORPORA[corpus]["data"], CORPORA[corpus]["languages"]
    tokenizer, lines = prepared(corpus, folder, texts(data, *languages, "train"))
    tokenizer = Tokenizer.load(tokenizer)
    part = batches(corpus, lines, tokenizer).stream().take(steps).cache()
    tokens = sum(int(np.count_nonzero(labels)) for _, labels in part)
    models, seconds = {}, {row: [] for row in rows}
    for row in rows:
        architecture = find_architecture(ROWS[row]["architecture"])
        models[row] = architecture.from_preset(
            COMMON["preset"],
            vocab_size=tokenizer.vocab_size,
            dropout=CORPORA[corpus]["training"]["dropout"],
            **ROWS[row].get("model", {}),
        )
        compile_for_translation(models[row])
    for row in rows * rounds:
        start = time.process_time()
        models[row].fit(part, verbose=0)
        seconds[row].append(time.process_time() - start)
        print(f"{row}: {tokens / seconds[row][-1]:.0f}", flush=True)
    return {
        row: {
            "processor": round(tokens / statistics.median(each[1:])),
            "rounds": [round(tokens / x) for x in each[1:]],
            "load": round(os.getloadavg()[2], 1),
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
        }
        for row, each in seconds.items()
    }


def expert_load(translator, pairs):
    """Each expert's share of the first test pairs' tokens, by mixture; None for other models.

    The decoder is given the references.
    """
    if not hasattr(translator.models[0], "mixtures"):
        return None
    source, target = map(translator.tokenizer.pieces, zip(*pairs[:256], strict=True))
    target = tf.concat([tf.fill((target.nrows(), 1), translator.tokenizer.bos_id), target], axis=1)
    loads = expert_loads(
        translator.models[0],
        {
            "source": translator.tokenizer.source_ids(source).to_tensor(),
            "target": target.to_tensor(),
        },
    )
    return {name: [round(float(share), 3) for share in load] for name, load in loads.items()}


def expert_loads(model, inputs):
    """Each expert's share of the tokens of a batch, by mixture, from what each mixture is given."""
    loads = {}

    def recording(layer):
        def call(inputs, mask=None, training=None):
            loads[layer.name] = keras.ops.convert_to_numpy(layer.expert_load(inputs, mask))
            return type(layer).call(layer, inputs, mask, training)

        return unittest.mock.patch.object(layer, "call", call)

    with contextlib.ExitStack() as recorders:
        for layer in model.mixtures:
            recorders.enter_context(recording(layer))
        model(inputs)
    return loads


def load_figure(loads):
    """Which share of the tokens went through each expert, a bar chart for each mixture.

    A line shows the share that each would have if all had the same.

    Args:
        loads: A dict from the name of each mixture, as `encoder_1_experts`, to the shares, floats
            `[num_experts]`. They sum to the number of experts that a token goes through.
    """
    figure = Figure(figsize=(8, 2.7), layout="constrained")
    panels = figure.subplots(1, len(loads), sharey=True, squeeze=False)[0]
    for axes, (name, load) in zip(panels, loads.items(), strict=True):
        side, block = name.split("_")[:2]
        axes.bar(range(1, len(load) + 1), load, width=0.7)
        axes.axhline(np.mean(load), color="C3", linewidth=1.2)
        axes.set_title(f"{side}, block {int(block) + 1}")
        axes.set_xticks(range(1, len(load) + 1))
        axes.set_xlabel("expert")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.tick_params(length=0)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("share of the tokens")
    total = sum(load)
    even = f"red: an even load, {total / len(load):.0%}"
    each = f"each token goes through {total:.0f} experts, so the bars add up to {total:.0%}"
    figure.supxlabel(f"{even}; {each}", fontsize=9.5)
    return figure


def steps_of(run):
    """How many steps a run has been trained for, by its last checkpoint."""
    checkpoint = RunFolder(run).last_checkpoint
    return int(checkpoint.rpartition("-")[2]) if checkpoint else 0


def texts(data, source, target, split):
    """The pairs of a split as str, shuffled, since neighbours may be alike."""
    pairs = load_corpus(data, source, target, split).as_numpy_iterator()
    pairs = [tuple(side.decode("utf-8").replace("\t", " ") for side in pair) for pair in pairs]
    random.Random(1).shuffle(pairs)
    return pairs


def joined(pairs, sizes):
    """All pairs, joined into lines whose numbers of pairs are `sizes`, in turn."""
    pairs, sizes = iter(pairs), itertools.cycle(sizes)
    while part := list(itertools.islice(pairs, next(sizes))):
        yield tuple(map(" ".join, zip(*part, strict=True)))


def table_of(rows):
    """The table in Markdown."""
    sizes = (TRAINED_LINES[-1], TEST_LINES[-1])
    columns = [
        "", "parameters", "trained tokens/s", "validation BLEU", "test BLEU",
        *(f"{size} in a line" for size in sizes), "decoded sentences/s", "export, MB",
    ]  # fmt: skip
    lines = []
    for row in rows.values():
        by_size = {size: bleu for size, _, bleu in row["bleu_by_length"]}
        lines.append([
            row["title"], f"{row['parameters']:,}",
            f"{row['training_tokens_per_second']['processor'] or 0:,}",
            f"{row['validation_bleu']:.1f}", f"{row['test_bleu']:.1f}",
            *(f"{by_size[size]:.1f}" for size in sizes),
            f"{row['decoded_sentences_per_second']['processor']:.0f}",
            f"{row['export_bytes'] / 1e6:.1f}",
        ])  # fmt: skip
    return table(columns, lines)


# The rows in colour, one of each kind of model; the others are grey.
COLOURS = {
    "fixed_vector": "C3",
    "additive": "C1",
    "transformer": "C0",
    "modern": "C2",
}
GREY, PALE = "gray", "lightgray"
LABEL_GAP = 0.058  # Between the labels of two curves, as a share of a panel's height.


def draw(measured, path):
    """BLEU against the length of a line: a panel for each corpus, a curve for each row."""
    figure = Figure(figsize=(8, 0.4 + 3.6 * len(measured)), layout="constrained")
    panels = figure.subplots(len(measured), 1, squeeze=False)[:, 0]
    for axes, (corpus, rows) in zip(panels, measured.items(), strict=True):
        draw_corpus(axes, corpus, rows)
    figure.savefig(path)


def draw_corpus(axes, corpus, rows):
    for name, row in rows.items():
        sizes, tokens, bleu = zip(*row["bleu_by_length"], strict=True)
        color = COLOURS.get(name, PALE)
        style = {} if color == PALE else {"marker": "o", "markersize": 4, "zorder": 3}
        axes.plot(tokens, bleu, color=color, linewidth=1 if color == PALE else 1.8, **style)
    last = tokens[-1]
    seen = sizes.index(TRAINED_LINES[-1])
    longer = (tokens[seen] + tokens[seen + 1]) / 2
    axes.axvspan(longer, 1.02 * last, color=GREY, alpha=0.12, zorder=0)
    axes.set_xlim(0, 1.02 * last)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0), high)
    axes.text(0.99, 0.99, "longer than in training", transform=axes.transAxes, **CORNER)
    axes.set_xlabel("tokens of the source (mean)")
    axes.set_ylabel(f"BLEU, {corpus} {'-'.join(CORPORA[corpus]['languages'])}")
    axes.grid(axis="y", alpha=0.3)
    above = axes.secondary_xaxis("top")
    above.set_xticks(tokens, map(str, sizes))
    above.set_xlabel("sentences in a line")
    ends = {name: row["bleu_by_length"][-1][-1] for name, row in rows.items()}
    low, high = axes.get_ylim()
    names = sorted(ends, key=ends.get)
    places = apart([(ends[name] - low) / (high - low) for name in names], LABEL_GAP)
    for name, place in zip(names, places, strict=True):
        axes.annotate(
            rows[name]["title"], (last, ends[name]), (1.04, place), "data", "axes fraction",
            arrowprops={
                "arrowstyle": "-", "color": COLOURS.get(name, PALE), "linewidth": 0.7,
                "relpos": (0, 0.5), "shrinkA": 2,
            },
            color=COLOURS.get(name, GREY), va="center", fontsize=9,
        )  # fmt: skip


def apart(places, gap):
    """Places in ascending order, moved by as little as it takes to be `gap` apart.

    Those that are too close share the room around their mean.
    """
    groups = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and top(groups[-2], gap) > bottom(groups[-1], gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [bottom(group, gap) + gap * (i + 0.5) for group in groups for i in range(len(group))]


def bottom(group, gap):
    return statistics.mean(group) - gap * len(group) / 2


def top(group, gap):
    return statistics.mean(group) + gap * len(group) / 2


CORNER = {"ha": "right", "va": "top", "fontsize": 9, "color": GREY}


if __name__ == "__main__":
    main()
