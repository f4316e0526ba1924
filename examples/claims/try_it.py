"""Tries the claims of the lectures, and writes what was seen into docs/lectures/claims.md.

usage: python examples/claims/try_it.py [CLAIM ...] [--seeds N]

Without CLAIM it is all of them. Those that need training train small models on the phrasebook,
three seeds for each row, on one core; what is in results/ is not trained again. `beams` needs the
environment variable KERAS_MT_DATA, the folder that multi30k_en_de is in.
"""

import argparse
import contextlib
import functools
import math
import os
import random
import statistics
import sys
import time
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import sacrebleu

from keras_mt import Tokenizer, Translator
from keras_mt.data import Batches, load_corpus, phrasebook
from keras_mt.layers import attention, blocks
from keras_mt.models import Recurrent, Transformer
from keras_mt.training import compile_for_translation

sys.path.append(str(Path(__file__).parents[1]))

import timed
from result_lines import add, circumstances, put, read, table

TRAINED = Path(__file__).parent / "results" / "trained.jsonl"
PAGE = Path(__file__).parents[2] / "docs/lectures/claims.md"
VOCAB_SIZE, BATCH_TOKENS, STEPS = 1000, 1024, 400

# What a row changes is in place of this; the Transformer is the lectures', post-norm.
RECIPE = {
    "architecture": "transformer",
    "model": {},
    "without": None,
    "label_smoothing": 0.1,
    "learning_rate": 0.004,
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


def main():
    claims = [*CLAIMS, "beams", "lengths"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=", ".join(claims))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if unknown := set(arguments.claims) - set(claims):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(claims)}")
    for claim in arguments.claims or claims:
        if claim in CLAIMS:
            train_rows(claim, arguments.seeds)
        else:
            timed.MEASURES[claim]()
        text = tables()[claim]
        print(f"\n{claim}\n\n{text}", flush=True)
        put(PAGE, claim, text)


def tables():
    """The tables of the claims that were measured, by name."""
    lines = read(TRAINED)
    found = {claim: claim_table(claim, lines) for claim in CLAIMS}
    return {claim: text for claim, text in found.items() if text} | timed.tables()


def train_rows(claim, seeds):
    """Trains the rows of a claim that are not in results/ yet."""
    names = [f"{row}, seed {seed}" for row in ROWS for seed in range(1, seeds + 1)]
    for row in CLAIMS[claim].values():
        options, lines = options_of(row), read(TRAINED)
        missing = [
            seed
            for seed in range(1, seeds + 1)
            if lines.get(f"{row}, seed {seed}", {}).get("options") != options
        ]
        for seed, measured in measure(options, missing) if missing else ():
            name = f"{row}, seed {seed}"
            print(f"{name}: BLEU {measured['bleu']}", flush=True)
            add(TRAINED, {"row": name, "options": options, **measured, **circumstances()}, names)


def claim_table(claim, lines):
    """The mean and the range over the seeds, for each row of a claim; "" before two are trained."""
    rows = []
    for label, row in CLAIMS[claim].items():
        found = [line for name, line in lines.items() if name.rpartition(", seed ")[0] == row]
        if found:
            bleu = [line["bleu"] for line in found]
            rows.append([
                label,
                f"{statistics.mean(bleu):.1f}",
                f"{min(bleu):.1f} to {max(bleu):.1f}",
                f"{len(bleu)}",
                f"{found[0]['parameters']:,}",
            ])  # fmt: skip
    if len(rows) < 2:
        return ""
    return table(["", "BLEU", "from, to", "seeds", "parameters"], rows)


def options_of(row):
    """All that defines the training of a row."""
    options = {**RECIPE, **ROWS[row], "steps": STEPS, "batch_tokens": BATCH_TOKENS}
    sizes = {"num_layers": 2, "d_model": 128, "dropout": 0.0}
    if options["architecture"] != "recurrent":
        sizes |= {"num_heads": 4, "d_ff": 256}
    return {**options, "model": {**sizes, **options["model"]}}


def measure(options, seeds):
    """Trains a model from each seed, and measures BLEU on the test sentences; yields both."""
    keras.backend.clear_session()
    sources, references = zip(*phrasebook.pairs("test"), strict=True)
    with WITHOUT[options["without"]]():
        model = new_model(options)
        warmup_steps, clip_norm = options["warmup_steps"] or 1, options["clip_norm"]
        compile_for_translation(
            model, options["label_smoothing"], warmup_steps, schedule(options), clip_norm
        )
        model.compile(optimizer=model.optimizer, loss=model.loss)  # Metrics take time.
        translator = Translator(model, tokenizer(), beam_size=1)
        for seed in seeds:
            start = time.process_time()
            random.seed(seed)  # Keras draws its own from it.
            model.set_weights(new_model(options).get_weights())  # The traced graphs are kept.
            for variable in model.optimizer.variables:
                variable.assign(keras.ops.zeros_like(variable))
            data, steps = batches(seed).stream(), options["steps"]
            log = model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)
            trained = time.process_time()
            found = translator.hypotheses(sources)
            translations = [hypotheses[0].text if hypotheses else "" for hypotheses in found]
            yield (
                seed,
                {
                    "bleu": round(sacrebleu.corpus_bleu(translations, [references]).score, 2),
                    "loss": round(log.history["loss"][-1], 3),  # The mean of all steps.
                    "parameters": model.count_params(),
                    "processor_seconds": round(trained - start, 1),
                },
            )


def new_model(options):
    return MODELS[options["architecture"]](tokenizer().vocab_size, **options["model"])


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
    def run(block, hidden, sublayers, mask=None, training=None):
        for letter in block.sublayers:
            name = blocks._SUBLAYERS[letter]
            if name == "feed_forward":
                x = block.feed_forward(hidden, training=training)
            else:
                x, _ = sublayers[name](hidden)
            hidden = getattr(block, f"{name}_norm")(block.dropout_layer(x, training=training))
        return hidden, {}

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


if __name__ == "__main__":
    main()
