"""Translation in Apache Beam: `make test-beam`, in an environment of its own."""

# ruff: noqa: E402 - Beam may be missing.
import doctest
import gzip
import subprocess
import sys

import pytest
from conftest import ROOT

beam = pytest.importorskip("apache_beam", reason="it needs others' older versions: make test-beam")

from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from keras_mt import ExportedTranslator
from keras_mt import beam as keras_mt_beam
from keras_mt.beam import Translate

# The default one wants to download another program.
RUNNER = "--runner=FnApiRunner"
TOO_LONG = "palavra " * 5000


def run(pairs, transform, check):
    """Runs the transform over pairs; `check` gets its output. Returns the metrics by name."""
    pipeline = beam.Pipeline(options=PipelineOptions([RUNNER]))
    check(pipeline | beam.Create(pairs) | transform)
    result = pipeline.run()
    result.wait_until_finish()
    query = result.metrics().query()
    return {
        found.key.metric.name: found.committed
        for found in query["counters"] + query["distributions"]
        if found.key.metric.namespace == "keras_mt"
    }


def expecting(pairs):
    return lambda output: assert_that(output, equal_to(pairs))


def test_pairs_are_those_of_an_exported_translator(exported, sources):
    keys = [0, "zero", ("a", 1), None, *range(4, len(sources))]
    pairs = list(zip(keys, sources, strict=True))
    best = [found[0].text for found in ExportedTranslator(exported).hypotheses(sources)]
    expected = [*zip(keys, best, strict=True), ("long", ""), ("empty", "")]
    metrics = run(
        [*pairs, ("long", TOO_LONG), ("empty", "")], Translate(str(exported)), expecting(expected)
    )
    assert metrics["refused_texts"] == 1
    assert metrics["num_inferences"] == len(expected)
    assert metrics["load_model_latency_milli_secs"].count == 1
    assert metrics["inference_request_batch_size"].max == len(expected)


def test_texts_of_similar_length_are_collected_in_a_stream(exported):
    pairs = [(i, "Olá!" if i % 2 else "O livro está em cima da mesa.") for i in range(10)]
    metrics = run(pairs, Translate(str(exported), max_batch_duration_secs=1), lambda output: None)
    sizes = metrics["inference_request_batch_size"]
    assert (sizes.count, sizes.min, sizes.max) == (2, 5, 5)


def test_failures_apart(exported, monkeypatch):
    def failing(self, texts):
        raise OSError("the disk is gone")

    def check(output):
        translated, failures = output
        batches = failures.failed_inferences | beam.MapTuple(lambda batch, error: (batch, error[1]))
        assert_that(translated, equal_to([]), "translated")
        assert_that(batches, equal_to([([("good", "Olá!")], "OSError('the disk is gone')")]))

    monkeypatch.setattr(ExportedTranslator, "__call__", lambda self, text: "")
    monkeypatch.setattr(ExportedTranslator, "hypotheses", failing)
    transform = Translate(str(exported)).with_exception_handling()
    run([("good", "Olá!")], transform, check)


class Elsewhere(LocalFileSystem):
    """The machine's files under another scheme, as those of an object store are."""

    @classmethod
    def scheme(cls):
        return "elsewhere"

    def match(self, patterns, limits=None):
        found = super().match([p.removeprefix("elsewhere:/") for p in patterns], limits)
        for result in found:
            for file in result.metadata_list:
                file.path = f"elsewhere:/{file.path}"
        return found

    def open(self, path, *arguments, **options):
        return super().open(path.removeprefix("elsewhere:/"), *arguments, **options)


def test_a_model_in_another_file_system_is_copied(exported):
    (found,) = ExportedTranslator(exported).hypotheses(["Olá!"])
    pairs = [(1, found[0].text)]
    run([(1, "Olá!")], Translate(f"elsewhere:/{exported}/"), expecting(pairs))


def test_the_example_translates_files_in_order_with_two_processes(exported, corpus, tmp_path):
    text = (corpus / "pt.test.txt").read_bytes() * 120  # Of two parts.
    sources = {
        "text.txt": b"Ol\xe1\r\n" + text.rstrip(b"\n").replace(b"\n", b"\r\n"),
        "no.txt": b"",
    }
    for name, data in {**sources, "packed.txt.gz": gzip.compress(text[:900])}.items():
        (tmp_path / name).write_bytes(data)
    files = [tmp_path / name for name in ("text.txt", "no.txt", "packed.txt.gz")]
    command = [sys.executable, ROOT / "examples" / "batch" / "beam_files.py", exported]
    command += [tmp_path / "out", *files, RUNNER]
    command += ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
    assert "num_inferences: 2," in done.stdout
    assert "text.txt, line 1 is left empty: not UTF-8 at byte 3" in done.stderr
    lines = text.decode().splitlines()
    best = dict(zip(lines, ExportedTranslator(exported).hypotheses(lines[:20]) * 120, strict=True))
    expected = "".join(best[line][0].text + "\n" for line in lines)
    out = tmp_path / "out"
    assert (out / "text.txt").read_text(encoding="utf-8") == "\n" + expected
    assert (out / "no.txt").read_bytes() == b""
    with gzip.open(out / "packed.txt.gz", "rt", encoding="utf-8") as packed:
        written = packed.read()
    assert written.count("\n") == text[:900].count(b"\n") + 1
    assert expected.startswith(written[: written.rindex("\n", 0, -1)])
    assert {path.name for path in out.iterdir()} == {"text.txt", "no.txt", "packed.txt.gz"}
    again = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, cwd=ROOT)
    assert again.returncode == 2 and "has text.txt already" in again.stderr


def test_examples_of_the_docstrings_run():
    assert doctest.testmod(keras_mt_beam).attempted
    assert not doctest.testmod(keras_mt_beam).failed
