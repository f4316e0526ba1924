"""The notebook runs, cell by cell, for some steps; it keeps what it shows after all of them."""

import json
import sys
import types
from pathlib import Path

import keras
import pytest
from conftest import ROOT

TEXT = (ROOT / "docs" / "notebooks" / "own_architecture.ipynb").read_text(encoding="utf-8")
CODE = [cell for cell in json.loads(TEXT)["cells"] if cell["cell_type"] == "code"]
# What stands in the first cell, for a run of seconds.
SIZES = {"SENTENCES": 60, "STEPS": 6}


@pytest.mark.long
@pytest.mark.exhaustive
def test_its_cells_run(eager, signatures_alone, monkeypatch, tmp_path):
    def image(path, **options):
        assert Path(path).stat().st_size > 5000

    display = types.ModuleType("IPython.display")
    display.Image = image
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(keras.saving.get_custom_objects(), "notebook>Hybrid", None)
    monkeypatch.chdir(tmp_path)
    signatures_alone("serving_default")
    sizes, *cells = ("".join(cell["source"]) for cell in CODE)
    namespace = {}
    exec(sizes, namespace)
    assert all(namespace[each] > size for each, size in SIZES.items())
    namespace |= SIZES
    for i, source in enumerate(cells):
        exec(compile(source, f"own_architecture[{i}]", "exec"), namespace)


def test_what_it_shows_is_kept():
    kinds = []
    for cell in CODE:
        for output in cell["outputs"]:
            assert output["output_type"] != "error" and output.get("name") != "stderr"
            kinds += output.get("data", {})
    assert kinds.count("image/png") >= 2
    assert len(TEXT) < 600_000
