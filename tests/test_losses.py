import keras
import numpy as np
import pytest
from backends import gradients

from keras_mt.losses import CrossEntropy, SymmetricKLDivergence, alignment_loss
from keras_mt.metrics import Perplexity, TokenAccuracy

random = np.random.default_rng(0)
LABELS = np.array([[3, 1, 0, 0], [2, 4, 1, 3], [0, 0, 0, 0]])
LOGITS = random.normal(size=(3, 4, 5)).astype("float32")


def expected_losses(smoothing):
    """The definition: cross-entropy with the smoothed distribution, token by token."""
    losses = {}
    for place, label in np.ndenumerate(LABELS):
        if label:
            probabilities = np.exp(LOGITS[place]) / np.exp(LOGITS[place]).sum()
            smoothed = np.full(5, smoothing / 5)
            smoothed[label] += 1 - smoothing
            losses[place] = -(smoothed * np.log(probabilities)).sum()
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_it_is_the_mean_over_real_tokens(smoothing):
    losses = expected_losses(smoothing)
    assert float(CrossEntropy(smoothing)(LABELS, LOGITS)) == pytest.approx(
        np.mean(list(losses.values())), rel=1e-5
    )


def test_samples_can_be_weighted():
    losses, weights = expected_losses(0.1), np.array([2.0, 0.5, 1.0])
    total = sum(weights[place[0]] * loss for place, loss in losses.items())
    expected = total / sum(weights[place[0]] for place in losses)
    assert float(CrossEntropy(0.1)(LABELS, LOGITS, weights)) == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_padding_costs_nothing():
    assert float(CrossEntropy(0.1)(np.zeros((2, 3), int), np.ones((2, 3, 5)))) == 0


def test_the_gradient_is_the_finite_difference():
    loss = CrossEntropy(0.1)
    (gradient,) = gradients(lambda logits: loss(LABELS, logits), LOGITS)
    for place in [(0, 0, 3), (0, 1, 2), (1, 3, 0), (0, 2, 1), (2, 0, 0)]:
        step = np.zeros_like(LOGITS)
        step[place] = 1e-2
        difference = (
            float(loss(LABELS, LOGITS + step)) - float(loss(LABELS, LOGITS - step))
        ) / 2e-2
        assert gradient[place] == pytest.approx(difference, abs=1e-4)
    assert np.all(gradient[2] == 0) and np.all(gradient[0, 2:] == 0)


@pytest.mark.parametrize("padding_id", [-1, -100])
def test_padding_need_not_be_a_class(padding_id):
    labels = np.where(LABELS == 0, padding_id, LABELS)
    usual, other = CrossEntropy(0.1), CrossEntropy(0.1, padding_id)
    (expected,) = gradients(lambda logits: usual(LABELS, logits), LOGITS)
    (found,) = gradients(lambda logits: other(labels, logits), LOGITS)
    np.testing.assert_array_equal(found, expected)
    for metric in (TokenAccuracy, Perplexity):
        usual, other = metric(), metric(padding_id=padding_id)
        usual.update_state(LABELS, LOGITS)
        other.update_state(labels, LOGITS)
        assert float(other.result()) == float(usual.result())


def test_the_divergence_and_its_gradients_are_the_definitions():
    others, weight = random.normal(size=LOGITS.shape).astype("float32"), LABELS != 0

    def expected(logits, others):
        p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (logits, others))
        divergence = (p * np.log(p / q) + q * np.log(q / p)).sum(-1) / 2
        return (divergence * weight).sum() / weight.sum()

    def divergence(*pair):
        return SymmetricKLDivergence()(*pair, sample_weight=weight)

    value = float(divergence(LOGITS, others))
    assert value == pytest.approx(expected(LOGITS, others), rel=1e-5)
    found = gradients(divergence, LOGITS, others)
    for side in range(2):
        for place in [(0, 0, 3), (1, 3, 0), (1, 2, 4), (0, 2, 1)]:
            ends = []
            for sign in (1, -1):
                moved = [LOGITS.astype("float64"), others.astype("float64")]
                moved[side][place] += sign * 1e-5
                ends.append(expected(*moved))
            difference = (ends[0] - ends[1]) / 2e-5
            assert float(found[side][place]) == pytest.approx(difference, abs=1e-6)


def test_it_works_with_compile_and_fit_and_survives_a_file(tmp_path):
    inputs = keras.Input((4,), dtype="int32")
    model = keras.Model(inputs, keras.layers.Embedding(9, 5, mask_zero=True)(inputs))
    model.compile("sgd", CrossEntropy(0.1))
    tokens = np.array([[7, 8, 0, 0], [5, 6, 7, 8], [0, 0, 0, 0]])
    expected = float(CrossEntropy(0.1)(LABELS, model(tokens)))
    assert model.evaluate(tokens, LABELS, verbose=0) == pytest.approx(expected, rel=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(tokens, LABELS, verbose=0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_impossible_smoothing_is_refused_by_name(smoothing):
    with pytest.raises(ValueError, match="label_smoothing"):
        CrossEntropy(label_smoothing=smoothing)


@pytest.mark.parametrize("of_labels", [CrossEntropy, TokenAccuracy, Perplexity])
def test_a_dtype_that_rounds_labels_is_refused(of_labels):
    with pytest.raises(ValueError, match="bfloat16 rounds"):
        of_labels(dtype="bfloat16")
    assert of_labels(dtype="float64").dtype == "float64"


def test_the_loss_of_alignments_is_the_mean_of_cross_entropies_over_target_tokens():
    links = np.array([[[1, 1, 0], [0, 0, 0]], [[0, 0, 1], [0, 0, 0]]], bool)
    real = np.array([[True, True], [True, False]])
    attention = random.dirichlet(np.ones(3), size=(2, 2)).astype("float32")
    log = np.log(attention + 1e-6)
    expected = -((log[0, 0, 0] + log[0, 0, 1]) / 2 + log[1, 0, 2]) / 3
    assert float(alignment_loss(links, attention, real)) == pytest.approx(expected, rel=1e-5)
    assert float(alignment_loss(~links & links, attention, ~real & real)) == 0
