"""What a model server does with an export, done without one."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from calls import DTYPES, predict_request, requests, tensors
from conftest import ROOT
from google.protobuf import text_format
from stand_in import Servable, rest_answer
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from keras_mt import Tokenizer, Translator
from keras_mt.alignment import Shortlist
from keras_mt.convert import from_huggingface
from keras_mt.convert.assets import sample_texts, write_configurations
from keras_mt.models import ARCHITECTURES

HERE = Path(__file__).parent
# `make test-serving` gives one with the TensorFlow that stock TensorFlow Serving is built on.
PYTHON = os.environ.get("SERVING_PYTHON", sys.executable)
SIGNATURES = ["serving_default", "greedy", "score", "align"]


@pytest.fixture(scope="module")
def calls(sources, corpus):
    return requests(
        sources[:2], (corpus / "en.test.txt").read_text(encoding="utf-8").splitlines()[:2]
    )


@pytest.fixture(scope="module")
def answers(signatures, calls):
    """By signature, what Python gets."""
    return {
        name: {n: t.numpy() for n, t in signatures[name](**tensors(inputs)).items()}
        for name, inputs in calls.items()
    }


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(found[name], array, atol=1e-4)
        else:
            np.testing.assert_array_equal(found[name], array)


@pytest.fixture(scope="module")
def warm_up_logs(exported_whole):
    path = exported_whole / "assets.extra" / "tf_serving_warmup_requests"
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in records]


@pytest.fixture(scope="module")
def session(python, exported_whole, calls, warm_up_logs, tmp_path_factory):
    """The PredictResponses to `calls`, and to `warm_up_logs`, from a process of its own."""
    logs = []
    for name, inputs in calls.items():
        logs.append(prediction_log_pb2.PredictionLog())
        logs[-1].predict_log.request.CopyFrom(predict_request(name, inputs))
    folder = tmp_path_factory.mktemp("session")
    with tf.io.TFRecordWriter(str(folder / "requests")) as writer:
        for log in [*logs, *warm_up_logs]:
            writer.write(log.SerializeToString())
    arguments = [HERE / "session.py", exported_whole, folder / "requests", folder / "responses"]
    if sys.executable == PYTHON:
        result = python(*arguments)
        assert result.returncode == 0, result.stderr
    else:
        subprocess.run([PYTHON, *arguments], check=True, cwd=folder)
    records = tf.data.TFRecordDataset(str(folder / "responses")).as_numpy_iterator()
    responses = [predict_pb2.PredictResponse.FromString(record) for record in records]
    return responses[: len(logs)], responses[len(logs) :]


@pytest.mark.long
def test_a_session_answers_as_python_does(session, calls, answers):
    for response, name in zip(session[0], calls, strict=True):
        found = {n: tf.make_ndarray(proto) for n, proto in response.outputs.items()}
        assert_same(found, answers[name])


@pytest.mark.long
def test_the_warm_up_requests_replay(session, warm_up_logs):
    seen = set()
    for log, response in zip(warm_up_logs, session[1], strict=True):
        request = log.predict_log.request
        sizes = {proto.tensor_shape.dim[0].size for proto in request.inputs.values()}
        (size,) = sizes
        seen.add((request.model_spec.signature_name, size))
        for name, proto in response.outputs.items():
            assert proto.tensor_shape.dim[0].size == size
            if name == "scores":  # None is refused.
                best = tf.make_ndarray(proto).reshape(size, -1)[:, 0]
                assert (best > -1e9).all()
            if name == "target_lengths":
                assert (tf.make_ndarray(proto)[:, 0] > 1).all()  # Of the best, or the one given.
    assert seen == {(name, size) for name in SIGNATURES for size in (1, 8, 64)}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The C program that runs a SavedModel."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler (gcc)")
    program, library = tmp_path_factory.mktemp("c") / "no_python", Path(tf.sysconfig.get_lib())
    names = ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]
    gold = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []  # A quarter of the time.
    subprocess.run(
        ["gcc", *gold, "-O1", "-Wall", "-Werror", "-o", program, HERE / "no_python.c",
         f"-I{tf.sysconfig.get_include()}", f"-L{library}", f"-Wl,-rpath,{library}",
         *(f"-l:{name}" for name in names)],
        check=True,
    )  # fmt: skip
    return program


def answers_without_python(program, saved_model, calls):
    """By signature, what the C program gets."""
    (meta_graph,) = saved_model_pb2.SavedModel.FromString(
        (saved_model / "saved_model.pb").read_bytes()
    ).meta_graphs
    plan, fetched = [], []
    for name, inputs in calls.items():
        definition = meta_graph.signature_def[name]
        for key, values in inputs.items():
            dtype = {tf.string: "string", tf.int32: "int32", tf.float32: "float"}[DTYPES[key]]
            plan.append(f"feed {definition.inputs[key].name} {dtype} {len(values)}")
            plan += [v.encode().hex() if dtype == "string" else str(v) for v in values]
        for key, info in definition.outputs.items():
            plan.append(f"fetch {info.name}")
            fetched.append((name, key))
        plan.append("run")
    ops = Path(tensorflow_text.__file__).parent / "python" / "ops" / "_sentencepiece_tokenizer.so"
    result = subprocess.run(
        [program, saved_model, ops], env={**os.environ, "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"},
        input="\n".join(plan) + "\n", stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    lines = iter(result.stdout.split("\n"))
    found = {name: {} for name in calls}
    for name, key in fetched:
        _, dtype, _, *shape = next(lines).split()
        shape = [int(size) for size in shape]
        values = [next(lines) for _ in range(np.prod(shape))]
        convert = {"7": bytes.fromhex, "3": int, "1": float}[dtype]
        values = np.array([convert(value) for value in values], object if dtype == "7" else None)
        found[name][key] = values.reshape(shape)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [["serving_default"], pytest.param(SIGNATURES, marks=pytest.mark.exhaustive)],
    ids=["search", "all"],
)
def test_a_c_program_answers_as_python_does(names, program, exported_whole, calls, answers):
    asked = {name: calls[name] for name in names}
    found = answers_without_python(program, exported_whole, asked)
    for name in names:
        assert_same(found[name], answers[name])


ONE_LAYER = {"num_layers": 1, "d_model": 32, "max_length": 64}


@pytest.mark.long
@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("recurrent", {"cell": "lstm", "attention": "bilinear"}),
        pytest.param("mixture_of_experts", {"sparse_step": 1}, marks=pytest.mark.exhaustive),
        pytest.param("decoder_only", {}, marks=pytest.mark.exhaustive),
    ],
)
def test_an_export_of_each_architecture_answers_without_python(
    architecture, options, program, translator, sources, tmp_path, eager, signatures_alone
):
    signatures_alone("serving_default")
    tokenizer, cls = translator.tokenizer, ARCHITECTURES[architecture]
    model = cls.from_preset("tiny", vocab_size=tokenizer.vocab_size, **ONE_LAYER, **options)
    own = Translator(model, tokenizer, beam_size=2, n_best=2, max_length=6)
    own.export(tmp_path / "1")
    calls = {"serving_default": {"text": sources[:3]}}
    found = answers_without_python(program, tmp_path / "1", calls)["serving_default"]
    for row, scores, hypotheses in zip(
        found["translations"], found["scores"], own.hypotheses(sources[:3]), strict=True
    ):
        assert [text.decode() for text in row] == [h.text for h in hypotheses]
        np.testing.assert_allclose(scores, [h.score for h in hypotheses], atol=1e-4)


@pytest.mark.long
def test_each_batch_has_the_weights_of_its_own_shortlist(
    program, translator, corpus, tmp_path, eager, monkeypatch
):
    monkeypatch.setattr("keras_mt.inference.graph._SEARCH_ROWS", 4)
    tokenizer = translator.tokenizer
    sources = (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()
    model = ARCHITECTURES["transformer"].from_preset(
        "tiny", vocab_size=tokenizer.vocab_size, **ONE_LAYER
    )
    size = tokenizer.vocab_size
    table = (3 * np.arange(size)[:, None] + np.arange(3)) % size  # As many tokens for each.
    shortlist = Shortlist(table.astype("int32"), np.arange(4), tokenizer.fingerprint)
    own = Translator(model, tokenizer, beam_size=2, max_length=4, shortlist=shortlist)
    own.export(tmp_path / "1", signatures=["serving_default"])
    words = sorted({word for source in sources for word in source.split()})
    lengths = tokenizer.tokenize(words).row_lengths().numpy()
    a, b, c, d = itertools.islice(itertools.compress(words, lengths == 1), 4)
    # Longer texts come first.
    texts = [f"{a} {b} {b}"] * 4 + [f"{c} {d}"] * 4
    calls = {"serving_default": {"text": texts}}
    found = answers_without_python(program, tmp_path / "1", calls)["serving_default"]
    assert [row[0].decode() for row in found["translations"]] == own(texts)


@pytest.mark.long
@pytest.mark.exhaustive
def test_a_c_program_and_rest_rows_translate_between_languages(program, tmp_path, signatures_alone):
    with tarfile.open(ROOT / "tests" / "convert" / "golden" / "folders.tar.xz") as archive:
        members = [member for member in archive if member.name.startswith("nllb/")]
        archive.extractall(tmp_path, members, filter="data")
    signatures_alone("serving_default", "score", "align")
    translator = from_huggingface(tmp_path / "nllb")
    translator.export(tmp_path / "1")
    pt, en = "por_Latn", "eng_Latn"
    columns = {
        "text": ["O livro está na mesa.", "The book is here.", "Um livro.", "Um livro.", ""],
        "source_language": [pt, en, "", "xxx", pt],
        "target_language": [en, pt, "", en, en],
    }
    given = {**columns, "target": ["The book.", "", "A book.", "A book.", ""]}
    calls = {"serving_default": columns, "score": given, "align": given}
    found = answers_without_python(program, tmp_path / "1", calls)
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    for name, inputs in calls.items():
        expected = signatures[name](**tensors(inputs))
        assert_same(found[name], {n: tensor.numpy() for n, tensor in expected.items()})
    best = [row[0].decode() for row in found["serving_default"]["translations"]]
    assert best[:2] == translator(columns["text"][:2], None, [pt, en], [en, pt])
    assert all(best[:3]) and best[3:] == ["", ""]
    instances = [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    rows = rest_answer(Servable(signatures, "nllb"), "nllb", {"instances": instances})
    assert [row["translations"] for row in rows["predictions"]] == [[text] for text in best]
    assert [row["scores"][0] == -1e9 for row in rows["predictions"]] == [False] * 3 + [True, False]


@pytest.mark.parametrize(
    "which", ["exported", pytest.param("exported_whole", marks=pytest.mark.long)]
)
def test_no_function_must_be_compiled_by_xla(which, request):
    path = request.getfixturevalue(which) / "saved_model.pb"
    saved_model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    (meta_graph,) = saved_model.meta_graphs
    functions = meta_graph.graph_def.library.function
    assert len(functions) > 10
    for function in functions:
        assert not function.attr["_XlaMustCompile"].b, function.signature.name
        for node in function.node_def:
            assert not node.attr["_XlaMustCompile"].b, node.name


def test_a_server_can_read_the_configurations(exported):
    folder = exported.parent
    config = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((folder / "models.config").read_text(), config)
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("pt_en", "/models/pt_en")
    lines = (folder / "batching.config").read_text().splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    batching = dict(re.fullmatch(r"(\w+) \{ value: (\d+) \}", line).groups() for line in lines)
    assert batching.keys() == {
        "max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads",
    }  # fmt: skip


def test_configurations_that_are_there_stay(tmp_path):
    (tmp_path / "en_de").mkdir()
    (tmp_path / "en_de" / "batching.config").write_text("mine")
    write_configurations(tmp_path / "en_de")
    assert (tmp_path / "en_de" / "batching.config").read_text() == "mine"
    assert (tmp_path / "en_de" / "models.config").exists()


def test_an_export_into_the_folder_one_is_in(translator, tmp_path, monkeypatch, signatures_alone):
    signatures_alone()  # None is traced.
    (tmp_path / "en_de").mkdir()
    monkeypatch.chdir(tmp_path / "en_de")
    translator.export("1")
    assert 'name: "en_de"' in Path("models.config").read_text()
    card = json.loads(Path("1/assets.extra/model_card.json").read_text())
    assert (card["name"], card["version"]) == ("en_de", "1")


def test_the_card_says_what_the_model_is(exported, translator):
    card = json.loads((exported / "assets.extra" / "model_card.json").read_text(encoding="utf-8"))
    assert (card["name"], card["version"], card["license"]) == ("pt_en", "1", "Apache-2.0")
    assert (card["source"], card["target"]) == ("pt", "en") and card["data"]
    assert card["model"]["parameters"] == translator.models[0].count_params()
    assert card["options"]["beam_size"] == 3
    assert card["versions"]["tensorflow"] == tf.__version__


def test_warm_up_texts_are_made_of_words(translator):
    texts = sample_texts(translator.tokenizer, 20)
    assert len({len(text.split()) for text in texts}) > 5
    ids = {piece for text in texts for piece in translator.tokenizer.tokenize(text).numpy()}
    assert Tokenizer.unknown_id not in ids and len(ids) > 20


def test_the_card_names_corpora_and_no_paths(run_dir, exported, tmp_path):
    copy = shutil.copytree(run_dir, tmp_path / "run")
    config = json.loads((copy / "config.json").read_text())
    config["data"] = [str(tmp_path / "secret" / "corpus"), "tfds:ted_hrlr_translate/pt_to_en"]
    (copy / "config.json").write_text(json.dumps(config))
    card = Translator.load(copy).card
    assert card["data"] == ["corpus", "tfds:ted_hrlr_translate/pt_to_en"]
    assert "/" not in (exported / "assets.extra" / "model_card.json").read_text()


def test_one_export_is_called_from_eight_threads(served, sources):
    signature, texts = served["serving_default"], tf.constant(sources[:3])
    expected = signature(text=texts)["translations"].numpy().tolist()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: signature(text=texts)["translations"], range(16)))
    assert all(each.numpy().tolist() == expected for each in found)
