"""Training speed of keras_mt next to other systems.

usage: python benchmarks/train.py [--rounds N] [--workloads NAME,...] [--data FOLDER]

tiny, base: 64 x 32 tokens on each side, vocabulary 8000, dropout 0.1, label smoothing 0.1, Adam;
Keras models through `fit`. multi30k: `tiny` on keras_mt's own batches of 4096 tokens, from a folder
of en and de such as Multi30k; it also reports the share of padding, and how many times as fast the
input pipeline alone is. By name alone, opus: base with the 58,101 pieces of OPUS-MT, whose logits
take most of the memory; opus-accumulated: the same 64 rows in four batches that make one update.

Each system is PEER-PRECISION, in each precision that it has; KerasHub is compiled by XLA. Each is
tried on one thread and on all. The systems then take turns for N rounds, each in the better of the
two layouts, which `threads` names. On a processor with AMX everything is measured again without it.
Prints a table, and a JSON line for each system, whose `value` is the median of the rounds; the line
best/best has the ratio of our best to the best of all peers. For base it also prints what share of
the machine's matrix-product rate the training step reaches. `pip install .[peers]` installs the
peers; missing ones are named and left out.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import harness

SIZES = {
    "tiny": {"num_layers": 4, "d_model": 128, "num_heads": 4, "d_ff": 256},
    "base": {"num_layers": 6, "d_model": 512, "num_heads": 8, "d_ff": 2048},
}
SIZES |= {"opus": SIZES["base"], "opus-accumulated": SIZES["base"]}
VOCAB_SIZE, ROWS, LENGTH, DROPOUT = 8000, 64, 32, 0.1
VOCAB_SIZES = {"opus": 58_101, "opus-accumulated": 58_101}
STEPS = {"tiny": 16, "base": 3, "opus": 2, "opus-accumulated": 2, "multi30k": 40}
ACCUMULATED = {"opus-accumulated": 4}
SYSTEMS = {
    "keras_mt-float32": "keras_mt",
    "keras_mt-mixed_bfloat16": "keras_mt",
    "kerashub-float32": "keras_hub",
    "kerashub-mixed_bfloat16": "keras_hub",
    "transformers-float32": "transformers",
    "transformers-bfloat16": "transformers",
}
# Several callers would train several models.
LAYOUTS = {name: each for name, each in harness.LAYOUTS.items() if each[0] == 1}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workloads", default="tiny,base,multi30k")
    parser.add_argument("--data", type=Path, help="Folder of en and de, for multi30k.")
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker, arguments.data)
        return
    for workload in harness.names(arguments.workloads, STEPS, "workload"):
        systems = SYSTEMS
        if workload == "multi30k":
            if not arguments.data:
                print("multi30k: left out, since it needs --data", file=sys.stderr)
                continue
            systems = {name: package for name, package in SYSTEMS.items() if package == "keras_mt"}
        commands = {
            system: [sys.executable, __file__, "--worker", system, workload]
            + (["--data", str(arguments.data.resolve())] if arguments.data else [])
            for system in harness.present(systems)
        }
        # A training step has many small operations that can run in parallel.
        pools = {"TF_NUM_INTEROP_THREADS": str(harness.CORES)}
        for name, variables in harness.instructions():
            results = harness.take_turns(commands, arguments.rounds, LAYOUTS, **pools, **variables)
            packages = ("tensorflow", "keras", "transformers", "torch", "keras-hub")
            harness.report(
                "train", workload, results, "target tokens/s", packages, arguments.output, name
            )
            for system, rounds in results.items():
                if note := rounds[-1].get("note"):
                    print(f"{system}: {note}")


def work(system, workload, data):
    kind, _, precision = system.partition("-")
    harness.serve(
        {"keras_mt": keras_mt, "kerashub": kerashub, "transformers": transformers}[kind](
            workload, precision, data
        )
    )


def keras_mt(workload, precision, data):
    import keras

    from keras_mt import Transformer
    from keras_mt.training import compile_for_translation

    keras.config.set_dtype_policy(precision)
    if workload == "multi30k":
        return real_batches(data)
    vocab_size = VOCAB_SIZES.get(workload, VOCAB_SIZE)
    model = Transformer(vocab_size, **SIZES[workload], dropout=DROPOUT, max_length=LENGTH)
    compile_for_translation(model, gradient_accumulation_steps=ACCUMULATED.get(workload, 1))
    model.compile(model.optimizer, model.loss, jit_compile=False)  # Without metrics, as the peers.
    run = fitted(model, workload, lambda source, target: {"source": source, "target": target})
    if workload != "base":
        return run
    operations = 6 * products_per_token(**SIZES[workload]) * ROWS * LENGTH * STEPS[workload]

    def run_and_compare():
        start = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - start
        # Measured here, when no other system is at work.
        share = operations / product_rate(keras.config.dtype_policy().compute_dtype) / seconds
        note = f"matrix products at {share:.0%} of the machine's rate for them"
        return {**result, "seconds": seconds, "note": note}

    return run_and_compare


def real_batches(data):
    import keras_mt
    from keras_mt.data import Batches, load_corpus
    from keras_mt.training import compile_for_translation

    pairs = load_corpus(data, "en", "de", "train")
    texts = (text for pair in pairs.as_numpy_iterator() for text in pair)
    tokenizer = keras_mt.Tokenizer.train(texts, vocab_size=VOCAB_SIZE)
    batches = Batches(pairs, tokenizer, tokens_per_batch=4096, seed=1)
    model = keras_mt.Transformer.from_preset("tiny", vocab_size=tokenizer.vocab_size)
    compile_for_translation(model)
    steps, done = STEPS["multi30k"], 0

    def run():
        nonlocal done
        start = time.perf_counter()
        model.fit(batches.stream(done), steps_per_epoch=steps, verbose=0)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        labels = [labels for _, labels in batches.stream(done).take(steps).as_numpy_iterator()]
        alone = time.perf_counter() - start
        done += steps
        return {
            "amount": int(sum((each != 0).sum() for each in labels)),
            "seconds": seconds,
            "note": f"{batches.counts.padding:.1%} padding; the input alone is "
            f"{seconds / alone:.0f} times as fast",
        }

    return run


def kerashub(workload, precision, data):
    import keras
    import keras_hub
    from keras import ops

    keras.config.set_dtype_policy(precision)
    size = SIZES[workload]
    vocab_size = VOCAB_SIZES.get(workload, VOCAB_SIZE)
    embedding = keras_hub.layers.TokenAndPositionEmbedding(
        vocab_size, LENGTH, size["d_model"], tie_weights=True
    )
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    memory, hidden = embedding(source), embedding(target)
    for _ in range(size["num_layers"]):
        memory = keras_hub.layers.TransformerEncoder(
            size["d_ff"], size["num_heads"], dropout=DROPOUT
        )(memory)
    for _ in range(size["num_layers"]):
        hidden = keras_hub.layers.TransformerDecoder(
            size["d_ff"], size["num_heads"], dropout=DROPOUT
        )(hidden, memory)
    model = keras.Model([source, target], embedding.token_embedding(hidden, reverse=True))

    def loss(labels, logits):
        labels = ops.one_hot(ops.cast(labels, "int32"), vocab_size)
        return keras.losses.categorical_crossentropy(
            labels, logits, from_logits=True, label_smoothing=0.1
        )

    steps = ACCUMULATED.get(workload)
    adam = keras.optimizers.Adam(1e-4, 0.9, 0.98, gradient_accumulation_steps=steps)
    model.compile(adam, loss, jit_compile=True)
    return fitted(model, workload, lambda source, target: (source, target))


def fitted(model, workload, inputs):
    """A function that trains a Keras model by `fit`."""
    import numpy as np
    import tensorflow as tf

    shape = (2, ROWS * STEPS[workload], LENGTH)
    vocab_size = VOCAB_SIZES.get(workload, VOCAB_SIZE)
    source, target = np.random.default_rng(0).integers(2, vocab_size, shape, dtype=np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((inputs(source, target), target))
    dataset = dataset.batch(ROWS // ACCUMULATED.get(workload, 1))
    options = tf.data.Options()
    options.autotune.enabled = False  # The tuner would hold up the end of each `fit`.
    dataset = dataset.cache().with_options(options)

    def run():
        model.fit(dataset, verbose=0)
        return {"amount": target.size}

    return run


def transformers(workload, precision, data):
    import torch

    torch.set_num_threads(harness.own_layout()[1])
    size, vocab_size = SIZES[workload], VOCAB_SIZES.get(workload, VOCAB_SIZE)
    parts = ACCUMULATED.get(workload, 1)
    model = marian(size, vocab_size).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98))
    loss_function = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def run():
        for _ in range(STEPS[workload]):
            optimizer.zero_grad()
            for _ in range(parts):
                source, target = torch.randint(2, vocab_size - 1, (2, ROWS // parts, LENGTH))
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                    logits = model(
                        input_ids=source,
                        attention_mask=torch.ones_like(source),
                        decoder_input_ids=target,
                    ).logits
                    loss = loss_function(logits.reshape(-1, vocab_size), target.reshape(-1))
                (loss / parts).backward()
            optimizer.step()
        return {"amount": ROWS * LENGTH * STEPS[workload]}

    return run


def marian(size, vocab_size):
    """transformers' model of a size, whose last token pads."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=size["d_model"],
        encoder_layers=size["num_layers"],
        decoder_layers=size["num_layers"],
        encoder_ffn_dim=size["d_ff"],
        decoder_ffn_dim=size["d_ff"],
        encoder_attention_heads=size["num_heads"],
        decoder_attention_heads=size["num_heads"],
        activation_function="relu",
        max_position_embeddings=512,
        pad_token_id=vocab_size - 1,
        eos_token_id=0,
        decoder_start_token_id=vocab_size - 1,
        scale_embedding=True,
        dropout=DROPOUT,
    )
    return MarianMTModel(config)


def products_per_token(num_layers, d_model, num_heads, d_ff):
    """Multiplications in matrix products for each target token, with as many source tokens."""
    encoder = 4 * d_model**2 + 2 * d_model * d_ff + 2 * LENGTH * d_model
    decoder = 8 * d_model**2 + 2 * d_model * d_ff + 4 * LENGTH * d_model
    return num_layers * (encoder + decoder) + d_model * VOCAB_SIZE


def product_rate(dtype):
    """Operations per second of a large matrix product."""
    import tensorflow as tf

    a, b = (tf.cast(tf.random.normal((2048, 2048)), dtype) for _ in range(2))
    multiply = tf.function(lambda: tf.matmul(a, b))
    multiply()
    seconds = []
    for _ in range(9):
        start = time.perf_counter()
        multiply().numpy()
        seconds.append(time.perf_counter() - start)
    return 2 * 2048**3 / statistics.median(seconds)


if __name__ == "__main__":
    main()
