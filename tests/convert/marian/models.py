"""Models with random weights in Marian's own format."""

import io

import numpy as np
import sentencepiece

from keras_mt.convert.marian_files import write_bin, write_npz

CONFIG = """\
type: transformer
dim-emb: {d_model}
dim-vocabs: [{sizes[0]}, {sizes[1]}]
enc-depth: 2
dec-depth: {depth}
transformer-heads: 4
transformer-dim-ffn: 48
transformer-decoder-autoreg: {autoreg}
dec-cell: ssru
transformer-ffn-activation: {activation}
transformer-preprocess: ""
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
tied-embeddings-all: {all}
tied-embeddings: {target}
output-omit-bias: {omit_bias}
version: v1.9.56
"""
D_MODEL, FF = 32, 48


def vocabulary(texts, size, rule="nmt_nfkc"):
    """The bytes of a SentencePiece model as Marian trains it: the end is 0, the unknown 1."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, eos_id=0, unk_id=1,
        bos_id=-1, pad_id=-1, normalization_rule_name=rule, hard_vocab_limit=False, num_threads=1,
        minloglevel=3,
    )  # fmt: skip
    return model.getvalue()


def size_of(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()


def weights(seed, sizes, recurrent, tied="all", omit_bias=False, depth=2):
    """The tensors by Marian's names, by its conventions, not by our code."""
    random = np.random.default_rng(seed)
    tensors = {}

    def add(name, rows, columns, scale=1.0, mean=0.0):
        values = mean + scale * random.standard_normal((rows, columns))
        tensors[name] = values.astype("float32")

    def add_norm(name):
        add(f"{name}_ln_scale", 1, D_MODEL, 0.1, 1.0)
        add(f"{name}_ln_bias", 1, D_MODEL, 0.1)

    def add_attention(name):
        for letter in "qkvo":
            add(f"{name}_W{letter}", D_MODEL, D_MODEL, 1.2 * D_MODEL**-0.5)
            add(f"{name}_b{letter}", 1, D_MODEL, 0.1)
        add_norm(f"{name}_Wo")

    for side, layers in (("encoder", 2), ("decoder", depth)):
        for i in range(1, layers + 1):
            place = f"{side}_l{i}"
            if side == "decoder" and recurrent:
                for name in ("W", "Wf"):
                    add(f"{place}_rnn_{name}", D_MODEL, D_MODEL, 1.5 * D_MODEL**-0.5)
                add(f"{place}_rnn_bf", 1, D_MODEL, 0.5)
                add_norm(f"{place}_rnn_ffn")
            else:
                add_attention(f"{place}_self")
            if side == "decoder":
                add_attention(f"{place}_context")
            add(f"{place}_ffn_W1", D_MODEL, FF, D_MODEL**-0.5)
            add(f"{place}_ffn_b1", 1, FF, 0.1)
            add(f"{place}_ffn_W2", FF, D_MODEL, FF**-0.5)
            add(f"{place}_ffn_b2", 1, D_MODEL, 0.1)
            add_norm(f"{place}_ffn_ffn")
    names = {"all": ["Wemb"]}.get(tied, ["encoder_Wemb", "decoder_Wemb"])
    for name, size in zip(names, sizes, strict=False):
        add(name, size, D_MODEL, 0.35)
    if tied == "none":
        add("decoder_ff_logit_out_W", D_MODEL, sizes[1], 0.35)
    if not omit_bias:
        add("decoder_ff_logit_out_b", 1, sizes[1], 0.5)
        tensors["decoder_ff_logit_out_b"][0, 0] = 2.5  # So that translations end.
    return tensors


def write(folder, seed, models, recurrent, *, tied="all", omit_bias=False, depth=2,
          activation="relu", file="model.npz", int8=False, decoder=None):  # fmt: skip
    """Writes a folder; returns its tensors and its configuration."""
    folder.mkdir()
    sizes = [size_of(models[0]), size_of(models[-1])]
    config = CONFIG.format(
        d_model=D_MODEL, sizes=sizes, depth=depth, activation=activation,
        autoreg="rnn" if recurrent else "self-attention", all=str(tied == "all").lower(),
        target=str(tied == "target").lower(), omit_bias=str(omit_bias).lower(),
    )  # fmt: skip
    tensors = weights(seed, sizes, recurrent, tied, omit_bias, depth)
    if file.endswith(".npz"):
        write_npz(folder / file, tensors, config)
    else:
        write_bin(folder / file, tensors, config, int8)
    names = ["vocab.spm"] if len(models) == 1 else ["srcvocab.spm", "trgvocab.spm"]
    for name, model in zip(names, models, strict=True):
        (folder / name).write_bytes(model)
    if decoder is not None:
        (folder / "decoder.yml").write_text(decoder)
    return tensors, config
