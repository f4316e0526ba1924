import io
import os

import pytest
from command import keras_mt

from keras_mt.cli.input import check_standard_input, read_lines, row_blocks
from keras_mt.errors import InputError


def test_lines_are_taken_as_they_arrive():
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb", buffering=0) as out:
        blocks = row_blocks(file)
        out.write(b"a\n\nb\r\nc")
        assert texts(next(blocks)) == ["a", "", "b"]
        out.write(b"d\n")
        assert texts(next(blocks)) == ["cd"]
        out.write(b"g\nh\ni")
        out.close()
        assert [*map(texts, blocks)] == [["g", "h"], ["i"]]


def texts(block):
    return [row.texts[0] for row in block]


def test_a_block_holds_a_few_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_mt.cli.input._BLOCK_BYTES", 1000)
    lines = ["x" * (i % 97) for i in range(5000)] + ["y" * 3000, "", "\x85\u2028 end"]
    (tmp_path / "file").write_text("\n".join(lines), encoding="utf-8")
    with open(tmp_path / "file", "rb") as file, open(tmp_path / "file", "rb") as other:
        blocks = list(row_blocks(file, other))
    sizes = [sum(len(text) + 1 for text in texts(block)) for block in blocks]
    assert sum(900 < size < 1100 for size in sizes) > len(sizes) - 4
    rows = [row for block in blocks for row in block]
    assert rows == [(i, (line, line), None) for i, line in enumerate(lines, 1)]


def test_a_line_that_arrives_in_many_parts_is_whole():
    class Slow(io.BytesIO):
        def read1(self, size):
            return super().read1(min(size, 3))

    data = b"a" * 1000 + b"\nb\n" + "é".encode() * 1000
    for read in (read_lines, lambda file: [x for block in row_blocks(file) for x in texts(block)]):
        with Slow(data) as file:
            assert read(file) == ["a" * 1000, "b", "é" * 1000]


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
    ],
)
def test_standard_input_given_twice_is_refused(arguments, run_dir):
    arguments = [str(run_dir) if argument == "RUN" else argument for argument in arguments]
    result = keras_mt(*arguments, stdin=b"a\nb\n", check=False)
    assert result.exit_code == 2 and "is read once" in result.stderr


def test_other_files_may_be_given_twice(tmp_path):
    (tmp_path / "a").write_bytes(b"a\n")
    with open(tmp_path / "a", "rb") as file, open(tmp_path / "a", "rb") as same:
        check_standard_input(None, file, same, None)
        with pytest.raises(Exception, match="is read once"):
            check_standard_input(None, file, file)
