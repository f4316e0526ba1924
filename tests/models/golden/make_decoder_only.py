"""Writes decoder_only.npz: weights and logits of small Llama and GPT-2 models of transformers.

pip install torch transformers; python make_decoder_only.py
"""

from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

SIZES = {"vocab_size": 23, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS = {
    "llama": LlamaForCausalLM(
        LlamaConfig(
            **SIZES,
            intermediate_size=24,
            num_key_value_heads=2,
            max_position_embeddings=64,
            rms_norm_eps=1e-5,
            rope_theta=500.0,
            tie_word_embeddings=False,
        )
    ),
    "gpt2": GPT2LMHeadModel(
        GPT2Config(
            vocab_size=23,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_inner=24,
            n_positions=64,
            activation_function="gelu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    ),
}

if __name__ == "__main__":
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, 23, (3, 9), generator=generator)
    arrays = {"tokens": tokens.numpy()}
    for name, model in MODELS.items():
        model.eval()
        with torch.no_grad():
            for weight in model.parameters():  # Norms and biases too, which begin as 1 and 0.
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
            arrays[f"{name}/logits"] = model(tokens).logits.numpy()
        for path, weight in model.state_dict().items():
            arrays[f"{name}/weight/{path}"] = weight.numpy()
    np.savez_compressed(Path(__file__).parent / "decoder_only.npz", **arrays)
