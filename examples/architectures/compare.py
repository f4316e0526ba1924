"""Trains every architecture on the same text, measures each, and writes the table and the picture.

usage: python examples/architectures/compare.py phrasebook|multi30k [ROW ...]
           [--output FOLDER] [--steps N]

Without ROW it is all of them. A row that is in results/ is not trained again, and an interrupted
training resumes: give the same command again. multi30k is the folder multi30k_en_de inside the one
that the environment variable KERAS_MT_DATA names. --steps N is for a trial: each row is trained for
N steps and measured on 8 sentences, and everything is written below FOLDER/trial.
"""

import functools
import itertools
import os
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import keras
import rows
from matplotlib.figure import Figure

from keras_mt import ExportedTranslator, Tokenizer, Translator
from keras_mt.data import Batches, load_corpus
from keras_mt.files import atomic_write
from keras_mt.run_folder import RunFolder
from keras_mt.training import train

HERE = Path(__file__).parent
# Each training pair is seen alone and, once, in a line of 2, 3 or 4 pairs; tests go up to 8.
TRAINED_LINES, TEST_LINES = (2, 3, 4), (1, 2, 3, 4, 6, 8)
SANDWICH = {
    "encoder_sublayers": "ss" + "sf" * 2 + "ff",
    "decoder_sublayers": "scsc" + "scf" * 2 + "ff",
}
LLAMA = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True}

# Title, architecture and model, in the order of the lectures; sizes near those of Transformer tiny.
PRE_NORM = {"pre_norm": True}
ROWS = {
    "fixed_vector": ("GRU, no attention", "recurrent", {"cell": "gru", "attention": "none"}),
    "additive": ("GRU, additive attention", "recurrent", {"cell": "gru", "attention": "additive"}),
    "bilinear": (
        "LSTM, bilinear attention", "recurrent", {"cell": "lstm", "attention": "bilinear"},
    ),
    "transformer": ("Transformer, as in the paper", "transformer", {}),
    "pre_norm": ("Transformer, pre-norm", "transformer", PRE_NORM),
    "sandwich": ("sandwich, pre-norm", "transformer", PRE_NORM | SANDWICH),
    "ssru": (
        "Transformer, pre-norm, SSRU decoder", "transformer",
        PRE_NORM | {"decoder_sublayers": "rcf" * 4},
    ),
    "deep_encoder": (
        "8 encoder blocks, 1 decoder block, pre-norm", "transformer",
        PRE_NORM | {"num_encoder_layers": 8, "num_decoder_layers": 1},
    ),
    "experts": (
        "mixture of experts, 2 of 4", "mixture_of_experts",
        {"num_experts": 4, "experts_per_token": 2},
    ),
    "decoder_only": ("decoder-only, Llama's blocks", "decoder_only", {"num_layers": 8}),
    "modern": (
        "encoder-decoder, Llama's blocks", "transformer",
        PRE_NORM | {"num_key_value_heads": 2, "d_ff": 208} | LLAMA,
    ),
}  # fmt: skip
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
    parser = rows.parser(__doc__, ROWS, corpora=CORPORA)
    parser.add_argument("--output", type=Path, default=Path("runs/architectures"))
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    corpus, folder, results = arguments.corpus, arguments.output, HERE / "results"
    if arguments.steps:
        folder = results = folder / "trial"
    measure = functools.partial(measured, corpus, folder / corpus, arguments.steps)
    lines = rows.measured(results / f"{corpus}.jsonl", ROWS, measure, arguments.names)
    both = {corpus: rows.read(results / f"{corpus}.jsonl") for corpus in CORPORA}
    draw({corpus: lines for corpus, lines in both.items() if lines}, results / "bleu_by_length.png")
    if arguments.steps:
        print(table(lines))
    else:
        rows.put(HERE / "README.md", corpus, table(lines))


def table(lines):
    sizes = (TRAINED_LINES[-1], TEST_LINES[-1])
    columns = [
        "", "parameters", "trained tokens/s", "validation BLEU", "test BLEU",
        *(f"{size} in a line" for size in sizes), "decoded sentences/s", "export, MB",
    ]  # fmt: skip
    cells = []
    for line in lines.values():
        by_size = {size: bleu for size, _, bleu in line["bleu_by_length"]}
        cells.append([
            line["title"], f"{line['parameters']:,}",
            f"{line['training_tokens_per_second']['processor'] or 0:,}",
            f"{line['validation_bleu']:.1f}", f"{line['test_bleu']:.1f}",
            *(f"{by_size[size]:.1f}" for size in sizes),
            f"{line['decoded_sentences_per_second']['processor']:.0f}",
            f"{line['export_bytes'] / 1e6:.1f}",
        ])  # fmt: skip
    return rows.table(columns, cells)


def measured(corpus, folder, steps, row):
    """Trains a row, exports it, and measures the export."""
    keras.utils.clear_session()
    data, languages = CORPORA[corpus]["data"], CORPORA[corpus]["languages"]
    title, architecture, model = ROWS[row]
    options = {**COMMON, **CORPORA[corpus]["training"], "weights": "average"}
    options |= {"architecture": architecture, "model": model}
    if steps:
        options = {**options, "epochs": None, "steps": steps, "weights": "last"}
    pairs = {split: texts(data, *languages, split) for split in ("train", "validation", "test")}
    tokenizer, lines = prepared(corpus, folder, pairs["train"])
    run, export = folder / row, folder / "exports" / row / "1"
    before, start = steps_of(run), time.process_time()
    train([data, lines], *languages, run, tokenizer=tokenizer, **options)
    trained, seconds = steps_of(run) - before, time.process_time() - start
    translator = Translator.load(run, split_sentences=False)
    if not export.exists():
        translator.export(export)
    exported = ExportedTranslator(export)
    if steps:
        pairs = {split: part[:8] for split, part in pairs.items()}
    by_length = []
    for size in TEST_LINES:
        test = list(joined(pairs["test"], [size]))
        pieces = translator.tokenizer.pieces([source for source, _ in test])
        tokens = float(pieces.row_lengths().numpy().mean()) + 1  # The end.
        by_length.append([size, round(tokens, 1), rows.scores(exported, test)["bleu"]])
    corpora = [load_corpus(each, *languages, "train") for each in (data, lines)]
    counts = Batches(corpora, translator.tokenizer, COMMON["batch_tokens"], seed=1).counts
    tokens = trained * counts.target_tokens / counts.batches
    return {
        "title": title,
        "options": options,
        "parameters": translator.models[0].count_params(),
        "steps": steps_of(run),
        "minutes": round(float(RunFolder(run).read_log()[-1]["seconds"]) / 60, 1),
        # Of this process: None if another had already trained it all.
        "training_tokens_per_second": {"processor": round(tokens / seconds) if tokens else None},
        "validation_bleu": rows.scores(exported, pairs["validation"])["bleu"],
        "test_bleu": by_length[0][-1],
        "bleu_by_length": by_length,
        "decoded_sentences_per_second": decoded(exported, [source for source, _ in pairs["test"]]),
        "export_bytes": sum(file.stat().st_size for file in export.rglob("*") if file.is_file()),
    }


def texts(data, source, target, split):
    """The pairs of a split, shuffled, since neighbours may be alike."""
    pairs = rows.texts(data, source, target, split)
    pairs = [tuple(side.replace("\t", " ") for side in pair) for pair in pairs]
    random.Random(1).shuffle(pairs)
    return pairs


def joined(pairs, sizes):
    """All pairs, joined into lines whose numbers of pairs are `sizes`, in turn."""
    pairs, sizes = iter(pairs), itertools.cycle(sizes)
    while part := list(itertools.islice(pairs, next(sizes))):
        yield tuple(map(" ".join, zip(*part, strict=True)))


def prepared(corpus, folder, pairs):
    """The files of the tokenizer and of the lines of several pairs, which are made."""
    tokenizer, lines = folder / "tokenizer.model", folder / "lines.tsv"
    if not tokenizer.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sides = (side for pair in pairs for side in pair)
        Tokenizer.train(sides, CORPORA[corpus]["vocab_size"]).save(tokenizer)
    with atomic_write(lines) as temporary:
        found = [CORPORA[corpus]["languages"], *joined(pairs, TRAINED_LINES)]
        temporary.write_text("".join("\t".join(pair) + "\n" for pair in found), encoding="utf-8")
    return tokenizer, lines


def steps_of(run):
    """How many steps a run has been trained for, by its last checkpoint."""
    checkpoint = RunFolder(run).last_checkpoint
    return int(checkpoint.rpartition("-")[2]) if checkpoint else 0


def decoded(translator, sources):
    """Sentences a second of processor time: the median of three rounds."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        translator.hypotheses(sources)
        seconds.append(time.process_time() - start)
    return {"processor": round(len(sources) / statistics.median(seconds), 1)}


def draw(measured, path):
    """BLEU against the length of a line: a panel for each corpus, a curve for each row."""
    figure = Figure(figsize=(8, 0.4 + 3.6 * len(measured)), layout="constrained")
    panels = figure.subplots(len(measured), 1, squeeze=False)[:, 0]
    for axes, (corpus, lines) in zip(panels, measured.items(), strict=True):
        draw_corpus(axes, corpus, lines)
    figure.savefig(path)


def draw_corpus(axes, corpus, lines):
    at_the_end = sorted(lines.items(), key=lambda row: -row[1]["bleu_by_length"][-1][-1])
    for row, line in at_the_end:
        sizes, tokens, bleu = zip(*line["bleu_by_length"], strict=True)
        color, marker = f"C{list(ROWS).index(row) % 10}", "os"[list(ROWS).index(row) // 10]
        axes.plot(tokens, bleu, color=color, marker=marker, markersize=4, label=line["title"])
    seen = sizes.index(TRAINED_LINES[-1])
    axes.axvspan((tokens[seen] + tokens[seen + 1]) / 2, tokens[-1], color="gray", alpha=0.12)
    axes.text(0.99, 0.99, "longer than in training", ha="right", va="top", transform=axes.transAxes)
    axes.set_xlim(0, tokens[-1])
    axes.set_ylim(0, None)
    axes.set_xlabel("tokens of the source (mean)")
    axes.set_ylabel(f"BLEU, {corpus} {'-'.join(CORPORA[corpus]['languages'])}")
    axes.grid(axis="y", alpha=0.3)
    above = axes.secondary_xaxis("top")
    above.set_xticks(tokens, map(str, sizes))
    above.set_xlabel("sentences in a line")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=9)


if __name__ == "__main__":
    main()
