import builtins
import contextlib
import gzip
import json
import multiprocessing
import os
import re
import resource
import shutil
import time

import numpy as np
import pytest
from backports import zstd

from keras_mt.documents import resumable as module
from keras_mt.documents import translate_files
from keras_mt.errors import InputError

FORK = multiprocessing.get_context("fork")


def upper(texts):
    """Stands for a translator: refuses what has an exclamation mark."""
    reasons = {i: "it shouts" for i, text in enumerate(texts) if "!" in text}
    return [None if i in reasons else text.upper() for i, text in enumerate(texts)], reasons


def translated(text):
    return "" if "!" in text else text.upper()


def run(*files, translate=upper, output="out", model="m", markup=None, **options):
    options = {"part_lines": 7, **options}
    return translate_files(translate, files, output, {"model": model, "markup": markup}, **options)


def entries(output="out"):
    with open(f"{output}/errors.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tree(folder):
    """All that is in a folder, files with their bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # No power is cut.
    return tmp_path


@pytest.mark.parametrize("number", [0, 1, 6, 7, 8, 14, 50])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_each_line_gives_a_line(number, end, last, place):
    lines = [["a", "", "é😀", "no!", "\u2028x", "a\rb"][i % 6] + str(i) for i in range(number)]
    data = end.join(line.encode() for line in lines) + (end if last and lines else b"")
    (place / "a.txt").write_bytes(data)
    report = run("a.txt")
    expected = [translated(line).replace("\r", " ") for line in lines]
    assert (place / "out/a.txt").read_text(encoding="utf-8") == "".join(f"{x}\n" for x in expected)
    refused = [f"line {i}" for i, line in enumerate(lines, 1) if "!" in line]
    assert report == {"a.txt": {"lines": number, "refused": len(refused), "warned": 0}}
    if refused:
        assert [entry["where"] for entry in entries()] == refused
    else:
        assert not (place / "out/errors.jsonl").exists()


@pytest.mark.parametrize("number", [1, 100])
def test_parts_without_a_text_do_not_wait_for_the_disk(number, place, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    data = b"\n" * number + b"a\n" + b"\r\n" * number
    (place / "a.txt").write_bytes(data)
    run("a.txt", part_lines=1)
    assert (place / "out/a.txt").read_bytes() == data.replace(b"\r", b"").upper()
    assert len(synced) < 12


def test_what_is_refused_is_an_empty_line_and_an_entry(place):
    lines = [b"\xef\xbb\xbffirst", b"caf\xe9", b"x" * 100, b"x" * 101, b"x" * 100 + b"\r", b"no!"]
    lines += [b"y" * 5_000_000, "é".encode() * 60, b"", b"last"]
    (place / "a.txt").write_bytes(b"\n".join(lines))
    start = time.process_time()
    run("a.txt", max_line_bytes=100)
    assert time.process_time() - start < 5  # The long line is looked through once.
    long = "x" * 100
    assert (place / "out/a.txt").read_text().split("\n") == [
        "FIRST", "", long.upper(), "", long.upper(), "", "", "", "", "LAST", "",
    ]  # fmt: skip
    too_long = "the line is longer than max_line_bytes=100: split it into lines."
    assert [(e["file"], e["where"], e["error"]) for e in entries()] == [
        ("a.txt", "line 2", "not UTF-8 at byte 4"),
        ("a.txt", "line 4", too_long),
        ("a.txt", "line 6", "it shouts"),
        ("a.txt", "line 7", too_long),
        ("a.txt", "line 8", too_long),
    ]
    assert [len(entry["text"]) for entry in entries()] == [4, 101, 3, 105, 53]
    assert not (place / "out/.parts").exists()


def test_what_is_compressed_is_compressed_again(place):
    data = "".join(f"line {i}\n" for i in range(40)).encode()
    (place / "a.de.gz").write_bytes(gzip.compress(data))
    (place / "b.txt.zst").write_bytes(zstd.compress(data))
    run("a.de.gz", "b.txt.zst")
    assert gzip.decompress((place / "out/a.de.gz").read_bytes()) == data.upper()
    assert zstd.decompress((place / "out/b.txt.zst").read_bytes()) == data.upper()
    before = tree(place / "out")
    shutil.rmtree(place / "out")
    os.utime("a.de.gz", (0, 0))  # A .gz may hold a time.
    run("a.de.gz", "b.txt.zst")
    again = tree(place / "out")
    assert [again[name] for name in ("a.de.gz", "b.txt.zst")] == [
        before[name] for name in ("a.de.gz", "b.txt.zst")
    ]


def test_a_file_that_is_damaged_is_refused_by_name_and_others_are_not(place):
    (place / "a.gz").write_bytes(gzip.compress(b"a\n" * 10_000)[:-9])
    (place / "b.txt").write_bytes(b"b\n")
    report = run("a.gz", "b.txt")
    assert report.pop("b.txt") == {"lines": 1, "refused": 0, "warned": 0}
    assert report["a.gz"]["error"].startswith("a.gz is damaged: ")
    assert entries() == [{"file": "a.gz", **report["a.gz"]}]
    assert not (place / "out/a.gz").exists()


def stopped(after):
    """A translator that is interrupted after some parts."""
    calls = []

    def translate(texts):
        calls.append(texts)
        if len(calls) > after:
            raise KeyboardInterrupt
        return upper(texts)

    return translate, calls


NAMES = ("a.txt", "b.gz")


def two_files(place, number=30):
    for name in NAMES:
        lines = [f"{name} {i}{'!' * (i % 5 == 3)}\n" for i in range(number)]
        data = "".join(lines).encode()
        (place / name).write_bytes(gzip.compress(data) if name == "b.gz" else data)
    run("a.txt", "b.gz", output="unbroken")


def test_it_goes_on_where_it_was(place):
    two_files(place)
    for after in (0, 1, 4, 3):
        translate, calls = stopped(after)
        with pytest.raises(KeyboardInterrupt):
            run("a.txt", "b.gz", translate=translate)
    assert (place / "out/a.txt").exists() and not (place / "out/b.gz").exists()
    translate, calls = stopped(100)
    run("a.txt", "b.gz", translate=translate)
    assert len(calls) == 10 - 8
    assert tree(place / "out") == tree(place / "unbroken")


def test_what_was_done_stays_as_it_is(place):
    two_files(place)
    report = run("a.txt")
    with pytest.raises(InputError, match=r"out/a.txt exists and is not overwritten"):
        run("a.txt")
    with pytest.raises(KeyboardInterrupt):
        run("b.gz", translate=stopped(2)[0], model="n")
    assert "a.txt" in {entry["file"] for entry in entries()}
    run("b.gz", model="n")  # More files may come, even of another model.
    assert tree(place / "out") == tree(place / "unbroken")
    os.remove(place / "out/a.txt")  # Then it is made again.
    assert run("a.txt") == report
    assert tree(place / "out").keys() == tree(place / "unbroken").keys()
    assert sorted(map(str, entries())) == sorted(map(str, entries("unbroken")))


def test_a_document_whose_translation_lacks_marks_says_so(place):
    (place / "a.md").write_text("A [small] _cat_\n\nA [dog]\n\nshout!\n\na > b & c #1\n")
    (place / "a.txt").write_text("A [small] cat\n")

    def bare(texts):
        texts, reasons = upper(texts)
        return [text and text.replace("[", "").replace(">", "") for text in texts], reasons

    report = run("a.md", "a.txt", translate=bare)
    assert report == {
        "a.md": {"texts": 4, "refused": 1, "warned": 3},
        "a.txt": {"lines": 1, "refused": 0, "warned": 0},
    }
    assert [(entry.get("error"), entry.get("warning"), entry["text"]) for entry in entries()] == [
        ("it shouts", None, "shout!"),
        (None, "its translation lacks [", "A [small] cat"),
        (None, "its translation lacks [", "A [dog]"),
        (None, "its translation lacks >", "a > b & c #1"),
    ]


def measured(texts):
    """As `upper`, and as sure of a text as its digits say."""
    found, reasons = upper(texts)
    numbers = [re.findall(r"\d+", text)[0] for text in texts]
    measures = [{"mean_log_prob": -int(n), "warnings": ["loop"] * (n == "7")} for n in numbers]
    return found, reasons, [m if new else None for new, m in zip(found, measures, strict=True)]


NO_TEXT = {"texts": 0, "mean_log_prob": None, "quantiles": {}, "warnings": {}}


def report_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_a_report_has_all_files_and_texts_the_worst_first_whatever_stopped_it(place):
    two_files(place)
    (place / "c.txt").write_text("\n")
    files = (*NAMES, "c.txt")
    outcome = run(*files, translate=measured, output="whole", report="whole.jsonl")
    assert outcome["a.txt"] == {"lines": 30, "refused": 6, "warned": 0}
    total, *of_files, of_none = report_of("whole.jsonl")[:4]
    rows = report_of("whole.jsonl")[4:]
    kept = [i for i in range(30) if i % 5 != 3]
    assert [row["mean_log_prob"] for row in rows] == sorted([-i for i in kept] * 2)
    assert rows[0] == {
        "file": "a.txt", "where": "line 30", "text": "a.txt 29", "translation": "A.TXT 29",
        "mean_log_prob": -29, "warnings": [],
    }  # fmt: skip
    levels = np.percentile([-i for i in kept], [5, 25, 50, 75, 95])
    for found, number in ((total, 2), *((found, 1) for found in of_files)):
        assert (found["texts"], found["warnings"]) == (24 * number, {"loop": number})
        assert found["mean_log_prob"] == pytest.approx(-np.mean(kept))
    np.testing.assert_allclose([*of_files[0]["quantiles"].values()], levels, atol=1e-6)
    assert [found["file"] for found in of_files] == [*NAMES]
    assert of_none == {"file": "c.txt", **NO_TEXT}
    for after in (0, 2, 3):
        calls = []

        def stopping(texts, calls=calls, after=after):
            calls.append(texts)
            if len(calls) > after:
                raise KeyboardInterrupt
            return measured(texts)

        with pytest.raises(KeyboardInterrupt):
            run(*files, translate=stopping, report="out.jsonl")
        assert not (place / "out.jsonl").exists()
    with pytest.raises(InputError, match="begun with another `report`"):
        run(*files)
    run(*files, translate=measured, report="out.jsonl")
    assert (place / "out.jsonl").read_bytes() == (place / "whole.jsonl").read_bytes()
    with pytest.raises(FileExistsError, match=r"out.jsonl exists and is not overwritten"):
        run("a.txt", translate=measured, output="new", report="out.jsonl")


def test_a_report_on_nothing(place):
    (place / "a.txt").write_text("")
    run("a.txt", translate=measured, report="report.jsonl")
    assert report_of("report.jsonl") == [NO_TEXT, {"file": "a.txt", **NO_TEXT}]


def test_the_same_command_writes_its_report_anew(place):
    two_files(place)
    (place / "c.gz").write_bytes(b"no")
    command = {"translate": measured, "report": "report.jsonl"}
    assert "error" in run(*NAMES, "c.gz", **command)["c.gz"]
    before = report_of("report.jsonl")
    assert (before[0]["texts"], before[3]) == (48, {"file": "c.gz", **NO_TEXT})
    with pytest.raises(InputError, match="begun with another `report`"):
        run(*NAMES, "c.gz", **command | {"report": "a.txt"})
    (place / "c.gz").write_bytes(gzip.compress(b"c.gz 99\n"))
    run(*NAMES, "c.gz", **command)
    total, a, b, c, worst, *rest = report_of("report.jsonl")
    assert [a, b, *rest] == before[1:3] + before[4:]
    assert total["texts"] == 49 and c["texts"] == 1 and worst["where"] == "line 1"


def test_other_options_are_refused_by_name(place):
    (place / "a.txt").write_text("a\n")

    def begin(**options):
        with pytest.raises(KeyboardInterrupt):
            run("a.txt", translate=stopped(0)[0], **options)

    begin()
    for options, name in (
        ({"part_lines": 8}, "`part_lines`"),
        ({"markup": "html"}, "`markup`"),
        ({"max_line_bytes": 5}, "`max_line_bytes`"),
        ({"model": "n"}, "`model`"),
        ({"model": "n", "markup": "html", "part_lines": 8}, "`markup` and `part_lines`"),
    ):
        with pytest.raises(InputError, match=f"out was begun with another {name}: give the comm"):
            run("a.txt", **options)
    shutil.move("a.txt", "a.md")
    with pytest.raises(KeyboardInterrupt):
        run("a.md", format="lines", translate=stopped(0)[0])
    with pytest.raises(InputError, match="out was begun with another `format`: give the comm"):
        run("a.md")


def test_an_input_that_has_changed_is_refused_by_name(place):
    number, size = 9999, 2000  # The file is larger than what is read at once.
    data = "".join(f"{i}\n" for i in range(number))
    (place / "a.txt").write_text(data)

    def changing(texts):
        if texts[0] == str(size):
            (place / "a.txt").write_text(data.replace(str(number - 1), "1"))
        return upper(texts)

    report = run("a.txt", translate=changing, part_lines=size)
    again = run("a.txt", part_lines=size)
    assert report == again and report["a.txt"].keys() == {"error"}
    assert report["a.txt"]["error"].startswith("a.txt has changed since its translation began: put")
    assert not (place / "out/a.txt").exists()
    (place / "a.txt").write_text(data)  # Its time is another, but its content is the same.
    run("a.txt", part_lines=size)
    assert (place / "out/a.txt").read_text() == data and not (place / "out/errors.jsonl").exists()


def test_an_input_that_grows_behind_its_last_part_is_refused(place):
    (place / "a.txt").write_text("a\n" * 7)

    def growing(texts):
        with open("a.txt", "a") as file:
            file.write("b\n")
        return upper(texts)

    assert "a.txt has changed" in run("a.txt", translate=growing)["a.txt"]["error"]


def test_names_that_do_not_go_together(place):
    for name in ("x", "y", "out"):
        (place / name).mkdir()
        (place / name / "a.txt").write_text("a\n")
    (place / "a.pdf").write_text("a\n")
    (place / "errors.jsonl").write_text("a\n")
    for files, options, message in (
        (["x/a.txt", "y/a.txt"], {}, "x/a.txt and y/a.txt have one name"),
        (["x/a.txt"], {}, "out/a.txt exists and is not overwritten"),
        (["a.pdf"], {}, r"a.pdf has no suffix of a known format: lines \(.txt\)"),
        (["errors.jsonl"], {"format": "lines"}, "has a name that out needs"),
        (["a.pdf"], {"format": "pdf"}, r"`format` pdf is not a known format: lines \(.txt\)"),
        (["a.pdf"], {"part_lines": 0}, "part_lines must be at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            run(*files, **options)
    assert tree(place / "out") == {"a.txt": b"a\n"}
    run("a.pdf", format="lines")
    assert (place / "out/a.pdf").read_text() == "A\n"


@pytest.fixture
def site(place):
    """A folder with all that one may hold, beside a file that a link in it leads to."""
    site = place / "site"
    for name in ("b.txt", "de/a.txt", "de/deep/a.txt", "de/.git/a.txt", ".a.txt", "logo.png"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(f"{name}\nno!\n")
    (site / "a.txt.gz").write_bytes(gzip.compress(b"packed\n"))
    (site / "a.tar.gz").write_bytes(gzip.compress(b"an archive\n"))
    os.mkfifo(site / "pipe.txt")
    (place / "secret.txt").write_text("secret\n")
    (site / "out.txt").symlink_to("../secret.txt")
    (site / "broken.txt").symlink_to("nowhere")
    (site / "inside.txt").symlink_to("b.txt")
    (site / "up").symlink_to("..")
    return site


FOUND = ["a.txt.gz", "b.txt", "de/a.txt", "de/deep/a.txt", "inside.txt"]


@pytest.mark.parametrize("output", ["out", "site/out"])
def test_a_folder_keeps_its_tree(output, site, place):
    before = {path: path.lstat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    translate, calls = stopped(4)
    for path in ("site", place / "site"):
        with contextlib.suppress(KeyboardInterrupt):
            report = run(path, output=output, translate=translate)
        translate = upper
    assert len(calls) == 5 and sorted(report) == sorted(FOUND)
    assert report["de/a.txt"] == {"lines": 2, "refused": 1, "warned": 0}
    found = {path.relative_to(place / output).as_posix() for path in (place / output).rglob("*.*")}
    assert found == {*FOUND, "errors.jsonl"}
    assert (place / output / "de/deep/a.txt").read_text() == "DE/DEEP/A.TXT\n\n"
    assert gzip.decompress((place / output / "a.txt.gz").read_bytes()) == b"PACKED\n"
    assert [entry["file"] for entry in entries(output)] == sorted(FOUND)[1:]
    assert {path: path.lstat().st_mtime_ns for path in before} == before
    with pytest.raises(InputError, match=r"a.txt.gz exists and is not overwritten"):
        run("site", output=output)


def test_a_format_that_is_given_is_that_of_all_files_below(site):
    assert sorted(run("site", format="lines")) == sorted([*FOUND, "a.tar.gz", "logo.png"])


def test_a_compressed_file_of_a_folder_has_lines_whatever_its_name(place):
    (place / "corpora").mkdir()
    for name in ("corpus.de.gz", "archive.tar.gz"):
        (place / "corpora" / name).write_bytes(gzip.compress(b"packed\n"))
    assert [*run("corpora")] == ["corpus.de.gz"]
    assert gzip.decompress((place / "out/corpus.de.gz").read_bytes()) == b"PACKED\n"
    with pytest.raises(InputError, match=r"archive.tar.gz has no suffix of a known format"):
        run("corpora/archive.tar.gz", output="other")


def test_folders_that_cannot_be_translated(site, place):
    (place / "empty").mkdir()
    for files, output, message in (
        (["site"], "site", "site cannot be its own output"),
        (["site"], "site/../site", "site cannot be its own output"),
        (["empty"], "out", "empty holds no file of a known format"),
        (["site", "site/b.txt"], "out", "site/b.txt is given twice"),
    ):
        with pytest.raises(InputError, match=message):
            run(*files, output=output)
    assert not (place / "out").exists()


def in_a_process(function, *arguments):
    process = FORK.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def on_a_full_disk(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        run("a.txt", part_lines=50)
    except InputError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with open("message", "w") as file:
            file.write(str(error))


@pytest.mark.parametrize("size", [0, 500, 6000])
def test_a_full_disk_is_named_and_breaks_nothing(size, place):
    (place / "a.txt").write_text("".join(f"{i:050}\n" for i in range(200)))
    run("a.txt", output="unbroken", part_lines=50)
    process = in_a_process(on_a_full_disk, size)
    process.join()
    message = (place / "message").read_text()
    assert "cannot be written: File too large. Make space, and give the same" in message
    assert not (place / "out/a.txt").exists()
    run("a.txt", part_lines=50)
    assert tree(place / "out") == tree(place / "unbroken")


def test_what_is_killed_at_any_point_ends_as_if_it_was_not(place, monkeypatch):
    """SIGKILL leaves the state before one of the operations on files."""
    two_files(place, 10)
    copies, calls = [], []

    def copying(operation):
        def copy(*arguments, **options):
            with monkeypatch.context() as patch:
                for module, name, old in operations:
                    patch.setattr(module, name, old)
                if os.path.exists("out"):
                    copies.append(f"copy{len(copies)}")
                    shutil.copytree("out", copies[-1])
                return operation(*arguments, **options)

        return copy

    names = ("mkdir", "replace", "rmdir", "truncate", "unlink", "fsync")
    operations = [(os, name, getattr(os, name)) for name in names]
    operations.append((builtins, "open", open))
    with monkeypatch.context() as patch:
        for module, name, old in operations:
            patch.setattr(module, name, copying(old))
        run("a.txt", "b.gz")
    expected = tree(place / "unbroken")
    assert tree(place / "out") == expected and len(copies) > 50

    def counting(texts):
        calls.append(texts)
        return upper(texts)

    for before in copies:
        there = tree(place / before)
        # Blocks are translated once: a journal's first record is no block, nor is one behind two.
        journals = [there.get(f".parts/{name}.jsonl") or b"\n" for name in NAMES]
        done = sum(min(journal.count(b"\n") - 1, 2) for journal in journals)
        done += sum(2 for name in NAMES if name in there and f".parts/{name}.jsonl" not in there)
        calls.clear()
        with contextlib.suppress(InputError):  # All was done.
            run("a.txt", "b.gz", translate=counting, output=before)
        assert {n: d for n, d in tree(place / before).items() if ".parts" not in n} == expected
        assert len(calls) == 4 - done


@pytest.mark.parametrize("cut", [1, 2, 30, 10_000])
def test_a_journal_that_was_cut_short_goes_on_from_its_last_whole_block(cut, place):
    two_files(place)
    with pytest.raises(KeyboardInterrupt):
        run("a.txt", "b.gz", translate=stopped(4)[0])
    with pytest.raises(KeyboardInterrupt):
        run("a.txt", "b.gz", translate=stopped(3)[0])
    journal = place / "out/.parts/b.gz.jsonl"
    os.truncate(journal, max(0, journal.stat().st_size - cut))
    translate, calls = stopped(100)
    run("a.txt", "b.gz", translate=translate)
    assert len(calls) == (5 if cut == 10_000 else 4)
    assert tree(place / "out") == tree(place / "unbroken")


def sleeping(texts):
    open("sleeps", "w").close()
    time.sleep(60)


def test_a_second_process_is_refused_until_the_first_has_ended(place):
    two_files(place)
    process = in_a_process(run, "a.txt")
    process.join()
    process = FORK.Process(target=run, args=("b.gz",), kwargs={"translate": sleeping})
    process.start()
    while not os.path.exists("sleeps"):
        time.sleep(0.01)
    with pytest.raises(InputError, match=rf"out is being translated into by process {process.pid}"):
        run("b.gz")
    process.kill()
    process.join()
    run("b.gz")
    assert tree(place / "out") == tree(place / "unbroken")


def test_a_pipe_is_refused_by_name(place):
    os.mkfifo(place / "pipe.txt")
    with pytest.raises(InputError, match=r"pipe.txt is a pipe or the like"):
        run("pipe.txt")
    assert not (place / "out").exists()


def test_progress_counts_what_was_done_before(place):
    (place / "a.txt").write_text("a\n" * 30)
    translate, _ = stopped(2)
    with pytest.raises(KeyboardInterrupt):
        run("a.txt", translate=translate)
    seen = []
    run("a.txt", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 30) for done in (14, 21, 28, 30)]


def test_memory_is_that_of_a_part(place, monkeypatch):
    (place / "a.txt").write_bytes(b"x\n" * 20_000)
    sizes = []

    def noting(texts):
        sizes.append(len(texts))
        return texts, {}

    run("a.txt", translate=noting, part_lines=5000)
    assert sizes == [5000] * 4
    assert module.PART_LINES == 1000
