import json

import pytest
from command import keras_mt

from keras_mt.data import phrasebook

pytestmark = pytest.mark.usefixtures("load_once")
LINES = [source for source, _ in list(phrasebook.pairs("train"))[400:416]]


@pytest.fixture
def arguments(run_dir, corpus, tmp_path):
    """Those of a translator from Portuguese, for a corpus from English."""
    (tmp_path / "pt.txt").write_text("".join(f"{line}\n" for line in LINES))
    return [run_dir, tmp_path / "pt.txt", "--data", corpus, "--source", "en", "--target", "pt"]


def pairs(folder):
    sides = [(folder / f"{code}.train.txt").read_text().splitlines() for code in ("en", "pt")]
    return list(zip(*sides, strict=True))


def test_lines_are_translated_by_beam_search_or_sampling(arguments, load, tmp_path):
    result = keras_mt(
        "back-translate", *arguments, "--output", tmp_path / "out", "--without", "copy"
    )
    expected = list(zip(load()(LINES), LINES, strict=True))
    assert pairs(tmp_path / "out") == expected
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["rule", "dropped", "share"]
    assert lines[-1] == f"wrote {tmp_path / 'out'}"
    report = json.loads((tmp_path / "out" / "cleaning.json").read_text())
    assert report["kept"] == report["pairs"] == len(LINES) and "copy" not in report["rules"]
    keras_mt("back-translate", *arguments, "--output", tmp_path / "drawn", "--temperature", 1)
    drawn = pairs(tmp_path / "drawn")
    assert {line for _, line in drawn} <= {*LINES} and {*drawn} - {*expected}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--n-best", "2"], "--n-best must be 1"),
        (["--target", "en"], "source and target must differ"),
        (["--without", "all"], "There is no rule 'all'"),
        (["no_such_file"], "'no_such_file' does not exist"),
        (["--source", "pt", "--target", "en"], "pt.txt must be in 'en', but is in 'pt'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(arguments, tmp_path, changed, message):
    command = ["back-translate", *arguments, "--output", tmp_path / "out", *changed]
    result = keras_mt(*command, check=False)
    assert result.exit_code and message in result.stderr and not (tmp_path / "out").exists()
