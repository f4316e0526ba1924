"""Makes encoder_only.npz: a small BERT with random weights, and what transformers computes with it.

usage: python tests/models/golden/make_encoder_only.py    (needs torch and transformers: .[peers])
"""

from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

LENGTHS = (7, 12, 3)


def main():
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=23,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=12,
        layer_norm_eps=1e-5,  # That of keras_mt's blocks; BERT's own is 1e-12.
        pad_token_id=0,
    )
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            centre = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            weight.copy_(centre + 0.3 * torch.randn(weight.shape))
    tokens = torch.randint(1, config.vocab_size, (len(LENGTHS), max(LENGTHS)))
    for row, length in zip(tokens, LENGTHS, strict=True):
        row[length:] = 0
    with torch.inference_mode():
        found = model(tokens, attention_mask=tokens != 0, output_hidden_states=True)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    np.savez_compressed(
        Path(__file__).with_name("encoder_only.npz"),
        tokens=tokens.numpy().astype("int32"),
        hidden=found.hidden_states[-1].numpy(),
        logits=found.logits.numpy(),
        **{f"weight/{name}": value for name, value in weights.items()},
    )


if __name__ == "__main__":
    main()
