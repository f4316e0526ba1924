import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import ExportedTranslator, Transformer, Translator
from keras_mt.convert import saved_model as export_module
from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.inference import Predictor
from keras_mt.layers import sinusoidal_positions
from keras_mt.translation import Hypothesis, sessions

EXHAUSTIVE = [pytest.mark.long, pytest.mark.exhaustive]
TEXT, INT, FLOAT = ("string", [None]), ("int32", [None]), ("float32", [None])
TRANSLATIONS = {"translations": ("string", [None, 2]), "scores": ("float32", [None, 2])}
LONGEST = 5  # Tokens of a translation where that is not the subject.


@pytest.fixture
def small(eager, load):
    return load(beam_size=3, n_best=2, max_length=LONGEST)


@pytest.fixture
def functions(small):
    """The functions that an export writes as its signatures, run op by op."""
    predictor = Predictor([model.for_inference("float32") for model in small.models])
    return export_module._signatures(small, predictor, None)


def run(function, **columns):
    outputs = function(*(tf.constant(columns[spec.name]) for spec in function.input_signature))
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def specs(tensors):
    return {name: (tensor.dtype.name, tensor.shape.as_list()) for name, tensor in tensors.items()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("serving_default", {"text": TEXT}, TRANSLATIONS),
        (
            "greedy",
            {"text": TEXT},
            {"translations": ("string", [None, 1]), "scores": ("float32", [None, 1])},
        ),
        (
            "score",
            {"text": TEXT, "target": TEXT},
            {
                "log_probs": FLOAT,
                "lengths": INT,
                "tokens": ("string", [None, None]),
                "token_log_probs": ("float32", [None, None]),
            },
        ),
        (
            "align",
            {"text": TEXT, "target": TEXT},
            {
                **TRANSLATIONS,
                "source_tokens": ("string", [None, 2, None]),
                "source_lengths": ("int32", [None, 2]),
                "target_tokens": ("string", [None, 2, None]),
                "target_lengths": ("int32", [None, 2]),
                "attention": ("float32", [None, 2, None, None]),
            },
        ),
    ],
)
def test_names_shapes_and_dtypes_stay(signatures, name, inputs, outputs):
    assert set(signatures) == {"serving_default", "greedy", "score", "align"}
    assert specs(signatures[name].structured_input_signature[1]) == inputs
    assert specs(signatures[name].structured_outputs) == outputs


def test_names_shapes_and_dtypes_of_the_default_stay(served):
    assert specs(served["serving_default"].structured_input_signature[1]) == {"text": TEXT}
    assert specs(served["serving_default"].structured_outputs) == TRANSLATIONS


def test_the_table_of_positions_is_held_once(exported, translator):
    table = sinusoidal_positions(translator.models[0].max_length, 64)
    assert (exported / "saved_model.pb").read_bytes().count(table.tobytes()) == 1


def test_greedy_is_a_beam_of_one(functions, load, sources):
    outputs = run(functions["greedy"], text=sources)
    found = load(beam_size=1, max_length=LONGEST).hypotheses(sources)
    assert [row[0].decode() for row in outputs["translations"]] == [h[0].text for h in found]
    np.testing.assert_allclose(outputs["scores"][:, 0], [h[0].score for h in found], atol=1e-4)


def test_score_is_the_translators(functions, small, sources, corpus):
    targets = (corpus / "en.test.txt").read_text(encoding="utf-8").splitlines()[:12]
    scores = small.score(sources, targets)
    texts, targets = [*sources, "palavra " * 500], [*targets, "word"]
    outputs = run(functions["score"], text=texts, target=targets)
    assert outputs["lengths"].tolist() == [*(len(s.tokens) for s in scores), 0]
    expected = [*(s.log_prob for s in scores), -1e9]
    np.testing.assert_allclose(outputs["log_probs"], expected, atol=1e-3)
    for row, score in enumerate(scores):
        tokens, log_probs = zip(*score.tokens, strict=True)
        length = len(tokens)
        assert [token.decode() for token in outputs["tokens"][row][:length]] == [*tokens]
        np.testing.assert_allclose(outputs["token_log_probs"][row][:length], log_probs, atol=1e-4)
        assert not outputs["token_log_probs"][row][length:].any()


def test_align_is_the_translators_row_by_row(functions, small, sources):
    given = ["", "the book is on the table", "", "one\ntwo", "a word"]
    lines, long = f"{sources[2]}\n\n{sources[3]}", "palavra " * 500
    texts = [f"{sources[0]} {sources[4]}\n{sources[5]}", sources[1], "", lines, long]
    every = run(functions["align"], text=texts, target=given)
    outputs = {name: array[:, 0] for name, array in every.items()}
    for row, (text, target) in enumerate(zip(texts[:4], given, strict=False)):
        pieces, target_pieces, attention = small.align(text, target or None)
        rows, columns = attention.shape
        assert outputs["source_lengths"][row] == columns
        assert outputs["target_lengths"][row] == rows
        assert [p.decode() for p in outputs["source_tokens"][row][:columns]] == pieces
        assert [p.decode() for p in outputs["target_tokens"][row][:rows]] == target_pieces
        assert not any(outputs["source_tokens"][row][columns:])
        np.testing.assert_allclose(outputs["attention"][row][:rows, :columns], attention, atol=1e-5)
        assert outputs["attention"][row].sum() == pytest.approx(rows, abs=1e-4)
    own, second = small.hypotheses(texts[0])
    assert outputs["translations"][0].decode() == own.text
    assert every["translations"][0, 1].decode() == second.text
    np.testing.assert_allclose(outputs["scores"], [own.score, 0, 0, 0, -1e9], atol=1e-4)
    np.testing.assert_allclose(every["scores"][:, 1], [second.score, *[-1e9] * 4], atol=1e-4)
    assert every["target_lengths"][:, 1].tolist() == [*every["target_lengths"][:1, 1], 0, 0, 0, 0]
    attention = every["attention"][0, 1][: every["target_lengths"][0, 1]]
    np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-5)
    assert outputs["translations"][1].decode() == given[1]
    assert outputs["target_lengths"][2] == outputs["source_lengths"][2] == 1  # The end alone.
    assert outputs["target_lengths"][4] == outputs["source_lengths"][4] == 0  # Refused.
    assert not outputs["attention"][4].any() and not any(outputs["translations"][[2, 4]])


@pytest.mark.long
def test_every_signature_of_a_model_that_reads_terms_reads_them(eager, load):
    tokenizer = load().tokenizer
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "max_length": 60}
    model = Transformer(tokenizer.vocab_size, **sizes, reads_terms=True, alignment_head=(0, 1))
    translator = Translator(model, tokenizer, beam_size=2, max_length=3)
    names = "serving_default", "greedy", "confidence", "score", "align"
    functions = export_module._signatures(translator, Predictor([model]), names)
    parts = [tokenizer.pieces([part])[0].numpy() for part in ("O livro", "volume", "dorme.")]
    begin, end = tokenizer.term_markers
    source = np.array([[*parts[0], begin, *parts[1], end, *parts[2], tokenizer.eos_id]])
    text, bare = ["O livro\x01volume\x02 dorme."], ["O livro dorme."]
    for name in ("serving_default", "greedy", "confidence"):
        scores = run(functions[name], text=[*text, *bare])["scores"]
        assert abs(scores[0, 0] - scores[1, 0]) > 1e-4
    scored = run(functions["score"], text=text, target=["the book"])
    ids = np.array([*tokenizer.pieces(["the book"])[0].numpy(), tokenizer.eos_id])
    inputs = np.array([[tokenizer.bos_id, *ids[:-1]]])
    log_probs = tf.nn.log_softmax(model({"source": source, "target": inputs})[0]).numpy()
    log_probs = log_probs[np.arange(len(ids)), ids]
    np.testing.assert_allclose(scored["token_log_probs"][0], log_probs, atol=1e-4)
    aligned = run(functions["align"], text=text, target=["the book"])
    assert (
        aligned["source_tokens"][0, 0].tolist()
        == tokenizer.id_to_string(source[0]).numpy().tolist()
    )
    expected = model.attention(source, inputs)
    np.testing.assert_allclose(aligned["attention"][:, 0], expected, atol=1e-5)


@pytest.mark.parametrize("which", ["served", pytest.param("signatures", marks=pytest.mark.long)])
def test_every_signature_takes_an_empty_batch(which, request):
    for signature in request.getfixturevalue(which).values():
        columns = {
            name: tf.zeros((0,), spec.dtype)
            for name, spec in signature.structured_input_signature[1].items()
        }
        for name, tensor in signature(**columns).items():
            assert tensor.shape[0] == 0, name


def test_an_op_that_the_server_lacks_is_refused(exported, monkeypatch):
    export_module._check_ops(exported)
    monkeypatch.setattr(export_module, "_TEXT_OPS", {"SentencepieceOp"})
    with pytest.raises(ValueError, match=r"SentencepieceDetokenizeOp.*TensorFlow Serving"):
        export_module._check_ops(exported)


PLAIN_TENSORFLOW = """
import json, sys
import tensorflow as tf, tensorflow_text
signature = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
assert signature.structured_input_signature[1]["text"].dtype == tf.string
assert signature.structured_input_signature[1]["text"].shape.as_list() == [None]
outputs = signature(text=tf.constant(json.load(sys.stdin)))
assert set(outputs) == {"translations", "scores"}
assert outputs["scores"].dtype == tf.float32
assert not [name for name in sys.modules if name.startswith("keras_mt")]
print(json.dumps([[t.decode() for t in row] for row in outputs["translations"].numpy()]))
print(json.dumps(outputs["scores"].numpy().tolist()))
"""


def test_an_export_gives_the_same_without_keras_mt(python, exported, translator, sources, tmp_path):
    texts = [*sources[:3], "", "palavra " * 100]
    stdin = json.dumps(texts)
    result = python("-c", PLAIN_TENSORFLOW, exported, stdin=stdin, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    translations, scores = map(json.loads, result.stdout.splitlines()[-2:])
    assert translations[:3] == translator(sources[:3])
    for row, found in zip(scores, translator.hypotheses(sources[:3]), strict=False):
        np.testing.assert_allclose(row, [h.score for h in found], atol=1e-4)
    assert translations[3] == ["", ""] and scores[3] == [0, -1e9]
    assert translations[4][0] == translator(texts[4])[0]
    reader = ExportedTranslator(exported.parent)  # The newest version.
    for found, row, own in zip(reader.hypotheses(texts), translations, scores, strict=True):
        assert [h.text for h in found] == row[: len(found)]  # They came in other batches.
        np.testing.assert_allclose([h.score for h in found], own[: len(found)], atol=1e-4)
        assert all(score == -1e9 for score in own[len(found) :])
    options, head = reader.card["options"], translator.models[0].alignment_head
    assert options["beam_size"] == 3
    assert (options["trusted_attention"], options["reads_terms"]) == (head is not None, False)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=EXHAUSTIVE)])
def test_an_export_in_half_precision_is_half_as_large_and_near(
    eager, load, sources, tmp_path, dtype, signatures_alone
):
    signatures_alone("serving_default")
    # One token: on a longer way a near tie may part the two.
    translator = load(beam_size=1, max_length=1)
    translator.export(tmp_path / "1", dtype=dtype)
    half = ExportedTranslator(tmp_path / "1")
    for a, b in zip(translator.hypotheses(sources), half.hypotheses(sources), strict=True):
        assert a[0].score == pytest.approx(b[0].score, abs=0.05)
    variables = tmp_path / "1" / "variables" / "variables.data-00000-of-00001"
    model = translator.models[0]
    weights = model.count_params()
    if dtype != "bfloat16":
        weights += model.vocab_size * model.d_model  # The projection's own.
    assert variables.stat().st_size < 2.2 * weights + 50_000


def test_only_the_signatures_asked_for_are_written(exported):
    export = ExportedTranslator(exported)
    assert {*export._engine.outputs} == {"serving_default", "__saved_model_init_op"}
    warmed = (exported / "assets.extra" / "tf_serving_warmup_requests").read_bytes()
    assert b"serving_default" in warmed and b"greedy" not in warmed


@pytest.mark.parametrize("names", [["greedy"], ["serving_default", "scores"], []])
def test_unknown_signatures_are_refused(translator, tmp_path, names):
    with pytest.raises(ValueError, match=r"serving_default and others of .*greedy.*align"):
        translator.export(tmp_path / "1", signatures=names)
    assert not list(tmp_path.iterdir())


def test_an_export_never_overwrites_and_leaves_nothing_half_done(translator, tmp_path, monkeypatch):
    (tmp_path / "1").mkdir()
    with pytest.raises(FileExistsError, match=r"1 exists and is not"):
        translator.export(tmp_path / "1")

    def fail(*args, **kwargs):
        assert [path.name for path in tmp_path.iterdir() if path.name.isdigit()] == ["1"]
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        translator.export(tmp_path / "2")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda pb: pb.write_bytes(pb.read_bytes()[:-1000]), "saved_model.pb is damaged"),
        (lambda pb: pb.write_bytes(b""), "saved_model.pb is damaged"),
        (lambda pb: tf.saved_model.save(tf.Module(), str(pb.parent)), "is not an export of keras"),
        (
            lambda pb: (pb.parent / "assets.extra" / "model_card.json").write_text("{"),
            r"model_card.json must be as the export wrote it",
        ),
    ],
)
def test_a_folder_that_is_no_export_is_refused(exported, tmp_path, damage, message):
    folder = tmp_path / "1"
    (folder / "assets.extra").mkdir(parents=True)
    shutil.copy(exported / "saved_model.pb", folder)
    damage(folder / "saved_model.pb")
    with pytest.raises(ValueError, match=message):
        ExportedTranslator(tmp_path)


@pytest.mark.parametrize("part", ["variables.index", "variables.data-00000-of-00001"])
def test_damaged_weights_are_named(exported, tmp_path, part):
    folder = tmp_path / "1"
    shutil.copytree(exported, folder)
    (folder / "variables" / part).write_bytes((folder / "variables" / part).read_bytes()[:-9000])
    translator = ExportedTranslator(folder)
    with pytest.raises(ValueError, match=r"1/variables cannot be read: export the run again"):
        translator.hypotheses(["O livro."])


def test_threads_that_ask_at_once_share_a_session(exported, tmp_path, monkeypatch):
    made, read = [], sessions._import

    def slow(version, names):
        made.append(names)
        time.sleep(0.1)
        return read(version, names)

    monkeypatch.setattr(sessions, "_import", slow)
    names = ["serving_default"] * 4
    saved_model = sessions.SavedModel(shutil.copytree(exported, tmp_path / "1"))
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(saved_model._session, names))
    assert len(found) == len(made) == 1


def test_its_fingerprint_is_that_of_its_files(exported, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(exported, folder)
    fingerprint = ExportedTranslator(exported).fingerprint
    assert ExportedTranslator(tmp_path).fingerprint == fingerprint
    weights = folder / "variables" / "variables.data-00000-of-00001"
    weights.write_bytes(weights.read_bytes() + b"more")
    assert ExportedTranslator(folder).fingerprint != fingerprint


def test_columns_of_unlike_length_are_refused(functions):
    with pytest.raises(tf.errors.InvalidArgumentError, match="text, target must have the same"):
        run(functions["score"], text=["O livro."], target=["The book.", "A book."])


@pytest.mark.long
def test_a_sampling_export_is_seeded(eager, load, sources, tmp_path):
    options = {"n_best": 2, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "max_length": 5}
    sources = sources[:4]
    translator = load(seed=4, **options)
    translator.export(tmp_path / "1", signatures=["serving_default"])
    sampled = [[h.text for h in found] for found in translator.hypotheses(sources)]
    exported = ExportedTranslator(tmp_path / "1")
    assert exported.card["options"]["seed"] == 4
    assert [[h.text for h in found] for found in exported.hypotheses(sources)] == sampled
    other = load(seed=5, **options)
    assert [[h.text for h in found] for found in other.hypotheses(sources)] != sampled
    predictor = Predictor(translator.models)
    functions = export_module._signatures(translator, predictor, None)
    greedy = run(functions["greedy"], text=sources)["translations"]
    expected = load(beam_size=1, max_length=5)(sources)
    assert [text.decode() for text in greedy[:, 0]] == expected


def test_it_passes_and_refuses_what_the_translator_does(exported, served, translator, sources):
    texts = ["---", " \t ", f"\t{sources[0]} \r\n?\n", "a" * 20_000]
    expected = translator.hypotheses(texts)
    found = ExportedTranslator(exported).hypotheses(texts)
    assert [h and h[0].text for h in found] == [h and h[0].text for h in expected]
    assert found[:2] == expected[:2] == [[Hypothesis(text, 0.0)] for text in texts[:2]]
    assert found.refusals == expected.refusals and [*found.refusals] == [3]
    outputs = served["serving_default"](text=tf.constant(texts))
    assert outputs["translations"].numpy()[3].tolist() == [b"", b""]
    assert outputs["scores"].numpy()[3].tolist() == [NO_HYPOTHESIS] * 2
