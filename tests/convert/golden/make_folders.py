"""Makes folders.tar.xz: small models of every family, and what transformers finds.

usage: python tests/convert/golden/make_folders.py [NAME ...]    (those NAMEs anew; else all)

It needs torch, transformers and sentencepiece (.[peers]). Of each folder NAME there is NAME.npz:
ids of texts by SentencePiece and vocab.json, some logits, and what `generate` finds. Some models
are random, some trained on the phrasebook until their translations end by themselves.
"""

import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from safetensors.torch import save_file
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MT5Config,
    MT5ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

from keras_mt.data import phrasebook

ARCHIVE = Path(__file__).with_name("folders.tar.xz")
MAX_LENGTH, SOURCES, STEPS, BATCH = 40, 300, 500, 64
HOSTILE = [
    "", " ", "  Two  spaces ", "</s> <unk> <pad> <s>", "<pad></s>", "▁the ▁▁ mark", "中国 and 中",
    "ﬁ ﬀ é é", "a\u2028b\u200bc\ufeff", "x\U0001f600y\U0001f600\U0001f600", ">>eng<< Hello.",
    ">>zzz<< Hello.", " >>eng<< Hello.", ">>eng<<", "a >>eng<< b", ">>por<<>>eng<< x", "__en__ a",
    "eng_Latn a", "<0x41>", "ÀÉÎÕÜ ßðþ", "\x01\x02 \x7f", "a" * 70,
]  # fmt: skip


def sentences():
    train, test = list(phrasebook.pairs("train"))[:6000], list(phrasebook.pairs("test"))
    return [tuple(pair) for pair in train], [tuple(pair) for pair in test]


def trained_spm(texts, size=450, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, **options,
    )  # fmt: skip
    return model.getvalue()


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def padded(rows, padding):
    ids = torch.full((len(rows), max(map(len, rows))), padding, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    return ids


def train(model, rows):
    """Trains on (source ids, target ids), each with all that stands around the pieces."""
    config = model.config
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    order = np.random.default_rng(1)
    model.train()
    for step in range(STEPS):
        chosen = [rows[i] for i in order.integers(0, len(rows), BATCH)]
        source, labels = (padded(side, config.pad_token_id) for side in zip(*chosen, strict=True))
        lengths = torch.tensor([len(target) for _, target in chosen])
        start = torch.full((BATCH, 1), config.decoder_start_token_id)
        logits = model(
            input_ids=source,
            attention_mask=source != config.pad_token_id,
            decoder_input_ids=torch.cat([start, labels[:, :-1]], dim=1),
        ).logits
        real = torch.arange(labels.shape[1])[None] < lengths[:, None]
        loss = torch.nn.functional.cross_entropy(logits[real], labels[real])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(step, round(loss.item(), 3), flush=True)


def randomize(model, scale):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                continue
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_(centre + scale * torch.randn(weight.shape))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape))
        model.get_input_embeddings().weight[model.config.pad_token_id] = 0.0


class Marian:
    """The text side of a MarianMT folder, written to it, and read again as transformers reads."""

    def __init__(self, folder, train, marks=(), apart=False):
        spm = {
            "source": trained_spm([pair[0] for pair in train]),
            "target": trained_spm([pair[1] for pair in train]),
        }
        sides = {name: pieces_of(model)[3:] for name, model in spm.items()}
        both = dict.fromkeys(sides["source"] + sides["target"])
        vocabularies = [["</s>", "<unk>", *marks, *both, "<pad>"]]
        if apart:
            # The padding has one id, the end has not.
            vocabularies = [
                ["<pad>", "</s>", "<unk>", *sides["source"]],
                ["<pad>", *sides["target"], "<unk>", "</s>"],
            ]
        for name, model in spm.items():
            (folder / f"{name}.spm").write_bytes(model)
        for name, pieces in zip(("vocab", "target_vocab"), vocabularies, strict=False):
            ids = {piece: i for i, piece in enumerate(pieces)}
            (folder / f"{name}.json").write_text(json.dumps(ids, indent=1))
        config = {"source_lang": "pt", "target_lang": "en", "tokenizer_class": "MarianTokenizer"}
        if apart:
            config["separate_vocabs"] = True
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        self.vocabularies = [
            {piece: i for i, piece in enumerate(pieces)} for pieces in vocabularies
        ]
        self.spm = {
            name: sentencepiece.SentencePieceProcessor(model_proto=model)
            for name, model in spm.items()
        }
        self.marks = marks

    def encode(self, text, side="source"):
        vocabulary = self.vocabularies[0 if side == "source" else -1]
        mark = next((m for m in self.marks if side == "source" and text.startswith(m)), "")
        pieces = self.spm[side].encode(text[len(mark) :], out_type=str)
        special = ("</s>", "<unk>", "<pad>")
        ids = [
            vocabulary.get("<unk>" if piece in special else piece, vocabulary["<unk>"])
            for piece in ([mark] if mark else []) + pieces
        ]
        return [*ids, vocabulary["</s>"]]

    def pair(self, pair):
        return self.encode(pair[0]), self.encode(pair[1], "target")


class Multilingual:
    """The text side of an M2M-100, SMaLL-100 or NLLB folder."""

    def __init__(self, folder, train, vocab_json, first=True, small=False, codes=("pt", "en")):
        texts = (text for pair in train for text in pair)
        model = trained_spm(texts, 600, model_type="bpe" if vocab_json else "unigram")
        self.spm = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(model)[3:]]
        self.first, self.small = first, small
        config = {"src_lang": codes[0], "tgt_lang": codes[1]}
        if vocab_json:
            # As in M2M-100's, rare pieces are not in the table.
            pieces = pieces[:-9]
            config["tokenizer_class"] = "SMALL100Tokenizer" if small else "M2M100Tokenizer"
            names = FAIRSEQ_LANGUAGE_CODES["m2m100"]
            self.languages = {code: len(pieces) + i for i, code in enumerate(names)}
            self.vocab_size = len(pieces) + len(names) + 8
        else:
            config |= {"tokenizer_class": "NllbTokenizer", "legacy_behaviour": not first}
            self.languages = {code: len(pieces) + i for i, code in enumerate(codes)}
            config["added_tokens_decoder"] = {
                str(i): {"content": code, "special": True} for code, i in self.languages.items()
            }
            self.vocab_size = len(pieces) + len(codes) + 3
        self.vocabulary = {piece: i for i, piece in enumerate(pieces)}
        if vocab_json:
            (folder / "vocab.json").write_text(json.dumps(self.vocabulary, indent=1))
        (folder / "sentencepiece.bpe.model").write_bytes(model)
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    def encode(self, text, codes, target=False):
        """`codes` are those of the source and of the target."""
        pieces = self.spm.encode(text, out_type=str)
        pieces = ["<unk>" if piece in ("<s>", "<pad>", "</s>") else piece for piece in pieces]
        ids = [self.vocabulary.get(p, 3) for p in pieces]
        if self.small and target:
            return [*ids, 2]
        language = self.languages[codes[target or self.small]]
        return [language, *ids, 2] if self.first or target else [*ids, 2, language]

    def pair(self, pair, codes):
        return self.encode(pair[0], codes), self.encode(pair[1], codes, target=True)


def marian(folder, train_pairs, trained=False, marks=(), apart=False, normalized=False, **options):
    text = Marian(folder, train_pairs, marks, apart)
    ids = text.vocabularies[-1]
    config = {
        "vocab_size": len(text.vocabularies[0]),
        "decoder_vocab_size": len(ids),
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "activation_function": "swish",
        "max_position_embeddings": 96,
        "scale_embedding": True,
        "dropout": 0.0,
        "init_std": 0.1,
        "pad_token_id": ids["<pad>"],
        "eos_token_id": ids["</s>"],
        "forced_eos_token_id": None,
        "decoder_start_token_id": ids["<pad>"],
        **options,
    }
    if normalized:
        # BART has the normalization; it gets Marian's positions.
        model = BartForConditionalGeneration(BartConfig(**config, bos_token_id=None))
        sinusoids = MarianMTModel(MarianConfig(**config)).model.encoder.embed_positions.weight
        randomize(model, 0.4)
        with torch.no_grad():
            for side in (model.model.encoder, model.model.decoder):
                side.embed_positions.weight[2:] = sinusoids
    else:
        model = MarianMTModel(MarianConfig(**config))
        randomize(model, 0.1 if trained else 0.4)
    if trained:
        train(model, [text.pair(pair) for pair in train_pairs])
    generation = {
        "pad_token_id": ids["<pad>"],
        "eos_token_id": ids["</s>"],
        "decoder_start_token_id": ids["<pad>"],
        "bad_words_ids": [[ids["<pad>"]]],
        "num_beams": 4,
    }
    return model, generation, text.encode


def multilingual(
    folder, train_pairs, vocab_json, trained=False, first=True, small=False, **options
):
    codes = ("pt", "en") if vocab_json else ("por_Latn", "eng_Latn")
    text = Multilingual(folder, train_pairs, vocab_json, first, small, codes)
    model = M2M100ForConditionalGeneration(
        M2M100Config(
            **{
                "vocab_size": text.vocab_size,
                "d_model": 64,
                "encoder_layers": 2,
                "decoder_layers": 2,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 128,
                "decoder_ffn_dim": 128,
                "max_position_embeddings": 96,
                "dropout": 0.0,
                "attention_dropout": 0.0,
                "encoder_layerdrop": 0.0,
                "decoder_layerdrop": 0.0,
                "init_std": 0.1,
                **options,
            }
        )
    )
    randomize(model, 0.1 if trained else 0.4)
    if trained:
        train(model, [text.pair(pair, codes) for pair in train_pairs]
              + [text.pair(pair[::-1], codes[::-1]) for pair in train_pairs])  # fmt: skip
    generation = {
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "num_beams": 4,
        "suppress_tokens": [1],
    }
    return model, generation, text


def t5(folder, train_pairs, mt5=False, madlad=False, tied=False, **options):
    """T5's ids of special tokens, or MADLAD-400's; the latter's sources name their language."""
    unknown, padding, end = (0, 1, 2) if madlad else (2, 0, 1)
    spm = trained_spm(
        (text for pair in train_pairs for text in pair), 600, unk_id=unknown, pad_id=padding,
        eos_id=end, bos_id=-1, user_defined_symbols=["<2en>", "<2pt>"] if madlad else [],
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(spm)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer"}))
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    config = {
        "vocab_size": processor.get_piece_size() + 7,
        "d_model": 32,
        "d_kv": 12,
        "d_ff": 48,
        "num_layers": 2,
        "num_decoder_layers": 1,
        "num_heads": 3,
        "dropout_rate": 0.0,
        "feed_forward_proj": "relu" if tied else "gated-gelu",
        "tie_word_embeddings": tied,
        "pad_token_id": padding,
        "eos_token_id": end,
        "decoder_start_token_id": 0,
        **options,
    }
    classes = (
        (MT5Config, MT5ForConditionalGeneration) if mt5 else (T5Config, T5ForConditionalGeneration)
    )
    model = classes[1](classes[0](**config))
    if not tied:
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(config["vocab_size"], 32))
    randomize(model, 0.25)
    with torch.no_grad():
        model.lm_head.weight[end] *= 2  # So that some translations end.
    generation = {n: config[f"{n}_id"] for n in ("pad_token", "eos_token", "decoder_start_token")}
    generation = {f"{n}_id": id for n, id in generation.items()}
    generation |= {"num_beams": 4, "suppress_tokens": [padding]}
    return model, generation, lambda text: [*processor.encode(text), end]


FOLDERS = {
    "marian": lambda folder, pairs: marian(folder, pairs, trained=True),
    "marian_marks": lambda folder, pairs: marian(
        folder, pairs, marks=(">>eng<<", ">>por<<"), encoder_layers=1, decoder_layers=3,
        encoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=64, d_model=32,
        activation_function="gelu", scale_embedding=False,
    ),
    "marian_apart": lambda folder, pairs: marian(
        folder, pairs, apart=True, share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False, activation_function="relu", d_model=32,
    ),
    "marian_normalized": lambda folder, pairs: marian(
        folder, pairs, normalized=True, activation_function="relu", d_model=32,
    ),
    "m2m_100": lambda folder, pairs: multilingual(folder, pairs, True, trained=True),
    "nllb": lambda folder, pairs: multilingual(folder, pairs, False, trained=True),
    "nllb_legacy": lambda folder, pairs: multilingual(
        folder, pairs, False, first=False, decoder_layers=1, decoder_attention_heads=2,
        encoder_ffn_dim=80, d_model=32, activation_function="gelu",
    ),
    "small100": lambda folder, pairs: multilingual(
        folder, pairs, True, small=True, decoder_layers=1, d_model=32,
    ),
    "t5": lambda folder, pairs: t5(folder, pairs, tied=True),
    "mt5": lambda folder, pairs: t5(folder, pairs, mt5=True, num_heads=2),
    "madlad": lambda folder, pairs: t5(folder, pairs, madlad=True, num_decoder_layers=2),
}  # fmt: skip
# What is in generation_config.json besides, and the weights' dtype and file.
GENERATION = {
    "marian": {"max_length": MAX_LENGTH, "early_stopping": False, "forced_eos": True},
    "marian_marks": {"max_length": 24, "renormalize_logits": True, "length_penalty": 0.6},
    "marian_apart": {"max_length": 24, "early_stopping": True, "forced_eos": True},
    "marian_normalized": {"max_new_tokens": 20, "repetition_penalty": 1.2},
    "m2m_100": {"max_length": MAX_LENGTH, "early_stopping": True},
    "nllb": {"max_length": MAX_LENGTH, "no_repeat_ngram_size": 3},
    "nllb_legacy": {"max_length": 24, "min_length": 6},
    "small100": {"max_length": MAX_LENGTH},
    "t5": {"max_length": 24},
    "mt5": {"max_length": 24, "early_stopping": True},
    "madlad": {"max_new_tokens": 24},
}
FILES = {
    "marian": (torch.float16, "safetensors"),
    "marian_marks": (torch.float32, "legacy"),
    "marian_apart": (torch.float16, "bin"),
    "marian_normalized": (torch.float16, "bin"),
    "m2m_100": (torch.float16, "shards"),
    "nllb": (torch.float16, "safetensors"),
    "nllb_legacy": (torch.bfloat16, "safetensors"),
    "small100": (torch.float16, "safetensors"),
    "t5": (torch.float32, "safetensors"),
    "mt5": (torch.bfloat16, "bin"),
    "madlad": (torch.bfloat16, "safetensors"),
}


def save(folder, name, model, generation):
    dtype, file = FILES[name]
    model.generation_config = generation
    with torch.no_grad():
        for weight in [*model.parameters(), getattr(model, "final_logits_bias", torch.zeros(1))]:
            # Positions are computed, and so stay as they are.
            if weight.shape[0] not in (96, 98):
                weight.copy_(weight.to(dtype).float())
    state = {n: x.to(dtype) for n, x in model.state_dict().items() if "embed_positions" not in n}
    if name == "madlad":  # Such files have no `shared`: transformers 5 loads them wrong.
        state["decoder.embed_tokens.weight"] = state.pop("shared.weight")
        del state["encoder.embed_tokens.weight"]
    options = {"max_shard_size": "200KB"} if file == "shards" else {}
    model.save_pretrained(folder, state_dict={**state}, **options)  # It takes them out.
    if file in ("legacy", "bin"):
        (folder / "model.safetensors").unlink()
        torch.save(
            state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=file == "bin"
        )
    config = json.loads((folder / "config.json").read_text())
    if name == "madlad":  # As earlier versions wrote it.
        del config["scale_decoder_outputs"]
        config["tie_word_embeddings"] = False
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        save_file(state, folder / "model.safetensors", {"format": "pt"})
    if name == "marian_normalized":
        config |= {"model_type": "marian", "normalize_embedding": True}
        config["architectures"] = ["MarianMTModel"]
        (folder / "config.json").write_text(json.dumps(config, indent=1))


def golden(name, model, text, test):
    model.eval()
    padding = model.config.pad_token_id
    sources, arrays = [pair[0] for pair in test][:SOURCES], {}
    codes = None
    if isinstance(text, Multilingual):
        both = ["pt", "en"] if "pt" in text.languages else [*text.languages][:2]
        codes = [both if i % 2 == 0 else both[::-1] for i in range(SOURCES)]
        sources = [pair[i % 2] for i, pair in enumerate(test[:SOURCES])]

        def encode(text_, i=0):
            return text.encode(text_, codes[i])
    elif name == "madlad":
        sources = [f"<2en> {source}" for source in sources]
    elif name == "marian_marks":
        sources = [(">>eng<< ", ">>por<< ", "")[i % 3] + s for i, s in enumerate(sources)]
    if codes is None:

        def encode(text_, i=0):
            return text(text_)

    rows = [encode(source, i) for i, source in enumerate(sources)]
    hostile = [encode(each) for each in HOSTILE]
    arrays["ids"] = padded(rows + hostile, -1).numpy().astype("int16")
    source = padded(rows[:4], padding)
    targets = torch.randint(3, model.config.vocab_size - 120, (4, 9))
    targets[:, 0] = model.config.decoder_start_token_id
    with torch.inference_mode():
        logits = model(source, attention_mask=source != padding, decoder_input_ids=targets).logits
    arrays["targets"] = targets.numpy().astype("int16")
    arrays["logits"] = logits.numpy()[..., ::8]  # Of every eighth piece.
    for how, options in {
        "greedy": {"num_beams": 1, "early_stopping": None, "length_penalty": None},
        "never": {"early_stopping": "never"},
        "own": {},
    }.items():
        found, scores = [], []
        for i in range(0, SOURCES, 50):
            some = padded(rows[i : i + 50], padding)
            forced = {}
            if codes is not None and not text.small:
                # Rows of one language at a time; transformers forces the same on all.
                for own in (0, 1):
                    languages = [text.languages[c[1]] for c in codes[i : i + 50]]
                    forced[languages[own]] = [j for j in range(50) if j % 2 == own]
            results = {}
            for language, places in (forced or {None: [*range(50)]}).items():
                with torch.inference_mode():
                    out = model.generate(
                        some[places], attention_mask=(some != padding).long()[places],
                        forced_bos_token_id=language, return_dict_in_generate=True,
                        output_scores=True, **options,
                    )  # fmt: skip
                for j, place in enumerate(places):
                    score = 0.0 if how == "greedy" else out.sequences_scores[j].item()
                    results[place] = out.sequences[j, 1:].tolist(), score
            for j in range(50):
                row, score = results[j]
                eos = model.config.eos_token_id
                row = row[: row.index(eos) + 1] if eos in row else row
                while codes is None and row and row[-1] == padding:
                    row.pop()
                found.append(row)
                scores.append(score)
        arrays[f"tokens/{how}"] = padded(found, -1).numpy().astype("int16")
        arrays[f"scores/{how}"] = np.array(scores, "float32")
        ended = sum(row[-1] == model.config.eos_token_id for row in found)
        print(name, how, len({tuple(row) for row in found}), "different,", ended, "ended")
    return arrays


def main():
    train_pairs, test = sentences()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        if sys.argv[1:]:
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(work, filter="data")
        with open(work / "texts.json", "w") as file:
            json.dump({"pairs": test[:SOURCES], "hostile": HOSTILE}, file, indent=1)
        for name in sys.argv[1:] or FOLDERS:
            torch.manual_seed(1)
            shutil.rmtree(work / name, ignore_errors=True)
            (work / name).mkdir()
            model, generation, text = FOLDERS[name](work / name, train_pairs)
            generation = {**generation, **GENERATION[name]}
            if generation.pop("forced_eos", False):
                generation["forced_eos_token_id"] = generation["eos_token_id"]
            generation = GenerationConfig(**generation)
            save(work / name, name, model, generation)
            arrays = golden(name, model, text, test)
            np.savez(work / f"{name}.npz", **arrays)
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for path in sorted(work.iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    main()
