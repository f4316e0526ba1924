"""What is a name on the hub, and what is a path."""

import pytest
from command import keras_mt

from keras_mt.convert.hub import hub_name, local_run


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-en-de"),
        ("hf:Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-en-de"),
        ("hf:t5-small", "t5-small"),
        ("hf:runs/en_de", "runs/en_de"),
        ("runs/en_de", None),  # There is a folder runs: a slip is no name.
        ("someone/model", None),
        ("hf:..", None),
        ("hf:a--b", None),  # Its runs would be those of a/b.
        ("../model", None),
        ("a/b/c", None),
        ("/model", None),
        ("model", None),
        ("", None),
    ],
)
def test_names_are_told_from_paths(model, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "someone" / "model").mkdir(parents=True)
    assert hub_name(model) == name
    if name is None:
        assert str(local_run(model)) == (model or ".")


@pytest.mark.parametrize("command", ["translate", "score", "align", "export", "shortlist", "trim"])
def test_a_path_that_is_missing_is_refused_at_once(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    result = keras_mt(command, "runs/en_de", check=False)
    assert result.exit_code == 2 and "'runs/en_de' does not exist" in result.stderr


def test_a_folder_of_that_name_comes_first(eager, run_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Helsinki-NLP").symlink_to(run_dir.parent)
    result = keras_mt("translate", f"Helsinki-NLP/{run_dir.name}", stdin=b"O livro.\n")
    assert result.stdout.strip()
