import json
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Tokenizer, Transformer, Translator
from keras_mt.alignment import Shortlist
from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.inference import Predictor
from keras_mt.inference import graph as graph_module
from keras_mt.inference.graph import on_lists
from keras_mt.inference.segments import Segments, joined
from keras_mt.models import ensure_built
from keras_mt.models.seq2seq import copy_of
from keras_mt.run_folder import RunFolder
from keras_mt.translation import Hypothesis
from keras_mt.translation.batches import batches_of, run_in_batches

START, END = Tokenizer.bos_id, Tokenizer.eos_id


def strings(tokenizer, ids):
    return [piece.decode() for piece in tokenizer.id_to_string(tf.constant(ids)).numpy()]


def log_probs(model, source, target):
    """By the whole-sequence model: the log-probability of each next token."""
    logits = model({"source": np.array([source]), "target": np.array([target])})
    return tf.nn.log_softmax(logits[0]).numpy()


def test_types_in_are_types_out(eager, load, sources):
    translator = load(max_length=2)
    one = translator(sources[0])
    assert isinstance(one, str)
    assert translator(sources[:1]) == [one]
    tensor = translator(tf.constant(sources[:2]))
    assert tensor.dtype == tf.string and tensor.shape == (2, 1)
    assert tensor[0, 0].numpy().decode() == one
    assert translator([]) == []


def test_n_best_gives_lists_best_first(translator, sources):
    assert [len(found) for found in translator(sources[:3])] == [2, 2, 2]
    assert isinstance(translator(sources[0]), list)
    found = translator.hypotheses(sources)
    assert all(first.score > second.score for first, second in found)
    assert sum(first.text != second.text for first, second in found) > 9  # Else cut otherwise.
    best = [first.text for first, _ in found]
    assert best[:3] == [
        "Lucas is travelling to Rio in December.",
        "The book is on the table.",
        "Where is my old newspaper?",
    ]
    assert best == [texts[0] for texts in translator(sources)]


def tokens_of(tokenizer):
    """The id of each piece."""
    return {piece: i for i, piece in enumerate(strings(tokenizer, range(tokenizer.vocab_size)))}


def test_greedy_is_the_argmax_of_the_whole_sequence_model(eager, load, sources):
    translator = load(beam_size=1)
    tokenizer, model = translator.tokenizer, translator.models[0]
    ids, texts = tokens_of(tokenizer), sorted(sources, key=len)[:3]
    for text, (found,) in zip(texts, translator.hypotheses(texts, token_scores=True), strict=True):
        source = [*tokenizer.tokenize(text).numpy(), END]
        generated = [ids[piece] for piece, _ in found.tokens]
        own = log_probs(model, source, [START, *generated[:-1]])
        own[:, [0, 1, START]] = -np.inf
        assert own.argmax(axis=-1).tolist() == generated
        limit = min(2 * (len(source) - 1) + 10, model.max_length)
        assert END not in generated[:-1] and (generated[-1] == END or len(generated) == limit)
        assert tokenizer.detokenize([generated])[0].numpy().decode() == found.text


def test_a_score_is_the_log_probability_over_the_length(eager, load, sources):
    translator = load(length_penalty=0.7, max_length=4, min_length=4)
    tokenizer, model = translator.tokenizer, translator.models[0]
    ids, texts = tokens_of(tokenizer), sources[:2]
    hypotheses = translator.hypotheses(texts, token_scores=True)
    for text, (found,) in zip(texts, hypotheses, strict=True):
        generated = [ids[piece] for piece, _ in found.tokens]
        assert len(generated) == 4
        assert tokenizer.detokenize([generated])[0].numpy().decode() == found.text
        source = [*tokenizer.tokenize(text).numpy(), END]
        own = log_probs(model, source, [START, *generated[:-1]])
        total = sum(own[i, token] for i, token in enumerate(generated))
        assert found.score == pytest.approx(total / 4**0.7, abs=1e-3)


def test_a_translation_does_not_depend_on_its_batch(translator, sources):
    together = translator.hypotheses([*sources, "", sources[0]])
    assert [h.text for h in together[0]] == [h.text for h in together[-1]]
    for text, found in zip(sources, together, strict=False):
        alone = translator.hypotheses([text])[0]
        assert [h.text for h in alone] == [h.text for h in found]
        np.testing.assert_allclose([h.score for h in alone], [h.score for h in found], atol=1e-4)


def test_a_batch_of_64_mixed_lengths_gives_what_each_gives_alone(translator, sources):
    texts = [" ".join(sources[i % len(sources)].split()[: 1 + i % 9]).encode() for i in range(64)]
    function = translator._function("translate", ["text"])
    together = function(text=texts)  # All in one batch, in this order.
    for size in (1, 7, 33):
        part = function(text=texts[-size:])
        assert part["translations"].tolist() == together["translations"][-size:].tolist()
        np.testing.assert_allclose(part["scores"], together["scores"][-size:], atol=1e-4)


def test_an_empty_text_gives_an_empty_translation(translator):
    assert translator(["", "Olá!", ""])[::2] == [[""], [""]]
    assert translator.hypotheses([""]) == [[Hypothesis("", 0.0)]]


def test_a_translation_begins_with_its_prefix(translator, sources):
    prefixes = [["She said", "", "A"][i % 3] for i in range(len(sources))]
    found = translator.hypotheses(sources, prefixes)
    free = translator.hypotheses(sources)
    for hypotheses, prefix, others in zip(found, prefixes, free, strict=True):
        assert all(hypothesis.text.startswith(prefix) for hypothesis in hypotheses)
        if not prefix:
            assert [h.text for h in hypotheses] == [h.text for h in others]
    one = translator(sources[0], "She said")
    assert one == translator(sources[:1], ["She said"])[0]
    assert translator(sources[0], "") == translator(sources[0])
    assert translator(tf.constant(sources[:1]), tf.constant(["She said"])).shape == (1, 2)
    assert translator.hypotheses(["Olá!"], ["word " * 500])[0] is None
    with pytest.raises(ValueError, match="2 and 1 texts"):
        translator(["Olá!", "Olá!"], ["A"])


SEVERAL = "The book is on the table. Lucas"


def test_a_prefix_of_several_sentences_needs_a_text_that_is_not_cut(translator, sources):
    two = f"{sources[1]} {sources[0]}"
    for parts in (SEVERAL, SEVERAL.replace(". ", ".\n")):
        with pytest.raises(ValueError, match="several lines or sentences"):
            translator(two, parts)
    (first, _), (second, _) = translator([sources[1], sources[0]])
    assert translator(two, "The book is")[0] == f"{first} {second}"
    assert translator(sources[1], SEVERAL)[0].startswith(SEVERAL)


def test_a_text_that_is_translated_whole_takes_a_prefix_of_several_sentences(eager, load, sources):
    whole = load(split_sentences=False, max_length=16)
    assert whole(f"{sources[1]} {sources[0]}", SEVERAL).startswith(SEVERAL)


def test_a_score_is_the_models_log_probability(translator, sources):
    target = "The book is on the table."
    score = translator.score(sources, [target] * len(sources))[3]
    ids = [*translator.tokenizer.tokenize(target).numpy(), END]
    source = [*translator.tokenizer.tokenize(sources[3]).numpy(), END]
    own = log_probs(translator.models[0], source, [START, *ids[:-1]])
    expected = [own[i, token] for i, token in enumerate(ids)]
    assert [piece for piece, _ in score.tokens] == strings(translator.tokenizer, ids)
    np.testing.assert_allclose([p for _, p in score.tokens], expected, atol=1e-4)
    assert score.log_prob == pytest.approx(sum(expected), abs=1e-3)
    assert score.perplexity == pytest.approx(np.exp(-np.mean(expected)), rel=1e-3)
    assert translator.score(["a", "b"], ["c", "d " * 500])[1] is None


def test_token_scores_sum_to_the_score(translator, sources):
    for hypotheses in translator.hypotheses(sources, token_scores=True):
        for hypothesis in hypotheses:
            log_probs = [log_prob for _, log_prob in hypothesis.tokens]
            assert np.mean(log_probs) == pytest.approx(hypothesis.score, abs=1e-4)
            pieces = [piece for piece, _ in hypothesis.tokens if piece != "</s>"]
            text = translator.tokenizer._processor.decode_pieces(pieces)
            assert text == hypothesis.text


def test_an_ensemble_averages_log_probabilities(eager, run_dir, load, sources):
    translator = load(beam_size=2, max_length=3)
    other = Transformer.from_config(translator.models[0].get_config())
    options = {"beam_size": 2, "length_penalty": 0.0, "max_length": 3}
    ensemble = Translator([translator.models[0], other], translator.tokenizer, **options)
    single, text = [translator, Translator(other, translator.tokenizer)], min(sources, key=len)
    (found,) = ensemble.hypotheses(text, token_scores=True)
    assert sum(p for _, p in found.tokens) == pytest.approx(found.score, abs=1e-3)
    scores = [each.score(text, "The book.").log_prob for each in (ensemble, *single)]
    assert scores[0] == pytest.approx((scores[1] + scores[2]) / 2, abs=1e-3)
    twice = Translator.load([run_dir, run_dir], beam_size=2, max_length=3)
    (a,), (b,) = translator.hypotheses(text), twice.hypotheses(text)
    assert a.text == b.text and a.score == pytest.approx(b.score, abs=1e-4)


def test_models_of_different_tokenizers_are_no_ensemble(run_dir, tmp_path):
    (tmp_path / "model.keras").write_bytes((run_dir / "model.keras").read_bytes())
    Tokenizer.train(["another corpus"] * 9, 300).save(tmp_path / "tokenizer.model")
    with pytest.raises(ValueError, match="different tokenizers"):
        Translator.load([run_dir, tmp_path])


def test_a_text_over_the_limit_is_translated_in_pieces(translator, sources):
    # Its sentences fit, and are cut at their ends.
    long = " ".join(sources)
    assert len(translator.tokenizer.tokenize(long)) > 63
    alone = translator.hypotheses(sources, token_scores=True)
    short, found = translator.hypotheses([sources[0], long], token_scores=True)
    places = list(zip(*alone, strict=True))  # The first of each, and the second.
    joined = [[token for part in parts for token in part.tokens] for parts in places]
    joined.sort(key=lambda tokens: -np.mean([log_prob for _, log_prob in tokens]))
    assert [hypothesis.text for hypothesis in short] == [h.text for h in alone[0]]
    for hypothesis, tokens in zip(found, joined, strict=True):
        assert [piece for piece, _ in hypothesis.tokens] == [piece for piece, _ in tokens]
        log_probs = [log_prob for _, log_prob in hypothesis.tokens]
        np.testing.assert_allclose(log_probs, [log_prob for _, log_prob in tokens], atol=1e-3)
        assert hypothesis.score == pytest.approx(np.mean(log_probs), abs=1e-3)
    texts = [" ".join(part.text for part in parts) for parts in places]
    assert sorted(hypothesis.text for hypothesis in found) == sorted(texts)
    # A single sentence is cut between words, and a single word within.
    for text in ("palavra " * 100, "x" * 300):
        parts = translator.hypotheses([text], token_scores=True)[0][0].tokens
        assert len(parts) > 63


def test_joined_texts_are_ranked_by_all_their_tokens():
    # The second of each has fewer tokens where the first is poor, and the better sum.
    found = {
        "translations": tf.constant([["A1", "A2"], ["B1", "B2"]]),
        "scores": tf.constant([[-1.0, -1.1], [-0.5, -0.6]]),
        "lengths": tf.constant([[10, 2], [1, 1]]),
    }
    segments = Segments(None, tf.constant([0, 0]), tf.constant(["", " "]), tf.constant([""]))
    outputs, parts = joined(found, segments, 1.0)
    assert outputs["translations"].numpy().tolist() == [[b"A2 B2", b"A1 B1"]]
    assert parts.numpy().tolist() == [[b"A2", b"A1"], [b"B2", b"B1"]]
    np.testing.assert_allclose(outputs["scores"], [[-2.8 / 3, -10.5 / 11]], atol=1e-5)


def test_a_text_has_no_translation_where_one_of_its_segments_has_none():
    found = {
        "translations": tf.constant([["A1", "A2"], ["", ""], ["C1", ""]]),
        "scores": tf.constant([[-1.0, -1.1], [NO_HYPOTHESIS] * 2, [-1.0, NO_HYPOTHESIS]]),
        "lengths": tf.constant([[10, 2], [0, 0], [1, 0]]),
    }
    for penalty in (0.0, 1.0):
        segments = Segments(
            None, tf.constant([0, 0, 1]), tf.constant(["", " ", ""]), tf.constant([""] * 2)
        )
        outputs, _ = joined(found, segments, penalty)
        assert outputs["translations"].numpy().tolist() == [[b"", b""], [b"C1", b""]]
        assert outputs["scores"].numpy().tolist() == [
            [NO_HYPOTHESIS, NO_HYPOTHESIS],
            [-1.0, NO_HYPOTHESIS],
        ]


def test_a_minimum_above_what_is_usual_is_kept(eager, load):
    translator, text = load(beam_size=1, min_length=15), "A"
    (found,) = translator.hypotheses(text, token_scores=True)
    assert len(found.tokens) >= 15 > 2 * len(translator.tokenizer.tokenize(text)) + 10


def test_lines_and_their_sentences_are_translated_by_themselves(translator, sources):
    one, two, three, four = (best for best, _ in translator(sources[:4]))
    text = f"{sources[0]} {sources[1]}\r\n{sources[2]}\n \n\n{sources[3]}\n"
    assert translator(["", text])[1][0] == f"{one} {two}\r\n{three}\n \n\n{four}\n"
    begun = translator(f"\t{text}", "She said")[0]
    assert begun.startswith("She said") and begun.endswith(f"{two}\r\n{three}\n \n\n{four}\n")


def test_sentences_stay_together_where_told_so(eager, load, sources):
    line = f"{sources[0]} {sources[1]}"
    texts = [*sources[:3], line, f"{line}\n \n\n{sources[2]}\n"]
    one, two, three, together, lines = load(split_sentences=False, beam_size=1)(texts)
    assert lines == f"{together}\n \n\n{three}\n"
    assert together != f"{one} {two}"  # Trained on single sentences, it loses some.


def test_what_holds_no_word_and_the_white_space_of_lines_pass_as_they_are(translator, sources):
    best = translator(sources[0])[0]
    passing = ["---", "?", "|---|", " \t ", "…\n\n*", "-" * 300, "。-", "😀"]
    found = translator.hypotheses([*passing, f"\t{sources[0]} \r\n --- \r\n"])
    assert [[h[:2] for h in several] for several in found[:-1]] == [[(t, 0.0)] for t in passing]
    assert [p.target for several in found for h in several for p in h.placed] == ["😀"]
    assert found[-1][0].text == f"\t{best} \r\n --- \r\n"
    (hypotheses,) = translator.hypotheses(["---"], ["The"])  # A prefix is continued all the same.
    assert len(hypotheses[0].text) > 5 and hypotheses[0].text.startswith("The")
    assert [len(side) for side in translator.align("---")[:2]] == [1, 1]  # The ends.


def test_a_line_over_the_limit_is_refused_and_the_others_are_not(eager, load, sources):
    limited = load(max_line_bytes=60, max_length=8)
    short = f"{sources[0][:40]}\n" * 3
    texts = [short, "é" * 30, "é" * 30 + "a", f"{short}{'palavra ' * 9}"]
    found = limited.hypotheses(texts)
    assert [hypotheses is None for hypotheses in found] == [False, False, True, True]
    assert found[:2] == load(max_length=8).hypotheses(texts[:2])


def test_lines_are_scored_and_aligned_apart_where_both_sides_have_as_many(translator, sources):
    targets = ["The book is here.", "She has a dog."]
    text, target = "\n".join(sources[:2]), "\n\n".join(targets)
    together, *apart = translator.score([text, *sources[:2]], [target, *targets])
    assert [piece for piece, _ in together.tokens] == [p for s in apart for p, _ in s.tokens]
    assert together.log_prob == pytest.approx(sum(s.log_prob for s in apart), abs=1e-3)
    whole = translator.score([text], ["The book is here."])[0]
    joined = translator.score([text.replace("\n", " ")], ["The book is here."])[0]
    assert whole.log_prob == pytest.approx(joined.log_prob, abs=1e-4)

    source, target_pieces, attention = translator.align(text, target)
    rows = columns = 0
    for pair in zip(sources, targets, strict=False):
        own_source, own_target, own = translator.align(*pair)
        ends = rows + len(own_target), columns + len(own_source)
        assert source[columns : ends[1]] == own_source
        assert target_pieces[rows : ends[0]] == own_target
        np.testing.assert_allclose(attention[rows : ends[0], columns : ends[1]], own, atol=1e-5)
        rows, columns = ends
    assert attention.shape == (rows, columns)
    np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-5)  # So all else is 0.


def test_align_without_a_target_takes_the_translators_own(translator, sources):
    text = f"{sources[0]} {sources[1]}\n{sources[2]}"
    _, target, attention = translator.align(text)
    words = "".join(piece for piece in target if piece != "</s>").replace("▁", " ").split()
    assert words == translator(text)[0].split()
    assert target.count("</s>") == 3
    np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-5)
    source, *_ = translator.align("palavra " * 90)  # Cut in pieces, as a call cuts it.
    assert source.count("</s>") > 1


def test_given_translations_are_scored_a_few_at_a_time(eager, load, sources, monkeypatch):
    expected = load().score(sources, sources)
    vocab_size, seen = load().tokenizer.vocab_size, []
    monkeypatch.setattr(graph_module, "_TARGET_LOGITS", 64 * vocab_size)

    def score(self, source, inputs, targets):
        seen.append(tf.size(targets).numpy())
        return whole(self, source, inputs, targets)

    whole = Predictor.score
    monkeypatch.setattr(Predictor, "score", score)
    found = load().score(sources, sources)
    assert len(seen) > 2 and max(seen) <= 64
    for a, b in zip(found, expected, strict=True):
        assert a.log_prob == pytest.approx(b.log_prob, abs=1e-3)


def test_the_unknown_token_is_never_generated(eager, translator, sources):
    config = {**translator.models[0].get_config(), "tie_output": False, "pre_norm": False}
    model = Transformer.from_config(config)
    kernel = model.target_embedding.embedding.reverse_embeddings
    likely = np.zeros(kernel.shape, "float32")
    likely[:, Tokenizer.unknown_id] = np.random.default_rng(0).normal(size=kernel.shape[0])
    kernel.assign(likely)  # Where it is not the likeliest token it is the least likely one.
    target = np.random.default_rng(1).integers(4, kernel.shape[1], (1, 40))
    logits = np.array(model({"source": target, "target": target}))[0]
    likeliest = np.argmax(logits, axis=-1) == Tokenizer.unknown_id
    assert 5 < likeliest.sum() < 35
    limited = Translator(model, translator.tokenizer, beam_size=2, max_length=10)
    found = limited.hypotheses(sources[:3], token_scores=True)
    assert not [p for rows in found for piece, p in rows[0].tokens if piece == "<unk>"]


def test_samples_of_similar_sentences_differ(eager, load):
    nouns = ["livro", "gato", "carro", "jornal", "copo", "chapéu"]
    texts = [f"O {a} e o {b}." for a in nouns for b in nouns]
    sampling = load(temperature=2.0, max_length=1)
    first, again = sampling(texts), sampling(texts[::-1])
    assert again[::-1] == first and len(set(first)) > 18


def test_one_translator_is_called_from_eight_threads(translator, sources):
    expected = translator.hypotheses(sources)
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(translator.hypotheses, [sources] * 16):
            assert [[h.text for h in row] for row in found] == [
                [h.text for h in row] for row in expected
            ]


def test_many_long_texts_are_batched_in_no_time():
    start = time.process_time()
    found = batches_of([10**6] * 50_000, 256, 64 * 512)
    assert found == [[i] for i in range(50_000)]
    assert time.process_time() - start < 2  # Copying the rest for each takes four seconds.


def test_what_memory_does_not_suffice_for_is_named():
    def run(texts):
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")

    message = "The text of 3 bytes that begins with 'abc' needs more memory .* a smaller beam_size"
    with pytest.raises(ValueError, match=message):
        run_in_batches(on_lists(run), {"texts": ["a", "abc", "ab"]})


def test_what_cannot_be_text_is_refused_by_its_number(translator):
    with pytest.raises(ValueError, match=r"texts\[1\] is refused: its prefix has more than 63"):
        translator(["Olá!", "Olá!"], ["", "word " * 500])
    with pytest.raises(ValueError, match=r"texts\[0\] must be a str\. Received: int"):
        translator([3])
    with pytest.raises(ValueError, match="UTF-8"):
        translator("\ud800")
    with pytest.raises(ValueError, match="source cannot be encoded as UTF-8"):
        translator.align("\ud800")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t(["a b", "c d"], "Um"), "prefixes must be a list of str. Received: str"),
        (lambda t: t("text", ["Um"]), "prefixes must be a str. Received: list"),
        (lambda t: t(["text"], [3]), r"prefixes\[0\] must be a str. Received: int"),
        (lambda t: t(7), "texts must be a str or a list of str. Received: int"),
        (lambda t: t(b"abc"), "texts must be a str or a list of str. Received: bytes"),
        (lambda t: t(tf.constant("a")), r"texts must be a string tensor \[batch\].*shape=\(\)"),
        (lambda t: t(tf.constant([3])), r"texts must be a string tensor \[batch\].*int32"),
        (lambda t: t(tf.constant(["a"]), tf.constant(["b"] * 2)), "must have the same length"),
        (lambda t: t({"a": "b"}), "texts must be a str or a list of str. Received: dict"),
        (lambda t: t.hypotheses({"a", "b"}), "texts must be a str or a list of str. Received: set"),
        (lambda t: t.hypotheses(tf.constant("abc")), "texts must be a str or a list of str"),
        (lambda t: t.score("abc", ["abc"]), "targets must be a str. Received: list"),
        (lambda t: t.score(["abc"], "abc"), "targets must be a list of str. Received: str"),
        (lambda t: t.score(["abc"], [None]), r"targets\[0\] must be a str. Received: NoneType"),
        (lambda t: t.score(["a"], ["b", "c"]), "sources and targets must have the same length"),
        (lambda t: t.align(3), "source must be a str or a list of str. Received: int"),
        (lambda t: t.align("abc", ["abc"]), "target must be a str. Received: list"),
        (
            lambda t: Translator(t.models, "tokenizer.model"),
            "tokenizer must be .*'tokenizer.model'",
        ),
        (lambda t: Translator(None, t.tokenizer), "model must be .* Received: None"),
        (lambda t: Translator([], t.tokenizer), r"model must be .* Received: \[\]"),
        (lambda t: Translator.load([]), r"run_dir must be .* Received: \[\]"),
        (lambda t: Translator.load(None), r"run_dir must be .* Received: None"),
        (
            lambda t: t.hypotheses([], token_scores="no"),
            "token_scores must be True or False. Received: token_scores='no'",
        ),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(translator, call, message):
    with pytest.raises(ValueError, match=message):
        call(translator)


def test_a_model_without_finite_probabilities_is_told_from_a_prefix_too_long(
    eager, translator, sources
):
    model = Transformer.from_config(translator.models[0].get_config())
    model.set_weights([weight * np.nan for weight in model.get_weights()])
    diverged = Translator(model, translator.tokenizer, beam_size=2)
    with pytest.raises(ValueError, match=r"texts\[1\] is refused: the model gives no finite"):
        diverged(["", sources[0]])
    with pytest.raises(ValueError, match="The text is refused: the model gives no finite"):
        diverged(sources[0], "A")
    with pytest.raises(ValueError, match="The text is refused: the model gives no finite"):
        diverged("A book", "A book. A house.")  # One segment may begin with two sentences.
    with pytest.raises(ValueError, match="its prefix has more than 63 tokens"):
        diverged(sources[0], "word " * 500)
    found = diverged.hypotheses(["", sources[0], "a" * 20_000, " "])
    assert found == [[Hypothesis("", 0.0)], None, None, [Hypothesis(" ", 0.0)]]
    assert [*found.refusals] == [1, 2] and "no finite probabilities" in found.refusals[1]
    assert "a line of 20,000 bytes is longer than max_line_bytes=16384" in found.refusals[2]
    scores = diverged.score([sources[0], "a " * 99], ["The book.", "The book."])
    assert scores == [None, None]
    assert "no finite probabilities" in scores.refusals[0]
    assert "more than 63 tokens" in scores.refusals[1]


def test_options_that_leave_no_token_are_named(eager, load, sources):
    shortlist = Shortlist(
        np.full((load().tokenizer.vocab_size, 1), -1), [], load().tokenizer.fingerprint
    )
    limited = load().with_options(shortlist=shortlist, min_length=2)
    found = limited.hypotheses(sources[:1])
    assert found == [None]
    expected = "no token is left to go on with, because of min_length and shortlist, or because "
    assert found.refusals[0].startswith(expected)


def test_a_str_gives_one_result_and_a_list_a_list(translator, sources):
    texts, targets = sources[:2], ["The book.", "The dog."]
    assert translator.hypotheses(texts[0]) == translator.hypotheses(texts[:1])[0]
    assert translator.score(texts[0], targets[0]) == translator.score(texts[:1], targets[:1])[0]
    long = ["a " * 99, "The book."]
    found = translator.align([*texts, long[0]], [*targets, long[1]])
    for one, text, target in zip(found[:2], texts, targets, strict=True):
        pieces, target_pieces, attention = translator.align(text, target)
        assert one[:2] == (pieces, target_pieces)
        np.testing.assert_allclose(one[2], attention, atol=1e-5)
    assert found[2] is None and "more than 63 tokens" in found.refusals[2]
    for call in (translator.align, translator.score):
        with pytest.raises(
            ValueError, match=r"The text is refused: a line has more than 63 tokens"
        ):
            call(*long)


def test_a_fingerprint_is_of_all_that_translations_depend_on(translator):
    tokenizer = translator.tokenizer
    shortlists = [
        Shortlist([[i]] * tokenizer.vocab_size, [], tokenizer.fingerprint) for i in (5, 6)
    ]
    other = Translator(copy_of(translator.models[0]), tokenizer, beam_size=3, n_best=2)
    assert other.fingerprint == translator.fingerprint
    weight = other.models[0].weights[-1]
    weight.assign(weight + 1e-3)
    changed = [other, translator.with_options(beam_size=2), translator.with_options(max_length=9)]
    changed += [translator.with_options(shortlist=shortlist) for shortlist in shortlists]
    for name, value in {
        "activation": "gelu",
        "alignment_head": (0, 1),
        "dtype": "bfloat16",
    }.items():
        config = {**translator.models[0].get_config(), name: value}
        model = ensure_built(Transformer.from_config(config))
        model.set_weights(translator.models[0].get_weights())
        changed.append(Translator(model, tokenizer, beam_size=3, n_best=2))
    assert len({each.fingerprint for each in [translator, *changed]}) == 9


def test_a_beam_search_becomes_sampling(eager, translator, sources):
    sampling = {"temperature": 1.0, "seed": 3, "max_length": 3}
    sampled = translator.with_options(**sampling)
    assert sampled(sources[:2]) == Translator(
        translator.models[0], translator.tokenizer, **sampling, n_best=2
    )(sources[:2])


def test_a_model_of_two_tokens_translates_token_by_token(eager, translator, sources):
    config = {**translator.models[0].get_config(), "max_length": 2}
    short = Translator(Transformer.from_config(config), translator.tokenizer, min_length=2)
    (found,) = short.hypotheses([sources[0]], token_scores=True)[0]
    assert len(found.tokens) == 2 * len(short.tokenizer.tokenize(sources[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 5}, "n_best"),
        ({"beam_size": 0}, "beam_size"),
        ({"max_length": 65}, "max_length=65"),
        ({"max_length": 3, "min_length": 4}, "min_length=4"),
        ({"min_length": 10**6}, "min_length must be at most 64"),
        ({"beam_size": True}, "beam_size must be an integer. Received: beam_size=True"),
        ({"split_sentences": "no"}, "split_sentences must be True or False"),
        ({"max_line_bytes": 0}, "max_line_bytes must be at least 1"),
        ({"length_penalty": -1}, "length_penalty"),
        ({"max_length": 8.0}, r"max_length must be an integer. Received: max_length=8\.0"),
        ({"min_length": 8.0}, "min_length must be an integer"),
    ],
)
def test_impossible_options_are_refused_by_name(load, options, message):
    translator = load()
    with pytest.raises(ValueError, match=message):
        translator.with_options(**options)


def test_an_unknown_option_is_named(run_dir):
    message = "Translator has no option 'beams'; did you mean 'beam_size'"
    with pytest.raises(TypeError, match=message):
        Translator.load(run_dir, beams=3)


def test_a_maximum_length_of_numpy_is_stored_as_int(translator):
    found = Translator(translator.models, translator.tokenizer, max_length=np.int64(8))
    assert type(found.options.max_length) is int and found.options.max_length == 8


def test_a_tokenizer_of_another_model_is_refused(translator):
    other = Transformer(vocab_size=77, num_layers=1, d_model=8, num_heads=2, d_ff=8)
    with pytest.raises(ValueError, match=r"77.*not trained together"):
        Translator(other, translator.tokenizer)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model\.keras"):
        Translator.load(tmp_path)


def test_alignment_rows_are_distributions_over_the_source(translator, sources):
    target = translator(sources[0])[0]
    source_pieces, target_pieces, scores = translator.align(sources[0], target)
    assert translator.align(sources[0])[1] == target_pieces
    assert scores.shape == (len(target_pieces), len(source_pieces))
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert "".join(source_pieces[:-1]).replace("▁", " ").strip() == sources[0]
    assert source_pieces[-1] == target_pieces[-1] == "</s>"


def test_it_survives_a_new_random_seed(translator, sources):
    import keras

    before = translator(sources[0])
    keras.utils.set_random_seed(77)
    assert translator(sources[0]) == before
    assert translator.tokenizer.tokenize(["Olá"]).shape[0] == 1


@pytest.mark.long
def test_a_quantized_model_translates_but_is_refused_by_name_where_it_would_be_copied(
    eager, quantizing, translator, run_dir, sources, tmp_path
):
    import keras

    model = keras.models.load_model(run_dir / "model.keras")
    model.quantize("int8")
    options = {"beam_size": 1, "max_length": 4}
    quantized = Translator(model, translator.tokenizer, **options)
    exact = Translator(translator.models, translator.tokenizer, **options)
    alike = sum(map(str.__eq__, quantized(sources[:6]), exact(sources[:6])))
    assert alike >= 4
    with pytest.raises(ValueError, match="is quantized"):
        quantized.export(tmp_path / "1")


def test_a_run_says_how_to_decode_where_nothing_else_is_given(
    run_dir, translator, tmp_path, monkeypatch
):
    monkeypatch.setattr(RunFolder, "load_model", lambda *_: translator.models[0])
    folder = shutil.copytree(run_dir, tmp_path / "run")
    values = json.loads((folder / "config.json").read_text())
    generation = {"beam_size": 2, "length_penalty": 0.5, "max_length": 500, "n_best": 2}
    (folder / "config.json").write_text(json.dumps({**values, "generation": generation}))
    found = Translator.load(folder).options
    assert (found.beam_size, found.length_penalty, found.n_best) == (2, 0.5, 2)
    assert found.max_length == 64  # The model's limit.
    given = Translator.load(folder, beam_size=3, max_length=None, length_penalty=1.0)
    assert (given.options.beam_size, given.options.length_penalty) == (3, 1.0)
    assert given.options.max_length is None
    sampling = Translator.load(folder, temperature=0.5)
    assert sampling.options.samples and sampling.options.n_best == 2
    with pytest.raises(ValueError, match="max_length must be at least 1"):
        Translator.load(folder, max_length=500)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinities")
def test_batches_run_side_by_side_and_come_back_in_order(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    together = threading.Barrier(3, timeout=60)  # Passed by three at once, or by none.

    def length(texts):
        together.wait()
        return {"length": list(map(len, texts))}

    texts = ["a" * (7 * i % 100) for i in range(96)]
    found = run_in_batches(length, {"texts": texts})
    assert [row["length"] for row in found] == [len(text) for text in texts]


def test_an_interrupt_waits_for_no_batch():
    ended, done = threading.Event(), []

    def busy(texts):
        if len(texts[0]) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(ended.wait(10))

    with pytest.raises(KeyboardInterrupt):
        run_in_batches(busy, {"texts": ["aa"] + ["a"] * 999})
    assert not done
    ended.set()
