"""Shortlists: what is learned, what a search may then generate, and what stays as it was."""

import json

import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from letters import Letters, Marked, Tongues
from test_seam import MAKERS, MAX_LENGTH, by_brute_force, decoder_only, sharpened, transformer

from keras_mt import ExportedTranslator, Transformer, Translator
from keras_mt.alignment import Aligner, Shortlist
from keras_mt.convert.ctranslate2 import to_ctranslate2
from keras_mt.convert.huggingface import to_huggingface
from keras_mt.data import load_corpus, phrasebook
from keras_mt.inference import Predictor

A, B, C, D = 1, 2, 3, 4


@pytest.fixture(scope="module")
def learned(load):
    pairs = load_corpus("phrasebook", "pt", "en", "train").take(2000)
    return Shortlist.learn(pairs, load().tokenizer, size=30, frequent=50)


def allowed(*rows):
    """A shortlist of `Letters`: target letters for the end, a, b, c, d and the padding."""
    table = [[*row, *[-1] * (3 - len(row))] for row in rows]
    return Shortlist(table, [], Letters().fingerprint)


ONLY = allowed([], [A, C], [B], [A], [D, B], [])  # a: a or c, b: b, c: a, d: d or b


@pytest.mark.parametrize(
    ("name", "tokenizer"),
    [
        ("variants", Marked()),
        ("recurrent", Letters()),
        ("decoder_only", Letters()),
    ],
    ids=["forced", "recurrent", "decoder-only"],
)
def test_it_is_brute_force_over_the_tokens_that_are_allowed(name, tokenizer, eager):
    """The probabilities are those of a model whose other logits are -inf."""
    model = sharpened({**MAKERS, "decoder_only": decoder_only}[name](tokenizer), tokenizer)
    wide = {"beam_size": 4**MAX_LENGTH, "n_best": 3, "max_length": MAX_LENGTH}
    translator = Translator(model, tokenizer, **wide, shortlist=ONLY)
    forced = [B] if isinstance(tokenizer, Marked) else []

    def possible(targets):
        """The model, with the logits of the other tokens struck out."""
        special = {tokenizer.eos_id, tokenizer.padding_id, *forced}
        struck = np.array([i not in {*targets, *special} for i in range(tokenizer.vocab_size)])
        return lambda inputs: tf.where(struck, -np.inf, model(inputs))

    cases = {"bc": [A, B], "cc": [A]}
    for (text, targets), found in zip(cases.items(), translator.hypotheses([*cases]), strict=True):
        expected = by_brute_force(possible(targets), tokenizer, text)[: len(found)]
        np.testing.assert_allclose([h.score for h in found], [s for s, *_ in expected], atol=1e-4)
        letters = [
            tokenizer.text(tf.ragged.constant([t])).numpy()[0].decode() for _, t, _ in expected
        ]
        assert [h.text for h in found] == letters


@pytest.fixture(scope="module")
def ensemble():
    tokenizer = Letters()
    return [sharpened(MAKERS[name](tokenizer), tokenizer) for name in ("variants", "recurrent")]


def test_a_shortlist_of_everything_changes_nothing(eager, ensemble):
    everything = Shortlist([[A, B, C, D]] * 6, [], Letters().fingerprint)
    rules = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "min_length": 3}
    rules |= {"renormalize": True, "force_end": True}
    plain = Translator(ensemble, Letters(), beam_size=2, **rules, max_length=4)
    short = plain.with_options(shortlist=everything)
    given = ["bad", "", "cab"], ["b", "", "cc"]
    for own, expected in zip(short.hypotheses(*given), plain.hypotheses(*given), strict=True):
        assert [h.text for h in own] == [h.text for h in expected]
        scores = [h.score for h in own], [h.score for h in expected]
        np.testing.assert_allclose(*scores, atol=1e-5)


def test_a_row_does_not_depend_on_the_others(eager, ensemble):
    """Not even where these have tokens that would be better."""
    translator = Translator(ensemble, Letters(), beam_size=2, max_length=3, shortlist=ONLY)
    together = [found[0] for found in translator.hypotheses(["b", "cc", "abcd"])[:2]]
    alone = [translator.hypotheses([text])[0][0] for text in ("b", "cc")]
    assert [h.text for h in together] == [h.text for h in alone]
    np.testing.assert_allclose([h.score for h in together], [h.score for h in alone], atol=1e-5)
    assert set(alone[0].text) <= {"b"} and set(alone[1].text) <= {"a"}


def test_a_prefix_is_there_whatever_the_shortlist_says(eager, ensemble):
    translator = Translator(ensemble, Letters(), max_length=6, shortlist=ONLY)
    found = translator("b", "dcd")
    assert found.startswith("dcd") and len(found) > 3 and set(found[3:]) <= set("bdc")


def test_finds_a_dictionary():
    """A word is mostly beside its translation, in any order, and the table ranks it first."""
    random = np.random.default_rng(0)
    words = dict(zip("abcd", "dcba", strict=True))
    lines = ["".join(random.permutation(list("abcd"))[: random.integers(1, 4)]) for _ in range(200)]
    pairs = [(line, "".join(words[c] for c in random.permutation(list(line)))) for line in lines]
    pairs = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    found = Shortlist.learn(pairs, Letters(), size=1, frequent=1)
    assert found.table[1:5].tolist() == [[A, D], [B, C], [C, B], [D, A]]  # Itself, and its word.
    assert found.always.tolist() == [0]


def test_a_row_has_the_most_probable_targets_of_the_aligner():
    pairs = [("ab", "cd"), ("a", "c"), ("bd", "da"), ("d", "a")]
    dataset = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    found = Shortlist.learn(dataset, Letters(), size=2, frequent=1)
    ids = [
        [np.array([*map(" abcd".index, s), 0]) for s in side] for side in zip(*pairs, strict=True)
    ]
    aligner = Aligner.learn(*ids)
    rows = dict(zip(aligner.pairs.tolist(), aligner.forward.tolist(), strict=True))
    for s in range(5):
        row = {t: rows[s * 5 + t] for t in range(5) if s * 5 + t in rows}
        best = sorted(row, key=row.get, reverse=True)[:2]
        assert [t for t in found.table[s, 1:] if t >= 0] == best


def test_most_translations_stay(eager, load, learned, sources):
    plain = load(beam_size=2, max_length=6)
    short = plain.with_options(shortlist=learned)
    same = [a == b for a, b in zip(short(sources), plain(sources), strict=True)]
    assert np.mean(same) > 0.8


@pytest.mark.long
def test_an_export_has_it(eager, ensemble, tmp_path):
    short = Translator(ensemble[0], Letters(), beam_size=2, max_length=4, shortlist=ONLY)
    short.export(tmp_path / "1", signatures=["serving_default"])
    exported, texts = ExportedTranslator(tmp_path / "1"), ["b", "abcd", "cc"]
    assert exported(texts) == short(texts) != short.with_options(shortlist=None)(texts)
    assert exported.card["options"]["shortlist"] is True


@pytest.mark.long
def test_ctranslate2_finds_the_same_with_it(load, learned, tmp_path):
    import ctranslate2

    texts = list(dict.fromkeys(pair[0] for pair in phrasebook.pairs("test")))[:10]
    short = load(beam_size=4, early_stopping=True).with_options(shortlist=learned)
    to_ctranslate2(short, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)

    def pieces(texts):
        ids = short.tokenizer.pieces(tf.constant(texts))
        ids = short.tokenizer.id_to_string(ids).to_list()
        return [[piece.decode() for piece in row] for row in ids]

    found = theirs.translate_batch(
        pieces(texts),
        beam_size=4,
        use_vmap=True,
        max_batch_size=1,  # So that each has a list of its own.
        suppress_sequences=[["<pad>"], ["<unk>"], ["<s>"]],
    )
    assert [row.hypotheses[0] for row in found] == pieces(short(texts))


def test_a_file_of_another_tokenizer_or_kind_is_refused(learned, load, run_dir, tmp_path):
    path = tmp_path / "short"
    learned.save(path)
    again = Shortlist.load(path)
    np.testing.assert_array_equal(again.table, learned.table)
    np.testing.assert_array_equal(again.always, learned.always)
    other, fits = sharpened(MAKERS["variants"](Letters()), Letters()), Letters().fingerprint
    for shortlist, message in (
        (again, "another tokenizer"),
        (str(path), "such as from Shortlist.load"),
        (Shortlist([[A]] * 7, [], fits), "another tokenizer"),
        (Shortlist([[6]] * 6, [], fits), "another tokenizer"),
        (Shortlist([[A]] * 6, [], fits, ("xx", "yy")), "xx to yy, and not for none"),
    ):
        with pytest.raises(ValueError, match=message):
            Translator(other, Letters(), shortlist=shortlist)
    for arguments in (([A], []), ([[A]], [-1]), ([[0.5]], [])):
        with pytest.raises(ValueError, match="must"):
            Shortlist(*arguments, fits)
    with pytest.raises(ValueError, match="leave `temperature` out"):
        load().with_options(shortlist=again, temperature=1.0)
    path.write_bytes(path.read_bytes()[:-100])
    result = keras_mt("translate", run_dir, "--shortlist", path, stdin="O livro.", exit_code=1)
    assert "short is not a shortlist" in result.stderr


def test_of_several_languages_it_is_for_one_pair(eager):
    tokenizer = Tongues()
    pairs = tf.data.Dataset.from_tensors((["ab"], ["cd"])).unbatch()
    with pytest.raises(ValueError, match="source_language must be given"):
        Shortlist.learn(pairs, tokenizer)
    found = Shortlist.learn(pairs, tokenizer, languages=("xx", "yy"))
    model = sharpened(MAKERS["variants"](tokenizer), tokenizer)
    with pytest.raises(ValueError, match="xx to yy, and not for yy to xx"):
        Translator(model, tokenizer, source_language="yy", target_language="xx", shortlist=found)
    codes = {"source_language": "xx", "target_language": "yy"}
    translator = Translator(model, tokenizer, **codes, max_length=3, shortlist=found)
    assert set(translator("ab")) <= set("abcd")
    # Each is a language of the model; the second is one of the shortlist's, but for the other side.
    for codes in ({"target_language": "zz"}, {"source_language": "yy", "target_language": "xx"}):
        for call in (translator, translator.align, translator.hypotheses):
            with pytest.raises(ValueError, match=r"must be a code .*; there are (xx|yy)\."):
                call("ab", **codes)
        with pytest.raises(ValueError, match=r"must be a code .*; there are (xx|yy)\."):
            translator.score(["ab"], ["c"], **codes)
    graph = translator.graph(Predictor(translator.models))
    texts, codes = tf.constant(["ab", "ab"]), (tf.constant(["xx", "xx"]), tf.constant(["yy", "xx"]))
    alone = graph.translate(texts, None, *codes)  # In the graph, the row alone is refused.
    assert [bool(row[0]) for row in alone["translations"].numpy()] == [True, False]


def test_a_model_with_a_step_of_its_own_keeps_it(eager):
    class Backwards(Transformer):
        def decode_step(self, tokens, position, cache, mask=None):
            logits, cache = super().decode_step(tokens, position, cache, mask)
            return logits[..., ::-1], cache

    tokenizer = Letters()
    model = sharpened(transformer(tokenizer, Backwards), tokenizer)
    everything = Shortlist([[A, B, C, D]] * 6, [], tokenizer.fingerprint)
    plain = Translator(model, tokenizer, beam_size=2, max_length=3)
    assert plain.with_options(shortlist=everything)(["ab", "d"]) == plain(["ab", "d"])


@pytest.mark.long
def test_the_command_learns_one_and_the_others_take_it(eager, run_dir, load, corpus, tmp_path):
    path, pairs = tmp_path / "short", ("--data", corpus, "--source", "pt")
    learn = "shortlist", run_dir, path, *pairs, "--target", "en", "--size", 30
    keras_mt(*learn)
    found = Shortlist.load(path)
    assert found.table.shape == (load().tokenizer.vocab_size, 31) and len(found.always) == 200
    assert "exists and is not overwritten" in keras_mt(*learn, exit_code=1).stderr
    failing = "shortlist", run_dir, tmp_path / "new/short", *pairs, "--target", "de"
    assert "de.train.txt" in keras_mt(*failing, exit_code=1).stderr
    assert [file.name for file in tmp_path.iterdir()] == ["short"]
    options = ("--shortlist", path, "--max-length", 4)
    result = keras_mt("translate", run_dir, *options, stdin="O livro.\n")
    expected = load(max_length=4).with_options(shortlist=found)("O livro.")
    assert result.output.splitlines()[-1] == expected
    measured = "evaluate", run_dir, *pairs, "--target", "en", *options
    with pytest.MonkeyPatch.context() as patch:  # Of a few sentences.
        few = ["O livro."], ["The book."]
        patch.setattr("keras_mt.cli.evaluate._corpus_split", lambda *_: few)
        result = keras_mt(*measured)
    scores = json.loads(result.stdout.splitlines()[-1])
    assert (scores["system"], scores["shortlist"]) == (str(run_dir), str(path))
    export = "export", run_dir, tmp_path / "x", "--shortlist", path, "--format", "marian"
    assert "leave --shortlist out: --format marian" in keras_mt(*export, exit_code=2).stderr
    with pytest.raises(ValueError, match="transformers cannot hold a shortlist"):
        to_huggingface(load().with_options(shortlist=found), tmp_path / "marian")
