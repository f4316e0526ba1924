import json

import pytest
from command import keras_mt, strict

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


def test_translate_gives_scores_as_json(eager, run_dir, load):
    options = ("--beam-size", 2, "--n-best", 2, "--length-penalty", 0.6, "--max-length", 4)
    lines = ["O livro.", "O gato dorme."]
    out = keras_mt("translate", run_dir, *options, "--json", stdin="\n".join(lines)).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    translator = load(beam_size=2, n_best=2, length_penalty=0.6, max_length=4)
    for row, line, found in zip(rows, lines, translator.hypotheses(lines), strict=True):
        assert row["source"] == line
        assert [t["text"] for t in row["translations"]] == [h.text for h in found]
        for t, h in zip(row["translations"], found, strict=True):
            assert t["score"] == pytest.approx(h.score, abs=1e-4)


def test_translate_takes_prefixes_and_gives_token_scores(eager, run_dir, tmp_path):
    lines, prefixes = ["O livro.", "O gato dorme.", "Olá!"], ["The", "", "x"]
    (tmp_path / "prefixes.txt").write_text("\n".join(prefixes), encoding="utf-8")
    options = ("--prefixes", tmp_path / "prefixes.txt", "--json", "--token-scores")
    options += ("--beam-size", 2, "--max-length", 5)
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
    stdin, options = b"\t---\n\t O gato.\t\n", ("--beam-size", 2, "--max-length", 6)
    passed, translated = keras_mt("translate", run_dir, *options, stdin=stdin).stdout.splitlines()
    assert passed == "\t---" and translated.startswith("\t The") and translated.endswith(".\t")
    result = keras_mt("translate", run_dir, *options, "--n-best", 2, stdin=stdin)
    passed, translated = result.stdout.splitlines()
    assert passed == " ---" and [t[:5] for t in translated.split("\t")] == ["  The"] * 2


def test_options_fixed_at_the_export_are_refused(exported):
    result = keras_mt("translate", exported, "--beam-size", 3, stdin=b"x", check=False)
    assert result.exit_code == 1
    assert "fixed options: give --beam-size to `keras-mt export`" in result.stderr


def test_translate_puts_markup_around_its_words(eager, run_dir, load):
    lines = ["O <b>livro</b> é <i>novo</i>.", "O livro &eacute; <!-- a -->", "a > b"]
    command = ("translate", run_dir, "--beam-size", 1, "--max-length", 8)
    result = keras_mt(*command, "--markup", "html", stdin="\n".join(lines).encode())
    marked, commented, plain = result.stdout.splitlines()
    assert marked == "The <b>book</b> is <i>new</i>."
    assert commented.endswith("<!-- a -->")
    assert plain == load(beam_size=1, max_length=8)(lines[2])
