"""Makes marian.npz: a small Marian model and what transformers' beam search finds with it.

usage: python tests/decoding/golden/make_marian.py    (needs torch and transformers: .[peers])

The model is trained on the phrasebook until its translations end by themselves. The file holds its
weights, 300 sources, and for length penalties 0 and 1 the best hypothesis of each and its score.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

from keras_mt import Tokenizer
from keras_mt.data import phrasebook

BEAM_SIZE, MAX_LENGTH, SOURCES, STEPS = 4, 40, 300, 1500


def batch(rows):
    ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    return ids


def main():
    torch.manual_seed(1)
    pairs = list(phrasebook.pairs("train"))
    tokenizer = Tokenizer.train((text for pair in pairs[:6000] for text in pair), vocab_size=700)
    encoded = [
        [[*ids, Tokenizer.eos_id] for ids in tokenizer.tokenize(list(side)).to_list()]
        for side in zip(*pairs[:6000], strict=True)
    ]
    config = MarianConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        activation_function="relu",
        max_position_embeddings=64,
        scale_embedding=True,
        pad_token_id=Tokenizer.padding_id,
        eos_token_id=Tokenizer.eos_id,
        bos_token_id=Tokenizer.bos_id,
        decoder_start_token_id=Tokenizer.bos_id,
        forced_eos_token_id=None,
        init_std=64**-0.5,
        dropout=0.0,
    )
    model = MarianMTModel(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    order = np.random.default_rng(1)
    model.train()
    for step in range(STEPS):
        rows = order.integers(0, len(encoded[0]), 64)
        source, labels = (batch([side[i] for i in rows]) for side in encoded)
        inputs = torch.cat([torch.full((64, 1), Tokenizer.bos_id), labels[:, :-1]], dim=1)
        logits = model(
            input_ids=source, attention_mask=source != 0, decoder_input_ids=inputs
        ).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(step, round(loss.item(), 3), flush=True)

    model.eval()
    sources = [
        [*ids, Tokenizer.eos_id]
        for ids in tokenizer.tokenize([pair[0] for pair in phrasebook.pairs("test")]).to_list()
    ][:SOURCES]
    arrays = {
        f"weight/{name}": value.numpy()
        for name, value in model.state_dict().items()
        if not name.endswith(("embed_tokens.weight", "embed_positions.weight", "lm_head.weight"))
    }
    arrays["sources"] = batch(sources).numpy().astype("int16")
    for penalty in (0.0, 1.0):
        tokens = np.zeros((SOURCES, MAX_LENGTH), "int16")
        scores = np.zeros(SOURCES, "float32")
        for i, source in enumerate(sources):
            with torch.inference_mode():
                found = model.generate(
                    batch([source]),
                    attention_mask=torch.ones((1, len(source)), dtype=torch.long),
                    num_beams=BEAM_SIZE,
                    do_sample=False,
                    max_new_tokens=MAX_LENGTH,
                    length_penalty=penalty,
                    early_stopping="never",
                    suppress_tokens=[Tokenizer.padding_id, Tokenizer.bos_id],
                    bad_words_ids=None,
                    output_scores=True,
                    return_dict_in_generate=True,
                )
            row = found.sequences[0, 1:].numpy()
            tokens[i, : len(row)] = row
            scores[i] = found.sequences_scores[0]
        arrays[f"tokens/{penalty:.0f}"], arrays[f"scores/{penalty:.0f}"] = tokens, scores
    np.savez_compressed(Path(__file__).with_name("marian.npz"), **arrays)


if __name__ == "__main__":
    main()
