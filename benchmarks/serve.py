"""How an export behaves as a server runs it: its first request, under load, when replaced.

usage: python benchmarks/serve.py SAVED_MODEL --text FILE [--workloads NAME,...] [--minutes M]

Workloads:
    first         The first request of a fresh session, with warm-up requests and without.
    load          --callers callers for --minutes minutes, one text a call; each answer is compared
                  with the one that the text gets alone.
    load-batched  The same through TensorFlow's batch op, which puts simultaneous calls into
                  one batch, by the scheduler that TensorFlow Serving uses.
    swap          Versions are copied in and loaded while callers ask, and old ones closed. Memory
                  is measured before and after the C library's allocator, which keeps freed memory,
                  is told to return it.

FILE has a text a line. Prints a table, and a JSON line for each workload. The variables
TF_NUM_INTRAOP_THREADS and TF_NUM_INTEROP_THREADS set the server's threads.
"""

import argparse
import ctypes
import datetime
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import harness
from robustness import memory

WORKLOADS = ("first", "load", "load-batched", "swap")
ROUNDS = 3


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("saved_model", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--minutes", type=float, default=10, help="Duration of each load.")
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--swaps", type=int, default=4)
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    parser.add_argument("--worker", choices=["warm", "cold"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    workloads = harness.names(arguments.workloads, WORKLOADS, "workload")
    texts = [line for line in arguments.text.read_text(encoding="utf-8").split("\n") if line]
    if arguments.worker:
        print(json.dumps(first_request(arguments.saved_model, texts, arguments.worker == "warm")))
        return
    for workload in workloads:
        if workload == "first":
            result = first_requests(sys.argv[1:])
        elif workload in ("load", "load-batched"):
            result = load(arguments, texts, workload == "load-batched")
        else:
            result = swap(arguments, texts)
        for name, value in result.items():
            print(f"{workload:14} {name:32} {value}")
        line = {
            "benchmark": "serve",
            "workload": workload,
            "threads in an operation": os.environ.get("TF_NUM_INTRAOP_THREADS", "all"),
            **result,
            "date": datetime.date.today().isoformat(),
            "machine": harness.machine(),
        }
        harness.write_line(line, arguments.output)


class Session:
    """An export as a server holds it, a graph and a session, which can be closed."""

    def __init__(self, saved_model):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 - registers the tokenizer's ops

        self.graph = tf.Graph()
        with self.graph.as_default():
            self.session = tf.compat.v1.Session()
            loaded = tf.compat.v1.saved_model.load(self.session, ["serve"], str(saved_model))
        self.signatures = loaded.signature_def

    def __call__(self, inputs, signature="serving_default"):
        info = self.signatures[signature]
        return self.session.run(
            {name: output.name for name, output in info.outputs.items()},
            {info.inputs[name].name: value for name, value in inputs.items()},
        )

    def warm_up(self, saved_model):
        import tensorflow as tf
        from tensorflow_serving.apis import prediction_log_pb2

        path = saved_model / "assets.extra" / "tf_serving_warmup_requests"
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
            inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
            self(inputs, request.model_spec.signature_name)


def first_requests(options):
    """Median seconds of the first request, warm and cold, from processes in turn."""
    seconds = {"warm": [], "cold": []}
    for _ in range(ROUNDS):
        for kind, found in seconds.items():
            command = [sys.executable, __file__, *options, "--worker", kind]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found.append(json.loads(output.splitlines()[-1]))
    warm, cold = (statistics.median(each["first"] for each in found) for found in seconds.values())
    return {
        "first request after warm-up, s": round(warm, 4),
        "first request without, s": round(cold, 4),
        "times as fast": round(cold / warm, 1),
        "warm-up, s": round(statistics.median(each["warm-up"] for each in seconds["warm"]), 1),
    }


def first_request(saved_model, texts, warm):
    session = Session(saved_model)
    start = time.perf_counter()
    if warm:
        session.warm_up(saved_model)
    ready = time.perf_counter()
    session({"text": texts[:1]})
    return {"warm-up": ready - start, "first": time.perf_counter() - ready}


def load(arguments, texts, batched):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the tokenizer's ops

    loaded = tf.saved_model.load(str(arguments.saved_model))  # Kept, since it holds the variables.
    signature = loaded.signatures["serving_default"]

    def translate(text):
        outputs = signature(text=text)
        return outputs["translations"], outputs["scores"]

    if batched:  # As batching.config has it.
        translate = tf.nondifferentiable_batch_function(
            num_batch_threads=2, max_batch_size=64, batch_timeout_micros=2000,
            max_enqueued_batches=100,
        )(translate)  # fmt: skip
    translate = tf.function(translate, input_signature=[tf.TensorSpec([None], tf.string)])
    expected = [signature(text=tf.constant([text]))["translations"].numpy()[0, 0] for text in texts]
    translate(tf.constant(texts[:1]))  # As a server does before it answers.
    seconds, errors, others = [], [], []
    ends = time.perf_counter() + 60 * arguments.minutes

    def call(caller):
        choose, own = random.Random(caller), []
        while time.perf_counter() < ends:
            i = choose.randrange(len(texts))
            start = time.perf_counter()
            try:
                answer = translate(tf.constant([texts[i]]))[0].numpy()[0, 0]
            except tf.errors.OpError as error:
                errors.append(str(error))
                continue
            own.append(time.perf_counter() - start)
            if answer != expected[i]:
                others.append((texts[i], expected[i].decode(), answer.decode()))
        seconds.extend(own)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(arguments.callers)]
    for caller in callers:
        caller.start()
    time.sleep(6 * arguments.minutes)  # A tenth, to warm up.
    settled = memory()
    time.sleep(max(0, ends - time.perf_counter() - 1))
    at_the_end = memory()  # Before callers end: ended threads return their memory.
    for caller in callers:
        caller.join()
    for other in others[:3]:
        print("another answer:", *other, sep="\n  ")
    ranks = statistics.quantiles(seconds, n=100)
    return {
        "callers": arguments.callers,
        "minutes": arguments.minutes,
        "requests": len(seconds),
        "requests/s": round(len(seconds) / (60 * arguments.minutes), 1),
        "errors": len(errors),
        "other answers than alone": len(others),
        **{f"p{rank}, ms": round(1000 * ranks[rank - 1], 1) for rank in (50, 95, 99)},
        "memory after a tenth, MB": round(settled),
        "memory at the end, MB": round(at_the_end),
        "drift, %": round(100 * (at_the_end / settled - 1), 2),
    }


def swap(arguments, texts):
    errors, asked, stop = [], [0], threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        served = [None]  # The version that callers find.

        def bring_in(number):
            """Copies a version under another name, renames, loads, warms up and serves it."""
            version = Path(folder) / str(number)
            shutil.copytree(arguments.saved_model, version.with_name(f".{number}"))
            version.with_name(f".{number}").rename(version)
            session = Session(version)
            session.warm_up(version)
            old, served[0] = served[0], session
            return old

        def call(caller):
            choose = random.Random(caller)
            while not stop.is_set():
                session = served[0]
                try:
                    session({"text": [choose.choice(texts)]})
                    asked[0] += 1
                except Exception as error:
                    errors.append(repr(error))

        bring_in(1)
        callers = [threading.Thread(target=call, args=(i,)) for i in range(8)]
        for caller in callers:
            caller.start()
        time.sleep(5)
        both, alone, trimmed = [], [memory()], [trimmed_memory()]
        for number in range(2, arguments.swaps + 2):
            old = bring_in(number)
            both.append(memory())
            time.sleep(2)  # The last calls to the old one end.
            old.session.close()
            del old
            gc.collect()
            time.sleep(2)
            alone.append(memory())
            trimmed.append(trimmed_memory())
        stop.set()
        for caller in callers:
            caller.join()
    return {
        "swaps": arguments.swaps,
        "requests meanwhile": asked[0],
        "errors": len(errors),
        "memory with one version, MB": [round(value) for value in alone],
        "the same, returned, MB": [round(value) for value in trimmed],
        "memory with two, MB": [round(value) for value in both],
    }


def trimmed_memory():
    """Resident memory, MB, after glibc has returned free memory to the system."""
    ctypes.CDLL(None).malloc_trim(0)
    return memory()


if __name__ == "__main__":
    main()
