import json
import re

import pytest
from command import keras_mt

pytestmark = pytest.mark.usefixtures("load_once")


def test_score_writes_a_line_for_each_pair(eager, run_dir, load, corpus, tmp_path):
    files = [corpus / f"{language}.test.txt" for language in ("pt", "en")]
    sources, targets = (file.read_text(encoding="utf-8").splitlines() for file in files)
    expected = load().score(sources, targets)
    result = keras_mt("score", run_dir, *files)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    for (log_prob, perplexity), score in zip(rows, expected, strict=True):
        assert float(log_prob) == pytest.approx(score.log_prob, abs=1e-3)
        assert float(perplexity) == pytest.approx(score.perplexity, rel=1e-3)
    total = re.search(r"log-probability (\S+),", result.stderr)[1]
    assert float(total) == pytest.approx(sum(s.log_prob for s in expected), abs=0.01)
    (tmp_path / "a").write_bytes(b"Ol\xc3\xa1!\n\xff\n" + b"palavra " * 500)
    (tmp_path / "b").write_bytes(b"Hello!\nb\nc\n")
    result = keras_mt("score", run_dir, tmp_path / "a", tmp_path / "b", "--json")
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert sum(log_prob for _, log_prob in first["tokens"]) == pytest.approx(first["log_prob"])
    assert "UTF-8" in second["error"] and "more than 63 tokens" in third["error"]
    assert "line 2 skipped" in result.stderr and "line 3 skipped" in result.stderr
