"""Runs whose vocabulary is made smaller: what is kept is cut, computed and translated as before."""

import functools
import json
import re
from collections import Counter
from typing import NamedTuple

import marian_models as marian
import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from runs import assert_same_weights, disturb
from small import small

from keras_mt import ExportedTranslator, Transformer, Translator
from keras_mt.alignment import Shortlist
from keras_mt.convert import export, from_huggingface, from_marian, trim
from keras_mt.convert.families import FAMILIES
from keras_mt.convert.folder import Folder
from keras_mt.data import phrasebook
from keras_mt.inference import Predictor
from keras_mt.models import ARCHITECTURES, ensure_built
from keras_mt.options import TrainingOptions, TranslationOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.text.plain import PlainTokenizer

CODES = {
    "m2m_100": ("pt", "en"),
    "small100": ("pt", "en"),
    "nllb": ("por_Latn", "eng_Latn"),
    "madlad": ("pt", "en"),
}
OF_MARIAN = {
    "Nothing tied, in Marian's own files": "nothing tied, no bias",
    "SSRU in Marian's own files": "ssru, npz, beam 4",
}
UNTIED, SSRU = OF_MARIAN
WHOLE = ["nllb", "t5", *OF_MARIAN]  # Of the others a smaller model has the tokenizer.
QUICK = ["marian_apart", "m2m_100"]
LONG = ["marian_marks", "madlad", "nllb", UNTIED, "ours, by byte pairs"]
ALL = [*QUICK, *LONG, "small100", "t5", SSRU, "ours"]
EXHAUSTIVE = [pytest.mark.long, pytest.mark.exhaustive]


def runs_of(quick, long):
    """Parametrizes a test by kinds of runs, of which the others are exhaustive."""
    marks = dict.fromkeys(ALL, EXHAUSTIVE) | dict.fromkeys(long, pytest.mark.long)
    marks |= dict.fromkeys(quick, ())
    return pytest.mark.parametrize("name", [pytest.param(n, marks=x) for n, x in marks.items()])


every_run = runs_of(QUICK, LONG)


@pytest.fixture(scope="module")
def texts(golden):
    return json.loads((golden / "texts.json").read_text())


@pytest.fixture(scope="module")
def data(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "few.tsv"
    lines = [f"{source}\t{target}\n" for source, target in texts["pairs"][:60]]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def tiny(tokenizer, d_model=16, **options):
    """A model of random weights for a tokenizer."""
    sizes = {"num_layers": 1, "d_model": d_model, "num_heads": 2, "d_ff": d_model}
    share = len(getattr(tokenizer, "settings", {"pieces": [()]})["pieces"]) == 1
    model = Transformer(
        tokenizer.vocab_size, target_vocab_size=tokenizer.target_vocab_size, max_length=128,
        padding_id=tokenizer.padding_id, share_embeddings=share, tie_output=share,
        logits_bias=True, **sizes, **options,
    )  # fmt: skip
    return disturb(ensure_built(model), 3)


def write_run(path, tokenizer, model, pairs=None, **options):
    """Writes a run; returns its model."""
    run = RunFolder(path)
    path.mkdir()
    source, target = ("mul", "mul") if pairs else ("pt", "en")
    options = TrainingOptions(**options)
    given = {"license": "mit", "generation": {"beam_size": 3, "split_sentences": False}}
    run.write_config(RunConfig(["x"], source, target, options, pairs, **given))
    run.save_tokenizer(tokenizer)
    model.save(run.model_file)
    return model


@pytest.fixture(scope="module")
def trained():
    def train(**options):
        texts = [text for pair in list(phrasebook.pairs("train"))[:1500] for text in pair]
        return Tokenizer.train(texts, 700, **options)

    return functools.cache(train)


class Side(NamedTuple):
    """A run, before or after: its folder, tokenizer and model, and the pieces of both sides."""

    path: object
    tokenizer: PlainTokenizer
    model: Transformer
    tables: list


@pytest.fixture(scope="module")
def runs(golden, data, trained, tmp_path_factory):
    """A function that gives the two `Side`s of a kind of run."""

    def read(name, folder):
        """The tokenizer of a run, its model, and its languages."""
        if name.startswith("ours"):
            tokenizer = trained(model_type="bpe" if "pairs" in name else "unigram")
            return tokenizer, tiny(tokenizer), {}
        if name in OF_MARIAN:
            marian.write_kind(OF_MARIAN[name], folder, marian.golden_models())
        if name in WHOLE:
            found = from_marian(folder) if name in OF_MARIAN else from_huggingface(golden / name)
            languages = found.source_language, found.target_language
            names = ("source_language", "target_language")
            return found.tokenizer, found.models[0], dict(zip(names, languages, strict=True))
        opened = Folder(golden / name)
        family = opened.fields(FAMILIES[opened.config["model_type"]], "config.json")
        tokenizer, languages = family.read_tokenizer(opened)
        return tokenizer, tiny(tokenizer), languages

    @functools.cache
    def make(name):
        folder = tmp_path_factory.mktemp("runs")
        before, after = folder / "before", folder / "after"
        tokenizer, model, languages = read(name, folder / "marian")
        write_run(before, tokenizer, model, **languages)
        trim(before, after, [data], "pt", "en", languages=CODES.get(name, ()))
        models, plain = (
            (model, RunFolder(after).load_model()),
            map(PlainTokenizer.load, (before, after)),
        )
        sides = zip((before, after), plain, models, strict=True)
        return [Side(path, own, model, tables_of(own)) for path, own, model in sides]

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
    before, after = runs(name)
    sides = [*zip(*texts["pairs"], strict=True)]
    for side, (given, table) in enumerate(zip(sides, after.tables, strict=True)):
        assert len(table) < len(before.tables[side])
        fits = 0
        for i, text in enumerate([*given, *texts["hostile"]]):
            old, new = (pieces_of(each.tokenizer, text, side) for each in (before, after))
            fit = {*old} <= {*table}
            fits += fit
            assert fit or i >= 60, text
            assert new == old or not fit, text
            # What was no text, such as unseen letters, is none, and all else comes through.
            if side and name not in ("m2m_100", "small100"):
                tokenizers = before.tokenizer, after.tokenizer
                decoded = [each.text(each.target_pieces(text)) for each in tokenizers]
                assert decoded[0] == decoded[1]
        assert 60 < fits < i


def orders_of(before, after):
    """The ids before of the pieces after, of each side."""
    orders = []
    for old, new in zip(before.tables, after.tables, strict=True):
        assert len({*new}) == len(new)
        orders.append(np.array([old.index(piece) for piece in new]))
    if b"" in after.tables[0]:  # The padding in Marian's own files, behind ids of the other side.
        for order, new in zip(orders, after.tables, strict=True):
            order[new.index(b"")] = before.tokenizer.padding_id
    padding = after.tokenizer.padding_id
    assert orders[0][padding] == orders[1][padding] == before.tokenizer.padding_id
    return orders


def source_rows(side, sources, languages):
    """The ids of sources, padded."""
    tokenizer = side.tokenizer
    rows = [tokenizer.source_ids(tokenizer.pieces(text), *languages) for text in sources]
    longest = max(map(len, rows))
    return np.array([row + [tokenizer.padding_id] * (longest - len(row)) for row in rows])


@every_run
def test_the_model_computes_the_same_of_what_is_kept(name, runs, texts):
    before, after = runs(name)
    orders, languages = orders_of(before, after), CODES.get(name, ())
    sources = [source for source, _ in texts["pairs"][:4]]
    rows = [source_rows(side, sources, languages) for side in (before, after)]
    np.testing.assert_array_equal(orders[0][rows[1]], rows[0])
    random = np.random.default_rng(0)
    start = np.full((4, 1), after.tokenizer.bos_id)
    targets = np.concatenate([start, random.integers(0, len(orders[1]), (4, 7))], axis=1)
    expected, found = (
        side.model({"source": source, "target": target}).numpy()
        for side, source, target in zip(
            (before, after), rows, (orders[1][targets], targets), strict=True
        )
    )
    np.testing.assert_allclose(found, expected[..., orders[1]], atol=2e-5)
    for special in ("bos_id", "eos_id"):
        old, new = (getattr(side.tokenizer, special) for side in (before, after))
        assert orders[1][new] == old
    old, new = (side.tokenizer for side in (before, after))
    assert {*orders[1][[*new.forbidden_ids]]} == {*old.forbidden_ids} & {*orders[1]}
    forced = [each.forced_ids(*languages[1:]) for each in (old, new)]
    assert [*orders[1][[*forced[1]]]] == [*forced[0]]


@runs_of(["marian_apart"], ["nllb", UNTIED])
def test_it_finds_the_same_where_its_pieces_are_kept(name, eager, runs, texts):
    before, after = runs(name)
    order, languages = orders_of(before, after)[1], CODES.get(name, ())
    sources = [source for source, _ in texts["pairs"][:12]]

    def found(side, beams, shortlist=None):
        tokenizer, rows = side.tokenizer, source_rows(side, sources, languages)
        forced = [tokenizer.forced_ids(*languages[1:])] * len(rows)
        number = len(forced[0])
        return Predictor([side.model], shortlist).search(
            tokenizer,
            TranslationOptions(beam_size=beams, n_best=1, max_length=4 + number),
            number,
            tf.constant(rows, tf.int32),
            tf.constant([9] * len(rows)),
            tf.constant([False] * len(rows)),
            tf.constant(forced, tf.int32) if number else None,
        )

    old, new = found(before, 1).tokens.numpy()[:, 0], order[found(after, 1).tokens.numpy()[:, 0]]
    width = min(old.shape[1], new.shape[1])
    kept = np.cumprod(np.isin(old[:, :width], order), axis=1, dtype=bool)
    np.testing.assert_array_equal(old[:, :width][kept], new[:, :width][kept])
    whole = kept.all(axis=1)
    assert whole.sum() > 2 or name != "nllb"  # Which was trained.
    strings = [
        [before.tokenizer.text(row.tolist()) for row, w in zip(rows, whole, strict=True) if w]
        for rows in (old, new)
    ]
    assert strings[0] == strings[1]
    # In a beam the removed ones count in the softmax, and a shortlist of the others masks them.
    nothing = np.full((len(before.tables[0]), 1), -1)
    masking = Shortlist(nothing, order, "", languages)
    masked, new = found(before, 4, masking), found(after, 4)
    np.testing.assert_array_equal(masked.tokens, order[new.tokens.numpy()])
    np.testing.assert_allclose(masked.scores, new.scores, atol=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=EXHAUSTIVE if name == "mixture_of_experts" else [])
        for name in sorted({*ARCHITECTURES} - {"transformer"})
    ],
)
def test_every_architecture_of_ours(name, trained, data, tmp_path):
    tokenizer = trained()
    model = write_run(tmp_path / "before", tokenizer, small(name, tokenizer))
    trim(tmp_path / "before", tmp_path / "after", [data])
    after = RunFolder(tmp_path / "after")
    (pieces, _), (kept, _) = (
        tables_of(PlainTokenizer.load(tmp_path / each)) for each in ("before", "after")
    )
    order = np.array([pieces.index(piece) for piece in kept])
    ids = np.random.default_rng(0).integers(4, len(kept), (2, 5))
    found, expected = (
        each({"source": x, "target": x})
        for each, x in ((after.load_model(), ids), (model, order[ids]))
    )
    np.testing.assert_allclose(found, np.take(expected, order, axis=-1), atol=2e-5)
    assert after.config.model_config["vocab_size"] == len(kept) < tokenizer.vocab_size


def test_the_command_says_what_it_did_and_so_does_the_card(runs, data, tmp_path):
    before, _ = runs("m2m_100")
    sides = "--source", "pt", "--target", "en"
    told = keras_mt("trim", before.path, tmp_path / "small", "--data", data, *sides)
    size, whole = PlainTokenizer.load(tmp_path / "small").vocab_size, before.tokenizer.vocab_size
    assert told.stdout == f"kept {size} of {whole} tokens in {tmp_path / 'small'}\n"
    # Once more, with a text of one side, and one language.
    (tmp_path / "text").write_bytes(b"O livro.\nO \xff gato.\n")
    keras_mt(
        "trim", tmp_path / "small", tmp_path / "smaller", "--data", tmp_path / "text",
        "--language", "en",
    )  # fmt: skip
    translator = Translator.load(tmp_path / "smaller")
    assert translator.card["license"] == "mit"
    assert translator.options.beam_size == 3 and not translator.options.split_sentences
    after = translator.tokenizer.vocab_size
    assert translator.card["trimmed"] == {
        "before": [whole, whole], "after": [after, after], "data": ["text"],
    }  # fmt: skip
    assert after < size and translator.languages == ("en",)
    assert (translator.source_language, translator.target_language) == (None, "en")


def test_a_model_of_several_languages_keeps_those_asked_for(trained, data, tmp_path):
    tokenizer = trained(languages=("pt", "en", "de"))
    options = {"source_language": "de", "target_language": "pt"}
    pairs = {"pt-en": "a", "en-pt": "b", "de-en": "c"}
    write_run(tmp_path / "run", tokenizer, tiny(tokenizer), pairs, **options)
    trim(tmp_path / "run", tmp_path / "small", [data], "pt", "en", languages=["pt", "en"])
    run, small = RunFolder(tmp_path / "small"), PlainTokenizer.load(tmp_path / "small")
    assert small.languages == ("pt", "en")
    assert run.config.pairs == {"pt-en": "a", "en-pt": "b"} and run.config.license == "mit"
    assert run.config.languages == {"source_language": "pt", "target_language": "pt"}
    first, *_ = small.source_ids([], "pt", "en")
    assert small.id_to_string(first) == b"<2en>"
    with pytest.raises(ValueError, match=r"language must be a code of .*'fr'"):
        trim(tmp_path / "run", tmp_path / "other", [data], languages=["fr"])


def test_a_tag_that_goes_takes_no_id_of_the_other_side(trained, data, tmp_path):
    """Of separate tables: here one has a tag where the other has its end."""
    own, model = trained(), trained().model
    target = [piece.decode() for piece in own.id_to_string(range(own.vocab_size)).numpy()]
    source = [*target[:3], ">>en<<", ">>de<<", *target[3:]]
    tokenizer = PretrainedTokenizer(
        [model], [source, target], special=["<unk>", "</s>", *target[:1], "<s>"],
        padding_id=0, bos_id=2, eos_id=3, source_eos_id=5,
        language_tags={">>en<<": 3, ">>de<<": 4},
    )  # fmt: skip
    write_run(tmp_path / "run", tokenizer, tiny(tokenizer))
    trim(tmp_path / "run", tmp_path / "small", [data], "pt", "en", languages=["de"])
    small = PlainTokenizer.load(tmp_path / "small")
    assert small.id_to_string(small.eos_id) == small.source_id_to_string(small.source_eos_id)
    assert [tag for tag, _ in small.tag_ids] == [">>de<<"]
    assert small.source_id_to_string(dict(small.tag_ids)[">>de<<"]) == b">>de<<"


def test_the_most_frequent_are_kept_up_to_a_number(runs, data, texts, tmp_path):
    """Of each side, if they are apart, with the padding at the same place."""
    before, _ = runs("marian_apart")
    with pytest.raises(ValueError, match=r"vocab_size=20 is too small: .* alone are \d\d") as error:
        trim(before.path, tmp_path / "small", [data], "pt", "en", vocab_size=20)
    size = int(re.search(r"alone are (\d+)", str(error.value))[1]) + 60
    trim(before.path, tmp_path / "small", [data], "pt", "en", vocab_size=size)
    after = PlainTokenizer.load(tmp_path / "small")
    assert (after.vocab_size, after.target_vocab_size) == (size, size)
    for side, table in enumerate(tables_of(after)):
        pieces = (pieces_of(before.tokenizer, pair[side], side) for pair in texts["pairs"][:60])
        counts = Counter(piece for each in pieces for piece in each)
        longer = {piece for piece in counts if len(piece.decode()) > 1}
        kept, gone = ({counts[p] for p in each} for each in (longer & {*table}, longer - {*table}))
        assert len(gone) > 1 and min(kept) >= max(gone)
        assert all(piece in table for piece in counts if len(piece.decode()) == 1)


def test_a_shortlist_goes_along(runs, data, tmp_path):
    before, _ = runs("marian_apart")
    small, sizes = tmp_path / "small", [len(table) for table in before.tables]
    table = np.random.default_rng(0).integers(-1, sizes[1], (sizes[0], 9))
    fingerprint = before.tokenizer.fingerprint
    Shortlist(table, np.arange(0, sizes[1], 3), fingerprint).save(tmp_path / "list")
    sides = "--data", data, "--source", "pt", "--target", "en"
    keras_mt("trim", before.path, small, *sides, "--shortlist", tmp_path / "list")
    shortlists = Shortlist.load(tmp_path / "list"), Shortlist.load(small / "shortlist")
    Translator.load(small, shortlist=shortlists[1])
    rows, tables = [], (before.tables, tables_of(PlainTokenizer.load(small)))
    for (sources, targets), shortlist in zip(tables, shortlists, strict=True):
        rows.append(
            {
                s: {targets[i] for i in r if i >= 0}
                for s, r in zip(sources, shortlist.table, strict=True)
            }
        )
        rows.append({targets[i] for i in shortlist.always})
    kept = {*tables[1][1]}
    assert rows[3] == rows[1] & kept and len(rows[2]) < len(rows[0])
    assert all(targets == rows[0][piece] & kept for piece, targets in rows[2].items())
    with pytest.raises(ValueError, match="learned with another tokenizer"):
        trim(small, tmp_path / "x", [data], "pt", "en", shortlist=tmp_path / "list")


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["marian_apart", pytest.param(SSRU, marks=pytest.mark.exhaustive), "int8"]
)
def test_marian_and_transformers_take_it(name, runs, trained, data, texts, tmp_path):
    """Marian's int8 too, whose pieces are a multiple of eight."""
    sources = tf.constant([source for source, _ in texts["pairs"][:20]])
    other, read = ("marian", from_marian)
    options = {"early_stopping": "shrink"}
    if name == "marian_apart":
        other, read, options = "huggingface", from_huggingface, {}
    if name == "int8":
        marians = {"positions": "tensor2tensor", "zero_id": 2, "norm_epsilon": 1e-6}
        write_run(tmp_path / "run", trained(), tiny(trained(), 64, **marians))
        trim(tmp_path / "run", run := tmp_path / "small", [data], "pt", "en", vocab_size=599)
    else:
        run = runs(name)[1].path
    translator, folder = Translator.load(run, **options), tmp_path / "folder"
    export(translator, folder, other, **({"quantization": name} if name == "int8" else {}))
    again = read(folder)
    rows = [each.tokenizer.pieces(sources).to_list() for each in (translator, again)]
    same = [
        each.tokenizer.source_id_to_string(ids).numpy().tolist()
        for each, ids in zip((translator, again), map(sum, rows, [[], []]), strict=True)
    ]
    assert same[0] == same[1]
    if name == "int8":
        assert again.models[0].vocab_size % 8 == 1  # With the padding.
        return
    ids = np.array([rows[0][0]])
    logits = [each.models[0]({"source": ids, "target": ids}) for each in (translator, again)]
    np.testing.assert_allclose(*logits, atol=1e-4)


@pytest.mark.long
@pytest.mark.usefixtures("eager", "bare_end", "untrained")
def test_it_is_tuned_as_any_other(runs, brief_corpus, tmp_path):
    _, run = runs("m2m_100")
    data = ["--data", brief_corpus, "--source", "pt", "--target", "en"]
    languages = ["--source-language=pt", "--target-language=en"]
    keras_mt(
        "train", *data, *languages, "--init", run.path, "--output", tmp_path / "tuned",
        "--steps", 1, "--max-length", 96,
    )  # fmt: skip
    configs = [RunFolder(path).config for path in (tmp_path / "tuned", run.path)]
    assert configs[0].trimmed == configs[1].trimmed
    assert_same_weights(tmp_path / "tuned", run.model)


@pytest.mark.long
def test_its_exports_are_of_its_size_and_have_its_card(runs, signatures_alone, tmp_path):
    translator = Translator.load(runs("m2m_100")[1].path)
    signatures_alone()  # None is traced.
    export(translator, tmp_path / "1")
    card = json.loads((tmp_path / "1" / "assets.extra" / "model_card.json").read_text())
    size = translator.tokenizer.vocab_size
    assert card["trimmed"]["after"] == [size, size] and card["model"]["vocab_size"] == size
    export(translator, tmp_path / "ctranslate2", "ctranslate2")
    vocabulary = json.loads((tmp_path / "ctranslate2" / "shared_vocabulary.json").read_text())
    assert len(vocabulary) == size


@pytest.mark.long
@pytest.mark.exhaustive
def test_its_exports_translate_as_it_does(runs, texts, tmp_path):
    codes = {"source_language": "pt", "target_language": "en"}
    translator = Translator.load(runs("m2m_100")[1].path, beam_size=1, max_length=4, **codes)
    sources = [source for source, _ in texts["pairs"][:3]]
    expected = translator(sources)
    export(translator, tmp_path / "litert", "litert", quantization="float32")
    export(translator, tmp_path / "1", signatures=["serving_default"])
    for folder in (tmp_path / "litert", tmp_path / "1"):
        exported = ExportedTranslator(folder)
        assert exported(sources) == expected and exported.card["trimmed"]


def test_what_cannot_be_trimmed_is_refused_by_name(runs, data, tmp_path):
    before, after = (side.path for side in runs("m2m_100"))
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
