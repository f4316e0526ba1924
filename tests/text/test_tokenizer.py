import io
import pickle
import random
import re
import unicodedata
from collections import Counter

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.python.saved_model import loader_impl

from keras_mt import Tokenizer
from keras_mt.data import Batches
from keras_mt.text.tokenizer import Reservoir

SPECIAL = Tokenizer.padding_id, Tokenizer.unknown_id, Tokenizer.bos_id, Tokenizer.eos_id
TEXTS = [f"The {a} {b} is on the {c}." for a in ("red", "old") for b in ("book", "cup", "dog")
         for c in ("table", "chair", "bed")] * 5  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, vocab_size=320)


@pytest.fixture(scope="module")
def reference(tokenizer, tmp_path_factory):
    """The same model in SentencePiece's own Python."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    tokenizer.save(path)
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def test_ids_of_the_contract(tokenizer, reference):
    assert tokenizer.vocab_size == reference.get_piece_size() <= 320
    special = reference.pad_id(), reference.unk_id(), reference.bos_id(), reference.eos_id()
    assert special == (0, 1, 2, 3)
    assert special == (
        Tokenizer.padding_id,
        Tokenizer.unknown_id,
        Tokenizer.bos_id,
        Tokenizer.eos_id,
    )


def test_shapes(tokenizer):
    ids = tokenizer.tokenize(["the book", ""])
    assert isinstance(ids, tf.RaggedTensor) and ids.dtype == tf.int32
    assert ids.row_lengths().numpy()[1] == 0
    assert tokenizer.tokenize(tf.constant([], tf.string)).nrows() == 0
    assert tokenizer.tokenize("the book").shape.rank == 1


@given(st.text())
def test_any_text_is_cut_and_joined_as_sentencepiece_does(tokenizer, reference, text):
    ids = tokenizer.tokenize([text])
    plain = re.sub("[\x00-\x1f\x7f-\x9f]", " ", text).replace("▁", "_")
    assert ids.to_list()[0] == reference.encode(plain)
    assert Tokenizer.unknown_id not in ids.to_list()[0]
    assert tokenizer.detokenize(ids)[0].numpy().decode() == reference.decode(ids.to_list()[0])


def test_what_is_typed_is_text(tokenizer):
    def back(text):
        return tokenizer.detokenize(tokenizer.tokenize(text)).numpy().decode()

    for typed in ("<s> </s> <pad> <unk> <0x41> <mask>", "a </s>b", "👩‍👩‍👧 e\u0323 שלום"):
        assert back(typed) == unicodedata.normalize("NFKC", typed)
        ids = set(tokenizer.tokenize(typed).numpy())
        assert not ids & {
            Tokenizer.padding_id,
            Tokenizer.unknown_id,
            Tokenizer.bos_id,
            Tokenizer.eos_id,
        }
    assert back("▁the▁▁book") == "_the__book"
    assert back(" a\x00b\x07c\x7fd\x9be\t\r\nf\u200bg\u202fh\ufeffi\ufffdj\u2028") == (
        "a b c d e f g h i j"
    )
    assert back(b"a\xffb\xed\xa0\x80c\xf4\x90\x80\x80d\xc3") == "a b c d"


@given(st.lists(st.integers(4, 259), max_size=30))
def test_whatever_the_bytes_are_text_is_utf_8(tokenizer, ids):
    assert strings(tokenizer, [4, 259]) == ["<0x00>", "<0xFF>"]
    tokenizer.detokenize([ids])[0].numpy().decode("utf-8")


def test_nothing_is_unknown_and_plain_text_comes_back(tokenizer):
    texts = ["Zażółć gęślą jaźń", "日本語 😀", "the book is on the table", "naïve café №"[:-1]]
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        assert Tokenizer.unknown_id not in ids
        assert tokenizer.detokenize([ids])[0].numpy().decode() == text.strip()


def test_detokenize_leaves_padding_start_and_end_out(tokenizer):
    ids = tokenizer.tokenize("the book").numpy().tolist()
    padded = tf.constant([[2, *ids, 3, 0, 0], [2, 3, 0, 0, 0, *[0] * len(ids)][: len(ids) + 4]])
    assert [t.decode() for t in tokenizer.detokenize(padded).numpy()] == ["the book", ""]
    assert tokenizer.detokenize(tf.ragged.constant([ids, []], dtype=tf.int32)).shape == (2,)


def test_it_survives_a_new_random_seed_everywhere(tokenizer):
    texts = tf.constant(["the book"])
    traced = tf.function(tokenizer.tokenize)
    pipeline = tf.data.Dataset.from_tensors(texts).map(tokenizer.tokenize)
    before = tokenizer.tokenize(texts).to_list()
    assert traced(texts).to_list() == before
    keras.utils.set_random_seed(5)
    assert tokenizer.tokenize(texts).to_list() == before
    assert traced(texts).to_list() == before
    assert [ids.to_list() for ids in pipeline] == [before]
    assert tokenizer.detokenize(before).numpy().tolist() == [b"the book"]


def test_what_runs_already_survives_too(tokenizer, reference, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.model")
    other = Tokenizer.load(tmp_path / "tokenizer.model")
    ids = tokenizer.tokenize(["the book"])
    back = tf.function(other.detokenize)
    assert back(ids).numpy().tolist() == [b"the book"]
    running = iter(tf.data.Dataset.from_tensor_slices(["a cup"] * 50).map(other.tokenize))
    next(running)
    keras.utils.set_random_seed(6)
    assert all(row.numpy().tolist() == reference.encode("a cup") for row in running)
    assert back(ids).numpy().tolist() == [b"the book"]
    del other, back, running  # Of the same model as the one below.
    keras.utils.set_random_seed(7)
    assert tokenizer.tokenize("a cup").numpy().tolist() == reference.encode("a cup")


def test_an_export_has_the_ops_of_a_stock_server_alone(python, tokenizer, tmp_path):
    module = tf.Module()
    module.tokenizer = tokenizer
    module.function = tf.function(
        lambda text: tokenizer.detokenize(tokenizer.tokenize(text)),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, tmp_path / "saved")
    graph = loader_impl.parse_saved_model(str(tmp_path / "saved")).meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    assert {node.op for node in nodes if "entencepiece" in node.op} == {
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
        "SentencepieceDetokenizeOp",
    }
    script = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "tf.random.set_seed(3)\n"
        "print(model.function(tf.constant(['the book'])).numpy().tolist())"
    )
    assert python("-c", script, tmp_path / "saved").stdout.strip() == "[b'the book']"


def test_lists_of_any_size_and_single_texts(tokenizer):
    book, cup = (tokenizer.tokenize(text).numpy().tolist() for text in ("the book", "a red cup"))
    assert len(book) != len(cup)
    assert tokenizer.detokenize([book, cup]).numpy().tolist() == [b"the book", b"a red cup"]
    assert tokenizer.detokenize(tokenizer.tokenize("the book")).numpy() == b"the book"
    assert tokenizer.detokenize(tf.constant([book], tf.int64)).numpy().tolist() == [b"the book"]
    assert tokenizer.tokenize([]).shape.as_list() == [0, None]
    assert tokenizer.detokenize([]).shape == tokenizer.detokenize(tokenizer.tokenize([])).shape == 0


def test_a_very_long_text(tokenizer, reference):
    text = "the red book " * 20_000
    assert tokenizer.tokenize(text).numpy().tolist() == reference.encode(text)


def test_save_and_load(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.model")
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.model"]
    loaded = Tokenizer.load(tmp_path / "tokenizer.model")
    assert loaded.vocab_size == tokenizer.vocab_size
    assert loaded.tokenize(TEXTS[:3]).to_list() == tokenizer.tokenize(TEXTS[:3]).to_list()


def test_other_models_are_refused(tmp_path):
    (tmp_path / "no.model").write_bytes(b"no model")
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        Tokenizer.load(tmp_path / "no.model")
    other = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=other, vocab_size=40, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    (tmp_path / "other.model").write_bytes(other.getvalue())
    with pytest.raises(ValueError, match=r"ids 0, 1, 2, 3.*It has -1, 0, 1, 2"):
        Tokenizer.load(tmp_path / "other.model")


def test_training_is_deterministic_and_takes_bytes(tokenizer, tmp_path):
    again = Tokenizer.train((text.encode() for text in TEXTS), vocab_size=320)
    assert strings(again) == strings(tokenizer)


def test_the_sample_is_drawn_from_the_whole_corpus_by_seed():
    words = ["".join(random.Random(i).choices("abcdefgh", k=9)) for i in range(300)]

    def pieces(seed):
        tokenizer = Tokenizer.train(words * 10, vocab_size=400, sample=150, seed=seed)
        return strings(tokenizer)

    assert pieces(1) == pieces(1)
    assert pieces(1) != pieces(2)


def test_the_sample_gives_every_text_the_same_chance():
    def sample(texts, size, seed):
        kept = Reservoir(size, seed)
        for text in texts:
            kept.add(text)
        return kept.texts

    drawn = Counter(text for seed in range(400) for text in sample(map(str, range(20)), 5, seed))
    assert sum(drawn.values()) == 400 * 5 and len(drawn) == 20
    assert all(60 < count < 140 for count in drawn.values())  # 100 expected; 4 deviations are 35.
    assert sample(iter("abc"), 3, 0) == list("abc")


def test_vocab_size_is_an_upper_bound():
    assert Tokenizer.train(["ab ba"] * 10, vocab_size=5000).vocab_size < 5000


@pytest.mark.parametrize("size", [262, 100])
def test_a_vocabulary_too_small_is_refused_with_what_is_needed(size):
    with pytest.raises(ValueError, match=rf"vocab_size={size} is too small.* 2\d\d"):
        Tokenizer.train(TEXTS, vocab_size=size)


def test_the_size_that_the_error_names_will_do():
    with pytest.raises(ValueError, match="too small") as error:
        Tokenizer.train(TEXTS, vocab_size=262)
    needed = int(re.search(r"need (\d+)", str(error.value))[1])
    assert Tokenizer.train(TEXTS, vocab_size=needed).vocab_size == needed
    with pytest.raises(ValueError, match=f"need {needed}"):
        Tokenizer.train(TEXTS, vocab_size=needed - 1)


@pytest.mark.parametrize("texts", [[], [""], ["  "]])
def test_no_text_is_refused(texts):
    with pytest.raises(ValueError, match="no text"):
        Tokenizer.train(texts, vocab_size=300)


def test_an_error_of_the_texts_is_not_dressed_up():
    def texts():
        yield "a cup"
        raise KeyError("of the corpus")

    with pytest.raises(KeyError, match="of the corpus"):
        Tokenizer.train(texts(), vocab_size=300)


def test_byte_pair_encoding():
    tokenizer = Tokenizer.train(TEXTS, vocab_size=300, model_type="bpe")
    assert tokenizer.vocab_size <= 300
    assert tokenizer.detokenize(tokenizer.tokenize(["the ünknown"])).numpy()[0].decode() == (
        "the ünknown"
    )
    with pytest.raises(ValueError, match="'unigram' or 'bpe'"):
        Tokenizer.train(TEXTS, vocab_size=300, model_type="word")


def strings(tokenizer, ids=None):
    """The pieces of ids, all by default, as str."""
    ids = range(tokenizer.vocab_size) if ids is None else ids
    return [piece.decode() for piece in tokenizer.id_to_string(tf.constant(ids)).numpy()]


def test_pieces_are_sentencepieces(tokenizer, reference):
    ids = tokenizer.tokenize("the book").numpy()
    assert strings(tokenizer, ids) == reference.encode("the book", out_type=str)


def every_segmentation(text, pieces):
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in pieces:
            for rest in every_segmentation(text[end:], pieces):
                yield [text[:end], *rest]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_segmentations_are_as_frequent_as_the_unigram_model_says(alpha):
    words = ["ana", "ban", "banana", "bandana", "and", "nab", "nan", "dan", "an", "na"]
    tokenizer = Tokenizer.train([" ".join(words)] * 20, vocab_size=300)
    model = tokenizer._processor
    log_probs = {
        model.id_to_piece(i): model.get_score(i)
        for i in range(tokenizer.vocab_size)
        if not (model.is_byte(i) or model.is_control(i) or model.is_unknown(i))
    }
    known = list(every_segmentation("▁dan▁nab", log_probs))
    assert len(known) >= 4
    expected = np.exp([alpha * sum(log_probs[piece] for piece in row) for row in known])
    expected /= expected.sum()

    count, names = 20_000, strings(tokenizer)
    ids = tokenizer.tokenize(["dan nab"]).to_list()
    uniform = np.random.default_rng(5).random((count, len(ids[0])))
    drawn = Counter(
        tuple(names[piece] for piece in row)
        for row in tokenizer.sample(ids * count, alpha, uniform)
    )
    assert set(drawn) <= set(map(tuple, known))
    for row, probability in zip(known, expected, strict=True):
        deviation = np.sqrt(count * probability * (1 - probability))
        assert abs(drawn[tuple(row)] - count * probability) < 5 * deviation + 1


def test_a_sampled_segmentation_is_no_longer_than_asked():
    tokenizer = Tokenizer.train(["the cat and the dog"] * 20, vocab_size=290)
    (ids,) = tokenizer.tokenize(["the cat and the dog"]).to_list()
    ids.append(tokenizer.eos_id)  # It stays where it is.
    uniform = np.random.default_rng(5).random((200, len(ids)))
    assert {row[-1] for row in tokenizer.sample([ids] * 200, 0.0, uniform)} == {tokenizer.eos_id}
    lengths = {len(row) for row in tokenizer.sample([ids] * 200, 0.0, uniform)}
    assert max(lengths) > len(ids)
    limited = tokenizer.sample([ids] * 200, 0.0, uniform, max_length=len(ids))
    assert {len(row) for row in limited} <= set(range(len(ids) + 1)) and ids in limited


def test_too_few_random_numbers_are_refused(tokenizer):
    ids = tokenizer.tokenize(["the book is here"]).to_list()
    with pytest.raises(ValueError, match="shorter"):
        tokenizer.sample(ids, 1.0, np.zeros((1, 3)))
    with pytest.raises(ValueError, match="shorter"):
        tokenizer.sample(ids * 2, 1.0, np.zeros((1, 4)))
    (drawn,) = tokenizer.sample(ids, 1.0, np.zeros((1, 4)))
    assert tokenizer.detokenize(drawn).numpy() == b"the book is here"


@pytest.mark.parametrize(
    "ids",
    [
        [[5, -1]], [[10**6]], [[2**40]], [[1.5]], tf.constant([[1.5]]), [[True]],
        np.array([[5, -1]]), np.array([[1.5]]), tf.ragged.constant([[5], [-1]]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_id_is_refused(tokenizer, ids):
    for call in (tokenizer.detokenize, tokenizer.id_to_string):
        with pytest.raises(ValueError, match="ids must be"):
            call(ids)


def test_ids_of_numpy_are_ids(tokenizer):
    ids = tokenizer.tokenize("the book").numpy()
    assert tokenizer.detokenize(ids).numpy() == b"the book"
    for dtype in ("int64", "uint16"):
        found = tokenizer.detokenize(ids[None].astype(dtype))
        assert found.numpy().tolist() == [b"the book"]
    assert b"".join(tokenizer.id_to_string(ids).numpy()).decode() == "▁the▁book"
    for wrong, shape in ((5, r"\(\)"), (ids[None, None], r"\(1, 1, \d+\)")):
        with pytest.raises(
            ValueError, match=rf"ids must be \[batch, length\].*not of shape {shape}"
        ):
            tokenizer.detokenize(wrong)


def test_sampling_needs_a_unigram_model():
    tokenizer = Tokenizer.train(["the cat and the dog"] * 20, vocab_size=290, model_type="bpe")
    with pytest.raises(ValueError, match="unigram"):
        tokenizer.sample(tokenizer.tokenize(["the dog"]).to_list(), 0.5, np.zeros((1, 9)))
    pairs = tf.data.Dataset.from_tensors(("the cat", "the dog"))
    with pytest.raises(ValueError, match="unigram"):  # Before `train` writes anything.
        Batches(pairs, tokenizer, tokens_per_batch=64, max_length=16, subword_sampling=0.5)


def test_languages_are_tokens_that_no_text_has(tmp_path):
    words = ["the", "book", "<2en>", "is", "on", "table", "under", "that", "chair", "<2pt_BR>"]
    texts = [" ".join(np.random.default_rng(i).permutation(words)) for i in range(200)]
    trained = Tokenizer.train(texts, vocab_size=330, languages=["en", "pt_BR"])
    trained.save(tmp_path / "tokenizer.model")
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.model")
    assert tokenizer.languages == trained.languages == ("en", "pt_BR")
    assert tokenizer.fingerprint == trained.fingerprint
    assert strings(tokenizer, [4, 5]) == ["<2en>", "<2pt_BR>"]
    assert tokenizer.forbidden_ids == (0, 1, 2, 4, 5)
    typed = "<2en> the table <2pt_BR><2en> book"
    pieces = tokenizer.tokenize([typed, ""])
    assert not {4, 5} & set(pieces.flat_values.numpy())
    assert tokenizer.detokenize(pieces).numpy().tolist() == [typed.encode(), b""]
    codes = tf.constant(["en", "pt_BR"])
    ids = tf.function(tokenizer.source_ids)(pieces, codes, codes[::-1]).to_list()
    assert ids == [[5, *pieces.to_list()[0], 3], [4, 3]]
    assert tokenizer.target_ids(pieces, codes).to_list()[1] == [3]
    assert tokenizer.detokenize(ids).numpy().tolist() == [typed.encode(), b""]
    # Sampled segmentations keep it in front.
    uniform = np.random.default_rng(0).random((2, 40))
    drawn = tokenizer.sample(ids, 0, uniform)
    assert drawn != ids and [row[0] for row in drawn] == [5, 4] and drawn[1] == [4, 3]
    assert tokenizer.detokenize(drawn).numpy().tolist() == [typed.encode(), b""]
    assert pickle.loads(pickle.dumps(tokenizer)).languages == ("en", "pt_BR")


@pytest.mark.parametrize("languages", [["en", "en"], ["e n"], [""], ["en>"]])
def test_languages_that_cannot_be_told_apart_are_refused(languages):
    with pytest.raises(ValueError, match="languages must be different codes of letters, digits"):
        Tokenizer.train(["a book"] * 9, vocab_size=300, languages=languages)
