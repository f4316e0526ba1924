import keras
import numpy as np
import pytest

from keras_mt.metrics import Perplexity, TokenAccuracy

random = np.random.default_rng(0)


def batches():
    for length in (3, 5):
        labels = random.integers(0, 6, (4, length))
        yield labels, random.normal(size=(4, length, 6)).astype("float32")


def test_both_are_means_over_the_real_tokens_of_all_batches():
    accuracy, perplexity = TokenAccuracy(), Perplexity()
    right, log_probs = [], []
    for labels, logits in batches():
        accuracy.update_state(labels, logits)
        perplexity.update_state(labels, logits)
        for place, label in np.ndenumerate(labels):
            if label:
                right.append(np.argmax(logits[place]) == label)
                log_probs.append(logits[place][label] - np.log(np.exp(logits[place]).sum()))
    assert float(accuracy.result()) == pytest.approx(np.mean(right))
    assert float(accuracy.count) == len(right)
    assert float(perplexity.result()) == pytest.approx(np.exp(-np.mean(log_probs)), rel=1e-5)


@pytest.mark.parametrize("metric", [TokenAccuracy, Perplexity])
def test_samples_can_be_weighted_and_state_reset(metric):
    (labels, logits), _ = batches()
    once, twice = metric(), metric()
    once.update_state(labels[:2], logits[:2])
    twice.update_state(labels, logits, sample_weight=np.array([1.0, 1, 0, 0]))
    assert float(once.result()) == pytest.approx(float(twice.result()), rel=1e-6)
    once.reset_state()
    assert float(once.count) == 0


@pytest.mark.parametrize("metric", [TokenAccuracy, Perplexity])
def test_config_round_trips(metric):
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric(padding_id=5, name="mine")))
    assert type(copy) is metric and copy.padding_id == 5 and copy.name == "mine"
