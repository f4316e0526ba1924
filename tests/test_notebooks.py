"""The notebooks run, cell by cell, on less text; what they show on all of it is kept in them."""

import json
import sys
import types
from pathlib import Path

import keras
import pytest
from conftest import ROOT

# What stands in the first cell of each, for a run of seconds.
SIZES = {
    "text_to_server": {"PAIRS": 400, "EPOCHS": 1},
    "own_architecture": {"SENTENCES": 60, "STEPS": 6},
}
NOTEBOOKS = {
    name: json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    for name in SIZES
}


def code(name):
    return [cell for cell in NOTEBOOKS[name]["cells"] if cell["cell_type"] == "code"]


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SIZES)
def test_its_cells_run(name, eager, signatures_alone, monkeypatch, tmp_path):
    def image(path, **options):
        assert Path(path).stat().st_size > 5000

    display = types.ModuleType("IPython.display")
    display.Image = image
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(keras.saving.get_custom_objects(), "notebook>Hybrid", None)
    monkeypatch.chdir(tmp_path)
    signatures_alone("serving_default")
    sizes, *cells = ("".join(cell["source"]) for cell in code(name))
    namespace = {}
    exec(sizes, namespace)
    assert all(namespace[each] > size for each, size in SIZES[name].items())
    namespace |= SIZES[name]
    for i, source in enumerate(cells):
        exec(compile(source, f"{name}[{i}]", "exec"), namespace)
        if "references" in namespace:  # A model of some steps writes more than it can align.
            namespace["translations"] = namespace["references"]


@pytest.mark.parametrize("name", SIZES)
def test_what_it_shows_is_kept(name):
    kinds = []
    for cell in code(name):
        for output in cell["outputs"]:
            assert output["output_type"] != "error" and output.get("name") != "stderr"
            kinds += output.get("data", {})
    assert kinds.count("image/png") >= 2
    assert len(json.dumps(NOTEBOOKS[name])) < 600_000
