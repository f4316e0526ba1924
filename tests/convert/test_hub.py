"""Models that are named, and not their folders: huggingface_hub fetches them from a stand-in."""

import shutil
import sys
import threading

import pytest
from conftest import needed
from runs import assert_same_weights
from stand_in_hub import StandInHub

from keras_mt import Translator
from keras_mt.convert import from_huggingface, import_model

pytestmark = pytest.mark.long

needed("huggingface_hub")

IMPORT = """
import sys
from pathlib import Path
from keras_mt.convert import import_model

for name in sys.argv[2:]:
    try:
        import_model(name, Path(sys.argv[1], Path(name).name))
        print("imported")
    except OSError as error:
        print(f"{type(error).__name__}: {error}")
"""
UNWANTED = ("pytorch_model.bin", "tf_model.h5", "rust_model.ot", "onnx/config.json", "x.json")


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
    threading.Thread(target=hub.serve_forever).start()
    yield hub
    hub.shutdown()
    hub.server_close()


@pytest.fixture
def imports(hub, python, tmp_path, monkeypatch):
    """A function that imports models in another process; gives a line for each."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def run(*names, url=hub.url, offline="0", runs=tmp_path):
        monkeypatch.setenv("HF_ENDPOINT", url)
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
        process = python("-c", IMPORT, runs, *names)
        assert process.returncode == 0, process.stderr
        return process.stdout.splitlines()

    return run


def test_what_is_needed_is_fetched_once_and_no_more(golden, hub, imports, tmp_path):
    names = ("marian", "marian_apart", "m2m_100")
    asked = [f"someone/{name}" for name in names]
    hub.served.clear()
    assert imports(*asked) == ["imported"] * 3
    wanted = [path.name for name in names for path in (golden / name).iterdir()]
    assert sorted(hub.served) == sorted([*wanted, "README.md"])
    for name in names:
        ours, its = Translator.load(tmp_path / name), from_huggingface(golden / name)
        assert ours.tokenizer.fingerprint == its.tokenizer.fingerprint
        assert_same_weights(ours.models[0], its.models[0])
    assert Translator.load(tmp_path / "marian").card["license"] == "cc-by-4.0"
    # Without a network the cache is enough.
    assert imports(*asked[1:], offline="1", runs=tmp_path / "offline") == ["imported"] * 2
    (closed,) = imports(asked[0], url="http://127.0.0.1:9", runs=tmp_path / "closed")
    assert closed == "imported"
    assert len(hub.served) == len(wanted) + 1


def test_what_cannot_be_fetched_is_named_with_what_to_do(imports):
    nothing, gated = imports("someone/nothing", "someone/gated")
    assert "no folder someone/nothing" in nothing and "hf auth login" in nothing
    assert "no folder someone/gated" in gated and "hf auth login" in gated
    (closed,) = imports("someone/marian", url="http://127.0.0.1:9")
    (offline,) = imports("someone/marian", offline="1")
    assert "HF_HUB_OFFLINE" in offline
    for message in (closed, offline):
        assert "There is no folder someone/marian" in message
        assert "hf download someone/marian" in message


def test_without_huggingface_hub_it_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileNotFoundError, match=r"someone/marian.*pip install 'keras_mt\[hub\]'"):
        import_model("someone/marian", tmp_path / "run")


@pytest.mark.parametrize("name", ["marian", "a/b/c", "someone/model.bin"])
def test_what_is_no_name_is_not_asked_for(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "someone").mkdir()
    (tmp_path / "someone" / "model.bin").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=f"no folder {name}.*OWNER/NAME"):
        import_model(name, tmp_path / "run")
