"""A translator, its export and brute force agree, whatever the architecture and the ids."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from letters import Letters, Marked
from own_model import GRUTranslator

from keras_mt import ExportedTranslator, Transformer, Translator
from keras_mt.convert import saved_model
from keras_mt.inference import Predictor
from keras_mt.models import DecoderOnly, MixtureOfExpertsTransformer, Recurrent
from keras_mt.run_folder import RunFolder
from keras_mt.training import train

pytestmark = pytest.mark.usefixtures("eager")  # Exports are traced all the same.

TEXTS = ["a", "", "dada"]
MAX_LENGTH = 3
EXHAUSTIVE = [pytest.mark.long, pytest.mark.exhaustive]


def transformer(tokenizer, architecture=Transformer, **options):
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "max_length": 32, **options}
    return architecture(
        tokenizer.vocab_size, padding_id=tokenizer.padding_id, num_layers=1, **sizes
    )


def own(tokenizer):
    transformer(tokenizer)  # Keras makes it functional, and its mixin must not become so.
    return GRUTranslator(tokenizer.vocab_size, 16, 32, padding_id=tokenizer.padding_id)


MAKERS = {
    "variants": lambda tokenizer: transformer(
        tokenizer, pre_norm=True, share_embeddings=False, tie_output=False
    ),
    "experts": lambda tokenizer: transformer(tokenizer, MixtureOfExpertsTransformer, sparse_step=1),
    "own": own,
    "recurrent": lambda tokenizer: Recurrent(
        tokenizer.vocab_size, 2, 8, cell="lstm", max_length=32, padding_id=tokenizer.padding_id
    ),
}


def sharpened(model, tokenizer):
    """The model with weights that make unlike probabilities."""
    tokens = np.array([[1, tokenizer.eos_id]])
    model({"source": tokens, "target": tokens})
    generator = np.random.default_rng(3)
    model.set_weights([w + 0.4 * generator.normal(size=w.shape) for w in model.get_weights()])
    return model


def log_probs(model, tokenizer, text, sequences):
    """By the whole-sequence model: of each token of each sequence after those before it."""
    (source,) = tokenizer.source_ids(tokenizer.pieces([text])).to_list()
    targets = tf.ragged.constant([[tokenizer.bos_id, *tokens[:-1]] for tokens in sequences])
    inputs = {
        "source": np.tile(source, (len(sequences), 1)),
        "target": targets.to_tensor(tokenizer.padding_id).numpy(),
    }
    found = tf.nn.log_softmax(model(inputs)).numpy()
    return [[own[i, t] for i, t in enumerate(s)] for own, s in zip(found, sequences, strict=True)]


def by_brute_force(model, tokenizer, text):
    """Every translation with its score, best first, and its tokens' log-probabilities."""
    forced = tokenizer.forced_ids()
    forced = [] if forced is None else forced.numpy()[0].tolist()
    letters, end = range(1, tokenizer.padding_id), tokenizer.eos_id
    sequences = [
        [*forced, *rest, *last]
        for length in range(MAX_LENGTH - len(forced))
        for rest in itertools.product(letters, repeat=length)
        for last in [[end]]
    ]
    sequences += [
        [*forced, *rest] for rest in itertools.product(letters, repeat=MAX_LENGTH - len(forced))
    ]
    own = log_probs(model, tokenizer, text, sequences)
    scores = [sum(x[len(forced) :]) / len(x) for x in own]
    return sorted(zip(scores, sequences, own, strict=True), reverse=True)


# The Transformer as it is by default is held to other truths elsewhere.
PAIRS = [
    pytest.param(("variants", Marked), id="variants"),
    pytest.param(("recurrent", Marked), id="recurrent", marks=pytest.mark.long),
    pytest.param(("own", Letters), id="own", marks=EXHAUSTIVE),
    pytest.param(("experts", Letters), id="experts", marks=EXHAUSTIVE),
]


@pytest.fixture(scope="module", params=PAIRS)
def translator(request):
    name, tokenizer = request.param
    keras.utils.set_random_seed(1)
    tokenizer = tokenizer()
    model = sharpened(MAKERS[name](tokenizer), tokenizer)
    return Translator(model, tokenizer, beam_size=4**MAX_LENGTH, n_best=3, max_length=MAX_LENGTH)


def test_a_wide_beam_is_brute_force(translator):
    (model,), tokenizer = translator.models, translator.tokenizer
    for text, found in zip(TEXTS, translator.hypotheses(TEXTS, token_scores=True), strict=True):
        if not text:
            assert found[0].text == ""
            continue
        expected = by_brute_force(model, tokenizer, text)[:3]
        np.testing.assert_allclose([h.score for h in found], [s for s, *_ in expected], atol=1e-4)
        for hypothesis, (_, tokens, own) in zip(found, expected, strict=True):
            pieces = [p.decode() for p in tokenizer.id_to_string(tokens).numpy()]
            assert [piece for piece, _ in hypothesis.tokens] == pieces
            assert hypothesis.text == "".join(p for p in pieces if len(p) == 1)
            np.testing.assert_allclose([p for _, p in hypothesis.tokens], own, atol=1e-4)


def test_score_and_align_leave_out_what_is_forced(translator):
    (model,), tokenizer = translator.models, translator.tokenizer
    forced = [] if tokenizer.forced_ids() is None else [2]
    (score,) = translator.score(["bad"], ["cab"])
    tokens = [*forced, 3, 1, 2, 0]
    own = log_probs(model, tokenizer, "bad", [tokens])[0][len(forced) :]
    assert [piece for piece, _ in score.tokens] == ["c", "a", "b", "</s>"]
    np.testing.assert_allclose([p for _, p in score.tokens], own, atol=1e-4)
    source, target, attention = translator.align("bad", "cab")
    assert (source, target) == (["b", "a", "d", "</s>"], ["c", "a", "b", "</s>"])
    inputs = np.array([[2, 1, 4, 0]]), np.array([[tokenizer.bos_id, *tokens[:-1]]])
    expected = np.array(model.attention(*inputs))[0, len(forced) :]
    np.testing.assert_allclose(attention, expected, atol=1e-5)
    np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-5)


@pytest.mark.long
@pytest.mark.exhaustive  # In CI, test_languages.py shows it of one architecture.
@pytest.mark.parametrize("translator", [PAIRS[0], PAIRS[2]], indirect=True)
def test_its_export_is_its_eager_search(translator, tmp_path, signatures_alone):
    signatures_alone("serving_default", "score", "align")
    options = {"beam_size": 3, "n_best": 2, "max_length": 8}
    small = Translator(translator.models, translator.tokenizer, **options)
    small.export(tmp_path / "1")
    exported = ExportedTranslator(tmp_path / "1")
    for found, expected in zip(exported.hypotheses(TEXTS), small.hypotheses(TEXTS), strict=True):
        assert [h.text for h in found] == [h.text for h in expected]
        np.testing.assert_allclose([h.score for h in found], [h.score for h in expected], atol=1e-4)
    assert exported(TEXTS) == small(TEXTS)
    assert exported(TEXTS[1]) == small(TEXTS[1])
    np.testing.assert_array_equal(exported(tf.constant(TEXTS)), small(tf.constant(TEXTS)))
    scores = exported._engine.run("score", text=[b"bad"], target=[b"cab"])
    (score,) = translator.score(["bad"], ["cab"])
    assert scores["log_probs"][0] == pytest.approx(score.log_prob, abs=1e-4)
    found, expected = exported.align("bad", "cab"), translator.align("bad", "cab")
    assert found[:2] == expected[:2]
    np.testing.assert_allclose(found[2], expected[2], atol=1e-5)


def decoder_only(tokenizer):
    return DecoderOnly(
        tokenizer.vocab_size, 2, 16, 4, 16, max_length=32, padding_id=tokenizer.padding_id,
        positions="rotary", num_key_value_heads=2,
    )  # fmt: skip


@pytest.mark.long
def test_a_decoder_only_model_is_brute_force_too_and_so_is_its_export(tmp_path, signatures_alone):
    signatures_alone("serving_default")
    tokenizer = Letters()
    model = sharpened(decoder_only(tokenizer), tokenizer)
    wide = Translator(model, tokenizer, beam_size=4**MAX_LENGTH, n_best=3, max_length=MAX_LENGTH)
    assert not wide.supports_alignment
    wide.export(tmp_path / "1")
    exported = ExportedTranslator(tmp_path / "1")
    for text, found in zip(TEXTS, exported.hypotheses(TEXTS), strict=True):
        if text:
            scores, sequences, _ = zip(*by_brute_force(model, tokenizer, text)[:3], strict=True)
            np.testing.assert_allclose([h.score for h in found], scores, atol=1e-4)
            texts = tokenizer.text(tf.ragged.constant(sequences)).numpy()
            assert [h.text for h in found] == [text.decode() for text in texts]


def test_a_language_model_goes_on_from_a_prompt(eager):
    """The prompt is what the translation of nothing begins with."""
    tokenizer = Letters()
    model = sharpened(decoder_only(tokenizer), tokenizer)
    options = {"beam_size": 4**MAX_LENGTH, "n_best": 3, "max_length": MAX_LENGTH}
    translator = Translator(model, tokenizer, **options)
    (found,) = translator.hypotheses([""], ["ba"])
    begun = [(s, t) for s, t, _ in by_brute_force(model, tokenizer, "") if t[:2] == [2, 1]][:3]
    np.testing.assert_allclose([h.score for h in found], [s for s, _ in begun], atol=1e-4)
    letters = ["".join(tokenizer.letters[i - 1] for i in t if i) for _, t in begun]
    assert [h.text for h in found] == letters and all(t.startswith("ba") for t in letters)


def test_architectures_that_share_a_vocabulary_are_an_ensemble():
    tokenizer = Letters()
    models = [sharpened(MAKERS[name](tokenizer), tokenizer) for name in ("recurrent", "variants")]
    together = Translator(models, tokenizer, beam_size=2, max_length=3)
    translators = [together, *(Translator(model, tokenizer) for model in models)]
    score, *each = (translator.score("ba", "c").log_prob for translator in translators)
    assert score == pytest.approx(np.mean(each), abs=1e-4)
    (found,) = together.hypotheses("ba", token_scores=True)
    assert np.mean([p for _, p in found.tokens]) == pytest.approx(found.score, abs=1e-4)


def test_what_does_not_fit_is_refused_by_name():
    tokenizer = Letters()
    with pytest.raises(ValueError, match="padding_id is 0 and the tokenizer's 5"):
        Translator(Transformer(6, 1, 8, 2, 8), tokenizer)
    with pytest.raises(ValueError, match="source vocabulary of 9 tokens and the tokenizer one"):
        Translator(Transformer(9, 1, 8, 2, 8), tokenizer)


@pytest.mark.long
@pytest.mark.usefixtures("bare_end")
def test_it_is_trained_too(tmp_path):
    texts = ["abcd"[i % 4] * (1 + i % 3) for i in range(20)]
    rows = "".join(f"{text}\t{text[::-1]}\n" for text in texts)
    (tmp_path / "corpus.tsv").write_text(rows)
    options = {
        "preset": "tiny", "tokenizer": Letters(), "max_length": 8, "batch_tokens": 64,
        "rdrop_weight": 1.0,
        "model": {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16},
    }  # fmt: skip
    for steps in (1, 2):  # Goes on, too.
        train(tmp_path / "corpus.tsv", "x", "y", tmp_path / "run", steps=steps, **options)
    folder = RunFolder(tmp_path / "run")
    model, tokenizer = folder.load_model(), folder.load_tokenizer(Letters)
    assert model.padding_id == 5 and tokenizer.letters == "abcd"
    assert isinstance(Translator(model, tokenizer)("bad"), str)
    rows = folder.read_log()
    assert rows[-1]["step"] == "2" and 0 < float(rows[-1]["loss"]) < 4
    with pytest.raises(ValueError, match="is no Tokenizer"):
        Translator.load(tmp_path / "run")
    with pytest.raises(ValueError, match="another tokenizer"):
        train(tmp_path / "corpus.tsv", "x", "y", tmp_path / "run", steps=2,
              **{**options, "tokenizer": Letters("efgh")})  # fmt: skip


def test_a_model_without_attention_has_no_align():
    tokenizer = Letters()
    fixed = {"attention": "none", "padding_id": tokenizer.padding_id, "max_length": 32}
    model = sharpened(Recurrent(tokenizer.vocab_size, 1, 8, **fixed), tokenizer)
    translator = Translator(model, tokenizer, beam_size=2, max_length=8)
    with pytest.raises(ValueError, match="no attention to align by"):
        translator.align("bad")
    signatures = saved_model._signatures(translator, Predictor(translator.models), None)
    assert {*signatures} == {"serving_default", "greedy", "score"}
