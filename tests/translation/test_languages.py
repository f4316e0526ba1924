"""A translator between several languages does for each row what one of two languages does."""

import json
import shutil

import keras
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from command import keras_mt
from letters import Tongue, Tongues
from tensorflow_serving.apis import prediction_log_pb2
from test_seam import MAX_LENGTH, by_brute_force, sharpened, transformer

from keras_mt import ExportedTranslator, Glossary, Translator
from keras_mt.convert import from_huggingface, saved_model
from keras_mt.data import Batches
from keras_mt.files import is_run
from keras_mt.inference import Predictor
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.translation import sessions

# Exports are traced all the same.
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("eager")]

PAIRS = [("xx", "yy"), ("yy", "zz"), ("zz", "xx")]
TEXTS = ["bad", "cab\nda", "abc" * 13]  # The third is over the model's limit.
SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))
NAMED = {"source_language": SOURCES, "target_language": TARGETS}
OPTIONS = {"beam_size": 2, "n_best": 2, "max_length": 4}
UNKNOWN = ["", "XX", "xx ", " xx", "xxyy", "</s>", "\u0000", "xx\u0000", "é" * 500, "de"]


@pytest.fixture(scope="module")
def model():
    """One to which both languages matter."""
    keras.utils.set_random_seed(1)
    model = sharpened(transformer(Tongues()), Tongues())
    generator = np.random.default_rng(5)
    model.set_weights([w + 0.5 * generator.normal(size=w.shape) for w in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def translator(model):
    return Translator(model, Tongues(), **OPTIONS)


@pytest.fixture(scope="module")
def pairs(model):
    """For each row the translator that knows its languages alone."""
    return [Translator(model, Tongue(*pair), **OPTIONS) for pair in PAIRS]


def assert_same(found, expected):
    assert [h.text for h in found] == [h.text for h in expected]
    np.testing.assert_allclose([h.score for h in found], [h.score for h in expected], atol=1e-4)


def test_rows_of_unlike_languages_are_translated_as_each_by_itself(translator, pairs):
    texts, prefixes = [*TEXTS, *["bad"] * 3], [*[""] * 3, *["ca"] * 3]
    together = translator.hypotheses(texts, prefixes, True, SOURCES * 2, TARGETS * 2)
    for i, alone in enumerate(pairs[1:], start=1):
        for found, expected in zip(
            together[i::3], alone.hypotheses(texts[i::3], prefixes[i::3], True), strict=True
        ):
            assert_same(found, expected)
            assert [p for p, _ in found[0].tokens] == [p for p, _ in expected[0].tokens]
    scores = [found[0].score for found in together[3:]]  # Of one text and prefix.
    assert np.diff(sorted(scores)).min() > 1e-2
    texts, sources = ["bad", "cab"], ["xx", "zz"]
    found = translator(texts, None, sources, "yy")
    assert translator("bad", None, "xx", "yy") == found[0] == pairs[0]("bad")
    of_tensor = translator(tf.constant(texts), None, tf.constant(sources), "yy").numpy()
    assert [[text.decode() for text in row] for row in of_tensor] == found


def test_a_wide_beam_is_brute_force(model):
    wide = {"beam_size": 4**MAX_LENGTH, "n_best": 3, "max_length": MAX_LENGTH}
    translator = Translator(model, Tongues(), **wide)
    found = translator.hypotheses(["bad", "bad"], None, False, SOURCES[:2], TARGETS[:2])
    for hypotheses, pair in zip(found, PAIRS[:2], strict=True):
        expected = by_brute_force(model, Tongue(*pair), "bad")[:3]
        np.testing.assert_allclose(
            [h.score for h in hypotheses], [score for score, *_ in expected], atol=1e-4
        )


def test_what_the_translator_was_given_holds_where_a_call_says_nothing(model, translator):
    expected = translator(["bad"] * 3, None, ["yy", "yy", "xx"], ["xx", "zz", "yy"])
    own = Translator(model, Tongues(), source_language="yy", target_language="zz", **OPTIONS)
    assert own(["bad"] * 2, target_language=["xx", ""]) == expected[:2]
    own.source_language = "xx"
    own.target_language = "yy"
    text, code = tf.constant(["bad"]), tf.constant([""])
    found = own(text, target_language=code).numpy()
    assert [text.decode() for text in found[0]] == expected[2]
    own.target_language = None
    with pytest.raises(ValueError, match="target_language must be given"):
        own(text, target_language=code)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t("a"), "source_language must be given, since"),
        (lambda t: t([]), "source_language must be given"),
        (lambda t: t("a", source_language="xx"), "target_language must be given"),
        (lambda t: t(tf.constant(["a"]), source_language="xx"), "target_language must be given"),
        (lambda t: t("a", None, "xx", "zy"), "target_language must be a code of the model's"),
        (lambda t: t("a", None, "xxx", "yy"), "source_language='xxx'; did you mean 'xx'?"),
        (
            lambda t: t("a", None, 5, "yy"),
            "source_language must be a code, or a list with one for each text.",
        ),
        (lambda t: t(["a"], None, [5], "yy"), "source_language=5; there are xx, yy, zz."),
        (
            lambda t: t(["a"], None, "xx", ["yy"] * 2),
            "one for each text. Received: 2 for 1 texts",
        ),
        (lambda t: t(["a"], None, "xx", [None]), "target_language must be given"),
        (lambda t: t.score(["a"], ["b"], "xx"), "target_language must be given"),
        (lambda t: t.align("a"), "source_language must be given"),
        (lambda t: t.align("a", None, "xx", "q"), "target_language='q'"),
        (
            lambda t: t(tf.constant(["a"]), None, tf.constant(["xx"] * 2), "yy"),
            "texts and source_language must have the same length",
        ),
        (lambda t: Translator(t.models, t.tokenizer, source_language=""), "source_language=''"),
    ],
)
def test_a_wrong_language_is_refused_by_name(translator, call, message):
    with pytest.raises(ValueError) as info:
        call(translator)
    assert message in str(info.value)


def test_a_model_without_languages_takes_none(pairs):
    for languages in ({"source_language": "xx"}, {"target_language": ["xx"]}):
        with pytest.raises(ValueError, match="_language is for models of several languages"):
            pairs[0](["a"], **languages)
    with pytest.raises(ValueError, match="source_language is for models of several languages"):
        Translator(pairs[0].models, pairs[0].tokenizer, source_language="xx")


@pytest.fixture(scope="module")
def export(model, tmp_path_factory):
    """An export whose default source is yy, and that has no default target."""
    directory = tmp_path_factory.mktemp("saved_models") / "tongues" / "1"
    translator = Translator(model, Tongues(), source_language="yy", **OPTIONS)
    translator.export(directory, signatures=["serving_default", "align"])
    return directory


@pytest.fixture(scope="module")
def exported(export):
    return ExportedTranslator(export)


def test_an_export_is_the_eager_translator(exported, export, translator):
    texts, sources = [*TEXTS, "bad", "bad"], [*SOURCES, "yy", "xx"]
    expected = translator.hypotheses(texts, None, False, sources, [*TARGETS, "zz", "yy"])
    for found, same in zip(exported.hypotheses(TEXTS, **NAMED), expected, strict=False):
        assert_same(found, same)
    expected = [[h.text for h in row] for row in expected[3:]]
    assert exported("bad", target_language="zz") == expected[0]
    texts, sources = tf.constant(["bad", "bad"]), tf.constant(["", "xx"])
    found = exported(texts, None, sources, tf.constant(["zz", "yy"])).numpy()
    assert [[text.decode() for text in row] for row in found] == expected
    with pytest.raises(ValueError, match="target_language must be given"):
        exported("bad")
    with pytest.raises(ValueError, match="source_language='q'; there are xx, yy, zz"):
        exported("bad", None, "q", "xx")
    with pytest.raises(ValueError, match="source_language='q'; there are xx, yy, zz"):
        ExportedTranslator(export, source_language="q")


def test_terms_and_markup_are_held_in_each_language(translator, pairs):
    texts, options = ["<b>bad</b>", "<b>ba</b>d"], {"glossary": Glossary({"bad": "cc"})}
    options["markup"] = "html"
    languages = {name: [code for code in codes for _ in texts] for name, codes in NAMED.items()}
    together = translator.hypotheses(texts * len(PAIRS), **languages, **options)
    for i, alone in enumerate(pairs[:2]):
        found = together[2 * i : 2 * i + 2]
        for hypotheses, expected in zip(found, alone.hypotheses(texts, **options), strict=True):
            assert_same(hypotheses, expected)
        assert all("cc" in hypothesis.text for hypotheses in found for hypothesis in hypotheses)


def test_score_and_align_go_by_the_languages_too(translator, exported, pairs):
    targets = ["cab", "a\nbc", "d"]
    scores = translator.score(TEXTS, targets, **NAMED)
    for i, alone in enumerate(pairs):
        (expected,) = alone.score(TEXTS[i : i + 1], targets[i : i + 1])
        if expected is None:  # Too long for the model.
            assert scores[i] is None
        else:
            assert scores[i].log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    sides = ["cab\nda"] * 2, ["", "a\nbc"]
    for aligning in (translator, exported):
        for found, expected in zip(
            aligning.align(*sides, *PAIRS[2]), pairs[2].align(*sides), strict=True
        ):
            assert found[:2] == expected[:2]
            np.testing.assert_allclose(found[2], expected[2], atol=1e-5)


@pytest.mark.parametrize("name", ["serving_default", "score", "align"])
def test_in_every_signature_a_row_with_an_unknown_code_is_refused_alone(model, name):
    translator = Translator(model, Tongues(), source_language="yy", **OPTIONS)
    functions = saved_model._signatures(translator, Predictor([model]), ["serving_default", name])
    columns = {
        "text": ["bad"] * (2 * len(UNKNOWN) + 2),
        "target": ["cab"] * (2 * len(UNKNOWN) + 2),
        "source_language": ["", *UNKNOWN[1:], *["yy"] * len(UNKNOWN), "", "yy"],
        "target_language": ["", *["zz"] * (len(UNKNOWN) - 1), *UNKNOWN, "zz", "xx"],
    }
    names = [spec.name for spec in functions[name].input_signature]
    assert {"source_language", "target_language"} <= set(names)

    def run(rows):
        outputs = functions[name](*(tf.constant(columns[key][rows]) for key in names))
        return {key: x.numpy() for key, x in outputs.items()}

    outputs = run(slice(None))
    refused, fine = slice(0, -2), slice(-2, None)
    for key, array in outputs.items():
        if key in ("scores", "log_probs"):
            assert (array[refused] == -1e9).all() and (array[fine].max(axis=-1) > -100).all()
        elif key in ("translations", "tokens", "source_tokens", "target_tokens"):
            assert not any(array[refused].ravel()) and all(array[fine].reshape(2, -1)[:, 0])
        else:
            assert not array[refused].any() and array[fine].any()
    alone = run(slice(-1, None))
    for key, array in outputs.items():
        if array.dtype == object:
            np.testing.assert_array_equal(array[-1:], alone[key])
        else:
            np.testing.assert_allclose(array[-1:], alone[key], atol=1e-4)


def test_without_its_card_it_says_what_is_missing(export, tmp_path):
    copy = shutil.copytree(export, tmp_path / "1")
    card = copy / "assets.extra" / "model_card.json"
    values = json.loads(card.read_text())
    damaged = [{**values, "tokenizer": {}}, {**values}]
    del damaged[-1]["options"]
    message = r"model_card\.json must be as the export wrote it, with its options and languages"
    for each in damaged:
        card.write_text(json.dumps(each))
        with pytest.raises(ValueError, match=message):
            ExportedTranslator(copy)
    card.unlink()
    with pytest.raises(ValueError, match=message):
        ExportedTranslator(copy)


def test_its_card_and_its_warm_up_know_the_languages(exported, export):
    card = exported.card
    assert card["tokenizer"]["languages"] == ["xx", "yy", "zz"]
    assert (card["options"]["source_language"], card["options"]["target_language"]) == ("yy", None)
    requests = tf.data.TFRecordDataset(
        str(export / "assets.extra" / "tf_serving_warmup_requests")
    ).as_numpy_iterator()
    seen = set()
    for record in requests:
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        codes = [tf.make_ndarray(request.inputs[f"{n}_language"]) for n in ("source", "target")]
        assert len(codes[0]) == len(codes[1]) == len(tf.make_ndarray(request.inputs["text"]))
        seen |= set(zip(*(column.tolist() for column in codes), strict=True))
    assert len(seen) == 3 and set().union(*seen) == {b"xx", b"yy", b"zz"}


def test_batches_name_the_languages():
    corpus = tf.data.Dataset.from_tensor_slices((["ab", "c", ""], ["ba", "d", "a"]))
    tokenizer = Tongues()
    batches = Batches(corpus, tokenizer, 64, 8, source_language="yy", target_language="zz")
    assert batches.counts.pairs == 2 and batches.counts.blank == 1
    ((inputs, labels),) = batches.epoch(0).as_numpy_iterator()
    pad = start = tokenizer.padding_id
    assert sorted(inputs["source"].tolist()) == [[7, 1, 2, 0], [7, 3, 0, pad]]
    assert sorted(inputs["target"].tolist()) == [[start, 8, 2, 1], [start, 8, 4, pad]]
    assert sorted(labels.tolist()) == [[8, 2, 1, 0], [8, 4, 0, pad]]
    with pytest.raises(ValueError, match="target_language must be given"):
        Batches(corpus, tokenizer, 64, 8, source_language="yy")
    with pytest.raises(ValueError, match="source_language is for models of several languages"):
        Batches(corpus, Tongue("xx", "yy"), 64, 8, source_language="yy")


@pytest.fixture(scope="module")
def run_dir(model, tmp_path_factory):
    """As an import leaves one: no languages of its own, and a generation."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "tongues")
    folder.path.mkdir()
    folder.save_model(model, model.get_weights())
    folder.save_tokenizer(Tongues())
    config = RunConfig([], "mul", "mul", generation={"beam_size": 3, "max_length": 5})
    folder.write_config(config)
    return folder.path


@pytest.fixture
def knows_tongues(monkeypatch):
    monkeypatch.setattr(
        RunFolder, "load_tokenizer", lambda self, kind=None: Tongues.load(self.tokenizer_path)
    )
    facts = {"languages": [*Tongues().languages]}
    monkeypatch.setattr(RunFolder, "tokenizer_facts", lambda self: facts)


@pytest.mark.usefixtures("knows_tongues")
def test_the_command_end_to_end(
    run_dir, model, export, exported, tmp_path, signatures_alone, monkeypatch
):
    monkeypatch.setattr(sessions, "SavedModel", lambda version: exported._engine)
    monkeypatch.setattr(RunFolder, "load_model", lambda *_: model)
    languages = "--source-language", "yy", "--target-language", "xx"
    alone = Translator(model, Tongue("yy", "xx"), beam_size=3, max_length=5)
    found = keras_mt("translate", run_dir, *languages, stdin="bad\ncab")
    assert found.stdout.splitlines() == alone(["bad", "cab"])
    found = keras_mt("translate", export, *languages, stdin="bad")
    assert found.stdout == "\t".join(exported("bad", None, "yy", "xx")) + "\n"
    refused = keras_mt("translate", run_dir, *languages[:2], stdin="bad", exit_code=1)
    assert "--target-language must be given" in refused.stderr
    assert not refused.stdout
    refused = keras_mt("translate", export, *languages[:3], "xy", stdin="bad", exit_code=1)
    assert "--target-language must be a code of the model's languages" in refused.stderr
    (tmp_path / "a").write_text("bad\n")
    (tmp_path / "b").write_text("cab\n")
    files = tmp_path / "a", tmp_path / "b"
    (score,) = alone.score(["bad"], ["cab"])
    found = keras_mt("score", run_dir, *files, *languages).stdout.split()
    assert float(found[0]) == pytest.approx(score.log_prob, abs=1e-3)
    found = json.loads(keras_mt("align", run_dir, *files, *languages).stdout)
    np.testing.assert_allclose(found["attention"], alone.align("bad", "cab")[2], atol=1e-4)
    for command in ("score", "align"):
        refused = keras_mt(command, run_dir, *files, *languages[:2], exit_code=1)
        assert "--target-language must be given" in refused.stderr
    (tmp_path / "corpus.tsv").write_text("a\tb\nbad\tabc\n")
    data = "--data", tmp_path / "corpus.tsv", "--source", "a", "--target", "b", "--split", "train"
    scores = json.loads(keras_mt("evaluate", run_dir, *data, *languages).stdout.splitlines()[-1])
    bleu = sacrebleu.CHRF().corpus_score([alone("bad")], [["abc"]])
    assert scores["sentences"] == 1 and scores["chrf"] == round(bleu.score, 2)
    signatures_alone()
    keras_mt("export", run_dir, tmp_path / "1", *languages[:2], "--length-penalty", 0.5)
    card = json.loads((tmp_path / "1" / "assets.extra" / "model_card.json").read_text())
    expected = {"source_language": "yy", "target_language": None, "beam_size": 3, "max_length": 5}
    assert expected.items() <= card["options"].items() and card["options"]["length_penalty"] == 0.5


@pytest.mark.usefixtures("knows_tongues", "bare_end", "untrained")
def test_fine_tuning_keeps_its_languages_and_how_to_decode(run_dir, tmp_path):
    corpus = tmp_path / "corpus.tsv"
    rows = ["abcd"[i % 4] * (1 + i % 3) for i in range(24)]
    corpus.write_text("a\tb\n" + "".join(f"{row}\t{row[::-1]}\n" for row in rows))
    output = tmp_path / "run"
    arguments = (
        "train", "--data", corpus, "--source", "a", "--target", "b", "--output", output,
        "--init", run_dir, "--max-length", 4, "--batch-tokens", 64,
    )  # fmt: skip
    languages = "--source-language", "yy", "--target-language", "xx"
    refused = keras_mt(*arguments, *languages[:2], "--steps", 2, exit_code=1)
    assert "--target-language must be given" in refused.stderr and not is_run(output)
    keras_mt(*arguments, *languages, "--steps", 2)
    refused = keras_mt(*arguments, *languages[:3], "zz", "--steps", 4, exit_code=1)
    assert "--target-language was 'xx', now 'zz'" in refused.stderr
    config = json.loads((output / "config.json").read_text())
    assert (config["source_language"], config["target_language"]) == ("yy", "xx")
    assert config["generation"] == {"beam_size": 3, "max_length": 5}
    translator = Translator.load(output)
    assert (
        translator.options.beam_size == 3 and translator.options.max_length == 4
    )  # The model's limit.
    alone = Translator(translator.models, Tongue("yy", "xx"), beam_size=3, max_length=4)
    assert translator("ba") == alone("ba")
    assert Translator.load(output, target_language="zz").target_language == "zz"


def test_a_mark_holds_for_all_lines_that_have_none(golden):
    translator = from_huggingface(golden / "marian_marks").with_options(beam_size=1, max_length=4)
    apart = [">>por<< O livro.", ">>por<< A mesa.", ">>eng<< A mesa."]
    text = ">>por<< O livro.\nA mesa.\n>>eng<< A mesa.\nA mesa."
    first, second, other, unmarked, found = translator([*apart, "A mesa.", text])
    assert second != unmarked
    assert found.split("\n") == [first, second, other, second]
    sides = [">>por<< O livro.\nA mesa.", *apart[:2]], ["x y\nz", "x y", "z"]
    together, *alone = (score.log_prob for score in translator.score(*sides))
    assert together == pytest.approx(sum(alone), abs=1e-3)
