import fcntl
import functools
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for pool in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(pool, "1")  # The tests themselves run side by side.

ROOT = Path(__file__).parents[1]

if os.environ.get("KERAS_BACKEND") == "torch":
    import torch

    to_array = torch.Tensor.__array__

    def as_array(x, dtype=None, copy=None):
        """Outputs as arrays, as they are on other backends: NumPy refuses some of torch's."""
        x = x.detach()
        array = to_array(x.float() if x.dtype == torch.bfloat16 else x)
        return array if dtype is None else array.astype(dtype)

    torch.Tensor.__array__ = as_array


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder corpus, as a user would have it: 300 training pairs, 20 more a split."""
    from keras_mt.data import phrasebook

    folder = tmp_path_factory.mktemp("corpus")
    for split, part in (
        ("train", slice(40, 340)), ("validation", slice(20)), ("test", slice(20)),
    ):  # fmt: skip
        pairs = list(phrasebook.pairs(split))[part]
        for side, language in enumerate(("pt", "en")):
            lines = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"{language}.{split}.txt").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def micro():
    """The name of a preset that TensorFlow traces in no time."""
    from keras_mt.models import PRESETS

    model = {"num_layers": 1, "d_model": 64, "num_heads": 2, "d_ff": 64, "dropout": 0.1}
    PRESETS["micro"] = {**PRESETS["tiny"], "model": model}
    yield "micro"
    del PRESETS["micro"]


@pytest.fixture(scope="session")
def run_dir():
    """A run folder whose translations are sentences; without checkpoints. Nothing writes to it."""
    return ROOT / "tests" / "fixture" / "pt_en"


@pytest.fixture
def eager():
    """What keras_mt makes functions of runs op by op: for a few steps, cheaper than tracing."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def quantizing():
    """`quantize` without its warnings of layers that it leaves as they are, and in no time.

    It collects garbage for each layer that it changes.
    """
    gc.freeze()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*quantize.*", UserWarning)
        yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def command():
    """The arguments that run `keras-mt` in a process of its own."""
    return [sys.executable, str(ROOT / "keras_mt_command.py")]


@pytest.fixture(scope="session")
def python():
    """Runs `python ARGUMENTS` in a new process, where TensorFlow is imported already.

    Called as `python(script, *arguments, stdin=b"", cwd=None)` or `python("-c", code, ...)`; gives
    a `CompletedProcess` with text.
    """
    ours, theirs = socket.socketpair()
    server = subprocess.Popen(
        [sys.executable, ROOT / "tests" / "forks.py", str(theirs.fileno())],
        pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip
    theirs.close()
    with ours, ours.makefile("rw") as answers:
        yield functools.partial(_fork, answers)
    server.wait()


def _fork(server, *arguments, stdin=b"", cwd=None):
    arguments = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_bytes(stdin)
        request = {
            "arguments": arguments,
            "files": list(map(str, files)),
            "cwd": str(cwd or Path.cwd()),
        }
        server.write(json.dumps(request) + "\n")
        server.flush()
        status = int(server.readline())
        stdout, stderr = (file.read_text(encoding="utf-8") for file in files[1:])
    return subprocess.CompletedProcess(arguments, status, stdout, stderr)


@pytest.fixture(scope="session")
def load(run_dir):
    """`Translator.load` of the run folder; what has the same options is traced once."""
    from keras_mt import Translator

    return functools.cache(functools.partial(Translator.load, run_dir))


@pytest.fixture(scope="session")
def translator(load):
    return load(beam_size=3, n_best=2)


@pytest.fixture(scope="session")
def sources(corpus):
    return (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:12]


@pytest.fixture(scope="session")
def exported(request, tmp_path_factory):
    """The version folder of an export with the options of `translator`, one for all workers."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    directory = shared / "saved_models" / "pt_en" / "1"
    with open(shared / "saved_models.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            request.getfixturevalue("translator").export(directory, card={"license": "Apache-2.0"})
    return directory


@pytest.fixture(scope="session")
def signatures(exported):
    import tensorflow as tf

    return tf.saved_model.load(str(exported)).signatures


@pytest.fixture
def signatures_alone(monkeypatch):
    """Lets exports have some signatures alone, called as `signatures_alone("score", ...)`.

    Each takes seconds to trace.
    """
    from keras_mt.serving import export

    made = export._signatures

    def alone(*names):
        monkeypatch.setattr(
            export,
            "_signatures",
            lambda *args: {n: f for n, f in made(*args).items() if n in names},
        )

    return alone
