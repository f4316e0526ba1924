"""SentencePiece with a table of ids; tests/convert holds it to vocab.json and golden ids."""

import json

import pytest
import sentencepiece
import tensorflow as tf

from keras_mt import Tokenizer
from keras_mt.data import phrasebook
from keras_mt.run_folder import RunFolder
from keras_mt.text import PretrainedTokenizer

SPECIAL = ["<unk>", "</s>", "<pad>"]


@pytest.fixture(scope="module")
def spm():
    """A SentencePiece model, bytes."""
    return Tokenizer.train((en for _, en in list(phrasebook.pairs("train"))[:2000]), 400).model


def pieces_of(spm):
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    return [processor.id_to_piece(i) for i in range(4, processor.get_piece_size())]


@pytest.fixture(scope="module")
def marked(spm):
    """A tokenizer with a mark; its padding is the last id, and id 3 has no piece."""
    pieces = ["</s>", "<unk>", ">>eng<<", "", *reversed(pieces_of(spm)), "<pad>"]
    last = len(pieces) - 1
    return PretrainedTokenizer(
        [spm], [pieces], special=SPECIAL, padding_id=last, bos_id=last, eos_id=0,
        language_tags={">>eng<<": 2}, forbidden_ids=[5],
    )  # fmt: skip


def test_text_comes_back(marked):
    texts = [en for _, en in list(phrasebook.pairs("test"))[:20]]
    assert [t.decode() for t in marked.text(marked.pieces(tf.constant(texts))).numpy()] == texts


def test_what_is_no_text_is_left_out(marked):
    ids = marked.pieces(tf.constant(["The book."])).to_list()[0]
    around = [marked.padding_id, 2, 3, *ids, 1, 0]
    assert marked.text(tf.ragged.constant([around, [0], []], tf.int32)).numpy().tolist() == [
        b"The book.", b"", b"",
    ]  # fmt: skip


def test_a_mark_counts_at_the_beginning_alone(marked):
    plain, *others = marked.pieces(
        tf.constant(["Hello.", ">>eng<<Hello.", ">>deu<<Hello.", " >>eng<<Hello.", "a>>eng<<"])
    ).to_list()
    assert others[0] == [2, *plain]
    assert all(2 not in ids for ids in others[1:])


def test_rows_are_of_their_own_languages(spm):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(spm), "eng", "por"]
    codes = {code: pieces.index(code) for code in ("eng", "por")}
    first, last = (
        PretrainedTokenizer(
            [spm], [pieces], special=["<unk>", "<s>", "<pad>", "</s>"], padding_id=1, bos_id=2,
            eos_id=2, languages=codes, language_first=where,
        )
        for where in (True, False)
    )  # fmt: skip
    sides = [tf.constant(["eng", "por"]), tf.constant(["por", "eng"])]
    ids = first.pieces(tf.constant(["a b", "c"]))
    eng, por = codes["eng"], codes["por"]
    a, c = ids.to_list()
    assert first.languages == ("eng", "por")
    assert first.source_ids(ids, *sides).to_list() == [[eng, *a, 2], [por, *c, 2]]
    assert last.source_ids(ids, *sides).to_list() == [[*a, 2, eng], [*c, 2, por]]
    assert first.target_ids(ids, sides[1]).to_list() == [[por, *a, 2], [eng, *c, 2]]
    assert first.forced_ids(sides[1]).numpy().tolist() == [[por], [eng]]
    # Where it is counted, before there are rows.
    assert first.forced_ids().shape == (1, 1)
    assert first.target_ids(ids).row_lengths().numpy().tolist() == [len(a) + 2, len(c) + 2]


def test_it_is_in_a_run_folder_and_in_a_saved_model(marked, tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_tokenizer(marked)
    loaded = folder.load_tokenizer()
    assert type(loaded) is PretrainedTokenizer and loaded.fingerprint == marked.fingerprint
    assert loaded.forbidden_ids == marked.forbidden_ids == (5, marked.padding_id)
    texts = tf.constant([">>eng<< A book.", "中国"])
    expected = marked.source_ids(marked.pieces(texts)).to_list()
    assert loaded.source_ids(loaded.pieces(texts)).to_list() == expected
    module = tf.Module()
    module.tokenizer = loaded

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def back(texts):
        ids = loaded.source_ids(loaded.pieces(texts))
        return {"ids": ids.to_tensor(-1), "text": loaded.text(ids)}

    tf.saved_model.save(module, tmp_path / "saved", signatures=back)
    outputs = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"](texts)
    found = [[i for i in row if i >= 0] for row in outputs["ids"].numpy().tolist()]
    assert found == expected and outputs["text"].numpy().tolist() == [b"A book.", "中国".encode()]


def test_a_damaged_one_is_refused(marked, tmp_path):
    marked.save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer.json").read_text())
    damages = {"special": ["<nothing>"]}, {"pieces": []}, {"languages": ["de"]}
    damaged = [json.dumps(settings | damage) for damage in damages]
    for text in (*damaged, "{", "[]", "{}", '{"kind": "os:system"}'):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(ValueError, match="holds no tokenizer that can be read"):
            PretrainedTokenizer.load(tmp_path)
    marked.save(tmp_path)
    (tmp_path / "source.model").write_bytes(b"x")
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        PretrainedTokenizer.load(tmp_path)
