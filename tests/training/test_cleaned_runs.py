import json

import numpy as np
import pytest

from keras_mt import Translator
from keras_mt.data import clean
from keras_mt.training import train

SMALL = {
    "preset": "micro",
    "vocab_size": 400,
    "batch_tokens": 512,
    "max_length": 64,
    "checkpoint_steps": 1,
}


@pytest.fixture
def dirty(corpus, tmp_path):
    """The corpus with blank lines, of validation too, copies and pairs that come twice."""
    folder = tmp_path / "dirty"
    folder.mkdir()
    for path in corpus.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    sides = [(corpus / f"{code}.train.txt").read_text().splitlines() for code in ("pt", "en")]
    pairs = list(zip(*sides, strict=True))
    pairs[40:40] = [("", ""), pairs[3], (pairs[50][0], pairs[50][0]), pairs[7]]
    for i, code in enumerate(("pt", "en")):
        lines = "".join(f"{pair[i]}\n" for pair in pairs)
        (folder / f"{code}.train.txt").write_text(lines)
    validation = folder / "en.validation.txt"
    validation.write_text("\n" + validation.read_text().partition("\n")[2])
    return folder


def weights(run_dir):
    return Translator.load(run_dir).models[0].get_weights()


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    (tmp_path / "pairs.tsv").write_text("猫です\tein Kater\n犬です\tein Hund\n")
    with pytest.raises(ValueError, match=r"Nothing of .*pairs\.tsv is left: 0 of 2 pairs kept"):
        train(tmp_path / "pairs.tsv", "en", "de", tmp_path / "run", clean=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.usefixtures("micro", "eager")
def test_a_run_cleans_as_clean_does_and_resumes(dirty, tmp_path):
    messages = []

    def trained(data, name, **options):
        return train(data, "pt", "en", tmp_path / name, report=messages.append, **SMALL, **options)

    clean(dirty, "pt", "en", tmp_path / "folder", report=messages.append)
    expected = weights(trained(tmp_path / "folder", "of_folder", steps=2))
    run = trained(dirty, "run", steps=1, clean=True)
    assert any("cleaned" in m and "1 empty, 1 copy, 2 duplicate" in m for m in messages)
    trained(dirty, "run", steps=2, clean=True)
    assert any("resumed at step 1" in message for message in messages)
    for ours, theirs in zip(weights(run), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="clean was True, now False"):
        trained(tmp_path / "folder", "run", steps=3)
    # A run from before there was the option goes on without it.
    path = tmp_path / "of_folder" / "config.json"
    config = json.loads(path.read_text())
    del config["clean"]
    path.write_text(json.dumps(config))
    trained(tmp_path / "folder", "of_folder", steps=2)
    assert any("resumed at step 2" in message for message in messages)
