"""Writes blocks.npz: weights and outputs of torch's Transformer layers, post- and pre-norm.

pip install torch; python make_blocks.py
"""

from pathlib import Path

import numpy as np
import torch

SIZES = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
CASES = {
    "post relu": {"norm_first": False, "activation": "relu"},
    "pre gelu": {"norm_first": True, "activation": "gelu"},
}

if __name__ == "__main__":
    generator = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    source, target = normal(3, 5, 8), normal(3, 4, 8)
    padding = torch.arange(5) >= torch.tensor([5, 3, 4])[:, None]
    arrays = {"source": source.numpy(), "target": target.numpy(), "mask": ~padding.numpy()}
    for name, options in CASES.items():
        encoder = torch.nn.TransformerEncoderLayer(**SIZES, **options).train()
        decoder = torch.nn.TransformerDecoderLayer(**SIZES, **options).train()
        with torch.no_grad():
            for weight in (*encoder.parameters(), *decoder.parameters()):
                weight.add_(0.3 * normal(*weight.shape))
            memory = encoder(source, src_key_padding_mask=padding)
            output = decoder(
                target,
                memory,
                tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(4),
                memory_key_padding_mask=padding,
            )
        arrays |= {f"{name}/memory": memory.numpy(), f"{name}/output": output.numpy()}
        for side, layer in (("encoder", encoder), ("decoder", decoder)):
            for path, weight in layer.state_dict().items():
                arrays[f"{name}/{side}/{path}"] = weight.numpy()
    np.savez_compressed(Path(__file__).parent / "blocks.npz", **arrays)
