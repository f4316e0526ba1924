"""Makes stopping.npz: a small Marian model and when its peers' beam searches stop.

usage: python tests/decoding/golden/make_stopping.py

It needs torch, transformers and ctranslate2: .[peers]. The model's weights are random, and so wide
that hypotheses end at all lengths. The file holds them, the sources, and for each of its `cases`, a
JSON list of the search's options by our names, the hypotheses and scores.
"""

import json
import tempfile
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters.transformers import BartLoader
from transformers import MarianConfig, MarianMTModel

VOCAB_SIZE, D_MODEL, SOURCES, MAX_LENGTH = 40, 16, 60, 12
PADDING, START, END = 0, 2, 3
WIDE = {"beam_size": 4, "n_best": 2, "length_penalty": 1.0}
RULES = (True, False, "never")
TRANSFORMERS = [
    *({**WIDE, "length_penalty": p, "early_stopping": r} for p in (0.0, 1.0) for r in RULES),
    *({**WIDE, "length_penalty": 2.0, "early_stopping": r, "force_end": True} for r in RULES),
    {**WIDE, "n_best": 4, "length_penalty": 0.6, "early_stopping": False},
    *({**WIDE, "beam_size": 2, "early_stopping": r, "forced": 7} for r in (True, False)),
    {**WIDE, "beam_size": 5, "early_stopping": False, "force_end": True, "forced": 9},
    {**WIDE, "beam_size": 1, "n_best": 1, "early_stopping": False},
]
CTRANSLATE2 = [
    *({**WIDE, "early_stopping": True, "patience": p} for p in (0.5, 1.0, 1.4, 3.0)),
    {**WIDE, "length_penalty": 0.6, "early_stopping": True, "patience": 1.4},
    {**WIDE, "beam_size": 5, "early_stopping": True, "patience": 0.5},
    {**WIDE, "beam_size": 1, "n_best": 1, "early_stopping": True},
]


def random_model():
    """A model whose weights have few bits, so that they are small in the file."""
    config = MarianConfig(
        vocab_size=VOCAB_SIZE,
        d_model=D_MODEL,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        activation_function="relu",
        max_position_embeddings=32,
        scale_embedding=True,
        pad_token_id=PADDING,
        eos_token_id=END,
        bos_token_id=START,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        dropout=0.0,
    )
    model = MarianMTModel(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name or "layer_norm" in name:
                continue
            scale = 0.3 if "shared" in name else 1.8
            weight.copy_((scale * torch.randn(weight.shape, generator=generator)).half().float())
        model.final_logits_bias[0, [PADDING, START]] = -1e4
        model.model.shared.weight[END] *= 4  # The end is likely here, and unlikely there.
        model.final_logits_bias[0, END] = -1.0
    return model


def by_transformers(model, sources, case):
    forced = case.get("forced")
    with torch.inference_mode():
        found = model.generate(
            torch.tensor(sources),
            attention_mask=torch.tensor(sources != PADDING).long(),
            do_sample=False,
            num_beams=case["beam_size"],
            num_return_sequences=case["n_best"],
            length_penalty=case["length_penalty"],
            early_stopping=case["early_stopping"],
            forced_eos_token_id=END if case.get("force_end") else None,
            forced_bos_token_id=forced,
            max_new_tokens=MAX_LENGTH,
            bad_words_ids=None,
            output_scores=True,
            return_dict_in_generate=True,
        )
    shape = len(sources), case["n_best"]
    tokens = found.sequences[:, 1:].numpy()
    tokens = np.pad(tokens, ((0, 0), (0, MAX_LENGTH - tokens.shape[1])))
    ended = np.cumsum(tokens == END, axis=1) - (tokens == END) > 0
    tokens[ended] = PADDING  # Where padding is 0 it fills up with the end.
    scores = np.zeros(shape)  # A search by one beam gives none.
    if case["beam_size"] > 1:
        scores = found.sequences_scores.numpy().reshape(shape)
    return tokens.reshape(*shape, MAX_LENGTH), scores


def as_ctranslate2(model, folder):
    model.config.normalize_before = model.config.normalize_embedding = False
    loader = BartLoader()
    spec = loader.get_model_spec(model)
    words = [f"w{i}" for i in range(VOCAB_SIZE)]
    words[PADDING], words[1], words[START], words[END] = "<pad>", "<unk>", "<s>", "</s>"
    loader.set_vocabulary(spec, words)
    spec.config.bos_token = spec.config.decoder_start_token = "<s>"
    spec.config.eos_token, spec.config.unk_token = "</s>", "<unk>"
    spec.validate()
    spec.save(folder)
    return ctranslate2.Translator(folder, device="cpu"), words


def by_ctranslate2(translator, words, sources, case):
    found = translator.translate_batch(
        [[words[token] for token in source if token != PADDING] for source in sources],
        beam_size=case["beam_size"],
        num_hypotheses=case["n_best"],
        length_penalty=case["length_penalty"],
        patience=case.get("patience", 1.0),
        min_decoding_length=0,
        max_decoding_length=MAX_LENGTH,
        return_scores=True,
        return_end_token=True,
    )
    shape = len(sources), case["n_best"]
    tokens, scores = np.zeros((*shape, MAX_LENGTH), int), np.full(shape, -1e9)
    for row, result in enumerate(found):
        for place, hypothesis in enumerate(result.hypotheses):
            tokens[row, place, : len(hypothesis)] = [words.index(word) for word in hypothesis]
        scores[row, : len(result.scores)] = result.scores
    return tokens, scores


def main():
    model = random_model()
    random = np.random.RandomState(1)
    sources = random.randint(4, VOCAB_SIZE, (SOURCES, 8))
    sources *= np.arange(8) < random.randint(2, 9, SOURCES)[:, None]
    results = [by_transformers(model, sources, case) for case in TRANSFORMERS]
    with tempfile.TemporaryDirectory() as folder:
        peer = as_ctranslate2(model, folder)
        results += [by_ctranslate2(*peer, sources, case) for case in CTRANSLATE2]
    arrays = {
        f"weight/{name}": value.numpy().astype("float16")
        for name, value in model.state_dict().items()
        if not name.endswith(("embed_tokens.weight", "embed_positions.weight", "lm_head.weight"))
    }
    arrays["cases"] = np.array(json.dumps(TRANSFORMERS + CTRANSLATE2))
    arrays["sources"] = sources.astype("int8")
    for i, (tokens, scores) in enumerate(results):
        arrays[f"tokens/{i}"], arrays[f"scores/{i}"] = tokens.astype("int8"), np.float32(scores)
    np.savez_compressed(Path(__file__).with_name("stopping.npz"), **arrays)


if __name__ == "__main__":
    main()
