import functools
import hashlib
import json
import subprocess
import sys

import pytest
from conftest import ROOT, needed

from keras_mt import ExportedTranslator, Translator
from keras_mt.files import find_export

EXPORT = ROOT / "saved_models" / "multi30k_en_de"
LITERT = ROOT / "saved_models" / "multi30k_en_de_litert"
CAPTIONS = {
    "A man is reading a book.": "Ein Mann liest ein Buch.",
    "Two dogs run through the snow.": "Zwei Hunde laufen durch den Schnee.",
    "A girl is playing with a red ball in the park.": (
        "Ein Mädchen spielt im Park mit einem roten Ball."
    ),
    "Three people are standing at a bus stop.": "Drei Personen stehen an einer Bushaltestelle.",
    "A boy jumps into the water. Children watch him.": None,
    "An old man sits on a bench and feeds the birds.": None,
    "A cook is cutting vegetables in a kitchen.": None,
    "Two men are riding bicycles down a street.": None,
}
COMMAND = """
import shlex, sys, keras_mt_command
for line in sys.argv[1:]:
    sys.argv[:] = ["keras-mt", *shlex.split(line)]
    try:
        keras_mt_command.main()
    except SystemExit as end:
        assert not end.code, line
print(*sys.modules)
"""


@pytest.mark.long
def test_the_command_runs_an_export_without_keras(tmp_path):
    (tmp_path / "corpus.tsv").write_text("A man is reading a book.\tEin Mann liest ein Buch.\n")
    evaluate = f"evaluate {EXPORT} --data {tmp_path}/corpus.tsv --source en --target de"
    result = subprocess.run(
        [sys.executable, "-c", COMMAND, f"translate {EXPORT}", evaluate],
        cwd=ROOT, input="A man is reading a book.\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer, scores, modules = result.stdout.splitlines()
    assert answer == "Ein Mann liest ein Buch." and json.loads(scores)["bleu"] == 100
    modules = set(modules.split())
    assert {"tensorflow", "keras_mt.translation.exported"} <= modules
    above = {"keras_mt.layers", "keras_mt.models", "keras_mt.translation.translator"}
    assert not {"keras", "tensorflow_text", "jax", *above} & modules


def test_an_export_without_its_card_is_refused_by_name(tmp_path):
    (tmp_path / "saved_model.pb").symlink_to(EXPORT / "1" / "saved_model.pb")
    with pytest.raises(ValueError, match=r"model_card\.json must be as .*: put it back.*No such"):
        ExportedTranslator(tmp_path)


@pytest.fixture(scope="module")
def light():
    needed("ai_edge_litert")
    return ExportedTranslator(LITERT)


def test_the_export_for_litert_translates_captions(light):
    known = {text: translation for text, translation in CAPTIONS.items() if translation}
    assert light(list(known)) == list(known.values())
    score, other = (light.score("Two dogs.", target) for target in ("Zwei Hunde.", "Drei Vögel."))
    assert score.log_prob > other.log_prob + 5
    assert light.align_words("Two dogs.", "Zwei Hunde.").tolist() == [[0, 0], [1, 1]]


@pytest.mark.long
def test_both_exports_of_a_run_translate_alike(light):
    ours, other = light([*CAPTIONS]), ExportedTranslator(EXPORT)
    same = sum(map(str.__eq__, ours, other([*CAPTIONS])))
    assert same >= len(CAPTIONS) - 1  # In 8 bits and in bfloat16 few are not the same.
    for name in ("license", "source", "target", "data", "model", "tokenizer"):
        assert light.card[name] == other.card[name]
    assert light.options == other.options


def test_an_export_for_litert_is_no_version_of_a_savedmodel():
    assert find_export(EXPORT) == EXPORT / "1" and find_export(LITERT) == LITERT
    assert find_export(EXPORT.parent) is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder, card: (folder / "model.tflite").unlink(),
            r"no .*model\.tflite: put it back",
        ),
        (lambda folder, card: (folder / "tokenizer.model").unlink(), r"no .*tokenizer\.model: put"),
        (lambda folder, card: card["options"].pop("limit"), r"model_card\.json must .*'limit'"),
        (lambda folder, card: card["tokenizer"].pop("sha256"), r"model_card\.json must .*'sha256'"),
        (
            lambda folder, card: card["tokenizer"].update(sha256="0"),
            r"is not that of its model\.tfl",
        ),
        (lambda folder, card: None, r"model\.tflite cannot be read: update ai-edge-litert, or exp"),
    ],
)
def test_a_damaged_export_for_litert_is_refused_by_name(damage, message, tmp_path):
    model = (ROOT / "examples" / "multi30k" / "cased" / "tokenizer.model").read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(model)
    (tmp_path / "model.tflite").write_bytes(b"none")
    options = {"limit": 64, "rows": None, "reads_terms": False, "shortlist": False}
    card = {"options": options, "tokenizer": {"sha256": hashlib.sha256(model).hexdigest()}}
    damage(tmp_path, card)
    (tmp_path / "model_card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match=message):
        ExportedTranslator(tmp_path)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"prefixes": []}, "takes no prefixes"),
        ({"token_scores": True}, "gives no token scores"),
        ({"confidence": True}, "gives no confidence"),
    ],
)
def test_what_an_export_does_not_give_is_refused_before_any_text(exported, asked, message):
    with pytest.raises(ValueError, match=message):
        ExportedTranslator(exported).hypotheses([], **asked)


def test_an_export_in_the_place_of_a_run_is_named(run_dir):
    load = functools.partial(Translator.load, dtype=None)
    for paths in (EXPORT, [run_dir, EXPORT]):
        with pytest.raises(ValueError, match=r"multi30k_en_de is an export.* give the run folder"):
            load(paths)
