"""Runs whose vocabulary is made smaller: what is kept is cut, computed and translated as before."""

import functools
import json
import re
import shutil
from collections import Counter

import marian_models as marian
import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from small import small
from test_marian import written_kind

from keras_mt import ExportedTranslator, Translator
from keras_mt.alignment import Shortlist
from keras_mt.convert import export, from_huggingface, from_marian, import_model, trim
from keras_mt.convert.marian import to_marian
from keras_mt.data import phrasebook
from keras_mt.models import ARCHITECTURES
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import Tokenizer
from keras_mt.text.plain import PlainTokenizer

CODES = {
    "m2m_100": ("pt", "en"),
    "small100": ("pt", "en"),
    "nllb": ("por_Latn", "eng_Latn"),
    "nllb_legacy": ("por_Latn", "eng_Latn"),
    "madlad": ("pt", "en"),
}
QUICK = ["marian_apart", "m2m_100"]
LONG = ["marian", "marian_marks", "marian_normalized", "nllb", "nllb_legacy", "small100", "t5"]
LONG += ["mt5", "madlad", "Nothing tied, in Marian's own files", "SSRU in Marian's own files"]
LONG += ["ours", "ours, by byte pairs"]
OF_MARIAN = {
    "Nothing tied, in Marian's own files": "nothing tied, no bias",
    "SSRU in Marian's own files": "ssru, npz, beam 4",
}
every_run = pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]
)


@pytest.fixture(scope="module")
def texts(golden):
    return json.loads((golden / "texts.json").read_text())


@pytest.fixture(scope="module")
def data(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "few.tsv"
    lines = [f"{source}\t{target}\n" for source, target in texts["pairs"][:60]]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def own_run(path, tokenizer, pairs=None, **options):
    """Writes a run of random weights."""
    run = RunFolder(path)
    path.mkdir()
    model = small("transformer", tokenizer)
    source, target = ("mul", "mul") if pairs else ("pt", "en")
    options = TrainingOptions(**options)
    run.write_config(RunConfig(["x"], source, target, options, pairs, license="mit"))
    run.save_tokenizer(tokenizer)
    model.save(run.model_file)


@pytest.fixture(scope="module")
def trained():
    def train(**options):
        texts = [text for pair in list(phrasebook.pairs("train"))[:3000] for text in pair]
        return Tokenizer.train(texts, 700, **options)

    return functools.cache(train)


@pytest.fixture(scope="module")
def runs(golden, data, trained, tmp_path_factory):
    """A function that gives the folders of a run and of the trimmed one."""

    @functools.cache
    def make(name):
        folder = tmp_path_factory.mktemp("runs")
        before, after = folder / "before", folder / "after"
        if name in OF_MARIAN:
            marian.write_kind(OF_MARIAN[name], folder / "marian", marian.golden_models())
            import_model(folder / "marian", before)
        elif name.startswith("ours"):
            own_run(before, trained(model_type="bpe" if "pairs" in name else "unigram"))
        else:
            import_model(golden / name, before)
        trim(before, after, [data], "pt", "en", languages=CODES.get(name, ()))
        return before, after

    return make


def pieces_of(tokenizer, text, side):
    """The pieces of a text as strings; unknown ones are those of the table."""
    if side == 0:
        return [tokenizer.source_id_to_string(i) for i in tokenizer.pieces(text)]
    return [tokenizer.id_to_string(i) for i in tokenizer.target_pieces(text)]


def tables_of(tokenizer):
    """The pieces of both sides."""
    source = tokenizer.source_id_to_string, tokenizer.vocab_size
    target = tokenizer.id_to_string, tokenizer.target_vocab_size
    return [[text(i) for i in range(size)] for text, size in (source, target)]


@every_run
def test_text_whose_pieces_are_kept_is_cut_as_before(name, runs, texts):
    before, after = map(PlainTokenizer.load, runs(name))
    sides = [*zip(*texts["pairs"], strict=True)]
    tables = tables_of(after)
    for side, (given, table) in enumerate(zip(sides, tables, strict=True)):
        assert len(table) < len(tables_of(before)[side])
        fits = 0
        for i, text in enumerate([*given, *texts["hostile"]]):
            old, new = (pieces_of(each, text, side) for each in (before, after))
            fit = {*old} <= {*table}
            fits += fit
            assert fit or i >= 60, text
            assert new == old or not fit, text
            # What was no text, such as unseen letters, is none, and all else comes through.
            if side and name != "m2m_100" and name != "small100":
                decoded = [each.text(each.target_pieces(text)) for each in (before, after)]
                assert decoded[0] == decoded[1]
        assert 60 < fits < i


@every_run
def test_the_model_computes_the_same_of_what_is_kept(name, runs, texts):
    before, after = (Translator.load(run) for run in runs(name))
    tables = [tables_of(PlainTokenizer.load(run)) for run in runs(name)]
    orders = []
    for old, new in zip(*tables, strict=True):
        assert len({*new}) == len(new)
        orders.append(np.array([old.index(piece) for piece in new]))
    if b"" in tables[1][0]:  # The padding in Marian's own files, behind ids of the other side.
        for order, new in zip(orders, tables[1], strict=True):
            order[new.index(b"")] = before.tokenizer.padding_id
    padding = after.tokenizer.padding_id
    assert orders[0][padding] == orders[1][padding] == before.tokenizer.padding_id
    languages = [tf.constant([code] * 4) for code in CODES.get(name, ())]
    sources = tf.constant([source for source, _ in texts["pairs"][:4]])
    rows = [
        each.tokenizer.source_ids(each.tokenizer.pieces(sources), *languages).to_tensor(
            each.tokenizer.padding_id
        )
        for each in (before, after)
    ]
    np.testing.assert_array_equal(orders[0][rows[1]], rows[0])
    random = np.random.default_rng(0)
    start = np.full((4, 1), after.tokenizer.bos_id)
    targets = np.concatenate([start, random.integers(0, len(orders[1]), (4, 7))], axis=1)
    expected, found = (
        each.models[0]({"source": source.numpy(), "target": target}).numpy()
        for each, source, target in zip(
            (before, after), rows, (orders[1][targets], targets), strict=True
        )
    )
    np.testing.assert_allclose(found, expected[..., orders[1]], atol=2e-5)
    for special in ("bos_id", "eos_id"):
        old, new = (getattr(each.tokenizer, special) for each in (before, after))
        assert orders[1][new] == old
    assert len({str(RunFolder(run).config.generation) for run in runs(name)}) == 1


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("nllb", 6),
        *(pytest.param(n, 24, marks=pytest.mark.long) for n in ("marian", "m2m_100", "ours")),
        *(
            pytest.param(name, 60, marks=[pytest.mark.long, pytest.mark.exhaustive])
            for name in (*QUICK, *LONG)
        ),
    ],
)
def test_it_finds_the_same_where_its_pieces_are_kept(name, number, eager, runs, texts):
    codes = dict(zip(("source_language", "target_language"), CODES.get(name, ()), strict=False))
    options = {"max_length": min(number, 16), **codes}
    before, after = (Translator.load(run, **options) for run in runs(name))
    sources = [source for source, _ in texts["pairs"][:number]]
    table = {*tables_of(PlainTokenizer.load(runs(name)[1]))[1]} - {b""}

    def found(translator, **options):
        return translator.with_options(**options).hypotheses(sources, token_scores=True)

    greedy = [found(each, beam_size=1) for each in (before, after)]
    kept = [{p.encode() for p, _ in old.tokens} <= table for old, *_ in greedy[0]]
    same = [old.text == new.text for (old, *_), (new, *_) in zip(*greedy, strict=True)]
    assert all(s for s, k in zip(same, kept, strict=True) if k)
    assert sum(kept) > 2 or name not in ("nllb", "marian", "m2m_100")  # Which were trained.
    if number == 6:
        return
    # In a beam the removed ones count in the softmax, and a shortlist of the others masks them.
    old, new = (found(each, beam_size=4) for each in (before, after))
    differ = sum(x.text != y.text for (x, *_), (y, *_) in zip(old, new, strict=True))
    print(f"{name}: {len(kept) - sum(kept)} of {number} have other pieces; beam 4: {differ} differ")
    tables = [tables_of(PlainTokenizer.load(run)) for run in runs(name)]
    always = [i for i, piece in enumerate(tables[0][1]) if piece in table]
    nothing = np.full((before.tokenizer.source_vocab_size, 1), -1)
    masking = Shortlist(nothing, np.array(always), before.tokenizer.fingerprint, [*codes.values()])
    masked = Translator.load(runs(name)[0], **options, shortlist=masking)
    for (x, *_), (y, *_) in zip(found(masked, beam_size=4), new, strict=True):
        assert x.text == y.text and abs(x.score - y.score) < 1e-4


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "recurrent" else pytest.mark.long)
        for name in sorted(ARCHITECTURES)
    ],
)
def test_every_architecture_of_ours(name, trained, data, tmp_path):
    tokenizer = trained()
    run = RunFolder(tmp_path / "before")
    own_run(run.path, tokenizer)
    model = small(name, tokenizer)
    model.save(run.model_file)
    trim(run.path, tmp_path / "after", [data])
    after = RunFolder(tmp_path / "after")
    small_tokenizer = after.load_tokenizer()
    pieces = tokenizer.id_to_string(range(tokenizer.vocab_size)).numpy().tolist()
    kept = small_tokenizer.id_to_string(range(small_tokenizer.vocab_size)).numpy().tolist()
    order = np.array([pieces.index(piece) for piece in kept])
    ids = np.random.default_rng(0).integers(4, len(kept), (2, 5))
    found, expected = (
        each({"source": x, "target": x})
        for each, x in ((after.load_model(), ids), (model, order[ids]))
    )
    np.testing.assert_allclose(found, np.take(expected, order, axis=-1), atol=2e-5)
    assert after.config.model_config["vocab_size"] == len(kept) < tokenizer.vocab_size


def test_the_command_says_what_it_did_and_so_does_the_card(golden, data, tmp_path):
    folder = shutil.copytree(golden / "nllb", tmp_path / "nllb")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    import_model(folder, tmp_path / "run")
    sides = "--source", "pt", "--target", "en"
    told = keras_mt("trim", tmp_path / "run", tmp_path / "small", "--data", data, *sides)
    size = Translator.load(tmp_path / "small").tokenizer.vocab_size
    assert told.stdout == f"kept {size} of 606 tokens in {tmp_path / 'small'}\n"
    # Once more, with a text of one side, and one language.
    (tmp_path / "text").write_bytes(b"O livro.\nO \xff gato.\n")
    keras_mt(
        "trim", tmp_path / "small", tmp_path / "smaller", "--data", tmp_path / "text",
        "--language", "eng_Latn",
    )  # fmt: skip
    translator = Translator.load(tmp_path / "smaller")
    assert translator.card["license"] == "cc-by-nc-4.0"
    after = translator.tokenizer.vocab_size
    assert translator.card["trimmed"] == {
        "before": [606, 606], "after": [after, after], "data": ["text"],
    }  # fmt: skip
    assert after < size and translator.languages == ("eng_Latn",)
    assert (translator.source_language, translator.target_language) == (None, "eng_Latn")


def test_a_model_of_several_languages_keeps_those_asked_for(trained, data, tmp_path):
    tokenizer = trained(languages=("pt", "en", "de"))
    pairs = {"pt-en": "a", "en-pt": "b", "de-en": "c"}
    own_run(tmp_path / "run", tokenizer, pairs, source_language="de", target_language="pt")
    trim(tmp_path / "run", tmp_path / "small", [data], "pt", "en", languages=["pt", "en"])
    run = RunFolder(tmp_path / "small")
    assert run.load_tokenizer().languages == ("pt", "en")
    assert run.config.pairs == {"pt-en": "a", "en-pt": "b"} and run.config.license == "mit"
    assert run.config.languages == {"source_language": "pt", "target_language": "pt"}
    translator = Translator.load(run.path, beam_size=1, max_length=3)
    assert (
        translator.tokenizer.source_ids(
            translator.tokenizer.pieces(tf.constant(["O"])),
            tf.constant(["pt"]),
            tf.constant(["en"]),
        ).to_list()[0][0]
        == [*dict(translator.tokenizer.language_ids)].index("en") + 4
    )
    with pytest.raises(ValueError, match=r"language must be a code of .*'fr'"):
        trim(tmp_path / "run", tmp_path / "other", [data], languages=["fr"])


def test_the_most_frequent_are_kept_up_to_a_number(runs, data, texts, tmp_path):
    """Of each side, if they are apart, with the padding at the same place."""
    before, _ = runs("marian_apart")
    with pytest.raises(ValueError, match=r"vocab_size=20 is too small: .* alone are \d\d") as error:
        trim(before, tmp_path / "small", [data], "pt", "en", vocab_size=20)
    size = int(re.search(r"alone are (\d+)", str(error.value))[1]) + 60
    trim(before, tmp_path / "small", [data], "pt", "en", vocab_size=size)
    before, after = map(PlainTokenizer.load, (before, tmp_path / "small"))
    assert (after.vocab_size, after.target_vocab_size) == (size, size)
    for side, table in enumerate(tables_of(after)):
        pieces = (pieces_of(before, pair[side], side) for pair in texts["pairs"][:60])
        counts = Counter(piece for each in pieces for piece in each)
        longer = {piece for piece in counts if len(piece.decode()) > 1}
        kept, gone = ({counts[p] for p in each} for each in (longer & {*table}, longer - {*table}))
        assert len(gone) > 1 and min(kept) >= max(gone)
        assert all(piece in table for piece in counts if len(piece.decode()) == 1)


def test_a_shortlist_goes_along(golden, corpus, tmp_path):
    run, small = tmp_path / "run", tmp_path / "small"
    import_model(golden / "marian_apart", run)
    sides = "--data", corpus, "--source", "pt", "--target", "en"
    keras_mt("shortlist", run, tmp_path / "list", *sides, "--size", 9)
    keras_mt("trim", run, small, *sides, "--shortlist", tmp_path / "list")
    shortlists = Shortlist.load(tmp_path / "list"), Shortlist.load(small / "shortlist")
    tokenizers = [PlainTokenizer.load(each) for each in (run, small)]
    Translator.load(small, shortlist=shortlists[1])
    rows = []
    for tokenizer, shortlist in zip(tokenizers, shortlists, strict=True):
        (sources, targets), table = tables_of(tokenizer), shortlist.table
        rows.append(
            {s: {targets[i] for i in r if i >= 0} for s, r in zip(sources, table, strict=True)}
        )
        rows.append({targets[i] for i in shortlist.always})
    kept = {*tables_of(tokenizers[1])[1]}
    assert rows[3] == rows[1] & kept and len(rows[2]) < len(rows[0])
    assert all(targets == rows[0][piece] & kept for piece, targets in rows[2].items())
    with pytest.raises(ValueError, match="learned with another tokenizer"):
        trim(small, tmp_path / "x", [corpus], "pt", "en", shortlist=tmp_path / "list")


@pytest.mark.long
def test_marian_and_transformers_take_it(runs, trained, data, texts, tmp_path):
    """Marian's int8 too, whose pieces are a multiple of eight."""
    to_marian(written_kind(trained()), tmp_path / "marian")
    import_model(tmp_path / "marian", tmp_path / "run")
    trim(tmp_path / "run", tmp_path / "small", [data], "pt", "en", vocab_size=599)
    for run, name, options, read in (
        (tmp_path / "small", "marian", {}, from_marian),
        (tmp_path / "small", "marian", {"quantization": "int8"}, from_marian),
        (runs("marian_apart")[1], "huggingface", {}, from_huggingface),
    ):
        translator = Translator.load(run)
        folder = tmp_path / f"{name}{len(options)}"
        export(translator, folder, name, **options)
        again = read(folder)
        sources = tf.constant([source for source, _ in texts["pairs"][:20]])
        rows = [each.tokenizer.pieces(sources).to_list() for each in (translator, again)]
        assert rows[0] == rows[1]
        if options:
            assert again.models[0].vocab_size % 8 == 1  # With the padding.
            continue
        ids = np.array([rows[0][0]])
        logits = [each.models[0]({"source": ids, "target": ids}) for each in (translator, again)]
        np.testing.assert_allclose(*logits, atol=1e-4)


@pytest.mark.long
def test_it_is_tuned_and_exported_as_any_other(runs, corpus, texts, tmp_path, signatures_alone):
    _, run = runs("nllb")
    codes = dict(zip(("source_language", "target_language"), CODES["nllb"], strict=True))
    data = ["--data", corpus, "--source", "pt", "--target", "en"]
    languages = [f"--{name.replace('_', '-')}={code}" for name, code in codes.items()]
    keras_mt(
        "train", *data, *languages, "--init", run, "--output", tmp_path / "tuned", "--steps", 2,
        "--max-length", 96,
    )  # fmt: skip
    tuned = Translator.load(tmp_path / "tuned", beam_size=2, max_length=12)
    assert tuned.card["trimmed"] == Translator.load(run).card["trimmed"]
    sources = [source for source, _ in texts["pairs"][:6]]
    expected = tuned(sources, **codes)
    signatures_alone("serving_default")
    folder = tmp_path / "saved" / "1"
    tuned.export(folder)
    assert ExportedTranslator(folder)(sources, **codes) == expected
    assert json.loads((folder / "assets.extra" / "model_card.json").read_text())["trimmed"]
    export(tuned, tmp_path / "litert", "litert", quantization="float32")
    assert ExportedTranslator(tmp_path / "litert")(sources, **codes) == expected
    export(tuned, tmp_path / "ctranslate2", "ctranslate2")
    export(tuned, tmp_path / "onnx", "onnx")


def test_what_cannot_be_trimmed_is_refused_by_name(runs, data, tmp_path):
    before, after = runs("m2m_100")
    (tmp_path / "empty.tsv").write_text("\n")
    (tmp_path / "empty").mkdir()
    for corpus, message in (
        (tmp_path / "empty.tsv", r"empty\.tsv has no text"),
        (tmp_path / "empty", "empty has no split 'train'"),
        ("nowhere", "There is no corpus 'nowhere'"),
    ):
        with pytest.raises(ValueError, match=message):
            trim(before, tmp_path / "out", [corpus], "pt", "en")
    with pytest.raises(FileExistsError):
        trim(before, after, [data], "pt", "en")
    with pytest.raises(FileNotFoundError, match="is not a finished run folder"):
        trim(tmp_path / "empty", tmp_path / "out", [data], "pt", "en")
    assert not (tmp_path / "out").exists()
