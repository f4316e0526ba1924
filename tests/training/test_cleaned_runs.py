import json

import pytest

from keras_mt.data.cleaning import clean
from keras_mt.run_folder import RunConfig, RunFolder
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


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    (tmp_path / "pairs.tsv").write_text("猫です\tein Kater\n犬です\tein Hund\n")
    with pytest.raises(ValueError, match=r"Nothing of .*pairs\.tsv is left: 0 of 2 pairs kept"):
        train(tmp_path / "pairs.tsv", "en", "de", tmp_path / "run", clean=True)
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.long
@pytest.mark.usefixtures("micro", "untrained", "bare_end")
def test_a_run_cleans_as_clean_does_and_goes_on(dirty, tmp_path):
    messages = []

    def trained(data, name, **options):
        train(data, "pt", "en", tmp_path / name, report=messages.append, **SMALL, **options)
        return RunFolder(tmp_path / name).config.fingerprints

    clean(dirty, "pt", "en", tmp_path / "folder", report=messages.append)
    expected = trained(tmp_path / "folder", "of_folder", steps=2)
    assert trained(dirty, "run", steps=1, clean=True) == expected
    assert any("cleaned" in m and "1 empty, 1 copy, 2 duplicate" in m for m in messages)
    assert trained(dirty, "run", steps=2, clean=True) == expected
    with pytest.raises(ValueError, match="clean was True, now False"):
        trained(tmp_path / "folder", "run", steps=3)
    # Of a run from before there was the option it is read without it.
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config.pop("clean") and not RunConfig.from_json(json.dumps(config)).options.clean
