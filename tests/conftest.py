import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for pool in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(pool, "1")  # The tests themselves run side by side.

ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items):
    """The longest tests begin first, so that at the end no worker waits for another."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder corpus, as a user would have it: 300 training pairs, 20 more a split."""
    from keras_mt.data import phrasebook

    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(phrasebook.pairs("train"))[:340]
    for split, part in (("train", pairs[40:]), ("validation", pairs[:20]), ("test", pairs[20:40])):
        for side, language in enumerate(("pt", "en")):
            lines = "".join(pair[side] + "\n" for pair in part)
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
def run_dir(corpus, micro, tmp_path_factory):
    """A run folder after a few steps: all is there, though the translations are poor."""
    from keras_mt.training import train

    output = tmp_path_factory.mktemp("runs") / "pt_en"
    return train(
        corpus, "pt", "en", output, preset=micro, vocab_size=600, steps=100, warmup_steps=40,
        batch_tokens=1024, max_length=64, checkpoint_steps=20,
    )  # fmt: skip


@pytest.fixture(scope="session")
def command():
    """The arguments that run `keras-mt` in a process of its own."""
    return [sys.executable, str(ROOT / "keras_mt_command.py")]


@pytest.fixture(scope="session")
def translator(run_dir):
    from keras_mt import Translator

    return Translator.load(run_dir, beam_size=3, n_best=2)


@pytest.fixture(scope="session")
def sources(corpus):
    return (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:12]


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    """The version folder of an export."""
    directory = tmp_path_factory.mktemp("saved_models") / "pt_en" / "1"
    translator.export(directory, card={"license": "Apache-2.0"})
    return directory


@pytest.fixture(scope="session")
def signatures(exported):
    import tensorflow as tf

    return tf.saved_model.load(str(exported)).signatures
