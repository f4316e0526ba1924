import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.decoding import NO_HYPOTHESIS, SearchOptions, beam_search
from keras_mt.decoding.rules import forbid_repeated_ngrams
from keras_mt.decoding.selection import top_k

START, END, FORBIDDEN = 2, 3, (0, 2)


class RandomModel:
    """Random logits for each prefix: a model whose every probability a test can look up."""

    def __init__(self, seed, vocab_size, batch, sharpness=1.5):
        self.seed, self.vocab_size, self.batch, self.sharpness = seed, vocab_size, batch, sharpness
        self.known = {}

    def logits(self, row, prefix):
        return self.look_up(row, prefix)[0]

    def log_probs(self, row, prefix):
        return self.look_up(row, prefix)[1]

    def look_up(self, row, prefix):
        key = (row, *map(int, prefix))
        if key not in self.known:
            generator = np.random.default_rng([self.seed, *key])
            logits = (self.sharpness * generator.normal(size=self.vocab_size)).astype("float32")
            self.known[key] = logits, logits - np.log(np.exp(logits.astype("float64")).sum())
        return self.known[key]

    def step(self, tokens, position, cache, mask):
        """As a decoder sees it: it knows only what stands in the cache, and its mask."""
        beams = tokens.shape[1]
        rows, entries = cache
        entries = tf.concat([entries, tokens], axis=1)  # [rows, (position + 1) * beams]
        if mask is None:
            mask = tf.ones((tf.shape(tokens)[0], 1, tf.shape(entries)[1]), tf.bool)

        def look_up(rows, entries, mask):
            return np.reshape(
                [
                    [self.logits(row, entries[i][mask[i, beam]][1:]) for beam in range(beams)]
                    for i, row in enumerate(rows)
                ],
                (len(rows), beams, self.vocab_size),
            ).astype("float32")

        logits = tf.numpy_function(look_up, [rows, entries, mask], tf.float32)
        logits.set_shape((None, beams, self.vocab_size))
        return logits, (rows, entries)

    def search(self, max_length, **options):
        cache = tf.range(self.batch), tf.zeros((self.batch, 0), tf.int32)
        found = beam_search(self.step, cache, tf.constant(max_length), **options)
        hypotheses = []
        for tokens, scores in zip(found.tokens.numpy(), found.scores.numpy(), strict=True):
            rows = [[int(t) for t in row if t] for row in tokens]
            hypotheses.append([(s, row) for s, row in zip(scores, rows, strict=True)])
        return hypotheses


class MaskedModel(RandomModel):
    """After each prefix a few tokens are possible, or none: the others' logits are -inf."""

    def look_up(self, row, prefix):
        key = (row, *map(int, prefix))
        if key not in self.known:
            logits, _ = super().look_up(row, prefix)
            generator = np.random.default_rng([self.seed, 1, *key])
            possible = generator.choice(self.vocab_size, generator.integers(5))
            # The end and a small token, so that some hypotheses end and prefixes can be had.
            possible = [*possible, END, 4] if len(possible) else []
            masked = np.full(self.vocab_size, -np.inf, "float32")
            masked[possible] = logits[possible]
            total = np.exp(masked.astype("float64")).sum()
            self.known[key] = masked, masked - np.log(total) if total else masked
        return self.known[key]


def every_hypothesis(model, row, max_length, min_length, penalty):
    """Every sequence the model can end with, by enumeration, best first."""
    allowed = [t for t in range(model.vocab_size) if t not in FORBIDDEN]
    found = []
    for length in range(1, max_length + 1):
        for tokens in itertools.product(allowed, repeat=length):
            ends = tokens[-1] == END
            if END in tokens[:-1] or (not ends and length < max_length):
                continue
            if ends and length < min_length:
                continue
            log_prob = sum(model.log_probs(row, tokens[:i])[t] for i, t in enumerate(tokens))
            found.append((log_prob / length**penalty, list(tokens)))
    return sorted(found, reverse=True)


def repeats(tokens, size):
    """Whether the last `size` tokens stand earlier too."""
    grams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
    return size > 0 and len(grams) > 1 and grams[-1] in grams[:-1]


def reference_search(
    model, row, max_length, beam_size, n_best, min_length, penalty,
    repetition_penalty=1.0, no_repeat_ngram_size=0, prefix=(), early_stopping="never",
    patience=1.0, force_end=False, word_penalty=0.0, renormalize=False,
):  # fmt: skip
    """The same algorithm in plain Python: lists, one row, stopping by its rule alone."""

    def is_over(length):
        if early_stopping is True:
            return len(finished) >= max(n_best, int(beam_size * patience + 0.5))
        if early_stopping in ("never", "shrink") or len(finished) < beam_size:
            return False  # It comes to the same as going on to the greatest length.
        best = max((log_prob for log_prob, _ in live), default=-np.inf)
        return score(best, length) <= sorted(finished, reverse=True)[beam_size - 1][0]

    def score(log_prob, length):
        return (log_prob - word_penalty * length) / length**penalty

    def must_end(before):
        return force_end and len(before) + 1 == max_length and len(before) >= len(prefix)

    def allowed(before, token):
        if must_end(before):
            return token == END
        if len(before) < len(prefix):
            token_is_next = token == prefix[len(before)]
            return token_is_next and model.log_probs(row, before)[token] > -np.inf
        return (
            token not in FORBIDDEN
            and model.log_probs(row, before)[token] > -np.inf
            and not (token == END and len(before) + 1 < min_length)
            and not repeats([*before, token], no_repeat_ngram_size)
        )

    def log_total(values):
        return np.log(np.sum(np.exp(values))) if renormalize else 0.0

    def cost(before, token):
        if must_end(before):
            return 0.0
        log_probs = model.log_probs(row, before).astype("float64")
        banned = [*FORBIDDEN, END] if len(before) + 1 < min_length else FORBIDDEN
        log_probs = log_probs - log_total(np.delete(log_probs, banned))
        if len(before) < len(prefix):
            return log_probs[token]
        log_probs[before] *= repetition_penalty
        return log_probs[token] - log_total(
            [x for t, x in enumerate(log_probs) if allowed(before, t)]
        )

    live, finished = [(0.0, [])], []
    for length in range(1, max_length + 1):
        candidates = sorted(
            (
                (log_prob + cost(before, token), [*before, token])
                for log_prob, before in live
                for token in range(model.vocab_size)
                if allowed(before, token)
            ),
            reverse=True,
        )
        if early_stopping == "shrink":
            candidates = candidates[: beam_size if length == 1 else len(live)]
        for log_prob, tokens in candidates[:beam_size]:
            if tokens[-1] == END or length == max_length:
                finished.append((score(log_prob, length), tokens))
        live = [c for c in candidates if c[1][-1] != END][:beam_size]
        if is_over(length):
            break
    return sorted(finished, reverse=True)[:n_best]


def assert_same(found, expected):
    found = [(score, tokens) for score, tokens in found if score > NO_HYPOTHESIS]
    assert [tokens for _, tokens in found] == [tokens for _, tokens in expected]
    np.testing.assert_allclose([s for s, _ in found], [s for s, _ in expected], atol=1e-4)


# Random models are the rows of a search: what tells one row from another is new to each.
RULES = [{}, {"early_stopping": False}, {"early_stopping": True}, {"early_stopping": "shrink"}]
RULES += [{**rule, "word_penalty": p} for rule, p in zip(RULES, (0.7, -0.4, 0.3, 0.2), strict=True)]
RULES += [{"early_stopping": True, "patience": patience} for patience in (0.3, 1.5, 4.0)]


@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(4, 6),
    max_lengths=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    min_length=st.integers(0, 3),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    n_best=st.integers(1, 5),
)
def test_a_beam_as_wide_as_the_space_is_exact(
    seed, vocab_size, max_lengths, min_length, penalty, n_best
):
    model = RandomModel(seed, vocab_size, batch=len(max_lengths))
    found = model.search(
        max_lengths,
        # All that live, each with all that may follow: the forbidden two do not, an end ends.
        beam_size=(vocab_size - 3) ** (max(max_lengths) - 1) * (vocab_size - 2) + n_best,
        n_best=n_best,
        min_length=min_length,
        length_penalty=penalty,
    )
    for row, max_length in enumerate(max_lengths):
        expected = every_hypothesis(model, row, max_length, min_length, penalty)
        assert_same(found[row], expected[:n_best])


def tokens_up_to(limits):
    """A rule with a limit for each row of the batch, above which no token is possible."""

    def rule(log_probs, tokens, rows):
        possible = tf.range(log_probs.shape[-1]) <= tf.gather(limits, rows)[:, None]
        return tf.where(possible[:, None], log_probs, NO_HYPOTHESIS)

    return rule


def test_a_rule_of_the_callers_own_holds_for_each_row():
    model = RandomModel(seed=5, vocab_size=7, batch=3)
    limits = [5, 4, 6]
    found = model.search([4, 2, 3], beam_size=60, n_best=4, rules=[tokens_up_to(limits)])
    for row, (max_length, limit) in enumerate(zip([4, 2, 3], limits, strict=True)):
        expected = every_hypothesis(model, row, max_length, 0, 1.0)
        expected = [each for each in expected if max(each[1]) <= limit]
        assert_same(found[row], expected[:4])


@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(5, 12),
    max_lengths=st.lists(st.integers(1, 8), min_size=1, max_size=10),
    min_length=st.integers(0, 3),
    beam_size=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3, 4.0]),
    no_repeat_ngram_size=st.sampled_from([0, 0, 1, 2, 3]),
    prefix=st.lists(st.integers(4, 4), max_size=3),
    rule=st.sampled_from(RULES),
    force_end=st.booleans(),
    renormalize=st.booleans(),
    data=st.data(),
)
def test_a_narrow_beam_equals_the_plain_reference(
    seed, vocab_size, max_lengths, min_length, beam_size, penalty, repetition_penalty,
    no_repeat_ngram_size, prefix, rule, force_end, renormalize, data,
):  # fmt: skip
    n_best = data.draw(st.integers(1, beam_size))
    model = RandomModel(seed, vocab_size, batch=len(max_lengths))
    prefixes = [prefix if row % 2 == 0 else [] for row in range(len(max_lengths))]
    found = model.search(
        max_lengths,
        prefix=tf.ragged.constant(prefixes, tf.int32) if prefix else None,
        beam_size=beam_size,
        n_best=n_best,
        min_length=min_length,
        length_penalty=penalty,
        repetition_penalty=repetition_penalty,
        no_repeat_ngram_size=no_repeat_ngram_size,
        force_end=force_end,
        renormalize=renormalize,
        **rule,
    )
    for row, max_length in enumerate(max_lengths):
        expected = reference_search(
            model, row, max_length, beam_size, n_best, min_length, penalty,
            repetition_penalty, no_repeat_ngram_size, prefixes[row], force_end=force_end,
            renormalize=renormalize, **rule,
        )  # fmt: skip
        assert_same(found[row], expected)


@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.sampled_from([6, 9, 2003]),
    beam_size=st.integers(1, 4),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    prefix=st.sampled_from([[], [4], [4, 4]]),
)
def test_tokens_of_minus_infinity_are_impossible(
    seed, vocab_size, beam_size, repetition_penalty, prefix
):
    model = MaskedModel(seed, vocab_size, batch=2)
    options = {"beam_size": beam_size, "n_best": beam_size}
    found = model.search(
        [4] * 2,
        prefix=[prefix] * 2 if prefix else None,
        repetition_penalty=repetition_penalty,
        **options,
    )
    for row in range(2):
        expected = reference_search(
            model, row, 4, **options, min_length=0, penalty=1.0,
            repetition_penalty=repetition_penalty, prefix=prefix,
        )  # fmt: skip
        assert_same(found[row], expected)


@given(
    st.integers(0, 10**6),
    st.sampled_from([{}, {"top_k": 2}, {"top_p": 0.7}]),
    st.sampled_from([1e-10, 1.0, 1e12]),
)
def test_only_possible_tokens_are_drawn_at_any_temperature(seed, options, temperature):
    model = MaskedModel(seed, 9, batch=1)
    found = model.search([4], n_best=3, temperature=temperature, **options)[0]
    for score, tokens in found:
        if score > NO_HYPOTHESIS:
            assert not set(tokens) & set(FORBIDDEN)
            log_probs = [model.log_probs(0, tokens[:i])[t] for i, t in enumerate(tokens)]
            assert score == pytest.approx(np.mean(log_probs), abs=1e-4)


def test_a_model_that_gives_nan_has_no_hypothesis():
    def step(tokens, position, cache, mask):
        return tf.fill((*tokens.shape, 9), np.nan), cache

    for options in ({}, {"temperature": 1.0}, {"prefix": [[4]]}):
        found = beam_search(step, (), [5], n_best=2, **options)
        assert found.scores.numpy().tolist() == [[NO_HYPOTHESIS, NO_HYPOTHESIS]]


def test_the_search_stops_when_nothing_live_can_win():
    # After the start the end is nearly certain; a model that is asked once more would fail.
    def step(tokens, position, cache, mask):
        if position > 0:
            raise AssertionError("searched on")
        return tf.tile(tf.constant([[[0.0, 0, 0, 20, 1, 0]]]), (1, 2, 1)), cache

    found = beam_search(step, (), [50], beam_size=2)
    assert found.tokens.numpy().tolist() == [[[END]]]


def test_the_search_goes_on_while_a_longer_hypothesis_may_win():
    # The end now costs log(0.4); one more sure token halves that with length_penalty 1.
    def step(tokens, position, cache, mask):
        first = tf.math.log([1e-9, 1e-9, 1e-9, 0.45, 0.55, 1e-9])
        then = tf.math.log([1e-9, 1e-9, 1e-9, 0.999, 1e-9, 1e-9])
        return tf.tile((first if position == 0 else then)[None, None], (1, 2, 1)), cache

    found = beam_search(step, (), [10], beam_size=2, n_best=2, length_penalty=1.0)
    assert found.tokens.numpy().tolist() == [[[4, END], [END, 0]]]


def test_a_row_with_maximum_length_zero_generates_nothing():
    model = RandomModel(0, 8, batch=2)
    found = model.search([0, 4], beam_size=3)
    assert found[0] == [(NO_HYPOTHESIS, [])]
    assert found[1][0][1]


def test_an_empty_batch_is_an_empty_answer():
    found = beam_search(
        RandomModel(0, 8, 0).step,
        (tf.range(0), tf.zeros((0, 0), tf.int32)),
        tf.zeros(0, tf.int32),
    )
    assert found.tokens.shape[:2] == (0, 1) and found.scores.shape == (0, 1)


BIGRAMS = np.random.default_rng(0).normal(size=(9, 9)).astype("float16")


def bigram_search(max_length=(5, 6), bias=None, dtype="float32", **options):
    """The tokens and scores of a model of bigrams, whose cache is added to its logits."""
    bias = np.zeros((2, 9)) if bias is None else bias

    def step(tokens, position, cache, mask):
        return tf.cast(tf.gather(BIGRAMS, tokens), dtype) + tf.cast(cache, dtype)[:, None], cache

    found = beam_search(step, bias, max_length, **options)
    return found.tokens.numpy().tolist(), found.scores.numpy().tolist()


def test_lists_arrays_and_tensors_of_any_dtype_are_alike():
    bias = np.tile(np.arange(9) % 4, (2, 1)).astype("float32")

    def search(bias, integers):
        return bigram_search(
            integers(np.array([2, 3])),
            bias,
            prefix=integers(np.array([[4], [5]])),
            beam_size=3,
            n_best=2,
        )

    expected = search(tf.constant(bias), lambda x: tf.constant(x, tf.int32))
    for convert in (np.ndarray.tolist, np.copy, tf.constant, lambda x: x.astype("uint8")):
        assert search(bias, convert) == expected


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float16", {}),
        ("bfloat16", {"temperature": 1.0}),
        ("float64", {"no_repeat_ngram_size": 1}),
    ],
)
def test_logits_of_any_float_are_taken_as_float32(dtype, options):
    bigrams = tf.cast(tf.cast(BIGRAMS, dtype), "float32")
    expected = beam_search(lambda t, p, c, m: (tf.gather(bigrams, t), c), (), [5, 6], **options)
    tokens, scores = bigram_search(dtype=dtype, **options)
    assert tokens == expected.tokens.numpy().tolist()
    assert scores == expected.scores.numpy().tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 5}, r"max_length must be integers of rank 1.*shape \(\)"),
        ({"max_length": [5.5, 6.5]}, "max_length must be integers of rank 1.*float32"),
        ({"prefix": [4, 4]}, "prefix must be integers of rank 2"),
        ({"forbidden_ids": [0, 3]}, "forbidden_ids must not have eos_id=3"),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        bigram_search(**arguments)


def test_padding_and_start_are_forbidden_and_the_end_is_not():
    logits = tf.constant([[[9.0, 8, 7, 0, 0]]])  # Padding, start, end, ...

    def step(tokens, position, cache, mask):
        return logits, cache

    found = beam_search(step, (), [5], bos_id=1, eos_id=2, beam_size=1, length_penalty=0.0)
    assert found.tokens.numpy().tolist() == [[[2]]]
    found = beam_search(step, (), [3], bos_id=1, eos_id=2, beam_size=1, forbidden_ids=[0])
    assert found.tokens.numpy().tolist() == [[[1, 1, 1]]]


@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(1, 4))
def test_what_would_repeat_tokens_in_a_row_is_struck_out_and_nothing_else(seed, length, size):
    generator = np.random.default_rng(seed)
    tokens = generator.integers(0, 4, (2, 3, length)).astype("int32")
    expected = generator.normal(size=(2, 3, 4)).astype("float32")
    found = forbid_repeated_ngrams(tf.constant(expected), tf.constant(tokens), None, size=size)
    for row, beam, token in np.ndindex(expected.shape):
        if repeats([*tokens[row, beam].tolist(), token], size):
            expected[row, beam, token] = NO_HYPOTHESIS
    np.testing.assert_array_equal(found, expected)


def test_integers_of_numpy_are_stored_as_int():
    options = SearchOptions(beam_size=np.int64(5), n_best=np.int32(2), seed=np.uint8(3))
    assert [type(x) for x in (options.beam_size, options.n_best, options.seed)] == [int] * 3
    assert options == SearchOptions(beam_size=5, n_best=2, seed=3)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"beam_size": 4.0}, r"beam_size must be an integer. Received: beam_size=4\.0"),
        ({"n_best": 2.0}, "n_best must be an integer"),
        ({"min_length": 1.0}, "min_length must be an integer"),
        ({"no_repeat_ngram_size": "3"}, "no_repeat_ngram_size must be an integer"),
        ({"temperature": 1.0, "top_k": 2.5}, "top_k must be an integer"),
        ({"temperature": 1.0, "seed": 1.5}, "seed must be an integer"),
        ({"temperature": 1.0, "seed": 2**31}, "seed must be at least .* Received: seed=2147483648"),
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": 2, "n_best": 3}, "n_best"),
        ({"n_best": 0}, "n_best"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"length_penalty": 1e38}, "length_penalty"),
        ({"min_length": -1}, "min_length"),
        ({"repetition_penalty": 0.5}, "repetition_penalty"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p"),
        ({"temperature": 1.0, "top_k": -1}, "top_k"),
        ({"top_k": 5}, "temperature"),
        ({"early_stopping": "maybe"}, "early_stopping must be one of True, False, never"),
        ({"early_stopping": True, "patience": 0}, "patience must be above 0"),
        ({"early_stopping": False, "patience": 2}, "patience goes with early_stopping=True"),
        ({"force_end": 1}, "force_end must be True or False"),
    ],
)
def test_impossible_options_are_refused_by_name(options, name):
    with pytest.raises(ValueError, match=name):
        beam_search(None, (), [5], **options)


class AlikeModel(RandomModel):
    """The same for each row."""

    def look_up(self, row, prefix):
        return super().look_up(0, prefix)


def test_samples_go_on_to_their_end_under_any_rule():
    model, options = RandomModel(0, 9, batch=4), {"n_best": 3, "temperature": 1.0}
    rules = [rule for rule in RULES if "word_penalty" not in rule]
    alike = [model.search([3] * 4, **options, **rule) for rule in rules]
    assert all(found == alike[0] for found in alike)
    forced = model.search([3] * 4, **options, force_end=True)
    assert all(tokens[-1] == END for row in forced for _, tokens in row)
    assert forced != alike[0]


def samples(model, **options):
    """The sampled sequences of all rows, with several seeds."""
    found = []
    for seed in range(5):
        drawn = {"n_best": 5, "temperature": 1.0, "seed": seed, **options}
        found += itertools.chain(*model.search([2] * model.batch, **drawn))
    return [(score, tuple(tokens)) for score, tokens in found]


@pytest.mark.parametrize(
    ("options", "kept"),
    [({}, 1.0), ({"temperature": 0.5}, 1.0), ({"top_k": 2}, None), ({"top_p": 0.7}, 0.7)],
)
def test_samples_are_as_frequent_as_they_are_probable(options, kept):
    model = AlikeModel(3, 7, batch=30, sharpness=1.0)

    def distribution(prefix):
        allowed = [token for token in range(7) if token not in FORBIDDEN]
        weights = {
            t: model.log_probs(0, prefix)[t] / options.get("temperature", 1) for t in allowed
        }
        probabilities = np.exp(list(weights.values()))
        probabilities = dict(zip(allowed, probabilities / probabilities.sum(), strict=True))
        ranked, total = [], 0.0
        for token in sorted(allowed, key=probabilities.get, reverse=True):
            if len(ranked) == options.get("top_k", 7) or (kept and total >= kept):
                break
            ranked.append(token)
            total += probabilities[token]
        return {token: probabilities[token] / total for token in ranked}

    expected = {}
    for first, p in distribution(()).items():
        if first == END:
            expected[(END,)] = p
            continue
        for second, q in distribution((first,)).items():
            expected[(first, second)] = p * q
    drawn = samples(model, **options)
    counts = {tokens: 0 for tokens in expected}
    for score, tokens in drawn:
        counts[tokens] += 1  # Nothing else is ever drawn.
        log_prob = sum(model.log_probs(0, tokens[:i])[t] for i, t in enumerate(tokens))
        assert score == pytest.approx(log_prob / len(tokens), abs=1e-4)
    for tokens, probability in expected.items():
        deviation = np.sqrt(probability * (1 - probability) / len(drawn))
        assert abs(counts[tokens] / len(drawn) - probability) < 5 * deviation + 1e-9


def test_samples_depend_on_the_seed_and_not_on_the_batch():
    options = {"n_best": 3, "temperature": 1.0}
    together = RandomModel(5, 9, batch=3).search([4, 4, 4], seed=1, **options)[0]
    assert_same(RandomModel(5, 9, batch=1).search([4], seed=1, **options)[0], together)
    other = RandomModel(5, 9, batch=1).search([4], seed=2, **options)[0]
    assert [tokens for _, tokens in other] != [tokens for _, tokens in together]


def test_rows_that_are_done_leave_the_batch():
    sizes = []

    def step(tokens, position, cache, mask):
        sizes.append(tokens.shape[0])
        return tf.random.stateless_normal((*tokens.shape, 9), (1, 1)), cache

    found = beam_search(step, (), [1, 2, 2, 3, 5, 5, 5, 5], beam_size=2, min_length=9)
    assert sizes == [8, 8, 5, 5, 5]  # At first one of eight was done, and later one of five.
    lengths = np.count_nonzero(found.tokens.numpy(), axis=-1)[:, 0]
    assert lengths.tolist() == [1, 2, 2, 3, 5, 5, 5, 5]


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 3000),
    count=st.integers(1, 12),
    distinct=st.sampled_from([3, 10**6]),
)
def test_the_best_of_many_are_those_of_a_sort(seed, size, count, distinct):
    values = np.random.default_rng(seed).integers(-distinct, distinct, (2, 3, size))
    values = values.astype("float32")
    count = min(count, size)
    best, places = top_k(tf.constant(values), count)
    np.testing.assert_array_equal(best, -np.sort(-values, axis=-1)[..., :count])
    np.testing.assert_array_equal(np.take_along_axis(values, places.numpy(), -1), best)
    assert all(len(set(row)) == count for row in places.numpy().reshape(-1, count).tolist())


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 3000),
    count=st.integers(1, 12),
    possible=st.integers(0, 15),
)
def test_the_best_of_values_of_which_most_are_minus_infinity(seed, size, count, possible):
    generator = np.random.default_rng(seed)
    count, places = min(count, size), generator.permutation(size)[:possible]
    # Less than any number that stands for the impossible.
    values = np.full(size, -np.inf, "float32")
    values[places] = -generator.uniform(1e12, 1e30, len(places))
    best, found = (x.numpy()[0, 0] for x in top_k(tf.constant(values[None, None]), count))
    expected = sorted(places.tolist(), key=lambda place: -values[place])[:count]
    assert found[: len(expected)].tolist() == expected
    np.testing.assert_array_equal(best[: len(expected)], values[expected])
    assert (best[len(expected) :] <= np.finfo("float32").min).all()
    assert (found >= 0).all() and (found < size).all()


def test_renormalizing_without_any_banned_token_changes_nothing():
    logits = tf.constant([[0.0, 0.5, 0.2, 1.0, 5.0], [0.3, 0.0, 0.1, 4.0, 3.0]])

    def step(tokens, position, cache, mask):
        return tf.gather(logits, tf.cast(tokens == 4, tf.int32)), cache

    plain, renormalized = (
        beam_search(step, (), [5], forbidden_ids=[], renormalize=renormalize)
        for renormalize in (False, True)
    )
    assert renormalized.tokens.numpy().tolist() == plain.tokens.numpy().tolist() == [[[4, 3]]]
    np.testing.assert_allclose(renormalized.scores, plain.scores, rtol=1e-5)
