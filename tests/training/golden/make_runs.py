"""Writes a small run folder of a release, and what that release makes of it.

usage: PYTHONPATH=CHECKOUT_OF_THE_RELEASE python make_runs.py NAME

NAME.tar.xz holds corpus.tsv, `run` (a finished run with checkpoints, trained with R-Drop) and
expected.npz: the weights after the run went on to step 12, and the translations and scores that its
model.keras gave before. The archives that are here were written once, by the release 0.1.0
(`release`) and by the one before it (`before`); later versions must go on with them and give the
same.
"""

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from keras_mt import Translator
from keras_mt.data import phrasebook
from keras_mt.models import PRESETS
from keras_mt.training import train

PRESETS["tiny"]["model"].update(num_layers=1, d_model=16, num_heads=2, d_ff=16)
OPTIONS = {
    "vocab_size": 400, "max_length": 48, "batch_tokens": 384, "warmup_steps": 20, "rdrop": 1.0,
    "checkpoint_steps": 4, "keep": 2, "average": 2,
}  # fmt: skip

name = sys.argv[1]
pairs = list(phrasebook.pairs("train"))[:150]
with tempfile.TemporaryDirectory() as folder:
    corpus, run = Path(folder) / "corpus.tsv", Path(folder) / "run"
    rows = [("pt", "en", "split")]
    rows += [(*pair, "validation" if i < 10 else "train") for i, pair in enumerate(pairs)]
    corpus.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    train(corpus, "pt", "en", run, steps=8, **OPTIONS)
    sources = [source for source, _ in pairs[:6]]
    found = [hypotheses[0] for hypotheses in Translator.load(run).hypotheses(sources)]
    shutil.copytree(run, Path(folder) / "on")
    train(corpus, "pt", "en", Path(folder) / "on", steps=12, **OPTIONS)
    np.savez_compressed(
        Path(folder) / "expected.npz",
        *Translator.load(Path(folder) / "on").models[0].get_weights(),
        sources=sources,
        translations=[hypothesis.text for hypothesis in found],
        scores=[hypothesis.score for hypothesis in found],
    )
    with tarfile.open(Path(__file__).parent / f"{name}.tar.xz", "w:xz") as archive:
        for part in ("corpus.tsv", "run", "expected.npz"):
            archive.add(Path(folder) / part, part)
