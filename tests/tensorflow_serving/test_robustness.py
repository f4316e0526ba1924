"""A small part of benchmarks/robustness.py, which asks a real model for much more."""

import importlib
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def robustness():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        yield importlib.import_module("robustness")


def test_wild_requests_get_well_formed_answers(robustness, exported_whole):
    result = robustness.run(exported_whole, 20, seed=5)
    assert result["requests"] == 20 and all(result["by_signature"].values())
    assert result["bytes"] > 200


def test_what_is_wrong_with_an_answer_is_seen(robustness):
    request = {"text": [b"a", b"b"]}

    def strings(*rows):
        return np.array(rows, object)

    assert robustness.wrong(request, {"x": strings([b"ok"], ["é".encode()])}) is None
    assert "2" in robustness.wrong(request, {"x": strings([b"one row"])})
    assert "UTF-8" in robustness.wrong(request, {"x": strings([b"\xff"], [b""])})
    assert "finite" in robustness.wrong(request, {"x": np.array([1.0, np.nan])})
