import json
import os
import re
import shlex
import subprocess
import sys

import click
import pytest
import sacrebleu
from click.testing import CliRunner
from conftest import ROOT

from keras_mt import Translator
from keras_mt.cli import main

COMMAND = ROOT / "keras_mt_command.py"


def keras_mt(*arguments, stdin=b"", check=True):
    """Runs the command in this process, which spares TensorFlow's start."""
    result = CliRunner().invoke(main, [*map(str, arguments)], input=stdin, catch_exceptions=False)
    if check:
        assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """What the command loads it loads once for all tests, since each is traced anew."""
    loaded, load = {}, Translator.load

    def load_once(*arguments, **options):
        key = repr((arguments, sorted(options.items())))
        return loaded[key] if key in loaded else loaded.setdefault(key, load(*arguments, **options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "load", load_once)
        yield


def wild_lines():
    """Lines of all kinds, each with whether it must be refused."""
    return [
        ("O livro está em cima da mesa.".encode(), False),
        (b"", False),
        (b"palavra " * 500, False),
        ("😀👩‍👩‍👧‍👦 🇧🇷".encode(), False),
        (b"a\x00b\x01\x02\x07\x1b[31mc\x7f", False),
        (b"caf\xe9 \xff\xfe", True),
        ("uma linha\u2028outra\u2029e outra\x85fim".encode(), False),
        ("日本語の文です。".encode(), False),
        (b"\x01\x02", True),
        (b"carriage\rreturn\r", False),
        ("▁ <s> </s> <pad> <0x41>".encode(), False),
        (b"   ", False),
        ("O gato está no jardim.".encode(), False),
    ]


@pytest.mark.parametrize(("model", "last_newline"), [("run_dir", b"\n"), ("exported", b"")])
def test_translate_writes_a_line_for_each_line(model, last_newline, request):
    lines, refused = zip(*wild_lines(), strict=True)
    result = keras_mt(
        "translate", request.getfixturevalue(model), stdin=b"\n".join(lines) + last_newline
    )
    out = result.stdout.removesuffix("\n").split("\n")
    assert len(out) == len(lines)
    messages = result.stderr
    for number, (line, is_refused) in enumerate(zip(lines, refused, strict=True), start=1):
        assert (f"line {number} refused" in messages) == is_refused, (number, line)
        if is_refused or not line.strip():
            assert not out[number - 1].strip()


def test_translate_is_the_translator_in_order(run_dir, load, corpus):
    lines = (corpus / "pt.test.txt").read_bytes()
    out = keras_mt("translate", run_dir, corpus / "pt.test.txt").stdout
    assert out.splitlines() == load()(lines.decode().splitlines())
    assert keras_mt("translate", run_dir, stdin=b"").stdout == ""


def test_translate_gives_scores_as_json(eager, run_dir, corpus):
    options = ("--beam-size", 3, "--n-best", 2, "--length-penalty", 0.6)
    lines = (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:3]
    lines.append("palavra " * 60)  # Over the limit.
    stdin = "\n".join(lines).encode()
    out = keras_mt("translate", run_dir, *options, "--json", stdin=stdin).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    translator = Translator.load(run_dir, beam_size=3, n_best=2, length_penalty=0.6)
    for row, line, found in zip(rows, lines, translator.hypotheses(lines), strict=True):
        assert row["source"] == line
        assert [t["text"] for t in row["translations"]] == [h.text for h in found]
        for t, h in zip(row["translations"], found, strict=True):
            assert t["score"] == pytest.approx(h.score, abs=1e-4)
    plain = keras_mt("translate", run_dir, *options, stdin=stdin).stdout.splitlines()
    assert plain[0] == "\t".join(t["text"] for t in rows[0]["translations"])


def test_translate_takes_prefixes_and_gives_token_scores(python, run_dir, corpus, tmp_path):
    lines = (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()
    prefixes = ["The", "", "A"] * 6 + ["", "x"]
    (tmp_path / "prefixes.txt").write_text("\n".join(prefixes), encoding="utf-8")
    options = ("--prefixes", tmp_path / "prefixes.txt", "--json", "--token-scores")
    out = keras_mt("translate", run_dir, corpus / "pt.test.txt", *options).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == len(lines) == len(prefixes)
    for row, prefix in zip(rows, prefixes, strict=True):
        (translation,) = row["translations"]
        assert translation["text"].startswith(prefix)
        log_probs = [log_prob for _, log_prob in translation["tokens"]]
        assert sum(log_probs) / len(log_probs) == pytest.approx(translation["score"], abs=1e-3)
    # A standard input with a name, unlike click's.
    result = python(COMMAND, "translate", run_dir, *options, stdin="one line")
    assert result.returncode == 1 and "one ends after 1" in result.stderr


def test_a_line_with_nothing_to_translate_is_refused_with_token_scores_too(run_dir):
    result = keras_mt("translate", run_dir, "--json", "--token-scores", stdin=b"\x01\n")
    assert "line 1 refused: nothing in it to translate" in result.stderr
    assert json.loads(result.stdout)["translations"] == []


def test_score_writes_a_line_for_each_pair(run_dir, load, corpus, tmp_path):
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
    assert "UTF-8" in second["error"] and "longer" in third["error"]
    assert "line 2 refused" in result.stderr and "line 3 refused" in result.stderr


def test_align_writes_the_attention_of_each_pair(run_dir, load, corpus, tmp_path):
    files = [tmp_path / "sources", tmp_path / "targets"]
    for file, language in zip(files, ("pt", "en"), strict=True):
        lines = (corpus / f"{language}.test.txt").read_text(encoding="utf-8").splitlines()
        file.write_text("\n".join(lines[:5]), encoding="utf-8")
    sources, targets = (file.read_text(encoding="utf-8").splitlines() for file in files)
    rows = keras_mt("align", run_dir, *files).stdout.splitlines()
    assert len(rows) == len(sources)
    translator = load()
    for line, *pair in zip(map(json.loads, rows[:3]), sources, targets, strict=False):
        pieces, target_pieces, attention = translator.align(*pair)
        assert (line["source"], line["target"]) == (pieces, target_pieces)
        for row, weights in zip(line["attention"], attention, strict=True):
            assert row == pytest.approx(list(weights), abs=1e-3)
    (tmp_path / "a").write_bytes(b"Ol\xc3\xa1!\n" + b"palavra " * 500)
    (tmp_path / "b").write_bytes(b"Hello!\nword\n")
    result = keras_mt("align", run_dir, tmp_path / "a", tmp_path / "b")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first["target"][-1] == "</s>" and "limit" in second["error"]
    assert "line 2 refused" in result.stderr
    # Its own translation is of a text cut in pieces.
    first, second = map(json.loads, keras_mt("align", run_dir, tmp_path / "a").stdout.splitlines())
    assert first["target"][-1] == "</s>" and second["source"].count("</s>") > 5


def test_scores_and_alignments_are_as_the_chapter_shows(eager, tmp_path):
    chapter = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```json\n(.*?)^```$", chapter, flags=re.MULTILINE | re.DOTALL)
    for name, text in (("source", "A man sleeps."), ("target", "Ein Mann schläft.")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    run, files = (
        ROOT / "examples" / "multi30k" / "cased",
        (tmp_path / "source", tmp_path / "target"),
    )
    answers = (keras_mt("score", run, *files, "--json"), keras_mt("align", run, files[0]))
    number = r"-?\d+\.\d+"
    for block, answer in zip(shown, answers, strict=True):
        one, other = (json.dumps(json.loads(text)) for text in (block, answer.stdout))
        assert re.sub(number, "", one) == re.sub(number, "", other)
        one, other = ([float(each) for each in re.findall(number, text)] for text in (one, other))
        assert one == pytest.approx(other, abs=1e-3)


def test_evaluate_takes_an_ensemble(eager, run_dir, corpus):
    arguments = ("--data", corpus, "--source", "pt", "--target", "en", "--beam-size", 2)
    alone, twice = (
        json.loads(keras_mt("evaluate", run_dir, *arguments, *more).stdout.splitlines()[-1])
        for more in ((), ("--ensemble", run_dir))
    )
    for scores in (alone, twice):
        del scores["seconds"], scores["sentences_per_second"]
    assert alone == twice and alone["bleu"] > 50


def test_two_exports_are_evaluated_together(exported, corpus, tmp_path):
    (tmp_path / "other").symlink_to(exported)
    data = ["--data", corpus, "--source", "pt", "--target", "en", "--split", "validation"]
    result = keras_mt("evaluate", exported, tmp_path / "other", *data, "--resamples", 0)
    first, second = json.loads(result.stdout.splitlines()[-1])["systems"]
    assert first["bleu"] == second["bleu"] > 50


def test_evaluate_prints_sacrebleus_scores_last(run_dir, load, corpus, exported):
    arguments = ("--data", corpus, "--source", "pt", "--target", "en")
    scores = json.loads(keras_mt("evaluate", run_dir, *arguments).stdout.splitlines()[-1])
    sources, references = (
        (corpus / f"{language}.test.txt").read_text(encoding="utf-8").splitlines()
        for language in ("pt", "en")
    )
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    translations = load()(sources)
    assert 50 < scores["bleu"] < 100
    assert scores["bleu"] == round(bleu.corpus_score(translations, [references]).score, 2)
    assert scores["chrf"] == round(chrf.corpus_score(translations, [references]).score, 2)
    assert scores["bleu_signature"] == str(bleu.get_signature())
    assert scores["chrf_signature"] == str(chrf.get_signature())
    others = keras_mt("evaluate", exported.parent, *arguments, "--split", "validation")
    others = json.loads(others.stdout.splitlines()[-1])
    assert set(others) == set(scores) and 50 < others["bleu"] != scores["bleu"]


@pytest.mark.parametrize("other", ["ctranslate2", "onnx"])
def test_a_format_without_a_search_takes_no_options_of_it(other, run_dir, tmp_path):
    options = ["--n-best", 3, "--max-length", 5]
    result = keras_mt("export", run_dir, tmp_path / "out", "--format", other, *options, check=False)
    assert result.exit_code == 2 and "leave --n-best, --max-length out" in result.stderr
    assert not list(tmp_path.iterdir())


def test_options_fixed_at_the_export_are_refused(exported):
    result = keras_mt("translate", exported, "--beam-size", 3, stdin=b"x", check=False)
    assert result.exit_code == 1
    assert "fixed options: give --beam-size to `keras-mt export`" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--data", "/nowhere", "--source", "en", "--target", "de", "--output", "x"),
         "There is no corpus '/nowhere'"),
        (("train", "--data", "phrasebook", "--source", "en", "--target", "de", "--output", "x"),
         "no language 'de'; it has pt, en"),
        (("train", "--data", "phrasebook", "--source", "pt", "--target", "en", "--output", "x",
          "--init", "/nowhere"), "/nowhere is not a finished run folder"),
        (("translate", "."), "neither a run folder nor a SavedModel"),
        (("export", ".", "new"), "not a finished run folder"),
    ],
)  # fmt: skip
def test_errors_are_one_message_and_no_stack(python, tmp_path, arguments, message):
    result = python(COMMAND, *arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) < 4


def test_nor_do_tensorflows_own_messages_show(tmp_path):
    command = [sys.executable, COMMAND, "export", ".", "new"]  # It prints as it is imported.
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and len(result.stderr.splitlines()) < 4


def test_translate_ends_silently_when_nobody_reads_on(python_command, run_dir):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*python_command, COMMAND, "translate", run_dir, "--beam-size", "1"],
        input=b"Oi.\n", stdout=writer, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writer)
    assert result.stderr == b"" and result.returncode != 0


@pytest.mark.parametrize(("name", "option"), [("evaluate", "tokenize"), ("train", "bleu-tokenize")])
def test_an_unknown_tokenizer_is_refused_at_once(name, option, tmp_path):
    model = [tmp_path] if name == "evaluate" else []
    result = keras_mt(name, *model, f"--{option}", "foo", check=False)
    assert result.exit_code == 2 and f"'--{option}': 'foo' is not one of" in result.output
    assert "13a" in result.output


@pytest.mark.long
def test_train_takes_corpora_and_options_and_average_follows(corpus, micro, tmp_path):
    result = keras_mt(
        "train", "--data", corpus, "--data", "phrasebook",
        "--corpus-weight", 2, "--corpus-weight", 1,
        "--source", "pt", "--target", "en", "--output", tmp_path / "run", "--steps", 4,
        "--vocab-size", 600, "--max-length", 32, "--max-ratio", 3, "--deduplicate",
        "--subword-sampling", 0.5, "--augment", "caps,punctuation", "--rdrop-weight", 5,
        "--gradient-accumulation-steps", 2, "--clip-norm", 1,
        "--checkpoint-steps", 2, "--learning-rate", 0.001, "--batch-tokens", 256,
        "--preset", micro,
    )  # fmt: skip
    assert "duplicates" in result.output and "finished at step 4" in result.output
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"] == [str(corpus), "phrasebook"] and config["weights"] == [2, 1]
    assert config["augment"] == "caps,punctuation"
    keras_mt("average", tmp_path / "run", tmp_path / "averaged", "--last", 2)
    assert {path.name for path in (tmp_path / "averaged").iterdir()} == {
        "model.keras", "tokenizer.model", "config.json", "log.csv",
    }  # fmt: skip
    result = keras_mt("average", tmp_path / "run", tmp_path / "other", "--last", 9, check=False)
    assert result.exit_code == 1 and "has 2 checkpoints, not 9" in result.output


def test_export_takes_options(run_dir, sources, tmp_path):
    directory = tmp_path / "pt_en" / "1"
    search = ("--beam-size", 1, "--max-length", 3)
    keras_mt("export", run_dir, directory, *search, "--dtype", "float16")
    options = json.loads((directory / "assets.extra" / "model_card.json").read_text())["options"]
    assert (options["beam_size"], options["n_best"], options["max_length"]) == (1, 1, 3)
    assert options["dtype"] == "float16"
    assert len(list(directory.parent.glob("*.config"))) == 2


def test_export_names_the_file_that_it_cannot_read(run_dir, tmp_path):
    (tmp_path / "texts").write_bytes(b"Ol\xc3\xa1!\n\xff\n")
    (tmp_path / "card").write_text("{")
    for option, name, why in (
        ("--warmup-texts", "texts", ":2 is not UTF-8"),
        ("--card", "card", " is"),
    ):
        result = keras_mt("export", run_dir, tmp_path / "out", option, tmp_path / name, check=False)
        assert result.exit_code == 1 and f"{tmp_path / name}{why}" in result.stderr
    assert not (tmp_path / "out").exists()


def test_export_refuses_a_version_that_exists(run_dir, exported):
    result = keras_mt("export", run_dir, exported, check=False)
    assert result.exit_code == 1 and "exists" in result.stderr


@pytest.mark.parametrize("name", main.list_commands(None))
def test_help_teaches(name):
    """It shows examples that the command takes, and all its options."""
    command = main.get_command(None, name)
    text = keras_mt(name, "--help").output
    examples = re.findall(r"keras-mt (.+)$", text.split("Options:")[0], re.MULTILINE)
    assert examples
    for example in examples:
        called, *arguments = shlex.split(re.split(" [<>] ", example)[0])
        assert called == name
        for i, argument in enumerate(arguments):  # What it names shall be there.
            if re.match(r"runs/|saved_models/|\w+\.txt", argument):
                arguments[i] = str(ROOT / "README.md" if argument.endswith("txt") else ROOT)
        command.make_context(name, arguments)  # Parses; does not invoke.
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.opts[0] in text, option.name
    assert f"  {name} " in keras_mt("--help").output


def test_the_command_starts_without_tensorflows_messages():
    command = [sys.executable, COMMAND, "--help"]
    result = subprocess.run(command, capture_output=True, check=True)
    assert not result.stderr and b"keras-mt train" in result.stdout
