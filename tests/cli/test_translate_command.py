import json

import pytest
from command import keras_mt, strict

from keras_mt import Translator

pytestmark = pytest.mark.usefixtures("load_once")


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
        (b"\x01\x02", False),
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
        assert (f"line {number} skipped" in messages) == is_refused, (number, line)
        if is_refused or not line.strip():
            assert not out[number - 1].strip()


def test_translate_is_the_translator_in_order(run_dir, load, corpus):
    lines = (corpus / "pt.test.txt").read_bytes()
    out = keras_mt("translate", run_dir, corpus / "pt.test.txt").stdout
    assert out.splitlines() == load()(lines.decode().splitlines())
    assert keras_mt("translate", run_dir, stdin=b"").stdout == ""


def test_translate_gives_scores_as_json(eager, run_dir, corpus):
    options = ("--beam-size", 3, "--n-best", 2, "--length-penalty", 0.6, "--max-length", 8)
    lines = (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:2]
    stdin = "\n".join(lines).encode()
    out = keras_mt("translate", run_dir, *options, "--json", stdin=stdin).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    search = {"beam_size": 3, "n_best": 2, "length_penalty": 0.6, "max_length": 8}
    translator = Translator.load(run_dir, **search)
    for row, line, found in zip(rows, lines, translator.hypotheses(lines), strict=True):
        assert row["source"] == line
        assert [t["text"] for t in row["translations"]] == [h.text for h in found]
        for t, h in zip(row["translations"], found, strict=True):
            assert t["score"] == pytest.approx(h.score, abs=1e-4)
    plain = keras_mt("translate", run_dir, *options, stdin=stdin).stdout.splitlines()
    assert plain[0] == "\t".join(t["text"] for t in rows[0]["translations"])


def test_translate_takes_prefixes_and_gives_token_scores(eager, run_dir, corpus, tmp_path):
    lines = (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:4]
    prefixes = ["The", "", "A", "x"]
    (tmp_path / "prefixes.txt").write_text("\n".join(prefixes), encoding="utf-8")
    options = ("--prefixes", tmp_path / "prefixes.txt", "--json", "--token-scores")
    options += ("--max-length", 8)
    out = keras_mt("translate", run_dir, *options, stdin="\n".join(lines).encode()).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == len(lines) == len(prefixes)
    for row, prefix in zip(rows, prefixes, strict=True):
        (translation,) = row["translations"]
        assert translation["text"].startswith(prefix)
        log_probs = [log_prob for _, log_prob in translation["tokens"]]
        assert sum(log_probs) / len(log_probs) == pytest.approx(translation["score"], abs=1e-3)
    result = keras_mt("translate", run_dir, *options, stdin=b"one line", check=False)
    assert result.exit_code == 1 and "one ends after 1" in result.stderr


def test_json_shows_the_text_without_byte_order_mark_and_carriage_returns(run_dir):
    stdin = b"\xef\xbb\xbfO livro.\r\nO gato.\r\n"
    result = keras_mt("translate", run_dir, "--json", "--no-confidence", stdin=stdin)
    rows = [strict(line) for line in result.stdout.splitlines()]
    assert [row["source"] for row in rows] == ["O livro.", "O gato."]


def test_tabs_at_the_ends_of_a_line_stay_where_they_part_no_columns(eager, run_dir):
    stdin, options = b"\t---\n\t O gato.\t\n", ("--beam-size", 2)
    passed, translated = keras_mt("translate", run_dir, *options, stdin=stdin).stdout.splitlines()
    assert passed == "\t---" and translated.startswith("\t The") and translated.endswith(".\t")
    result = keras_mt("translate", run_dir, *options, "--n-best", 2, stdin=stdin)
    passed, translated = result.stdout.splitlines()
    assert passed == " ---" and [t[:5] for t in translated.split("\t")] == ["  The"] * 2


def test_options_fixed_at_the_export_are_refused(exported):
    result = keras_mt("translate", exported, "--beam-size", 3, stdin=b"x", check=False)
    assert result.exit_code == 1
    assert "fixed options: give --beam-size to `keras-mt export`" in result.stderr


@pytest.mark.parametrize(
    "model", ["run_dir", pytest.param("exported_whole", marks=pytest.mark.long)]
)
def test_translate_puts_markup_around_its_words(eager, model, request):
    lines = [
        "O <b>livro</b> está em cima da <i>mesa</i>.",
        "O livro est&aacute; <!-- a -->",
        "a > b",
    ]
    stdin = "\n".join(lines).encode()
    result = keras_mt("translate", request.getfixturevalue(model), "--markup", "html", stdin=stdin)
    marked, commented, plain = (line.split("\t")[0] for line in result.stdout.splitlines())
    assert marked == "The <b>book</b> is on the <i>table</i>."
    assert commented.endswith("<!-- a -->")
    again = keras_mt("translate", request.getfixturevalue(model), stdin=lines[2].encode())
    assert plain == again.stdout.split("\t")[0].strip("\n")
