"""Pieces of SentencePiece models: what is kept is cut as before, by SentencePiece itself."""

import io
import itertools

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from keras_mt.data import phrasebook
from keras_mt.text.subset import Subset

TEXTS = [text for pair in itertools.islice(phrasebook.pairs("train"), 1500) for text in pair]
STRANGE = ["", "Ωmega", "a中b文c", "x\U0001f600y\U0001f600z", "<2en> Hello", "zzzqqq" * 9]


def trained(kind, byte_fallback):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=900, model_type=kind,
        byte_fallback=byte_fallback, user_defined_symbols=["<2en>", "<2de>"], num_threads=1,
        self_test_sample_size=5, minloglevel=3, hard_vocab_limit=False,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module", params=[(k, b) for k in ("unigram", "bpe") for b in (True, False)])
def model(request):
    return trained(*request.param)


def cut(model, texts):
    return SentencePieceProcessor(model_proto=model).encode(texts, out_type=str)


def subset_of(model, texts):
    subset = Subset(model)
    for text in texts:
        subset.count(text)
    return subset


@given(start=st.integers(0, 2900), count=st.integers(1, 60), more=st.lists(st.text(max_size=20)))
def test_what_needs_no_other_piece_is_cut_as_before(start, count, more, model):
    subset = subset_of(model, TEXTS[start : start + count])
    kept = subset.always() | {*subset.needed()}
    small = subset.model(kept)
    texts = [*TEXTS[start : start + count], *TEXTS[::9], *STRANGE, *more]
    pairs = list(zip(cut(model, texts), cut(small, texts), strict=True))
    whole = {*subset.pieces}
    same = [{*before} & whole <= kept for before, _ in pairs]
    assert all(same[:count]) and not all(same)
    assert all(before == after for (before, after), s in zip(pairs, same, strict=True) if s)
    decoders = [SentencePieceProcessor(model_proto=each) for each in (model, small)]
    before, after = (
        each.decode([*side]) for each, side in zip(decoders, zip(*pairs, strict=True), strict=True)
    )
    assert before == after


def test_characters_without_a_piece_cost_what_they_did(model):
    """That hangs on the rarest piece: without it, a word and its last letter would come apart."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    word = max((each.piece for each in proto.pieces if each.piece[0] == "▁"), key=len)
    end = f"{word[-1]}Ω"
    for piece, score in ((end, -40.0), ("ΩΩΩ", -200.0)):
        proto.pieces.add(piece=piece, score=score)
    model, text = proto.SerializeToString(), f"{word[1:]}Ω"
    if proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
        assert cut(model, text)[-1] == end
    subset = subset_of(model, [text, word[1:]])
    assert cut(subset.model(subset.always() | {*subset.needed()}), text) == cut(model, text)


def test_the_most_frequent_pieces_come_with_their_parts():
    """Of byte pairs each number of pieces, by frequency, cuts its own texts as before."""
    model = trained("bpe", False)
    subset = subset_of(model, TEXTS[:400])
    counts, words = subset.needed(), sorted({word for text in TEXTS for word in text.split()})
    ranked = sorted(counts, key=lambda piece: (-counts[piece], len(piece), piece))
    for number in (10, 50, 150, 400):
        kept = subset.always() | {*ranked[:number]}
        small, fits = subset.model(kept), 0
        for before, after in zip(cut(model, words), cut(small, words), strict=True):
            if {*before} <= kept:
                assert before == after
                fits += 1
        assert 0 < fits < len(words)


def test_its_own_tests_do_not_fail_a_smaller_model(model):
    """TensorFlow Text refuses a model whose samples it cuts otherwise."""
    from keras_mt.text.tokenizer import SentencePiece

    sample = b"\x0a\x05hello\x12\x03x y"  # Of no model.
    tested = model + b"\x22" + bytes([len(sample) + 2]) + b"\x0a" + bytes([len(sample)]) + sample
    subset = subset_of(tested, TEXTS[:3])
    SentencePiece(subset.model(subset.always())).tokenize(["hello"])
    with pytest.raises(Exception, match="Self-test"):
        SentencePiece(tested).tokenize(["hello"])
