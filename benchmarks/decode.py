"""Beam-search speed of keras_mt's exports next to other systems.

usage: python benchmarks/decode.py [--workloads NAME,...] [--text FILE [--run RUN_DIR]] [--quick]

base-b32, base-b1: Transformer-base with random weights, 20 source tokens, beam 4, exactly 40 target
tokens, batches of 32 and 1. base-b32-160: the same with 160 target tokens. tiny-text: a trained run
folder and a file of sentences, strings in and strings out; CTranslate2 has the same weights and
SentencePiece model, and searches on as keras_mt does (patience 1.5). Nothing is printed unless 99%
of its translations are the same. tiny-text-early: the same by CTranslate2's default rule, which
stops when as many hypotheses have ended as there are beams.

opus-b32, opus-b1: the shape of OPUS-MT (6 + 6 layers, 512 wide, 58,101 pieces, tied) with random
weights on the first lines of --text, exactly 25 target tokens, batches of 32 and 1. student-4+1,
student-4+2: `tiny` with fewer decoder layers and 32,000 pieces; student-ssru: 4 + 2 with SSRU,
which no peer has. nllb-b1: NLLB's shape (12 + 12, 1,024 wide, 256,206 pieces); it takes 20 GB, and
runs only if it is named. All but that have a second turn with a shortlist, whose tokens are drawn
by Zipf's law. --quick: two rounds, one single-threaded caller for each core.

Each system is PEER-PRECISION, in each precision that it has on this processor; litert_int8 is an
export for LiteRT, run without TensorFlow and Keras. Each is
tried on one thread, on all, and with one single-threaded caller for each core; LiteRT has one
thread for each of the batches that a translator runs side by side. The systems then take turns for
N rounds, each in the best of the three layouts, which `threads` names. On a processor with AMX all
but LiteRT, which cannot be told, are measured again without it. Prints a table, and a JSON line for
each system, whose `value` is the median of the rounds, and `agreement` the share of translations
that are ours in float32; the line best/best has the ratio of our best to the best of all peers.
`pip install .[peers]` installs the peers; missing ones are named and left out.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import harness

BEAM_SIZE, SOURCE_LENGTH, VOCAB_SIZE, TEXT_BATCH = 4, 20, 8000, 256
BASE = {"num_layers": 6, "d_model": 512, "num_heads": 8, "d_ff": 2048}
MARIAN = {"positions": "marian", "activation": "silu", "logits_bias": True}
NLLB = {"num_layers": 12, "d_model": 1024, "num_heads": 16, "d_ff": 4096, "pre_norm": True}
TINY = {"num_layers": 4, "d_model": 128, "num_heads": 4, "d_ff": 256, **MARIAN}


class Workload(NamedTuple):
    """Random weights of a shape; the sources are made up or, with real pieces, those of --text."""

    batch: int
    length: int  # Of the targets.
    shape: dict = BASE
    vocab_size: int = VOCAB_SIZE
    text: bool = False
    shortlist: bool = False


WORKLOADS = {
    "base-b32": Workload(32, 40),
    "base-b1": Workload(1, 40),
    "base-b32-160": Workload(32, 160),
    "tiny-text": None,
    "tiny-text-early": None,
    "opus-b32": Workload(32, 25, BASE | MARIAN, 58_101, True, True),
    "opus-b1": Workload(1, 25, BASE | MARIAN, 58_101, True, True),
    "student-4+1": Workload(32, 25, TINY | {"num_decoder_layers": 1}, 32_000, True, True),
    "student-4+2": Workload(32, 25, TINY | {"num_decoder_layers": 2}, 32_000, True, True),
    "student-ssru": Workload(32, 25, TINY | {"decoder_sublayers": "rcf" * 2}, 32_000, True, True),
    "nllb-b1": Workload(1, 25, NLLB, 256_206, True),
}
BY_HAND = "nllb-b1"
# As the documentation says for servers.
SERVER = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}
TRANSFORMERS = ("base-b32", "base-b1", "opus-b32", "opus-b1", "tiny-text")
# By peer: the package it needs, its precisions, and the workloads that it runs; None means all.
PEERS = {
    "keras_mt": ("keras_mt", ("float32", "bfloat16", "litert_int8"), None),
    "ctranslate2": ("ctranslate2", None, None),
    "transformers": ("transformers", ("float32", "bfloat16"), TRANSFORMERS),
    "kerashub": ("keras_hub", ("float32", "mixed_bfloat16"), ("base-b32", "base-b1")),
}


def systems(workload):
    """The systems that run a workload, and the package of each."""
    found = {}
    for peer, (package, precisions, workloads) in PEERS.items():
        if workloads and workload not in workloads:
            continue
        if peer == "ctranslate2" and workload == "student-ssru":
            continue
        each = precisions or ctranslate2_precisions()
        has_shortlist = WORKLOADS[workload] and WORKLOADS[workload].shortlist
        if has_shortlist and peer != "transformers":
            each = [f"{precision}{suffix}" for suffix in ("", "-shortlist") for precision in each]
        for precision in each:
            is_litert = precision.startswith("litert")
            found[f"{peer}-{precision}"] = "ai-edge-litert" if is_litert else package
    return found


def ctranslate2_precisions():
    """Its precisions on this processor; "int8_float32" is what "int8" means for our weights."""
    if not harness.installed("ctranslate2"):
        return ["float32"]  # To be named and left out.
    import ctranslate2

    return sorted(ctranslate2.get_supported_compute_types("cpu") - {"int8_float32"})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    by_default = [name for name in WORKLOADS if name != BY_HAND]
    parser.add_argument("--workloads", default=",".join(by_default))
    parser.add_argument("--quick", action="store_true", help="Two rounds of one layout.")
    parser.add_argument("--peers", default=",".join(PEERS), help="Only these peers or systems.")
    parser.add_argument("--run", type=Path, help="Trained run folder, for tiny-text.")
    parser.add_argument("--text", type=Path, help="File of sentences, for all but base.")
    parser.add_argument("--references", type=Path, help="Those of --text, for tiny-text's BLEU.")
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker, arguments.text)
        return
    workloads = harness.names(arguments.workloads, WORKLOADS, "workload")
    known = {x.removesuffix("-shortlist"): None for each in WORKLOADS for x in systems(each)}
    arguments.peers = harness.names(arguments.peers, [*PEERS, *known], "peer")
    with tempfile.TemporaryDirectory() as folder:
        for workload in workloads:
            if missing := missing_options(workload, arguments):
                print(f"{workload}: left out, since it needs {missing}", file=sys.stderr)
                continue
            prepare(workload, Path(folder), arguments.run, arguments.text)
            for name, variables in harness.instructions():
                results = measure(workload, folder, arguments, variables | SERVER)
                if WORKLOADS[workload] is None and arguments.references:
                    add_bleu(results, arguments.references)
                report(workload, results, arguments.output, name)


def missing_options(workload, arguments):
    """The options that a workload lacks."""
    if WORKLOADS[workload] is None:
        return "" if arguments.run and arguments.text else "--run and --text"
    return "--text" if WORKLOADS[workload].text and not arguments.text else ""


def prepare(workload, folder, *paths):
    """Writes the exports and CTranslate2's model, in a process whose memory is not measured."""
    code = "import decode, pathlib, sys; decode.write_models(*sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", code, workload, folder, *(p.resolve() if p else "" for p in paths)],
        check=True,
        cwd=Path(__file__).parent,
        env=harness.ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )


def measure(workload, folder, arguments, variables):
    """For each system the seconds of its rounds, its peak memory and what it translated."""
    commands, without_amx = {}, "ONEDNN_MAX_CPU_ISA" in variables
    chosen = {
        system: package
        for system, package in systems(workload).items()
        if {system.partition("-")[0], system.removesuffix("-shortlist")} & {*arguments.peers}
        and not (without_amx and package == "ai-edge-litert")
        and (package != "transformers" or Path(folder, workload, "huggingface").exists())
    }
    for system in harness.present(chosen):
        commands[system] = [sys.executable, __file__, "--worker", system, workload, str(folder)]
        if WORKLOADS[workload] is None:
            commands[system] += ["--text", str(arguments.text.resolve())]
    # In one process, Python's lock would block PyTorch's callers.
    apart = [system for system in commands if system.startswith("transformers")]
    layouts, rounds = harness.LAYOUTS, arguments.rounds
    if arguments.quick:
        layouts, rounds = dict([*layouts.items()][:1]), 2
    results = harness.take_turns(commands, rounds, layouts, apart, **variables)
    for system, found in results.items():
        for result in found:
            result["disk"] = size_on_disk(Path(folder) / workload, system)
    return results


def size_on_disk(folder, system):
    """The bytes of what a system loads; None if it makes its own random weights."""
    kind, _, precision = system.partition("-")
    if kind not in ("keras_mt", "ctranslate2"):
        return None
    files = (folder / model_name(kind, precision)).rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file())


def model_name(kind, precision):
    """The folder of a system's model; int8_bfloat16 stores int8."""
    if kind == "keras_mt":
        return precision
    stored, dash, shortlist = precision.partition("-")
    return f"{kind}-{stored.partition('_')[0]}{dash}{shortlist}"


def add_bleu(results, references):
    """The cased BLEU of what each system translated."""
    import sacrebleu

    references = [references.read_text(encoding="utf-8").splitlines()]
    for found, *_ in results.values():
        found["bleu"] = round(sacrebleu.corpus_bleu(found["translations"], references).score, 2)


def report(workload, results, output, instructions="all"):
    if WORKLOADS[workload] is None and "keras_mt-float32" in results:
        ours = results["keras_mt-float32"][0]["translations"]
        for system, (found, *_) in results.items():
            same = [a == b for a, b in zip(found["translations"], ours, strict=True)]
            found["agreement"] = agreement = round(statistics.mean(same), 4)
            print(f"{workload}: {agreement:.1%} of {system}'s are ours in float32", file=sys.stderr)
            if system == "ctranslate2-float32" and agreement < 0.99:
                sys.exit(f"{workload}: the two do not do the same work: no figures.")
    packages = ("tensorflow", "keras", "ai-edge-litert", "ctranslate2", "transformers", "torch")
    packages = (*packages, "keras-hub")
    harness.report("decode", workload, results, "sentences/s", packages, output, instructions)


def write_models(workload, folder, run, text):
    """The models that the workers of a workload load."""
    import keras_mt
    from keras_mt.alignment import Shortlist

    folder, shape = Path(folder), WORKLOADS[workload]
    if shape is None:
        translator = keras_mt.Translator.load(run)
        model, tokenizer, options = translator.models[0], translator.tokenizer, {}
        if workload == "tiny-text-early":
            options["early_stopping"] = True
    else:
        if shape.text:
            sources = Path(text).read_text(encoding="utf-8").splitlines()[: shape.batch]
            tokenizer = padded_tokenizer(text, folder / "padded.model", shape.vocab_size)
        else:
            tokenizer, words = random_tokenizer()
            numbers = range(SOURCE_LENGTH - 1)
            sources = [" ".join(words[32 * j + i] for j in numbers) for i in range(32)]
        (folder / "text").write_text("\n".join(sources), encoding="utf-8")
        model = random_model(shape)
        options = {"min_length": shape.length, "max_length": shape.length}
    tokenizer.save(folder / "tokenizer.model")
    write(folder / workload, "", model, tokenizer, **options)
    if shape and shape.shortlist:
        always = range(4, 204)
        shortlist = Shortlist(zipf(shape.vocab_size, 50), always, tokenizer.fingerprint)
        write(folder / workload, "-shortlist", model, tokenizer, shortlist=shortlist, **options)


def write(folder, suffix, model, tokenizer, **options):
    import keras_mt
    import keras_mt.convert

    translator = keras_mt.Translator(model, tokenizer, beam_size=BEAM_SIZE, **options)
    default = {"signatures": ["serving_default"]}
    translator.export(folder / f"float32{suffix}", **default)
    translator.export(folder / f"bfloat16{suffix}", dtype="bfloat16", **default)
    if harness.installed("ai-edge-litert"):
        keras_mt.convert.export(translator, folder / f"litert_int8{suffix}", "litert")
    if harness.installed("ctranslate2") and not model.get_config()["decoder_sublayers"]:
        for stored in {precision.partition("_")[0] for precision in ctranslate2_precisions()}:
            path = folder / model_name("ctranslate2", f"{stored}{suffix}")
            quantization = None if stored in ("float32", "bfloat16") else stored
            keras_mt.convert.export(translator, path, "ctranslate2", quantization=quantization)
    if folder.name in TRANSFORMERS and not suffix and harness.installed("transformers"):
        with contextlib.suppress(ValueError):  # Not every model of ours is a MarianMT.
            keras_mt.convert.export(translator, folder / "huggingface", "huggingface")


def random_model(workload):
    import keras

    import keras_mt

    keras.utils.set_random_seed(0)
    model = keras_mt.Transformer(workload.vocab_size, **workload.shape, dropout=0.0, max_length=256)
    for weight in model.weights:
        if len(weight.shape) == 1:  # Biases and norms that no optimizer can fold away.
            weight.assign_add(0.05 * keras.random.normal(weight.shape))
    return model


def zipf(vocab_size, count):
    """For each token `count` tokens, int32, drawn by Zipf's law."""
    import numpy as np

    law = 1 / np.arange(2.7, vocab_size - 4)
    chosen = np.random.default_rng(0).choice(law.size, (vocab_size, count), p=law / law.sum())
    return (chosen + 4).astype("int32")


def padded_tokenizer(text, path, vocab_size, pieces=VOCAB_SIZE):
    """A tokenizer of a text's pieces, with pieces that no text has up to a vocabulary's size."""
    from sentencepiece import sentencepiece_model_pb2

    from keras_mt import Tokenizer

    lines = Path(text).read_text(encoding="utf-8").splitlines()
    Tokenizer.train(lines, pieces).save(path)
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    for i in range(vocab_size - len(model.pieces)):
        model.pieces.add(piece=f"\u2581\uf8ff{i}", score=-99.0)
    model.trainer_spec.vocab_size = vocab_size
    path.write_bytes(model.SerializeToString())
    return Tokenizer.load(path)


def random_tokenizer():
    """A vocabulary of exactly 8,000 pieces over made-up words, and words that are one piece."""
    from random import Random

    from keras_mt import Tokenizer

    random = Random(1)
    syllables = [c + v for c in "bcdfgklmnprstvz" for v in "aeiou"]
    words = ["".join(random.choices(syllables, k=random.choice((2, 3)))) for _ in range(12_000)]
    texts = (" ".join(random.choices(words, k=20)) for _ in range(30_000))
    tokenizer = Tokenizer.train(texts, VOCAB_SIZE)
    words = list(dict.fromkeys(words))
    lengths = tokenizer.tokenize(words).row_lengths().numpy()
    return tokenizer, [w for w, length in zip(words, lengths, strict=True) if length == 1]


def work(system, workload, folder, text):
    """Runs in the worker's process: one translation of the workload for each line asked for."""
    folder = Path(folder)
    batch, length = WORKLOADS[workload][:2] if WORKLOADS[workload] else (None, None)
    path = folder / "text" if length else text
    sentences = path.read_text(encoding="utf-8").splitlines()[:batch]
    kind, _, precision = system.partition("-")
    translate = LOADERS[kind](folder, workload, precision, sentences, length)

    def run():
        translations = translate()
        found = None if length else translations
        return {"amount": len(sentences), "translations": found}

    harness.serve(run)


def load_keras_mt(folder, workload, precision, sentences, length):
    """The export in a plain TensorFlow session, as TensorFlow Serving runs it; or LiteRT's."""
    if precision.startswith("litert"):
        return load_litert(folder / workload / precision, sentences)
    import tensorflow.compat.v1 as tf
    import tensorflow_text  # noqa: F401 - registers the ops that the SavedModel holds

    tf.disable_eager_execution()
    session = tf.Session()
    meta_graph = tf.saved_model.load(session, ["serve"], str(folder / workload / precision))
    signature = meta_graph.signature_def["serving_default"]
    text, translations = signature.inputs["text"].name, signature.outputs["translations"].name
    session.run(translations, {text: []})  # Parallel callers would each optimize the graph.

    def translate():
        found = {}
        for batch in batches(sentences):
            outputs = session.run(translations, {text: [sentences[i] for i in batch]})
            found.update(zip(batch, outputs[:, 0], strict=True))
        return [found[i].decode("utf-8") for i in range(len(sentences))]

    return translate


def load_litert(path, sentences):
    """An export for LiteRT, as a program translates with it that has no TensorFlow and no Keras."""
    sys.modules.update(tensorflow=None, keras=None)  # As if they were not installed.
    import keras_mt

    callers, threads = harness.own_layout()
    # A translator runs as many batches side by side as it may use cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: callers * threads])
    translator = keras_mt.ExportedTranslator(path)
    return lambda: translator(sentences)


def load_ctranslate2(folder, workload, precision, sentences, length):
    import ctranslate2
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    callers, threads = harness.own_layout()
    path = folder / workload / model_name("ctranslate2", precision)
    precision, _, shortlist = precision.partition("-")
    translator = ctranslate2.Translator(
        str(path),
        compute_type=precision,
        intra_threads=threads,
        inter_threads=callers,
    )
    options = {"beam_size": BEAM_SIZE, "max_batch_size": TEXT_BATCH, "use_vmap": bool(shortlist)}
    options["suppress_sequences"] = [["<pad>"], ["<unk>"], ["<s>"]]
    if length:
        options.update(min_decoding_length=length, max_decoding_length=length)
    elif workload == "tiny-text":  # By default 3% of its translations differ.
        options["patience"] = 1.5

    def translate():
        pieces = processor.encode(sentences, out_type=str)
        found = translator.translate_batch(pieces, **options)
        return processor.decode([result.hypotheses[0] for result in found])

    return translate


def load_transformers(folder, workload, precision, sentences, length):
    import torch
    from transformers import AutoTokenizer, MarianMTModel

    torch.set_num_threads(harness.own_layout()[1])
    path = folder / workload / "huggingface"
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = MarianMTModel.from_pretrained(path, dtype=getattr(torch, precision)).eval()
    options = {"num_beams": BEAM_SIZE, "do_sample": False}
    if length:
        model.generation_config.forced_eos_token_id = None
        options |= {"max_new_tokens": length, "min_new_tokens": length}

    def translate():
        found = {}
        for batch in batches(sentences):
            inputs = tokenizer([sentences[i] for i in batch], padding=True, return_tensors="pt")
            with torch.inference_mode():
                outputs = model.generate(**inputs, **options)
            found.update(
                zip(batch, tokenizer.batch_decode(outputs, skip_special_tokens=True), strict=True)
            )
        return [found[i] for i in range(len(sentences))]

    return translate


def load_kerashub(folder, workload, precision, sentences, length):
    """KerasHub's layers with the caches they offer, and its beam sampler, compiled by XLA."""
    import keras
    import keras_hub
    import numpy as np
    import tensorflow as tf
    from keras import ops

    keras.config.set_dtype_policy(precision)
    dtype = keras.config.dtype_policy().compute_dtype
    layers, heads, width = BASE["num_layers"], BASE["num_heads"], BASE["d_model"]
    embedding = keras_hub.layers.TokenAndPositionEmbedding(VOCAB_SIZE, 64, width)
    source = keras.Input((None,), dtype="int32")
    memory = embedding(source)
    for _ in range(layers):
        memory = keras_hub.layers.TransformerEncoder(BASE["d_ff"], heads)(memory)
    encoder = keras.Model(source, memory)
    blocks = [keras_hub.layers.TransformerDecoder(BASE["d_ff"], heads) for _ in range(layers)]
    for block in blocks:
        block(keras.Input((None, width)), keras.Input((None, width)))

    def decode(hidden, memory, own, cross, index, cross_index):
        caches = []
        for i, block in enumerate(blocks):
            hidden, *cache = block(
                hidden,
                memory,
                self_attention_cache=own[:, i],
                self_attention_cache_update_index=index,
                cross_attention_cache=cross[:, i],
                cross_attention_cache_update_index=cross_index,
            )
            caches.append(cache)
        return hidden, *(ops.stack(side, axis=1) for side in zip(*caches, strict=True))

    def generate(source):
        memory = encoder(source)
        batch = ops.shape(source)[0]
        prompt = ops.zeros((batch, length + 1), "int32")
        own, cross = (
            ops.zeros((batch, layers, 2, positions, heads, width // heads), dtype)
            for positions in (length + 1, SOURCE_LENGTH)
        )
        _, own, cross = decode(embedding(prompt), memory, own, cross, 0, 0)
        memory = ops.repeat(memory, BEAM_SIZE, axis=0)

        def next_logits(prompt, cache, index):
            token = ops.slice(prompt, (0, index - 1), (ops.shape(prompt)[0], 1))
            hidden = embedding(token, start_index=index - 1)
            hidden, own, _ = decode(hidden, memory, *cache, index - 1, None)
            logits = embedding.token_embedding(hidden, reverse=True)
            return logits[:, 0], None, (own, cache[1])

        sampler = keras_hub.samplers.BeamSampler(num_beams=BEAM_SIZE)
        return sampler(next_logits, prompt, cache=(own, cross), index=1, stop_token_ids=None)

    function = tf.function(generate, jit_compile=True)
    shape = (len(sentences), SOURCE_LENGTH)
    tokens = tf.constant(np.random.default_rng(1).integers(2, VOCAB_SIZE, shape, "int32"))

    def translate():
        function(tokens).numpy()

    return translate


def batches(sentences):
    """Indices of sentences, in batches of similar length."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    return [order[i : i + TEXT_BATCH] for i in range(0, len(order), TEXT_BATCH)]


LOADERS = {
    "keras_mt": load_keras_mt,
    "ctranslate2": load_ctranslate2,
    "transformers": load_transformers,
    "kerashub": load_kerashub,
}

if __name__ == "__main__":
    main()
