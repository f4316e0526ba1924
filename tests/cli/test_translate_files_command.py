import gzip
import json

import pytest
from command import keras_mt
from conftest import ROOT

pytestmark = pytest.mark.usefixtures("load_once")


@pytest.fixture
def texts(tmp_path, corpus):
    """A file with all that lines may have, and what `translate` makes of it."""
    lines = (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()
    lines[2:2] = ["", "   ", "palavra " * 60, "uma linha\u2028outra\x85fim", "\t---"]
    data = b"\r\n".join(line.encode() for line in lines) + b"\ncaf\xe9\n" + b"x" * 20_000
    path = tmp_path / "texts.txt"
    path.write_bytes(data)
    return path


def test_lines_are_translated_as_by_translate(run_dir, texts, tmp_path):
    model, out = run_dir, tmp_path / "out"
    packed = tmp_path / "packed.pt.gz"
    packed.write_bytes(gzip.compress(texts.read_bytes()))
    result = keras_mt("translate-files", model, out, texts, packed, "--part-lines", 9, check=False)
    expected = keras_mt("translate", model, texts).stdout.encode()
    assert (out / "texts.txt").read_bytes() == expected
    assert gzip.decompress((out / "packed.pt.gz").read_bytes()) == expected
    assert not (out / ".parts").exists()
    assert result.exit_code == 1  # Two lines of each are refused.
    assert result.stderr.splitlines()[:2] == [
        f"{path.name}: 27 lines, 2 refused" for path in (texts, packed)
    ]
    lines = (out / "errors.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    entries = [json.loads(line) for line in lines]
    assert [(entry["file"], entry["where"]) for entry in entries] == [
        (path.name, where) for path in (packed, texts) for where in ("line 26", "line 27")
    ]


def test_a_glossary_of_comments_alone_has_no_terms(eager, run_dir, load, tmp_path):
    path, terms = tmp_path / "a.txt", tmp_path / "terms.tsv"
    path.write_text("O livro.\n")
    terms.write_text("# Nothing yet.\n")
    options = ("--glossary", terms, "--beam-size", 1, "--max-length", 4)
    keras_mt("translate-files", run_dir, tmp_path / "out", path, *options)
    expected = load(beam_size=1, max_length=4)("O livro.")
    assert (tmp_path / "out/a.txt").read_text() == f"{expected}\n"


def test_an_export_translates_files_too(exported, texts, tmp_path):
    keras_mt("translate-files", exported, tmp_path / "out", texts, check=False)
    lines = keras_mt("translate", exported, texts).stdout.split("\n")
    best = [line.split("\t")[0] for line in lines]  # It gives two.
    found = (tmp_path / "out/texts.txt").read_text(encoding="utf-8")
    assert found.replace("\t", " ").split("\n") == best


@pytest.mark.long
def test_markup_languages_and_terms_are_those_of_translate(eager, run_dir, tmp_path):
    path, terms, out = tmp_path / "a.txt", tmp_path / "terms.tsv", tmp_path / "out"
    path.write_text("O <b>livro</b> é novo.\n")
    page = tmp_path / "b.md"
    page.write_text("O **livro** `a & <b>`.\n")
    terms.write_text("livro\tvolume\n")
    options = ("--markup", "html", "--glossary", terms, "--beam-size", 1, "--max-length", 10)
    keras_mt("translate-files", run_dir, out, path, page, *options)
    document = (out / "b.md").read_text()  # It has its elements without that markup.
    assert "**volume**" in document.lower() and "`a & <b>`" in document
    expected = keras_mt("translate", run_dir, path, *options).stdout
    assert (out / "a.txt").read_text() == expected and "volume" in expected and "<b>" in expected


def test_a_report_has_the_confidence_of_translate(eager, run_dir, tmp_path):
    texts, report = tmp_path / "a.txt", tmp_path / "report.jsonl"
    texts.write_bytes("O livro.\n\nUma\u2028linha?\n".encode() + b"\xff\nA mesa.\n")
    command = ("translate-files", run_dir, tmp_path / "out", texts, "--report", report)
    options = ("--beam-size", 1, "--max-length", 5)
    keras_mt(*command, *options, exit_code=1)
    total, of_file, *rows = map(json.loads, report.read_text(encoding="utf-8").split("\n")[:-1])
    said = keras_mt("translate", run_dir, texts, "--json", *options).stdout
    lines = [json.loads(line)["translations"] for line in said.split("\n")[:-1]]
    names = ("mean_log_prob", "worst_token", "warnings")
    expected = [
        {"where": f"line {n}", "translation": lines[n - 1][0]["text"]}
        | {name: lines[n - 1][0][name] for name in names}
        for n in (1, 3, 5)
    ]
    expected.sort(key=lambda row: row["mean_log_prob"])
    assert [{n: x for n, x in row.items() if n not in ("file", "text")} for row in rows] == expected
    assert total["texts"] == of_file["texts"] == 3 and of_file["file"] == "a.txt"
    result = keras_mt("translate-files", run_dir, tmp_path / "new", *command[3:], check=False)
    assert result.exit_code == 1 and "report.jsonl exists and is not overwri" in result.stderr


def test_an_export_without_confidence_gives_no_report(exported, texts, tmp_path):
    options = ("--report", tmp_path / "report.jsonl")
    result = keras_mt("translate-files", exported, tmp_path / "out", texts, *options, check=False)
    assert result.exit_code == 1 and "gives no confidence" in result.stderr
    assert not (tmp_path / "out").exists()


def test_what_was_begun_with_other_options_is_refused(eager, run_dir, tmp_path):
    path, damaged, out = tmp_path / "a.txt", tmp_path / "b.gz", tmp_path / "out"
    terms = tmp_path / "terms.tsv"
    path.write_text("O livro.\n")
    damaged.write_bytes(b"no")
    terms.write_text("livro\tvolume\n")
    page = tmp_path / "c.md"
    page.write_text("O livro.\n")
    command = ("translate-files", run_dir, out, path, damaged, page, "--glossary", terms)
    command += ("--beam-size", 1, "--max-length", 4)
    result = keras_mt(*command, check=False)
    assert result.exit_code == 1 and "b.gz is damaged" in result.stderr
    lines = result.stderr.splitlines()
    assert (lines[0], lines[2]) == ("a.txt: 1 line", "c.md: 1 text")
    assert lines[1].startswith("refused: ")
    assert "wrote 2 files to " in result.stderr
    for options, name in (
        (("--part-lines", 5, "--markup", "html"), "--markup and --part-lines"),
        (("--min-length", 3, "--keep", "none"), "--keep and --min-length"),
        ((), "--glossary"),
    ):
        if not options:
            terms.write_text("livro\tbook\nmesa\n")
        result = keras_mt(*command, *options, check=False)
        assert result.exit_code == 1
        assert result.stderr == (
            f"Error: {out} was begun with another {name}: give the command that it was begun "
            "with, or a new folder.\n"
        )
    damaged.write_bytes(gzip.compress(b"O livro.\n"))
    terms.write_text("livro\tvolume\n")
    result = keras_mt(*command)
    assert "b.gz: 1 line\n" in result.stderr and not (out / ".parts").exists()


def test_a_folder_names_once_what_it_leaves_out(eager, run_dir, tmp_path):
    for name in ("a.txt", "sub/a.txt", "sub/a.png", "b.png", "LICENSE"):
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text("O livro.\n")
    out = tmp_path / "out"
    result = keras_mt("translate-files", run_dir, out, tmp_path / "site", "--max-length", 1)
    assert result.stderr.startswith("left out: 3 files of no known format (.png, LICENSE)\n")
    assert "sub/a.txt: 1 line\nwrote 2 files" in result.stderr
    assert sorted(path.name for path in out.rglob("*")) == ["a.txt", "a.txt", "sub"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pyproject.toml"], 1, "pyproject.toml has no suffix of a known format: lines (.txt)"),
        (["README.md", "README.md", "--format", "lines"], 1, "README.md is given twice"),
        (["/dev/null", "--format", "lines"], 1, "/dev/null is a pipe or the like"),
        (["no_such_file.txt"], 2, "'no_such_file.txt' does not exist"),
    ],
)
def test_what_cannot_be_done_is_named(arguments, status, message, run_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = keras_mt("translate-files", run_dir, tmp_path / "out", *arguments, check=False)
    assert result.exit_code == status and message in result.stderr
    assert not list(tmp_path.glob("out/*.*"))
