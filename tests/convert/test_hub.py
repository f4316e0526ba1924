"""Models that are named, and not their folders: huggingface_hub fetches them from a stand-in."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command import keras_mt
from conftest import ROOT, needed
from runs import assert_same_weights
from stand_in_hub import COMMIT, StandInHub

from keras_mt import Translator
from keras_mt.cli import worker
from keras_mt.convert import from_huggingface, import_model
from keras_mt.convert.hub import local_run
from keras_mt.errors import InputError
from keras_mt.run_folder import RunFolder
from keras_mt.serving.pool import Pool

pytestmark = pytest.mark.long

needed("huggingface_hub")

FETCH = """
import sys
from keras_mt.convert.hub import local_folder

for name in sys.argv[1:]:
    try:
        print(local_folder(name))
    except OSError as error:
        print(f"{type(error).__name__}: {error}")
"""
UNWANTED = ("pytorch_model.bin", "tf_model.h5", "rust_model.ot", "other/config.json", "x.json")


@pytest.fixture(scope="module")
def hub(golden, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    for name in ("marian", "marian_apart", "m2m_100"):
        shutil.copytree(golden / name, folder / name)
    for name in UNWANTED:
        (folder / "marian" / name).parent.mkdir(exist_ok=True)
        (folder / "marian" / name).write_bytes(b"{}")
    (folder / "marian" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    shutil.copytree(folder / "marian", folder / "gated")
    hub = StandInHub(folder, gated=("gated",))
    threading.Thread(target=hub.serve_forever, args=(0.01,)).start()
    yield hub
    hub.shutdown()
    hub.server_close()


@pytest.fixture
def fetch(hub, python_command, tmp_path):
    """A function that fetches models in another process; gives a line for each."""
    environment = {**os.environ, "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}

    def run(*names, url=hub.url, offline="0"):
        process = subprocess.run(
            [*python_command, "-c", FETCH, *names],
            env={**environment, "HF_ENDPOINT": url, "HF_HUB_OFFLINE": offline},
            cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return process.stdout.splitlines()

    return run


def test_what_is_needed_is_fetched_once_and_what_cannot_be_is_named(golden, hub, fetch):
    names = ("marian", "marian_apart", "m2m_100")
    asked = [f"someone/{name}" for name in names]
    hub.served.clear()
    *folders, nothing, gated = fetch(*asked, "someone/nothing", "someone/gated")
    wanted = [path for name in names for path in (golden / name).iterdir()]
    assert sorted(hub.served) == sorted([*(path.name for path in wanted), "README.md"])
    for path in wanted:
        folder = Path(folders[names.index(path.parent.name)])
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert "no folder someone/nothing" in nothing and "hf auth login" in nothing
    assert "no folder someone/gated" in gated and "hf auth login" in gated
    # Without a network the cache is enough.
    *cached, offline = fetch(*asked, "someone/other", offline="1")
    assert cached == folders and "HF_HUB_OFFLINE" in offline
    *cached, closed = fetch(*asked, "someone/other", url="http://127.0.0.1:9")
    assert cached == folders and len(hub.served) == len(wanted) + 1
    for message in (closed, offline):
        assert "There is no folder someone/other" in message
        assert "hf download someone/other" in message


def laid_by_hand(home, folder):
    """A cache of the hub with the model `someone/NAME`, as huggingface_hub lays one out."""
    model = home / "hub" / f"models--someone--{folder.name}"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    shutil.copytree(folder, model / "snapshots" / COMMIT)


@pytest.fixture
def commands(hub, python_command, tmp_path, monkeypatch):
    """A function that starts `keras-mt ARGUMENTS` with a text; each has the caches of its own."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", hub.url)

    def start(*arguments):
        command = [*python_command, str(ROOT / "keras_mt_command.py"), *map(str, arguments)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=tmp_path
        )

    return start


def ended(process):
    stdout, stderr = process.communicate()
    return process.returncode, stdout, stderr


def test_a_name_is_imported_once_whatever_takes_it_at_once(hub, commands, tmp_path):
    hub.served.clear()
    both = [commands("info", "someone/marian") for _ in range(2)]
    results = [ended(process) for process in both]
    assert [status for status, *_ in results] == [0, 0], results
    assert results[0][1] == results[1][1] and "cc-by-4.0" in results[0][1]
    said = [stderr for *_, stderr in results if stderr]
    assert len(said) == 1 and "someone/marian: license: cc-by-4.0;" in said[0]
    assert len(hub.served) == len({*hub.served})  # Each file once.
    (runs,) = (tmp_path / "cache" / "keras_mt").iterdir()
    assert {path.name for path in runs.iterdir()} == {"someone--marian", ".someone--marian.lock"}
    # Then neither the hub nor its cache is asked.
    shutil.rmtree(tmp_path / "home")
    number = len(hub.served)
    result = keras_mt("info", "hf:someone/marian")
    assert result.stdout == results[0][1] and not result.stderr
    assert len(hub.served) == number


@pytest.mark.usefixtures("eager")
def test_commands_and_servers_take_a_name(golden, brief_corpus, tmp_path, monkeypatch):
    """Without a network, from the hub's cache."""
    laid_by_hand(tmp_path / "home", golden / "marian_apart")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("keras_mt.serving.worker._model", [])
    name, begun = "someone/marian_apart", []

    def prepare(*given):
        begun.append(given)
        raise InputError("It need not be trained.")

    monkeypatch.setattr("keras_mt.training.session._prepare", prepare)
    data = ("--data", brief_corpus, "--source", "pt", "--target", "en")
    keras_mt("train", *data, "--init", name, "--output", tmp_path / "run", exit_code=1)
    before = from_huggingface(golden / "marian_apart")
    ((_, tokenizer, _, base, *_),) = begun
    assert tokenizer.fingerprint == before.tokenizer.fingerprint
    assert_same_weights(base.model, before.models[0])
    run = Pool(name, ())._path
    facts = worker.load(str(run), lambda: None)  # As `keras-mt serve` has it.
    assert facts.pairs == [("pt", "en")]
    keras_mt("export", name, tmp_path / "x", "--format", "huggingface")
    (tmp_path / "a.txt").write_text("What is that?\n")
    named, found = (
        keras_mt("translate", model, "--max-length", 3, tmp_path / "a.txt").stdout
        for model in (name, run)
    )
    assert named == found and found.count("\n") == 1
    stderr = keras_mt("translate", "someone/marian", tmp_path / "a.txt", exit_code=1).stderr
    assert "There is no folder someone/marian" in stderr
    assert "HF_HUB_OFFLINE" in stderr and not [*tmp_path.glob("cache/*/*/someone--marian")]


def test_an_import_that_fails_leaves_nothing(golden, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("keras_mt.convert.hub.local_folder", lambda name: golden / "marian")
    save = RunFolder.write_config
    monkeypatch.setattr(RunFolder, "write_config", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Translator.load("hf:someone/marian")
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in left] == [".someone--marian.lock"]
    killed = left[0].with_name(".someone--marian.abcdefgh.partial")
    killed.mkdir()
    monkeypatch.setattr(RunFolder, "write_config", save)
    assert RunFolder(local_run("hf:someone/marian")).card()["source"] and not killed.exists()


def test_without_huggingface_hub_it_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"someone/marian.*pip install 'keras_mt\[hub\]'"):
        import_model("someone/marian", tmp_path / "run")


@pytest.mark.parametrize("name", ["marian", "a/b/c", "someone/model.bin"])
def test_what_is_no_name_is_not_asked_for(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "someone").mkdir()
    (tmp_path / "someone" / "model.bin").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=f"no folder {name}.*OWNER/NAME"):
        import_model(name, tmp_path / "run")
