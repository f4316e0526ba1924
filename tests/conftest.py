import contextlib
import fcntl
import functools
import gc
import importlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Wild inputs: the same few in each run, many others with --hypothesis-profile=exhaustive.
settings.register_profile("quick", max_examples=8, deadline=None, derandomize=True)
settings.register_profile("exhaustive", max_examples=100, deadline=None)
settings.load_profile("quick")

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for pool in (
    "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
):  # fmt: skip
    os.environ.setdefault(pool, "1")  # The tests themselves run side by side.

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # As a shell sets it in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Tests send it to processes.

ROOT = Path(__file__).parents[1]
tier = {"quick": False}  # Whether this is `make test`.
FORKS = ROOT / "tests" / "forks.py"
BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
MICRO = {  # As in tests/training/process.py. Without biases it has half as many variables.
    "num_layers": 1, "d_model": 64, "num_heads": 2, "d_ff": 64, "dropout": 0.1, "norm": "rms",
    "use_bias": False,
}  # fmt: skip

if BACKEND == "torch":
    import torch

    to_array = torch.Tensor.__array__

    def as_array(x, dtype=None, copy=None):
        """Outputs as arrays, as they are on other backends: NumPy refuses some of torch's."""
        x = x.detach()
        array = to_array(x.float() if x.dtype == torch.bfloat16 else x)
        return array if dtype is None else array.astype(dtype)

    torch.Tensor.__array__ = as_array


def pytest_configure(config):
    tier["quick"] = config.option.markexpr == "not long"
    if not hasattr(config, "workerinput"):
        start_forks(config)


def start_forks(config):
    """The server of `python_command`: one for all workers, which learn of it by a variable."""
    folder = tempfile.mkdtemp()
    path = os.environ["KERAS_MT_FORKS"] = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        server = subprocess.Popen([sys.executable, FORKS], stdin=listening, env=environment)

    def end():
        server.kill()
        server.wait()
        shutil.rmtree(folder)

    config.add_cleanup(end)


def needed(package):
    """An optional package that long tests need; `make test` collects their files without it."""
    return pytest.importorskip(package) if tier["quick"] else importlib.import_module(package)


def pytest_collection_modifyitems(items):
    """Files that share the session's translator and its exports first, those with long tests next.

    Of two workers the first begins with them, and the other at the middle: what is shared is
    traced by one. A file's tests stay together, and share what they make.
    """
    shared = {item.path for item in items if {*item.fixturenames} & {"translator", "export_once"}}
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: (item.path not in shared, item.path not in long))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """What a test draws does not depend on the tests before it.

    A module's generator `random` begins anew. Keras draws the seeds of weights and dropout from
    Python's: keras.utils.set_random_seed would take TensorFlow's resources, such as exports that
    are loaded.
    """
    random.seed(0)
    if isinstance(getattr(item.module, "random", None), np.random.Generator):
        item.module.random = np.random.default_rng(0)


@pytest.fixture(scope="session", autouse=True)
def quick():
    """What saves a third of the tests' time, and changes no result.

    Looking for garbage seldom, and not in what was imported: tracing makes much of it. Calls of
    Keras and TensorFlow are not wrapped to shorten tracebacks. And TensorFlow runs graphs as they
    are traced, since most are run once, and optimizing takes longer; test_production.py holds these
    graphs to those that users have.
    """
    import keras

    keras.config.disable_traceback_filtering()
    gc.freeze()
    gc.set_threshold(50_000, 10, 2)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        tf.debugging.disable_traceback_filtering()
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


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
def brief_corpus(corpus, tmp_path_factory):
    """Its sentences of like length alone, so that an epoch has three steps of 512 tokens."""
    folder = tmp_path_factory.mktemp("brief_corpus")
    for split in ("train", "validation"):
        sides = [(corpus / f"{language}.{split}.txt").read_text() for language in ("pt", "en")]
        pairs = zip(*(side.splitlines() for side in sides), strict=True)
        pairs = [pair for pair in pairs if {len(text.split()) for text in pair} == {6}]
        for language, lines in zip(("pt", "en"), zip(*pairs, strict=True), strict=True):
            (folder / f"{language}.{split}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="session")
def one_pair(tmp_path_factory):
    """A corpus of which an epoch is a step."""
    train, validation = "O livro é novo.\tThe book is new.", "A casa é velha.\tThe house is old."
    rows = ["pt\ten\tsplit", *[f"{train}\ttrain"] * 8, f"{validation}\tvalidation"]
    path = tmp_path_factory.mktemp("one_pair") / "pairs.tsv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def micro():
    """The name of a preset that TensorFlow traces in no time."""
    from keras_mt.models import PRESETS

    PRESETS["micro"] = {**PRESETS["tiny"], "model": MICRO}
    yield "micro"
    del PRESETS["micro"]


@pytest.fixture(scope="session")
def run_dir():
    """A run folder whose translations are sentences; without checkpoints. Nothing writes to it."""
    return ROOT / "tests" / "fixture" / "pt_en"


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """Folders of transformers' models; see tests/convert/golden/make_folders.py."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(ROOT / "tests" / "convert" / "golden" / "folders.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@contextlib.contextmanager
def op_by_op():
    """What keras_mt makes functions of runs op by op."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture
def eager(monkeypatch):
    """What keras_mt makes functions of runs op by op: for a few steps, cheaper than tracing.

    And evaluate, which traces what it measures before, needs no warming up.
    """
    monkeypatch.setattr("keras_mt.cli.evaluate._WARM_UP", 0)
    with op_by_op():
        yield


@contextlib.contextmanager
def bare_ends():
    """Runs end without the choice of a head and without a picture, which are not the subject."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_mt.training.session.choose_head", lambda *_: None)
        patch.setattr("keras_mt.training.session.plot_run", lambda *_: None)
        yield


@pytest.fixture
def bare_end():
    """`bare_ends` for a test."""
    with bare_ends():
        yield


@pytest.fixture
def untrained(monkeypatch):
    """`train` without the training itself, most of whose time TensorFlow traces; it ends at 0."""
    monkeypatch.setattr("keras_mt.training.session._fit", lambda *_, **__: None)


@pytest.fixture(scope="module")
def thawed():
    """At a file's end nothing is frozen but what was before it; looking through all takes long."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # As `quick` left it.


@pytest.fixture
def quantizing(thawed):
    """`quantize` without its warnings of layers that it leaves as they are, and in no time.

    It collects garbage for each layer that it changes.
    """
    gc.freeze()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*quantize.*", UserWarning)
        yield


@pytest.fixture(scope="session")
def python_command():
    """What stands for `python` in a command: its processes have TensorFlow imported already."""
    return [sys.executable, "-S", "-E", str(FORKS), os.environ["KERAS_MT_FORKS"]]


@pytest.fixture(scope="session")
def python(python_command):
    """Runs `python ARGUMENTS`; gives a `CompletedProcess` with text."""

    def run(*arguments, stdin="", cwd=None):
        return subprocess.run(
            [*python_command, *map(str, arguments)],
            input=stdin, cwd=cwd, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def load(run_dir):
    """`Translator.load` of the run folder; what has the same options is traced once."""
    from keras_mt import Translator

    return functools.cache(Translator.load(run_dir).with_options)


@pytest.fixture(scope="module")
def load_once(run_dir, load):
    """What the command loads it loads once for all tests of a file, since each is traced anew.

    The run folder's translators are those of `load`.
    """
    from keras_mt import Translator

    loaded, anew = {}, Translator.load

    def cached(paths, *arguments, **options):
        paths = [Path(path) for path in (paths if isinstance(paths, list) else [paths])]
        if paths == [run_dir] and arguments in ((), ((), "float32")):
            return load(**options)
        key = repr((paths, arguments, sorted(options.items())))
        if key not in loaded:
            loaded[key] = anew(paths, *arguments, **options)
        return loaded[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "load", cached)
        yield


@pytest.fixture(scope="session")
def translator(load):
    return load(beam_size=3, n_best=2)


@pytest.fixture(scope="session")
def sources(corpus):
    return (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:12]


@pytest.fixture(scope="session")
def export_once(request, tmp_path_factory):
    """A function that gives the version folder of an export of `translator`, one for all workers.

    Called as `export_once(name, **options)`. Whoever reads one has the session of who read it
    before, whose first run takes seconds.
    """
    from keras_mt.translation import sessions

    made, anew = set(), sessions.SavedModel
    cached = functools.cache(anew)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def export(name, **options):
        directory = shared / name / "pt_en" / "1"
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.exists():
                translator = request.getfixturevalue("translator")
                translator.export(directory, card={"license": "Apache-2.0"}, **options)
        made.add(directory.resolve())
        return directory

    def opened(version):
        version = version.resolve()
        return (cached if version in made else anew)(version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "SavedModel", opened)
        yield export


@pytest.fixture(scope="session")
def exported(export_once):
    """An export with the signature `serving_default` alone: the others take long to trace."""
    return export_once("saved_models", signatures=["serving_default"])


@pytest.fixture(scope="session")
def exported_litert(translator, tmp_path_factory):
    """An export of `translator` for LiteRT, for long tests."""
    from keras_mt.convert import export

    folder = tmp_path_factory.mktemp("litert") / "pt_en"
    export(translator, folder, "litert", quantization="float32")
    return folder


def signatures_of(directory):
    """The signatures of an export, as TensorFlow loads them."""
    import tensorflow as tf

    return tf.saved_model.load(str(directory)).signatures


@pytest.fixture(scope="session")
def served(exported):
    """The signatures of `exported`."""
    return signatures_of(exported)


@pytest.fixture(scope="session")
def exported_whole(export_once):
    """An export with all signatures, for long tests."""
    return export_once("whole")


@pytest.fixture(scope="session")
def signatures(exported_whole):
    return signatures_of(exported_whole)


@pytest.fixture
def signatures_alone(monkeypatch):
    """Lets exports have some signatures alone, called as `signatures_alone("score", ...)`.

    Each takes seconds to trace.
    """
    from keras_mt.convert import saved_model as export

    made = export._signatures

    def alone(*names):
        monkeypatch.setattr(
            export,
            "_signatures",
            lambda *args: {n: f for n, f in made(*args).items() if n in names},
        )

    return alone


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server of `keras-mt serve` with a key, `served.KEY`, and a glossary of its own, `dogs`."""
    from served import KEY, serving

    folder = tmp_path_factory.mktemp("server")
    (folder / "keys").write_text(f"{KEY} tester\nanother-key\n")
    (folder / "dogs.tsv").write_text("dog\tKöter\n", encoding="utf-8")
    keys, glossary = f"--api-keys={folder}/keys", f"--glossary=dogs={folder}/dogs.tsv"
    with serving(keys, glossary, "--workers=1") as served:
        yield served


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A Chromium with a page."""
    from chromium import Browser

    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.process.kill()
    browser.process.wait()
