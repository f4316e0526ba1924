import pytest
from command import keras_mt
from conftest import ROOT

from keras_mt import Translator
from keras_mt.convert import import_model

LITERT = ROOT / "saved_models" / "multi30k_en_de_litert"


@pytest.fixture
def terms(tmp_path):
    def write(*lines):
        path = tmp_path / "terms.tsv"
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
        return path

    return write


def test_all_that_is_wrong_is_said_at_once(terms, run_dir):
    path = terms("a\tb", "# c", "A\tc", "\tx", "d\t", "e\tf\tg", "\udcff\tx", "h  i", "j")
    result = keras_mt("glossary", path, exit_code=1)
    lines = [line.removeprefix(f"{path}:") for line in result.stdout.splitlines()]
    assert [line.partition(" ")[0] for line in lines] == ["3", "4", "5", "6", "7", "8"]
    assert lines[0] == f"3 has another target for 'A' than {path}:1: leave one of them out."
    # What translates refuses the same.
    result = keras_mt("translate", run_dir, "--glossary", path, exit_code=1)
    assert f"{path}:3 has another target" in result.stderr and "And 1 more." in result.stderr


def test_a_glossary_without_a_fault(terms):
    path = terms("a\tb", "", "A\tb", "c", "C\td\tcase")
    assert keras_mt("glossary", path).stdout == "3 terms: nothing wrong\n"


def test_a_term_that_is_too_long_for_a_model(terms):
    path = terms("book\tBuch", "word " * 300 + "\tWort", "table\t" + "Wort " * 300, "Ĳſ\tx")
    result = keras_mt("glossary", path, LITERT, exit_code=1)  # It knows all characters by bytes.
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{path}:2 is too long: ") and " tokens, the model's limit." in line


@pytest.mark.long
@pytest.mark.usefixtures("eager", "load_once")
def test_characters_that_a_model_does_not_know(terms, golden, tmp_path, monkeypatch):
    import_model(golden / "marian", tmp_path / "run")
    path = terms("livro\tbook", "数\tnumber", "mesa\t数")
    expected = f"{path}:2 has a character that the model does not know: '数'.\n"
    assert keras_mt("glossary", path, tmp_path / "run", exit_code=1).stdout == expected
    # A model that reads terms reads what they shall become, too.
    reads = property(lambda self: True, lambda self, value: None)
    monkeypatch.setattr(Translator, "reads_terms", reads)
    expected += expected.replace(":2", ":3")
    assert keras_mt("glossary", path, tmp_path / "run", exit_code=1).stdout == expected
