"""Wild requests to the signatures of an export: none may crash it or get a malformed answer.

usage: python benchmarks/robustness.py SAVED_MODEL [--requests N] [--seconds S] [--seed N]

Half of the requests are made by Hypothesis, half by mutating real text and a list of nasty strings:
every Unicode plane, combining marks, bidirectional and control characters, bytes that are not
UTF-8, SentencePiece's own symbols, texts of none to 100,000 characters, batches of 0 to 256 rows.
Each answer must have as many rows as the request, valid UTF-8 and finite numbers. Prints the number
of requests, the slowest one, and the memory. At the first wrong answer it prints the request and
exits with 1.
"""

import argparse
import contextlib
import datetime
import math
import os
import random
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import harness
import numpy as np

NASTY = [
    "", " ", "\n", "\t", "\x00", "\x07\x1b[31m", "\x7f\x9f", "▁", "▁▁ ▁a", "<s>", "</s>", "<pad>",
    "<unk>", "<0x41>", "<0xFF><0xFE>", "\ufeff", "\ufffd", "\u202eabc\u202c",
    "\u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0639\u0627\u0644\u0645", "a\u200db",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f1e7\U0001f1f7\U0001f1e9\U0001f1ea", "e" + "\u0301" * 40, "\ufdfa",
    "\uff21\uff42\uff43", "\xbd \u2460 \u2122", "日本語の文です。",
    "\u0e44\u0e21\u0e48\u0e21\u0e35\u0e0a\u0e48\u0e2d\u0e07\u0e27\u0e48\u0e32\u0e07",
    "\U00010348\U0001d518\U0001d52b\U0001d526", "\U000e0041\U0010ffff", "\u2028a\u2029b\x85c",
    "Mr. A. B. Smith!? ... No.", "a.\n\n\nb. C\r\nd", "{{}}", "%s%n", "../../etc", "0" * 50,
    "x" * 200, "A man in a blue shirt is reading a book.",
    "Two dogs run. A child laughs! Is it late?",
]  # fmt: skip
BYTES = [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80", b"caf\xe9", b"\x80" * 9]
PLANES = [(0, 0x2FF), (0x300, 0x36F), (0x590, 0x6FF), (0xE00, 0xE7F), (0x2000, 0x206F),
          (0x2500, 0x25FF), (0x4E00, 0x9FFF), (0xE000, 0xFFFF), *(
              (plane << 16, (plane << 16) + 0xFFFF) for plane in range(1, 17))]  # fmt: skip
SIGNATURES = ("serving_default", "greedy", "score", "align")


def wild_text(choose):
    """A text, bytes that need not be UTF-8. Most are short; one in some thousands is very long."""
    length = min(int(choose.paretovariate(1.2)) - 1, 100_000)
    kind = choose.randrange(5)
    if kind == 0:
        first, last = choose.choice(PLANES)
        text = "".join(chr(choose.randint(first, last)) for _ in range(length)).encode(
            "utf-8", "replace"
        )
    elif kind == 1:
        text = choose.randbytes(length)
    else:
        text = choose.choice([*(nasty.encode() for nasty in NASTY), *BYTES])
        for _ in range(choose.randrange(4)):
            text = mutated(text, choose)
    if choose.random() < 0.95:
        text = text[:24]
    elif choose.random() < 5e-4:
        text = (text or b"a ") * math.ceil(100_000 / max(1, len(text)))
    return text[:100_000]


def mutated(text, choose):
    place, end = sorted(choose.randint(0, len(text)) for _ in range(2))
    other = choose.choice([*(nasty.encode() for nasty in NASTY), *BYTES])
    return choose.choice(
        [
            text[:place] + other + text[place:],
            text[:place] + text[end:],
            text[:place] + choose.randbytes(2) + text[end:],
            text[:end] + text[place:end] * choose.choice([1, 2, 3, 20]) + text[end:],
            text[:place] + text[place:end][::-1] + text[end:],
            text + b" " + other,
        ]
    )


def batch_size(choose):
    sizes = [0, 1, choose.randint(2, 4), choose.randint(5, 32), choose.randint(33, 256)]
    return choose.choices(sizes, [20, 900, 70, 9, 1])[0]


def wrong(inputs, outputs):
    """What is wrong with an answer, or None."""
    rows = len(inputs["text"])
    for name, array in outputs.items():
        if len(array) != rows:
            return f"{name} has {len(array)} rows, not {rows}"
        if array.dtype == object:
            for text in array.ravel():
                try:
                    text.decode("utf-8")
                except UnicodeDecodeError as error:
                    return f"{name} is not UTF-8: {error}"
        elif not np.isfinite(array).all():
            return f"{name} is not finite"
    return None


def requests(seed):
    """Endless requests of our own making: (signature, inputs) pairs."""
    choose = random.Random(seed)
    while True:
        rows = range(batch_size(choose))
        texts, targets = ([wild_text(choose) for _ in rows] for _ in range(2))
        yield request(choose.choice(SIGNATURES), texts, targets, choose)


def request(signature, texts, targets, choose):
    inputs = {"text": texts}
    if signature in ("score", "align"):
        inputs["target"] = targets
    return signature, inputs


def ask_with_hypothesis(ask, count, seed):
    """Sends `count` requests that Hypothesis makes."""
    import hypothesis
    from hypothesis import strategies as st

    text = st.one_of(
        st.text(max_size=8).map(lambda x: x.encode("utf-8", "replace")),
        st.binary(max_size=20),
        st.text(st.sampled_from("▁ </s>pad\n.!?aB\x00\u0301\u202e"), max_size=20).map(str.encode),
    )

    # Hypothesis keeps all examples of a run: short runs keep them out of the measured memory.
    for first in range(0, count, 1000):

        @hypothesis.seed(f"{seed} {first}")
        @hypothesis.settings(
            max_examples=min(1000, count - first), deadline=None, database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        @hypothesis.given(
            st.sampled_from(SIGNATURES),
            st.lists(text, max_size=3),
            st.randoms(use_true_random=False),
        )
        def check(signature, texts, choose):
            ask(*request(signature, texts, texts[::-1], choose))

        check()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("saved_model", type=Path)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="Time limit.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="File to append the JSON line to.")
    arguments = parser.parse_args()
    result = run(arguments.saved_model, arguments.requests, arguments.seconds, arguments.seed)
    line = {
        "benchmark": "robustness",
        "workload": str(arguments.saved_model),
        **result,
        "date": datetime.date.today().isoformat(),
        "machine": harness.machine(),
    }
    harness.write_line(line, arguments.output)


def run(saved_model, count, seconds=math.inf, seed=1):
    """Sends the requests; returns the report, or exits at the first wrong answer."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the tokenizer's ops

    signatures = tf.saved_model.load(str(saved_model)).signatures
    asked, rows, size, slowest = dict.fromkeys(SIGNATURES, 0), 0, 0, (0, 0, 0)
    start, early = time.perf_counter(), None

    class OutOfTimeError(Exception):
        pass

    def ask(signature, inputs):
        nonlocal rows, size, slowest, early
        began = time.perf_counter()
        if began - start > seconds:
            raise OutOfTimeError
        tensors = {
            name: tf.constant(x, tf.string) if isinstance(x, list) else tf.constant(x)
            for name, x in inputs.items()
        }
        try:
            outputs = {n: t.numpy() for n, t in signatures[signature](**tensors).items()}
            fault = wrong(inputs, outputs)
        except tf.errors.OpError as error:
            fault = str(error)
        if fault:
            sys.exit(f"{signature} {inputs!r:.2000}: {fault}")
        took, volume = time.perf_counter() - began, sum(map(len, inputs["text"]))
        slowest = max(slowest, (took, volume, len(inputs["text"])))
        asked[signature] += 1
        rows += len(inputs["text"])
        size += volume
        done = sum(asked.values())
        if done == count // 10:
            early = memory()
        if done % 1000 == 0:
            passed = time.perf_counter() - start
            print(f"{done} requests, {passed:.0f} s, {memory():.0f} MB", flush=True)

    with contextlib.suppress(OutOfTimeError):
        for (signature, inputs), _ in zip(requests(seed), range(count // 2), strict=False):
            ask(signature, inputs)
        ask_with_hypothesis(ask, count - count // 2, seed)
    return {
        "requests": sum(asked.values()),
        "by_signature": asked,
        "texts": rows,
        "bytes": size,
        "seconds": round(time.perf_counter() - start, 1),
        "slowest": dict(zip(("seconds", "bytes", "texts"), slowest, strict=True)),
        "memory_mb": {"after a tenth": early and round(early), "at the end": round(memory())},
    }


def memory():
    """Resident memory of this process now, MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return math.nan


if __name__ == "__main__":
    main()
