"""The clients of examples/serving, against a stand-in for the server."""

import json
import re
import runpy
import types

import numpy as np
import pytest
import requests
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's ops
import yaml
from conftest import ROOT
from stand_in import Servable, grpc_door, rest_answer, rest_door

from keras_mt.translation.sessions import SavedModel

pytestmark = pytest.mark.long

SERVING = ROOT / "examples" / "serving"
DOORS = [("rest_client.py", "--url", rest_door), ("grpc_client.py", "--address", grpc_door)]


@pytest.fixture
def client(capsys, monkeypatch):
    """Runs a client; gives what it prints, and the error that it ends with."""

    def run(name, *arguments):
        monkeypatch.setattr("sys.argv", [name, *map(str, arguments)])
        error = None
        try:
            runpy.run_path(str(SERVING / name), run_name="__main__")
        except SystemExit as end:
            error = end.code
        return capsys.readouterr().out, error

    return run


@pytest.mark.parametrize(("name", "option", "door"), DOORS)
def test_a_client_shows_translations_and_scores(
    client, name, option, door, served, translator, sources
):
    texts = [*sources[:2], ""]  # The last has one hypothesis, where the export's n-best is 2.
    # Turned away at first; both clients try again.
    with door(Servable(served, "pt_en", unavailable=1)) as address:
        printed, error = client(name, option, address, "--model", "pt_en", *texts)
    assert error is None
    assert printed.splitlines() == [
        f"{hypothesis.score:.3f}\t{hypothesis.text}"
        for found in translator.hypotheses(texts)
        for hypothesis in found
    ]
    assert printed.endswith("\n0.000\t\n")


@pytest.mark.parametrize(("name", "option", "door"), DOORS)
def test_a_client_names_the_languages_where_it_is_given_them(client, name, option, door):
    strings = "text", "source_language", "target_language"

    class Named:
        structured_input_signature = (), dict.fromkeys(strings, tf.TensorSpec([None], tf.string))

        def __call__(self, text, source_language, target_language):
            found = tf.strings.join([source_language, ">", target_language, " ", text])[:, None]
            return {"translations": found, "scores": tf.zeros_like(found, tf.float32)}

    signatures = {"serving_default": Named()}
    given = "--source-language", "eng_Latn", "--target-language", ""
    with door(Servable(signatures, "many")) as address:
        result = client(name, option, address, "--model", "many", *given, "Hello!")
    assert result == ("0.000\teng_Latn> Hello!\n", None)


@pytest.mark.parametrize(("name", "option", "door"), DOORS)
def test_a_client_says_what_went_wrong(client, name, option, door, served):
    with door(Servable(served, "pt_en")) as address:
        _, error = client(name, option, address, "--model", "other", "Olá!")
    assert "Servable not found" in error
    nobody = "127.0.0.1:9" if name == "grpc_client.py" else "http://127.0.0.1:9"
    _, error = client(name, option, nobody, "--timeout", 0.3, "Olá!")
    assert f"no translation from {nobody}" in error


@pytest.mark.parametrize(("name", "option", "door"), DOORS)
def test_a_client_asks_a_slow_server_once(client, name, option, door, served):
    servable = Servable(served, "pt_en", delay=1.5)
    with door(servable) as address:
        _, error = client(name, option, address, "--model", "pt_en", "--timeout", 0.7, "Olá!")
    assert "no translation from" in error and servable.calls == 1


def test_all_attempts_of_the_rest_client_are_within_its_time(monkeypatch):
    """By a clock that goes on by its pauses, and half a second for each attempt."""
    translate = runpy.run_path(str(SERVING / "rest_client.py"))["translate"]
    now, ends, post = [0.0], [], requests.post

    def sleep(seconds):
        now[0] += seconds

    def slow(*arguments, timeout, **fields):
        ends.append(now[0] + timeout)
        sleep(0.5)
        return post(*arguments, **fields)

    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setitem(translate.__globals__, "time", clock)
    monkeypatch.setattr(requests, "post", slow)
    refused = pytest.raises(requests.HTTPError, match=r"503 .*the batch queue is full")
    with rest_door(Servable(None, "pt_en", unavailable=9)) as address, refused:
        translate(["Olá!"], address, "pt_en", timeout=4)
    # At 0, 1 and 2.5; a fourth would begin at 5.
    assert ends == [4, 4, 4] and now[0] == 3


def test_the_chapters_bodies_are_the_protocols():
    chapter = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    bodies = [json.loads(body) for body in re.findall(r"^curl -d '(.*?)' ", chapter, re.MULTILINE)]
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", chapter, re.DOTALL)]
    exported = SavedModel(ROOT / "saved_models" / "multi30k_en_de" / "1")

    def translate(text):
        return exported.run("serving_default", text=text.numpy())

    translate.structured_input_signature = (), {"text": tf.TensorSpec([None], tf.string)}
    servable = Servable({"serving_default": translate}, "multi30k_en_de")
    assert len(bodies) == len(shown) > 0
    for body, answer in zip(bodies, shown, strict=True):
        found = rest_answer(servable, "multi30k_en_de", body)
        assert found.keys() == answer.keys()
        for name in ("outputs", "predictions"):
            rows, expected = (each.get(name, {}) for each in (found, answer))
            if name == "outputs":
                rows, expected = [rows], [expected]
            for row, like in zip(rows, expected, strict=True):
                assert row.get("translations") == like.get("translations")
                assert np.ravel(row.get("scores", [])) == pytest.approx(
                    np.ravel(like.get("scores", [])),
                    abs=1e-2,  # bfloat16: machines round differently.
                )


def test_containers_get_the_files_that_an_export_writes(exported):
    compose = yaml.safe_load((SERVING / "compose.yaml").read_text())["services"]["translator"]
    manifests = list(yaml.safe_load_all((SERVING / "kubernetes.yaml").read_text()))
    deployment, service = manifests
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    files = {path.name for path in exported.parent.iterdir()}
    for arguments in (compose["command"], container["args"]):
        named = [a.partition("=")[2] for a in arguments if "_file=" in a]
        assert {path.removeprefix("/models/en_de/") for path in named} < files and len(named) == 2
    assert compose["volumes"] == ["../../saved_models/en_de:/models/en_de:ro"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/models/en_de/metadata"
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["tcpSocket"] == liveness["tcpSocket"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 1800  # It may load for long.
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == ports
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    (mount,) = container["volumeMounts"]
    assert [volume["name"] for volume in pod["volumes"]] == [mount["name"]]
