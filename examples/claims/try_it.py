"""Tries the claims of the lectures, and writes what was seen into docs/lectures/claims.md.

usage: python examples/claims/try_it.py [CLAIM ...]

Without CLAIM it is all of them. Those that need training train small models on the phrasebook,
three seeds for each row, on one core; what is in results/ is not trained again. `beams` needs the
environment variable KERAS_MT_DATA, the folder that multi30k_en_de is in.
"""

import functools
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1]))

import keras
import rows
import timed
from parts import Parts

from keras_mt import Tokenizer, Translator
from keras_mt.data import Batches, load_corpus, phrasebook
from keras_mt.models import Recurrent, Transformer
from keras_mt.training import compile_for_translation

TRAINED = Path(__file__).parent / "results" / "trained.jsonl"
PAGE = Path(__file__).parents[2] / "docs/lectures/claims.md"
SEEDS, VOCAB_SIZE = (1, 2, 3), 1000
MODELS = {"transformer": Transformer, "recurrent": Recurrent, "parts": Parts}

# What a row changes is in place of this; the Transformer is the lectures', post-norm.
RECIPE = {
    "architecture": "transformer",
    "model": {},
    "label_smoothing": 0.1,
    "learning_rate": 0.004,
    "warmup_steps": 100,  # 0: a constant rate.
    "clip_norm": None,
    "steps": 400,
    "batch_tokens": 1024,
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
    "no residual": {"architecture": "parts", "model": {"residual": False}},
    "no norm": {"architecture": "parts", "model": {"norm": False}},
    "no 1/sqrt(d_k)": {"model": {"scale_attention": False}},
    "GRU encoder, Transformer decoder": {"architecture": "parts", "model": {"gru_encoder": True}},
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
        "none": "GRU, no attention",
        "dot": "GRU, dot",
        "bilinear": "GRU, bilinear",
        "additive": "GRU, additive",
    },
    "parts": {
        "all": "Transformer",
        "without residual connections": "no residual",
        "without normalization": "no norm",
        "without 1/sqrt(d_k)": "no 1/sqrt(d_k)",
    },
    "heads": {"1": "1 head", "2": "2 heads", "4": "Transformer", "8": "8 heads"},
    "mixed": {
        "Transformer, Transformer": "Transformer",
        "GRU, Transformer": "GRU encoder, Transformer decoder",
        "Transformer, SSRU": "Transformer encoder, SSRU decoder",
        "GRU, GRU with additive attention": "GRU, additive",
    },
}


def main():
    claims = [*CLAIMS, *timed.CLAIMS]
    names = [name for row in ROWS for name in seeds_of(row)]
    for claim in rows.parser(__doc__, claims).parse_args().names or claims:
        if claim in CLAIMS:
            chosen = [name for row in CLAIMS[claim].values() for name in seeds_of(row)]
            rows.measured(TRAINED, names, measured, chosen)
        else:
            timed.measure(claim)
        rows.put(PAGE, claim, tables()[claim])


def seeds_of(row):
    return [f"{row}, seed {seed}" for seed in SEEDS]


def tables():
    """The tables of the claims that were measured, by name."""
    lines = rows.read(TRAINED)
    found = {claim: claim_table(claim, lines) for claim in CLAIMS}
    return {claim: text for claim, text in found.items() if text} | timed.tables()


def claim_table(claim, lines):
    """The mean and the range over the seeds, for each row of a claim; "" before all are trained."""
    cells = []
    for label, row in CLAIMS[claim].items():
        if not all(name in lines for name in seeds_of(row)):
            return ""
        bleu = [lines[name]["bleu"] for name in seeds_of(row)]
        parameters = lines[seeds_of(row)[0]]["parameters"]
        mean, least, most = statistics.mean(bleu), min(bleu), max(bleu)
        spread = f"{least:.1f} to {most:.1f}"
        cells.append([label, f"{mean:.1f}", spread, f"{len(bleu)}", f"{parameters:,}"])
    return rows.table(["", "BLEU", "from, to", "seeds", "parameters"], cells)


def measured(name):
    """Trains a model from a seed, and measures BLEU on the test sentences."""
    row, _, seed = name.rpartition(", seed ")
    options = options_of(row)
    keras.utils.clear_session()
    keras.utils.set_random_seed(int(seed))
    model = new_model(tokenizer().vocab_size, options)
    compile_for_translation(
        model,
        options["label_smoothing"],
        options["warmup_steps"] or 1,
        schedule(options),
        options["clip_norm"],
    )
    pairs = load_corpus("phrasebook", *phrasebook.LANGUAGES, "train")
    data = Batches(pairs, tokenizer(), options["batch_tokens"], seed=int(seed)).stream()
    start = time.process_time()
    log = model.fit(data, steps_per_epoch=options["steps"], verbose=0)
    seconds = time.process_time() - start
    translator = Translator(model, tokenizer(), beam_size=1)
    return {
        "options": options,
        "bleu": rows.scores(translator, phrasebook.pairs("test"))["bleu"],
        "loss": round(log.history["loss"][-1], 3),  # The mean of all steps.
        "parameters": model.count_params(),
        "processor_seconds": round(seconds, 1),
    }


@functools.cache
def tokenizer():
    texts = (side for pair in phrasebook.pairs("train") for side in pair)
    return Tokenizer.train(texts, VOCAB_SIZE)


def options_of(row):
    """The recipe with what a row changes, and all sizes of the model."""
    options = {**RECIPE, **ROWS[row]}
    sizes = {"num_layers": 2, "d_model": 128}
    if options["architecture"] != "parts":  # Which have no dropout.
        sizes["dropout"] = 0.0
    if options["architecture"] != "recurrent":
        sizes |= {"num_heads": 4, "d_ff": 256}
    return {**options, "model": {**sizes, **options["model"]}}


def new_model(vocab_size, options):
    return MODELS[options["architecture"]](vocab_size, **options["model"])


def schedule(options):
    """The learning rate: that of the paper's schedule at its peak, or a constant one."""
    rate = options["learning_rate"]
    if options["warmup_steps"]:
        return rate
    return keras.optimizers.schedules.ExponentialDecay(rate, 1, decay_rate=1.0)


if __name__ == "__main__":
    main()
