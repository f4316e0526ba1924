"""Makes recurrent.npz: small recurrent translators in PyTorch, with what they compute.

usage: python tests/models/golden/make_recurrent.py    (needs torch and numpy)

For each kind of cell and of attention: random weights by PyTorch's names, the logits and the
attention of a batch of sources of unlike lengths, whose padding is the last id and the start of
their targets. GRUs share one table of embeddings and project with it; LSTMs have three.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB_SIZE, WIDTH, LAYERS = 11, 6, 2
PADDING = VOCAB_SIZE - 1
LENGTHS = [5, 2, 4]


class Translator(nn.Module):
    def __init__(self, cell, attention):
        super().__init__()
        kind = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
        self.kind = attention
        self.encoder = kind(WIDTH, WIDTH // 2, LAYERS, batch_first=True, bidirectional=True)
        self.decoder = kind(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.source = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.target = self.source if cell == "gru" else nn.Embedding(VOCAB_SIZE, WIDTH)
        self.output = nn.Linear(WIDTH, VOCAB_SIZE, bias=False)
        if cell == "gru":
            self.output.weight = self.source.weight
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = nn.Parameter(torch.empty(WIDTH))
        self.combination = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, source, target):
        embedded = self.source(source) * WIDTH**0.5
        packed = pack_padded_sequence(embedded, LENGTHS, batch_first=True, enforce_sorted=False)
        memory, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(memory, batch_first=True)
        hidden, _ = self.decoder(self.target(target) * WIDTH**0.5, self.start(last))
        if self.kind == "none":
            return self.output(hidden), torch.zeros(0)
        if self.kind == "dot":
            scores = torch.einsum("bid,bjd->bij", hidden, memory)
        elif self.kind == "bilinear":
            scores = torch.einsum("bid,de,bje->bij", hidden, self.key.weight, memory)
        else:
            both = self.query(hidden)[:, :, None] + self.key(memory)[:, None]
            scores = torch.tanh(both) @ self.v
        scores = scores.masked_fill((source == PADDING)[:, None], -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        context = torch.einsum("bij,bjd->bid", weights, memory)
        combined = torch.tanh(self.combination(torch.cat([context, hidden], dim=-1)))
        return self.output(combined), weights

    def start(self, last):
        """Both directions of each layer side by side."""
        if isinstance(last, tuple):
            return tuple(map(self.start, last))
        forward, backward = last[0::2], last[1::2]
        return torch.cat([forward, backward], dim=-1).contiguous()


def main():
    torch.manual_seed(1)
    source = torch.randint(0, PADDING, (len(LENGTHS), max(LENGTHS)))
    for row, length in enumerate(LENGTHS):
        source[row, length:] = PADDING
    target = torch.randint(0, PADDING, (len(LENGTHS), 4))
    target[:, 0] = PADDING
    arrays = {"source": source, "target": target}
    for cell in ("gru", "lstm"):
        for attention in ("additive", "dot", "bilinear", "none"):
            model = Translator(cell, attention)
            for parameter in model.parameters():
                nn.init.normal_(parameter, std=0.5)
            with torch.no_grad():
                logits, weights = model(source, target)
            found = {"logits": logits, "attention": weights, **model.state_dict()}
            arrays |= {f"{cell} {attention} {name}": value for name, value in found.items()}
    path = Path(__file__).with_name("recurrent.npz")
    np.savez_compressed(path, **{name: value.numpy() for name, value in arrays.items()})


if __name__ == "__main__":
    main()
