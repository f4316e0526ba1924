"""A translator of your own, GRUs with dot attention: python examples/own_model.py [EPOCHS]"""

import sys

import keras
from keras import layers, ops

import keras_mt
from keras_mt.data import Batches, load_corpus


@keras.saving.register_keras_serializable(package="own_model")
class GRUTranslator(keras_mt.models.Seq2Seq, keras.Model):
    def __init__(self, vocab_size, d_model=256, max_length=64, padding_id=0, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = self.source_vocab_size = self.target_vocab_size = vocab_size
        self.d_model, self.max_length, self.padding_id = d_model, max_length, padding_id
        dtype = {"dtype": self.dtype_policy}
        gru = {"return_sequences": True, "return_state": True, **dtype}
        gru["recurrent_initializer"] = "glorot_uniform"  # Keras's own has no bfloat16.
        self.embed = layers.Embedding(vocab_size, d_model, **dtype)
        self.encoder, self.decoder = layers.GRU(d_model, **gru), layers.GRU(d_model, **gru)
        self.combine = layers.Dense(d_model, activation="tanh", **dtype)
        self.project = layers.Dense(vocab_size, **dtype)

    def encode(self, source):
        real = ops.not_equal(source, self.padding_id)
        return (*self.encoder(self.embed(source), mask=real), real)

    def attend(self, hidden, memory, real):
        scores = ops.matmul(hidden, ops.swapaxes(memory, 1, 2))
        weights = ops.softmax(ops.where(real[:, None], scores, -1e4))
        context = ops.concatenate([hidden, ops.matmul(weights, memory)], axis=-1)
        return weights, ops.cast(self.project(self.combine(context)), "float32")

    def decode(self, source, target):
        memory, state, real = self.encode(source)
        hidden, _ = self.decoder(self.embed(target), initial_state=state)
        return self.attend(hidden, memory, real)

    def call(self, inputs):
        return self.decode(inputs["source"], inputs["target"])[1]

    def attention(self, source, target):
        return self.decode(source, target)[0]

    def start_decoding(self, source, beams=1):
        memory, state, real = self.encode(source)
        return {"memory": memory, "real": real, "state": ops.repeat(state[:, None], beams, axis=1)}

    def decode_step(self, tokens, position, cache, mask=None):
        rows, beams = ops.shape(tokens)
        state = ops.reshape(cache["state"], (-1, self.d_model))
        hidden = self.embed(ops.reshape(tokens, (-1, 1)))
        hidden, state = self.decoder(hidden, initial_state=state)
        hidden, state = (ops.reshape(x, (rows, beams, self.d_model)) for x in (hidden, state))
        _, logits = self.attend(hidden, cache["memory"], cache["real"])
        return logits, {**cache, "state": state}

    def reorder_cache(self, cache, parents):
        return {**cache, "state": ops.take_along_axis(cache["state"], parents[..., None], axis=1)}

    def get_config(self):
        own = {n: getattr(self, n) for n in ("vocab_size", "d_model", "max_length", "padding_id")}
        return {**super().get_config(), **own}


if __name__ == "__main__":
    pairs = load_corpus("phrasebook", source="pt", target="en", split="train")
    texts = (text for pair in pairs.as_numpy_iterator() for text in pair)
    tokenizer = keras_mt.Tokenizer.train(texts, vocab_size=2000)
    batches = Batches(pairs, tokenizer, tokens_per_batch=2048, max_length=64, seed=1)
    model = GRUTranslator(tokenizer.vocab_size)
    model.compile("adam", keras_mt.losses.CrossEntropy(label_smoothing=0.1), jit_compile=False)
    steps, epochs = batches.counts.batches, int(sys.argv[1]) if len(sys.argv) > 1 else 6
    model.fit(batches.stream(), steps_per_epoch=steps, epochs=epochs)
    translator = keras_mt.Translator(model, tokenizer)
    print(translator("O livro está em cima da mesa."))
    translator.export("saved_models/own_model/1")
