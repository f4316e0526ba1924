import pickle
import time

import pytest

import keras_mt
from keras_mt import Glossary
from keras_mt.text import Term


def test_pairs():
    glossary = Glossary([("bank", " Institut "), "Keras", ("IT", "EDV", True), ["x", None]])
    assert list(glossary) == [
        Term("bank", "Institut"), Term("Keras"), Term("IT", "EDV", True), Term("x"),
    ]  # fmt: skip
    assert len(glossary) == 4 and repr(glossary) == "<Glossary of 4 terms>"
    assert keras_mt.Glossary is Glossary
    for other in (Glossary(glossary), pickle.loads(pickle.dumps(glossary))):
        assert other.fingerprint == glossary.fingerprint and list(other) == list(glossary)
    assert Glossary({"a": "b"}).fingerprint != Glossary({"a": "c"}).fingerprint
    assert len(Glossary([("A  b", "x"), ("a b", "x")])) == 1
    assert len(Glossary([("A", "x", True), ("a", "y")])) == 2


def test_files(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeff# IT\r\nbank\tInstitut\r\n\r\n  # more\nKeras\nIT\tEDV\tcase".encode())
    glossary = Glossary.load(path)
    assert list(glossary) == [Term("bank", "Institut"), Term("Keras"), Term("IT", "EDV", True)]
    path.write_bytes(b"")
    assert len(Glossary.load(path)) == 0
    with pytest.raises(FileNotFoundError):
        Glossary.load(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"a\tb\na\tc", r"terms.tsv:2 has another target for 'a' than .*terms.tsv:1"),
        (b"a\tb\n# c\nA\n", r"terms.tsv:3 has another target for 'A' than .*terms.tsv:1"),
        (b"\n \tb", "terms.tsv:2 has an empty source"),
        (b"a\t", "terms.tsv:1 has an empty target"),
        (b"a\tb\tc\td", "terms.tsv:1 must be source<TAB>target, .* Received: 4 columns"),
        (b"a\tb\tCase", "terms.tsv:1 must be source<TAB>target, "),
        (b"a\tb\n\xff", "terms.tsv:2 is not UTF-8 at byte 1"),
        (b"a  b c", "terms.tsv:1 has spaces where a tab belongs: 'a  b c'"),
        (b"a\x05\tb", r"terms.tsv:1 has the character '\\x05' in its source"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, lines, message):
    path = tmp_path / "terms.tsv"
    path.write_bytes(lines)
    with pytest.raises(ValueError, match=message):
        Glossary.load(path)


def test_an_error_names_several_lines_and_counts_the_rest(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes(b"a\tb\n\xff\na\tc\n" + b" \tb\n" * 9)
    with pytest.raises(ValueError, match=r":2 is not .*:3 has another .*:6 has .*\. And 6 more\.$"):
        Glossary.load(path)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("bank", "pairs must be pairs .* Received: str"),
        (3, "pairs must be pairs .* Received: int"),
        (
            [("a", "b"), ("a", "c"), ("d", "e"), ("a", "b"), ("D", "f")],
            r"pairs\[1\] has another target for 'a' than pairs\[0\]: leave one .*\. "
            r"pairs\[4\] has another target for 'D' than pairs\[2\]: leave one of them out",
        ),
        ([("a", "")], r"pairs\[0\] has an empty target"),
        ([" "], r"pairs\[0\] has an empty source"),
        (["a  b"], r"pairs\[0\] has spaces where a tab belongs: 'a  b'"),
        ({"a  b": None}, r"pairs\[0\] has spaces where a tab belongs: 'a  b'"),
        ([("a\tb", "c")], r"pairs\[0\] has the character '\\t' in its source"),
        ([("a", "b\nc")], r"pairs\[0\] has the character '\\n' in its target"),
        ([("a", "b", True, 1)], r"pairs\[0\] must be a pair"),
        ([("a", 3)], r"pairs\[0\] must be a pair of str"),
        ([("a", "\ud800")], r"pairs\[0\] has the character '\\ud800' in its target"),
    ],
)
def test_bad_pairs_are_refused_by_number(pairs, message):
    with pytest.raises(ValueError, match=message):
        Glossary(pairs)


@pytest.mark.long
def test_a_large_glossary_costs_little():
    glossary = Glossary((f"term{i} of trade{i % 100}", f"x{i}") for i in range(20_000))
    glossary.find("")
    text = " ".join(f"term{i} of trade{i % 100}" for i in range(0, 2000, 100))
    start = time.process_time()
    for _ in range(100):
        assert len(glossary.find(text)) == 20
    assert time.process_time() - start < 1  # 10 ms each; it takes less than one.
