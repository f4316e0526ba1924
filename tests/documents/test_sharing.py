import gzip
import json
import multiprocessing
import os
import random
import resource
import shutil
import time

import pytest
from backports import zstd

from keras_mt.documents import run as module
from keras_mt.documents import translate_files
from keras_mt.errors import InputError

FORK = multiprocessing.get_context("fork")


def upper(texts, markup):
    """Stands for a translator: refuses what has an exclamation mark."""
    reasons = {i: "it shouts" for i, text in enumerate(texts) if "!" in text}
    return [None if i in reasons else text.upper() for i, text in enumerate(texts)], reasons


def translated(text):
    return "" if "!" in text else text.upper()


def run(*files, translate=upper, output="out", model="m", **options):
    options = {"part_lines": 7, "lease_seconds": 1, **options}
    return translate_files(translate, files, output, {"model": model}, **options)


def entries(output="out"):
    with open(f"{output}/errors.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tree(folder):
    """All files in a folder, with their bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    assert report == {"a.txt": {"lines": number, "refused": len(refused)}}
    if refused:
        assert [entry["where"] for entry in entries()] == refused
    else:
        assert not (place / "out/errors.jsonl").exists()


@pytest.mark.parametrize("number", [1, 7, 100])
def test_parts_without_a_text_do_not_wait_for_the_disk(number, place, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(fsync(file)))
    data = b"\n" * number + b"a\n" + b"\r\n" * number
    (place / "a.txt").write_bytes(data)
    run("a.txt", part_lines=1)
    assert (place / "out/a.txt").read_bytes() == data.replace(b"\r", b"").upper()
    assert len(synced) < 8


def test_what_is_refused_is_an_empty_line_and_an_entry(place):
    lines = [b"\xef\xbb\xbffirst", b"caf\xe9", b"x" * 100, b"x" * 101, b"x" * 100 + b"\r", b"no!"]
    lines += [b"y" * 5_000_000, "é".encode() * 60, b"", b"last"]
    (place / "a.txt").write_bytes(b"\n".join(lines))
    start = time.perf_counter()
    run("a.txt", max_line_bytes=100)
    assert time.perf_counter() - start < 5
    long = "x" * 100
    assert (place / "out/a.txt").read_text().split("\n") == [
        "FIRST", "", long.upper(), "", long.upper(), "", "", "", "", "LAST", "",
    ]  # fmt: skip
    too_long = "a line of {} bytes is longer than max_line_bytes=100: split it into lines."
    assert [(e["file"], e["where"], e["error"]) for e in entries()] == [
        ("a.txt", "line 2", "not UTF-8 at byte 4"),
        ("a.txt", "line 4", too_long.format("101")),
        ("a.txt", "line 6", "it shouts"),
        ("a.txt", "line 7", too_long.format("5,000,000")),
        ("a.txt", "line 8", too_long.format("120")),
    ]
    assert [len(entry["text"]) for entry in entries()] == [4, 101, 3, 105, 53]


def test_what_is_compressed_is_compressed_again(place):
    data = "".join(f"line {i}\n" for i in range(40)).encode()
    (place / "a.de.gz").write_bytes(gzip.compress(data))
    (place / "b.txt.zst").write_bytes(zstd.compress(data))
    run("a.de.gz", "b.txt.zst")
    assert gzip.decompress((place / "out/a.de.gz").read_bytes()) == data.upper()
    assert zstd.decompress((place / "out/b.txt.zst").read_bytes()) == data.upper()
    before = tree(place / "out")
    shutil.rmtree(place / "out")
    time.sleep(1.1)  # A .gz may hold the time in seconds.
    run("a.de.gz", "b.txt.zst")
    again = tree(place / "out")
    assert [again[name] for name in ("a.de.gz", "b.txt.zst")] == [
        before[name] for name in ("a.de.gz", "b.txt.zst")
    ]


def test_a_file_that_is_damaged_is_refused_by_name_and_others_are_not(place):
    (place / "a.gz").write_bytes(gzip.compress(b"a\n" * 10_000)[:-9])
    (place / "b.txt").write_bytes(b"b\n")
    report = run("a.gz", "b.txt")
    assert report == {"b.txt": {"lines": 1, "refused": 0}}
    assert report.failures["a.gz"].startswith("a.gz is damaged: ")
    assert entries() == [{"file": "a.gz", "error": report.failures["a.gz"]}]
    assert not (place / "out/a.gz").exists()


def stopped(after):
    """A translator that is interrupted after some parts."""
    calls = []

    def translate(texts, markup):
        calls.append(texts)
        if len(calls) > after:
            raise KeyboardInterrupt
        return upper(texts, markup)

    return translate, calls


def test_it_goes_on_where_it_was(place):
    for name in ("a.txt", "b.txt"):
        (place / name).write_text("".join(f"{name} {i}{'!' * (i % 5)}\n" for i in range(30)))
    run("a.txt", "b.txt", output="unbroken")
    for after in (0, 1, 4, 3):
        translate, calls = stopped(after)
        with pytest.raises(KeyboardInterrupt):
            run("a.txt", "b.txt", translate=translate)
    assert (place / "out/a.txt").exists() and not (place / "out/b.txt").exists()
    translate, calls = stopped(100)
    run("a.txt", "b.txt", translate=translate)
    assert len(calls) == 10 - 8
    assert tree(place / "out") == tree(place / "unbroken")
    translate, calls = stopped(0)
    run("a.txt", "b.txt", translate=translate)  # All is done.
    assert tree(place / "out") == tree(place / "unbroken")
    (place / "out/b.txt").unlink()  # Then it is made again.
    run("a.txt", "b.txt")
    assert tree(place / "out") == tree(place / "unbroken")
    shutil.copy("a.txt", "c.txt")  # More files may come.
    run("c.txt")
    assert [entry["file"] for entry in entries()][-1] == "c.txt"


def test_other_options_are_refused_by_name(place):
    (place / "a.txt").write_text("a\n")
    run("a.txt", hints={"beam_size": 4})
    run("a.txt", hints={})  # The model says that it is the same.
    for options, name in (
        ({"part_lines": 8}, "part_lines"),
        ({"markup": "html"}, "markup"),
        ({"max_line_bytes": 5}, "max_line_bytes"),
        ({"model": "n", "hints": {"beam_size": 4}}, "model"),
        ({"model": "n", "hints": {"beam_size": 5}}, "beam_size"),
        ({"model": "n", "markup": "html", "hints": {}}, "markup and beam_size"),
    ):
        with pytest.raises(InputError, match=f"out was begun with another {name}: give the comm"):
            run("a.txt", **options)


@pytest.mark.parametrize("number", [40, 9999])  # Less and more than is read at once.
def test_an_input_that_has_changed_is_refused_by_name(number, place):
    size = number // 5
    data = "".join(f"{i}\n" for i in range(number))
    (place / "a.txt").write_text(data)

    def changing(texts, markup):
        if texts[0] == str(size):
            (place / "a.txt").write_text(data.replace(str(number - 1), "1"))
        return upper(texts, markup)

    report = run("a.txt", translate=changing, part_lines=size)
    assert not report and "has changed since its tr" in report.failures["a.txt"]
    report = run("a.txt", part_lines=size)
    assert "a.txt has changed since its translation began: put it back" in report.failures["a.txt"]
    assert not (place / "out/a.txt").exists()
    (place / "a.txt").write_text(data)  # Its time is another, but its content is the same.
    run("a.txt", part_lines=size)
    assert (place / "out/a.txt").read_text() == data and not (place / "out/errors.jsonl").exists()


def test_an_input_that_grows_behind_its_last_part_is_refused(place):
    (place / "a.txt").write_text("a\n" * 7)

    def growing(texts, markup):
        with open("a.txt", "a") as file:
            file.write("b\n")
        return upper(texts, markup)

    assert "a.txt has changed" in run("a.txt", translate=growing).failures["a.txt"]


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
        (["a.pdf"], {"format": "pdf"}, "format must be one of lines.* Received: pdf"),
        (["a.pdf"], {"part_lines": 0}, "part_lines must be at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            run(*files, **options)
    assert (place / "out/a.txt").read_text() == "a\n"
    run("a.pdf", format="lines")
    assert (place / "out/a.pdf").read_text() == "A\n"


def in_a_process(function, *arguments):
    process = FORK.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def on_a_full_disk(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        run("a.txt", part_lines=50)
    except InputError as error:
        with open("message", "w") as file:
            file.write(str(error))


@pytest.mark.parametrize("size", [100, 2000, 6000])
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


def slowly(texts, markup):
    """Also notes each part that was done already."""
    numbers = [int(text.split()[1].rstrip("!")) // 7 for text in texts]
    name = texts[0].split()[0]
    for number in set(numbers):
        if os.path.exists(f"out/.parts/{name}/{number:07}.part"):
            with open("twice", "a") as file:
                file.write(f"{name} {number}\n")
    time.sleep(0.01)
    return upper(texts, markup)


def work(*files):
    run(*files, translate=slowly)


def make_two(place):
    lines = [f"{i}{'!' * (i % 50 == 9)}\r\n" for i in range(1000)]
    (place / "a.txt").write_text("".join(f"a.txt {line}" for line in lines), newline="")
    data = "".join(f"b.gz {line}" for line in lines)[:-2]  # No newline at the end.
    (place / "b.gz").write_bytes(gzip.compress(data.encode()))


def test_two_processes_divide_the_work(place):
    make_two(place)
    run("a.txt", "b.gz", output="unbroken")
    processes = [in_a_process(work, "a.txt", "b.gz") for _ in range(2)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert not (place / "twice").exists()
    assert tree(place / "out") == tree(place / "unbroken")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_what_is_killed_at_any_time_ends_as_if_it_was_not(seed, place):
    make_two(place)
    run("a.txt", "b.gz", output="unbroken")
    draw, processes, kills = random.Random(seed), [None, None], 0
    while kills < 20:
        i = draw.randrange(2)
        if processes[i] is None:
            processes[i] = in_a_process(work, "a.txt", "b.gz")
        time.sleep(draw.uniform(0, 0.15))
        if draw.random() < 0.7:
            kills += processes[i].is_alive()
            processes[i].kill()
            processes[i].join()
            processes[i] = None
            if (place / "out/b.gz").exists() and (place / "out/a.txt").exists():
                shutil.rmtree(place / "out")  # Done too soon: once more.
    last = in_a_process(work, "a.txt", "b.gz")
    for process in filter(None, [*processes, last]):
        process.join()
    assert last.exitcode == 0
    assert not (place / "twice").exists()
    assert tree(place / "out") == tree(place / "unbroken")


def test_many_files_do_not_wait_for_each_other(place, monkeypatch):
    """What another has begun is left to it, and the next file is done meanwhile."""
    for i in range(5):
        (place / f"{i}.txt").write_text(f"{i}.txt {i}\n")
    lease = place / "out/.parts/0.txt/0000000.part.lease"
    lease.parent.mkdir(parents=True)
    order = []

    def noting(texts, markup):
        order.append(texts[0][0])
        return upper(texts, markup)

    lease.write_text("another machine")
    run(*(f"{i}.txt" for i in range(5)), translate=noting)
    assert order == list("12340")


def test_progress_counts_what_was_done_before(place):
    (place / "a.txt").write_text("a\n" * 30)
    translate, _ = stopped(2)
    with pytest.raises(KeyboardInterrupt):
        run("a.txt", translate=translate)
    seen = []
    run("a.txt", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 30) for done in (0, 7, 14, 21, 28, 30)]


def test_memory_is_that_of_a_part(place, monkeypatch):
    (place / "a.txt").write_bytes(b"x\n" * 100_000)
    sizes = []

    def noting(texts, markup):
        sizes.append(len(texts))
        return texts, {}

    run("a.txt", translate=noting, part_lines=10_000)
    assert sizes == [10_000] * 10
    assert module.PART_LINES == 1000
