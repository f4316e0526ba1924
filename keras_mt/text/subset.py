"""SentencePiece models with fewer pieces, which cut as before what needs none of the others."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2


class Subset:
    """The pieces of a SentencePiece model that texts need.

    `encode` gives the ids of a text, if it is not the model's own.

    It cuts a text as before if its pieces are kept. A unigram model takes the best path, and no
    path gets better when others go; but characters that have no piece cost what the rarest piece
    does, and none if they are within one: so that piece, and single characters, always stay. Byte
    pairs are merged in the order of their scores, which stays; so what the merges of a piece pass
    through is needed as often as the piece.
    """

    def __init__(self, model: bytes, encode: Callable[[str], Sequence[int]] | None = None):
        self._proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        self._encode = encode or SentencePieceProcessor(model_proto=model).encode
        self._counts: Counter[int] = Counter()
        self._is_bpe = self._proto.trainer_spec.model_type == self._proto.trainer_spec.BPE
        kinds = self._proto.SentencePiece
        merged = kinds.NORMAL, kinds.USER_DEFINED, kinds.UNUSED
        pieces = self._proto.pieces
        self._scores = {each.piece: each.score for each in pieces if each.type in merged}
        self._normal = {each.piece for each in pieces if each.type == kinds.NORMAL}
        self.pieces = [each.piece for each in pieces]

    def count(self, text: str) -> None:
        """Counts the pieces of a text."""
        self._counts.update(self._encode(text))

    def always(self) -> set[str]:
        """The pieces that stay: bytes, special and single ones; of a unigram model, the rarest."""
        single = {piece for piece in self._normal if len(piece) == 1}
        rarest = set() if self._is_bpe else {min(self._normal, key=self._scores.get)}
        return {*self.pieces} - self._normal | single | rarest

    def needed(self) -> Counter[str]:
        """The pieces that the texts need, and how often."""
        counts = Counter({self.pieces[id]: count for id, count in self._counts.items()})
        for piece, count in [*counts.items()] if self._is_bpe else ():
            if piece in self._normal:
                counts.update(dict.fromkeys(self._passed(piece), count))
        return counts

    def _passed(self, piece):
        """The pieces that byte-pair merges pass through on the way to a piece."""
        parts, passed = [*piece], set()
        while len(parts) > 2:
            pairs = [a + b for a, b in itertools.pairwise(parts)]
            best = max(pairs, key=lambda pair: self._scores.get(pair, -float("inf")))
            if best not in self._scores:
                break
            place = pairs.index(best)
            parts[place : place + 2] = [best]
            passed.add(best)
        return passed

    def model(self, kept: Collection[str]) -> bytes:
        """The model with these pieces alone, in their order."""
        proto = sentencepiece_model_pb2.ModelProto()
        proto.CopyFrom(self._proto)
        del proto.pieces[:]
        proto.pieces.extend(each for each in self._proto.pieces if each.piece in kept)
        proto.trainer_spec.vocab_size = len(proto.pieces)
        proto.DiscardUnknownFields()  # Such as its own tests, of texts that may be cut otherwise.
        return proto.SerializeToString(deterministic=True)
