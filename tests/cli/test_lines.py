import io
import os
import queue

import click
import pytest
from command import keras_mt

from keras_mt.cli.lines import Lines, check_standard_input, read_lines, row_blocks
from keras_mt.errors import InputError


def test_lines_are_taken_as_they_arrive():
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb", buffering=0) as out:
        lines = Lines(file)
        out.write(b"a\n\nb\r\nc")
        assert lines.next(2048, wait=False) == texts("a", "", "b")
        out.write(b"d\ne\nf\n")
        assert lines.next(2, wait=False) == texts("cd", "e")
        assert lines.next(2, wait=False) == texts("f")
        out.write(b"g\nh\ni")
        out.close()
        assert lines.next(2) == texts("g", "h")
        assert lines.next(2048, wait=False) == texts("i")
        assert lines.next(2048, wait=False) == lines.next(1) == []


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def blocks_of(tmp_path, lines, seconds, monkeypatch):
    """The sizes of the blocks of a file's lines, each of which takes so many seconds a line."""
    clock = Clock()
    monkeypatch.setattr("keras_mt.cli.lines.time", clock)
    (tmp_path / "file").write_text("\n".join(lines), encoding="utf-8")
    sizes, read = [], []
    with open(tmp_path / "file", "rb") as file, open(tmp_path / "file", "rb") as other:
        for rows in row_blocks(file, other):
            numbers = range(len(read) + 1, len(read) + len(rows) + 1)
            assert [row.number for row in rows] == list(numbers)
            assert all(row.texts[0] == row.texts[1] and row.error is None for row in rows)
            read += [row.texts[0] for row in rows]
            sizes.append(len(rows))
            clock.now += seconds * len(rows)
    assert read == lines
    return sizes


def test_a_block_holds_as_many_lines_as_take_some_seconds(tmp_path, monkeypatch):
    lines = ["x" * 32 for _ in range(3000)] + ["\x85\u2028 end"]
    slow = blocks_of(tmp_path, lines, 0.02, monkeypatch)
    assert all(150 < size < 250 for size in slow[1:8]), slow
    slower = blocks_of(tmp_path, lines, 1, monkeypatch)
    assert set(slower[1:8]) == {64}  # With fewer, batches would be too small.
    fast = blocks_of(tmp_path, lines, 1e-6, monkeypatch)
    assert max(fast) > 900 and len(fast) < 5


def test_lines_do_not_wait_for_a_much_longer_one_behind_them(tmp_path, monkeypatch):
    lines = ["short"] * 3 + ["word " * 1000] + ["short"] * 2
    assert blocks_of(tmp_path, lines, 1e-6, monkeypatch) == [3, 3]


def test_a_long_line_that_takes_long_is_named(tmp_path, monkeypatch):
    said = queue.Queue()
    monkeypatch.setattr("keras_mt.cli.lines._PATIENCE", 0)
    monkeypatch.setattr(click, "echo", lambda message, err: said.put(message))
    (tmp_path / "file").write_text("\n" * 6 + "é" * 5000, encoding="utf-8")
    with open(tmp_path / "file", "rb") as file:
        for rows in row_blocks(file):
            if rows[0].number == 7:
                assert said.get(timeout=60) == "line 7 takes long: it has 10,000 bytes"
    assert said.empty()


def test_a_line_that_arrives_in_many_parts_is_whole():
    class Slow(io.BytesIO):
        def read1(self, size):
            return super().read1(min(size, 3))

    with Slow(b"a" * 1000 + b"\nb\n" + "é".encode() * 1000) as file:
        assert read_lines(file) == ["a" * 1000, "b", "é" * 1000]


def texts(*lines):
    """What a reader gives for lines without an error."""
    return [(line, None) for line in lines]


def test_a_byte_order_mark_and_carriage_returns_are_no_text(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\rc\r\r\n\r\n\xff\r\n")
    with open(tmp_path / "file", "rb") as file:
        ((*rows, last),) = row_blocks(file)
        assert [row.texts[0] for row in rows] == ["a", "\ufeffb\rc\r", ""]
        assert last == (4, ("\ufffd",), "not UTF-8 at byte 1")
        file.seek(0)
        with pytest.raises(InputError, match=r"file:4 is not UTF-8 at byte 1\.$"):
            read_lines(file)


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "RUN", "-", "-"],
        ["align", "RUN", "-", "-"],
        ["translate", "RUN", "--prefixes", "-"],
        ["export", "RUN", "new", "--card", "-", "--warmup-texts", "-"],
    ],
)
def test_standard_input_given_twice_is_refused(arguments, run_dir):
    arguments = [str(run_dir) if argument == "RUN" else argument for argument in arguments]
    result = keras_mt(*arguments, stdin=b"a\nb\n", check=False)
    assert result.exit_code == 2 and "is read once" in result.stderr


def test_a_pipe_by_its_name_is_standard_input_too(run_dir, tmp_path):
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb"), open(f"/dev/fd/{reader}", "rb") as same:
        with pytest.raises(Exception, match="is read once"):
            check_standard_input(file, same)
        with pytest.raises(Exception, match="is read once"):
            check_standard_input(None, file, file)
    (tmp_path / "a").write_bytes(b"a\n")
    with open(tmp_path / "a", "rb") as file, open(tmp_path / "a", "rb") as same:
        check_standard_input(file, same)
