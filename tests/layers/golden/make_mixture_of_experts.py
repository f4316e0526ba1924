"""Makes mixture_of_experts.npz: a sparse block of transformers' Mixtral, with random weights.

usage: python tests/layers/golden/make_mixture_of_experts.py    (needs torch and transformers)

The file holds the weights in keras_mt's layout, inputs, outputs, a mask, and the load-balancing
loss over all tokens and over those of the mask.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import MixtralConfig
from transformers.models.mixtral import modeling_mixtral as mixtral

WIDTH, D_FF, EXPERTS, TOP_K, BATCH, LENGTH = 6, 10, 4, 2, 2, 9


def main():
    torch.manual_seed(1)
    config = MixtralConfig(
        hidden_size=WIDTH,
        intermediate_size=D_FF,
        num_local_experts=EXPERTS,
        num_experts_per_tok=TOP_K,
        hidden_act="silu",
    )
    block = mixtral.MixtralSparseMoeBlock(config).eval()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_()
    inputs = torch.randn(BATCH, LENGTH, WIDTH)
    mask = torch.rand(BATCH, LENGTH) < 0.7
    with torch.no_grad():
        outputs = block(inputs)
        logits = torch.nn.functional.linear(inputs.reshape(-1, WIDTH), block.gate.weight)

    def loss(attention_mask=None):
        found = mixtral.load_balancing_loss_func((logits,), EXPERTS, TOP_K, attention_mask)
        return found.numpy()

    weights = {name: parameter.detach().numpy() for name, parameter in block.named_parameters()}
    gate_and_inner = weights["experts.gate_up_proj"].swapaxes(1, 2)  # [experts, width, 2 * d_ff]
    np.savez(
        Path(__file__).with_name("mixture_of_experts.npz"),
        router_kernel=weights["gate.weight"].T,
        gate_kernel=gate_and_inner[..., :D_FF],
        inner_kernel=gate_and_inner[..., D_FF:],
        output_kernel=weights["experts.down_proj"].swapaxes(1, 2),
        inputs=inputs.numpy(),
        outputs=outputs.numpy(),
        mask=mask.numpy(),
        loss=loss(),
        masked_loss=loss(mask.long()),
    )


if __name__ == "__main__":
    main()
