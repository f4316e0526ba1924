"""Training speed on one GPU: keras_mt by Keras on JAX, next to transformers on torch.

usage: python benchmarks/gpu.py [--workloads base,big] [--rounds 5] [--output FILE]

256 x 32 tokens on each side, vocabulary 32,000, dropout 0.1, label smoothing 0.1, Adam, bfloat16.
keras_mt trains by `fit`, which XLA compiles; transformers' Marian by torch.compile with CUDA
graphs and fused Adam. Each has a process of its own, which warms up in two rounds, and they take
turns. The value of a JSON line is the rate at the median time of the rounds. Needs keras, jax,
torch, transformers and one GPU, not TensorFlow.
"""

import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import train

BIG = {"num_layers": 6, "d_model": 1024, "num_heads": 16, "d_ff": 4096}
SIZES = {"tiny": train.SIZES["tiny"], "base": train.SIZES["base"], "big": BIG}
SYSTEMS = ["keras_mt-mixed_bfloat16", "transformers-bfloat16"]
VOCAB_SIZE, ROWS, LENGTH, STEPS, SMOOTHING = 32_000, 256, 32, 50, 0.1
WARM_UP = 2  # Rounds: the first one compiles.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{Path(__file__).parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    "KERAS_BACKEND": "jax",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default="base,big", help=f"Of {', '.join(SIZES)}.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve(*arguments.worker)
        return
    workloads = arguments.workloads.split(",")
    if arguments.rounds < 1 or not {*workloads} <= {*SIZES}:
        parser.error(f"give 1 round or more, and workloads of {', '.join(SIZES)}")
    for workload in workloads:
        for line in measured(workload, arguments.rounds):
            print(json.dumps(line))
            if arguments.output:
                with open(arguments.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def measured(workload, rounds):
    """A line for each system, whose processes take turns."""
    workers = {
        system: subprocess.Popen(
            [sys.executable, __file__, "--worker", system, workload],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for system in SYSTEMS
    }
    results = {system: [] for system in SYSTEMS}
    for number in range(rounds + WARM_UP):
        for system, worker in workers.items():
            with contextlib.suppress(BrokenPipeError):  # It has failed.
                print("run", file=worker.stdin, flush=True)
            line = next((x for x in worker.stdout if x.startswith("result ")), None)
            if line is None:
                sys.exit(f"{system} failed; its messages are above.")
            if number >= WARM_UP:
                results[system].append(json.loads(line.removeprefix("result ")))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    packages = ("jax", "keras", "torch", "transformers")
    common = {
        "benchmark": "gpu",
        "workload": workload,
        "unit": "target tokens/s",
        "date": str(datetime.date.today()),
        "versions": {name: metadata.version(name) for name in packages},
    }
    for system, found in results.items():
        seconds = [each["seconds"] for each in found]
        rate = ROWS * LENGTH * STEPS / statistics.median(seconds)
        yield {
            **common,
            "system": system,
            "machine": found[0]["device"],
            "value": round(rate),
            "seconds": [round(each, 4) for each in seconds],
        }


def serve(system, workload):
    kind, _, precision = system.partition("-")
    run, device = {"keras_mt": keras_mt, "transformers": transformers}[kind](
        SIZES[workload], precision
    )
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        result = {"seconds": time.perf_counter() - start, "device": device}
        print("result", json.dumps(result), flush=True)


def keras_mt(size, precision):
    import jax
    import keras

    from keras_mt import Transformer
    from keras_mt.losses import CrossEntropy

    keras.config.set_dtype_policy(precision)
    model = Transformer(VOCAB_SIZE, **size, dropout=train.DROPOUT, max_length=LENGTH)
    adam = keras.optimizers.Adam(1e-4, 0.9, 0.98, epsilon=1e-9)
    model.compile(adam, CrossEntropy(label_smoothing=SMOOTHING), jit_compile=True)
    shape = (2, ROWS * STEPS, LENGTH)
    source, target = np.random.default_rng(0).integers(4, VOCAB_SIZE, shape, dtype=np.int32)

    def run():
        inputs = {"source": source, "target": target}
        model.fit(inputs, target, batch_size=ROWS, shuffle=False, verbose=0)

    return run, jax.devices()[0].device_kind


def transformers(size, precision):
    import torch

    model = train.marian(size, VOCAB_SIZE).cuda().train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), fused=True)
    loss_function = torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    shape = (STEPS, 2, ROWS, LENGTH)
    batches = torch.randint(4, VOCAB_SIZE - 1, shape, device="cuda")
    mask = torch.ones_like(batches[0, 0])

    @torch.compile(mode="reduce-overhead")  # With CUDA graphs, twice as fast as without for base.
    def loss_of(source, target):
        with torch.autocast("cuda", getattr(torch, precision)):
            logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
            return loss_function(logits.reshape(-1, VOCAB_SIZE), target.reshape(-1))

    def run():
        for source, target in batches:
            optimizer.zero_grad()
            loss_of(source, target).backward()
            optimizer.step()
        torch.cuda.synchronize()

    return run, torch.cuda.get_device_name()


if __name__ == "__main__":
    main()
