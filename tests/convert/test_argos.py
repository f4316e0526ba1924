"""Packages for Argos Translate, read by its rules: argostranslate itself would install torch."""

import json
import zipfile

import pytest
import sentencepiece
from command import keras_mt
from conftest import needed

from keras_mt import Transformer, Translator
from keras_mt.convert import from_huggingface
from keras_mt.convert.argos import to_argos
from keras_mt.data import phrasebook
from keras_mt.text import PretrainedTokenizer, Tokenizer

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("eager")]

ctranslate2 = needed("ctranslate2")
LIKE_ARGOS = {"beam_size": 4, "length_penalty": 0.2, "early_stopping": True}
PAIR = {"source": "pt", "target": "en"}
SMALL = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "max_length": 64}


class Argos:
    """A package as argostranslate 1.11 installs it and translates with it, sentence by sentence."""

    def __init__(self, file, folder):
        with zipfile.ZipFile(file) as package:
            package.extractall(folder)
        (self.folder,) = folder.iterdir()
        self.metadata = json.loads((self.folder / "metadata.json").read_text())
        self.readme = (self.folder / "README.md").read_text()
        self._pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(self.folder / "sentencepiece.model")
        )
        # Its own default, "auto", computes in int8.
        self._model = ctranslate2.Translator(str(self.folder / "model"), compute_type="default")

    def __call__(self, sentences):
        found = self._model.translate_batch(
            [self._pieces.encode(sentence, out_type=str) for sentence in sentences],
            target_prefix=None,
            replace_unknowns=True,
            max_batch_size=32,
            batch_type="tokens",
            beam_size=4,
            num_hypotheses=1,
            length_penalty=0.2,
            return_scores=True,
        )
        texts = [self._pieces.decode_pieces(row.hypotheses[0]) for row in found]
        return [text.replace("▁", " ").replace("_", " ").removeprefix(" ") for text in texts]


@pytest.fixture(scope="module")
def sources():
    return list(dict.fromkeys(pair[0] for pair in phrasebook.pairs("test")))[:32]


def test_argos_translates_as_ours_does(load, run_dir, sources, tmp_path):
    file = tmp_path / "new" / "pt_en.argosmodel"
    card = ("--card", "license=mit", "--card", 'version="2.1"', "--card", "source=por")
    keras_mt("export", run_dir, file, "--format", "argos", *card)
    argos = Argos(file, tmp_path / "packages")
    assert argos.folder.name == "translate-pt_en-2_1"
    assert argos.metadata == {
        "package_version": "2.1",
        "argos_version": "1.11",
        "from_code": "pt",
        "from_name": "Portuguese",
        "to_code": "en",
        "to_name": "English",
    }
    assert argos.readme.startswith("# Portuguese to English\n") and "license: mit" in argos.readme
    ours = load(split_sentences=False, keep=(), **LIKE_ARGOS)
    same = [a == b for a, b in zip(argos(sources), ours(sources), strict=True)]
    assert len(same) == 32 and sum(same) >= 31
    assert [*tmp_path.glob("new/*")] == [file]


@pytest.mark.parametrize(
    "family", [pytest.param("marian", marks=pytest.mark.exhaustive), "marian_apart"]
)
def test_it_joins_targets_with_the_model_of_sources(family, golden, tmp_path):
    """As those of OPUS-MT have two."""
    ours = from_huggingface(golden / family).with_options(
        max_length=None, min_length=0, no_repeat_ngram_size=0, force_end=False, **LIKE_ARGOS
    )
    assert len(ours.tokenizer.models) == 2 or family == "marian"
    to_argos(ours, tmp_path / "package", card=PAIR)
    argos = Argos(tmp_path / "package", tmp_path / "packages")
    sentences = ["A man sleeps.", "Two dogs play in the snow.", "What is that?"]
    for its, own in zip(argos(sentences), ours(sentences), strict=True):
        assert own and its.startswith(own)  # Which it ends later, at 256 tokens.


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_a_sentence_may_be_longer_than_the_models_limit(positions, load, tmp_path):
    tokenizer = load().tokenizer
    model = Transformer(tokenizer.vocab_size, **SMALL, positions=positions)
    to_argos(Translator(model, tokenizer), tmp_path / "package", card=PAIR)
    argos = Argos(tmp_path / "package", tmp_path / "packages")
    assert len(argos(["palavra " * 1100])) == 1


def test_int8_is_smaller(load, tmp_path):
    sizes = []
    for quantization in (None, "int8"):
        file = tmp_path / str(quantization)
        to_argos(load(), file, quantization)
        with zipfile.ZipFile(file) as package:
            sizes += [x.file_size for x in package.infolist() if x.filename.endswith("model.bin")]
    assert sizes[0] > 1.9 * sizes[1]


def tokenizer_of(load, **settings):
    """The session's tokenizer as a table of ids, and more settings."""
    model = load().tokenizer.model
    pieces = [piece.decode() for piece in load().tokenizer.id_to_string(range(300)).numpy()]
    ids = {"padding_id": 0, "bos_id": 2, "eos_id": 3}
    return PretrainedTokenizer([model], [pieces], special=["<unk>", *pieces[:1]], **ids, **settings)


@pytest.mark.parametrize(
    ("card", "settings", "message"),
    [
        ({"source": "ROMANCE"}, None, "code of the source.*--card source=en.*'ROMANCE'"),
        ({"target": None}, None, "code of the target.*None"),
        ({}, {"languages": {"de": 5, "fr": 6}}, "no place for a model with several languages"),
        ({}, {"language_tags": {">>de<<": 5, ">>fr<<": 6}}, "several languages"),
        ({}, {"forced": [7]}, "tokens that each source or target begins with"),
    ],
)
def test_what_argos_cannot_do_is_refused_by_name(card, settings, message, load, tmp_path):
    tokenizer = load().tokenizer if settings is None else tokenizer_of(load, **settings)
    translator = Translator(Transformer(tokenizer.vocab_size, **SMALL), tokenizer)
    with pytest.raises(ValueError, match=message):
        to_argos(translator, tmp_path / "new", card=PAIR | card)
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_of_ones_own_is_refused(load, tmp_path):
    class Own(Tokenizer):
        pass

    tokenizer = Own(load().tokenizer.model)
    translator = Translator(Transformer(tokenizer.vocab_size, **SMALL), tokenizer)
    with pytest.raises(ValueError, match="a model with a Own"):
        to_argos(translator, tmp_path / "new", card=PAIR)
