"""Trains Multi30k translators on a GPU or TPU: Keras on JAX, where there is no TensorFlow.

usage: python examples/multi30k/on_gpu.py OUTPUT FOLDER TOKENIZER [FOLDER TOKENIZER ...]
           [--epochs FIRST SECOND STUDENTS] [--students NAME ...]

Each FOLDER holds LANG.SPLIT.txt files of en and de. If its name ends in _tokenized, BLEU is
measured without sacreBLEU's tokenizer, and the sources are not augmented. Three parts:

1. For each folder, two translators from English to German and one the other way are trained on the
   captions, with R-Drop (Liang et al. 2021).
2. The two go on with the captions, with their translations by both together (distillation, Kim and
   Rush 2016), and with the German captions translated back, whose targets are the captions and a
   translation (data diversification, Nguyen et al. 2020).
3. --students tiny_1 small_2 ...: smaller translators, named by preset and layers of the decoder, on
   the captions and on translations by the best of the second part; and, for comparison, the same
   students on the captions alone, NAME_alone, in as many steps.

A small model leaves a GPU idle between its kernels, so all models of a part are trained at once,
one program mapped over their stacked weights. What is already in OUTPUT is not done again; a part
that was interrupted starts anew. OUTPUT/NAME/run is a run folder of keras_mt with the best
translator, by BLEU on the validation captions; those of students are OUTPUT/NAME/students/*.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
import sacrebleu
import sentencepiece
from jax import numpy as jnp

from keras_mt import Transformer, WarmupInverseSquareRoot
from keras_mt.data.augmentation import KINDS, augment
from keras_mt.losses import CrossEntropy, SymmetricKLDivergence, token_weights

START, END = 2, 3
VOCAB_SIZE, PRESET = 4000, "small"
STUDENTS = {
    f"{preset}_{layers}": {"preset": preset, "num_decoder_layers": layers, "dropout": 0.1}
    for preset, layers in (("tiny", 1), ("tiny", 2), ("tiny", 4), ("small", 1), ("small", 2))
}
LENGTHS = 32, 72  # Each is compiled once; the longest caption has 71 tokens with the end.
BATCH_TOKENS, RDROP, LABEL_SMOOTHING = 4096, 3.0, 0.1
BEAMS, LENGTH_PENALTY = 5, 1.0
ROWS = 512  # Sources that are translated at once.
AVERAGE = 10  # Epochs whose weights are averaged.
# What the run folder's log.csv has beside the step.
LOG = "epoch", "seconds", "val_bleu", "val_chrf"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("corpora", type=Path, nargs="+", metavar="FOLDER TOKENIZER")
    parser.add_argument("--epochs", type=int, nargs=3, default=(40, 8, 30))
    parser.add_argument("--students", nargs="+", default=(), choices=STUDENTS, metavar="NAME")
    arguments = parser.parse_args()
    corpora = [
        Corpus(folder, tokenizer, arguments.output)
        for folder, tokenizer in zip(arguments.corpora[::2], arguments.corpora[1::2], strict=True)
    ]
    arguments.output.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(preset=PRESET)

    first = [
        Job(corpus, f"1{name}", direction, [direction], seed=seed, run=run)
        for corpus in corpora
        for name, direction, seed, run in (
            ("a", ("en", "de"), 1, "run"),
            ("b", ("en", "de"), 2, "run"),
            ("back", ("de", "en"), 3, None),
        )
    ]
    trainer.train(first, arguments.epochs[0], learning_rate=0.0012, warmup_steps=2000)
    for corpus in corpora:
        trainer.translate(corpus, ["1a", "1b"], "en", "de1")
        trainer.translate(corpus, ["1back"], "de", "en1")
        trainer.translate(corpus, ["1a", "1b"], "en1", "de2")
    texts = [("en", "de"), ("en", "de"), ("en", "de1"), ("en1", "de"), ("en1", "de2")]
    second = [
        Job(corpus, f"2{name}", ("en", "de"), texts, seed=seed, init=f"1{name}", run="run")
        for corpus in corpora
        for name, seed in (("a", 4), ("b", 5))
    ]
    trainer.train(second, arguments.epochs[1], learning_rate=0.001, warmup_steps=2000)

    if arguments.students:
        for corpus in corpora:
            trainer.translate(corpus, [corpus.best()], "en", "de3")
            trainer.translate(corpus, [corpus.best()], "en1", "de4")
    texts = [("en", "de"), ("en", "de3"), ("en1", "de4")]
    for name in arguments.students:
        third = [
            Job(corpus, job, ("en", "de"), own, seed=6, run=f"students/{job}")
            for corpus in corpora
            for job, own in ((name, texts), (f"{name}_alone", texts[:1]))
        ]
        student = Trainer(**STUDENTS[name])
        student.train(third, arguments.epochs[2], learning_rate=0.002, warmup_steps=2000)


class Corpus:
    """The texts of a folder and of what was made of it: `en`, `de`, `de1`, ... in OUTPUT/NAME/."""

    def __init__(self, folder, tokenizer, output):
        self.folder, self.name = folder, folder.name
        self.output = output / folder.name
        self.output.mkdir(parents=True, exist_ok=True)
        self.tokenizer_file = tokenizer
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
        self.tokenize = "none" if folder.name.endswith("_tokenized") else "13a"
        self.augment = () if folder.name.endswith("_tokenized") else KINDS

    def text(self, name, split="train"):
        own = name in ("en", "de")
        path = self.folder / f"{name}.{split}.txt" if own else self.output / f"{name}.txt"
        return path.read_bytes().decode().split("\n")[:-1]

    def log(self):
        path = self.output / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def best(self):
        """The name of the model whose weights the run folder has."""
        lines = [line for line in self.log() if line["run"] == "run"]
        return max(lines, key=lambda line: line["val_bleu"])["model"]


class Job:
    """A model to be trained, and its batches.

    Args:
        direction: Names of the validation texts, source and target.
        texts: Pairs of names of the texts to train on.
        init: The name of the model to start from; None for new weights.
        run: The name of the run folder, which holds the best of the models that share it; or None.
    """

    def __init__(self, corpus, name, direction, texts, seed, init=None, run=None):
        self.corpus, self.name, self.direction, self.seed = corpus, name, direction, seed
        self.texts, self.init, self.run = texts, init, run
        self.weights_file = corpus.output / f"{name}.npz"
        self.done = any(line["model"] == name and line["last"] for line in corpus.log())

    def begin(self):
        self._rng = np.random.default_rng(self.seed)
        self._sources, targets = [], []
        for source, target in self.texts:
            self._sources += self.corpus.text(source)
            targets += self.corpus.text(target)
        encode = self.corpus.tokenizer.encode
        self._plain = encode(self._sources, num_threads=8)
        self._targets = [[START, *ids, END] for ids in encode(targets, num_threads=8)]
        self._epoch = -1
        self._next_epoch()

    def _next_epoch(self):
        self._epoch += 1
        ids, kinds = self._plain, self.corpus.augment
        if self._epoch and (not kinds or self.direction[0] != "en"):
            return
        if kinds and self.direction[0] == "en":
            texts = {
                i: text
                for i, plain in enumerate(self._sources)
                if (text := augment(plain, kinds, self.seed, self._epoch, i)) != plain
            }
            changed = self.corpus.tokenizer.encode(list(texts.values()), num_threads=8)
            ids = list(ids)
            for i, new in zip(texts, changed, strict=True):
                # All capitals may be too long: such a caption stays as it is.
                if len(new) < LENGTHS[-1]:
                    ids[i] = new
        longest = [max(len(s) + 1, len(t) - 1) for s, t in zip(ids, self._targets, strict=True)]
        longest, shortest = np.array(longest), 0
        self._rows, self._queues = {}, {}
        for length in LENGTHS:
            members = np.flatnonzero((shortest < longest) & (longest <= length))
            source = np.zeros((len(members), length), "int16")
            target = np.zeros((len(members), length + 1), "int16")
            for row, i in enumerate(members):
                source[row, : len(ids[i]) + 1] = [*ids[i], END]
                target[row, : len(self._targets[i])] = self._targets[i]
            self._rows[length] = source, target
            self._queues[length] = np.zeros(0, int)
            shortest = length

    def batches(self, length):
        """How many batches of a length an epoch has."""
        return len(self._rows[length][0]) / (BATCH_TOKENS // length)

    def batch(self, length):
        size = BATCH_TOKENS // length
        while len(self._queues[length]) < size:
            if length == LENGTHS[0] and self._epoch >= 0:
                self._next_epoch()
            order = self._rng.permutation(len(self._rows[length][0]))
            self._queues[length] = np.concatenate([self._queues[length], order])
        taken, self._queues[length] = np.split(self._queues[length], [size])
        return [each[taken].astype("int32") for each in self._rows[length]]


class Trainer:
    """Trains models of a preset; `options` override its arguments."""

    def __init__(self, preset, **options):
        keras.utils.set_random_seed(1)
        self._preset = preset
        self._model = Transformer.from_preset(
            preset, vocab_size=VOCAB_SIZE, max_length=256, dtype="mixed_bfloat16", **options
        )
        self._optimizer = keras.optimizers.Adam(0.0, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
        self._optimizer.build(self._model.trainable_variables)
        self._optimizer_state = [v.value for v in self._optimizer.variables]
        self._rate = [v.name for v in self._optimizer.variables].index("learning_rate")
        self._update = jax.jit(jax.vmap(self._update_one, in_axes=(0, 0, None)), donate_argnums=0)
        self._run = jax.jit(self._search, static_argnames="length")
        self._began = time.time()

    def train(self, jobs, epochs, learning_rate, warmup_steps):
        if all(job.done for job in jobs):
            return
        for job in jobs:
            job.begin()
        schedule = WarmupInverseSquareRoot(self._model.d_model, warmup_steps, learning_rate)
        state = stack([self._initial(job) for job in jobs])
        sizes = [round(np.mean([job.batches(length) for job in jobs])) for length in LENGTHS]
        rates = np.asarray(schedule(np.arange(epochs * sum(sizes))), "float32")
        rng, recent, step = np.random.default_rng(jobs[0].seed), [], 0
        for epoch in range(1, epochs + 1):
            losses = []
            for length in rng.permutation(np.repeat(LENGTHS, sizes)):
                sources, targets = zip(*(job.batch(length) for job in jobs), strict=True)
                batch = np.stack(sources), np.stack(targets)
                state, loss = self._update(state, batch, rates[step])
                losses.append(loss)
                step += 1
            recent = [*recent, [w.copy() for w in state[0]]][-AVERAGE:]
            loss = np.mean(jax.device_get(losses), axis=0)
            print(f"epoch {epoch}, {step} steps, {self._seconds()} s, loss {loss}", flush=True)
            if epoch == epochs or epoch == 2 * epochs // 3:
                mean = [sum(each) / len(recent) for each in zip(*recent, strict=True)]
                for i, job in enumerate(jobs):
                    self._measure(job, [w[i] for w in mean], epoch, step, epoch == epochs)

    def translate(self, corpus, models, source, target):
        path = corpus.output / f"{target}.txt"
        if not path.exists():
            weights = [read_weights(corpus.output / f"{name}.npz") for name in models]
            lines = self._translated(corpus, weights, corpus.text(source))
            temporary = path.with_suffix(".part")
            temporary.write_bytes("".join(f"{line}\n" for line in lines).encode())
            temporary.replace(path)
            print(f"{corpus.name}: {target} after {self._seconds()} s", flush=True)

    def _measure(self, job, weights, epoch, step, last):
        source, target = job.direction
        hypotheses = self._translated(job.corpus, [weights], job.corpus.text(source, "validation"))
        references = [job.corpus.text(target, "validation")]
        score = sacrebleu.corpus_bleu(
            hypotheses, references, tokenize=job.corpus.tokenize, force=True
        ).score
        chrf = sacrebleu.corpus_chrf(hypotheses, references).score
        log = job.corpus.log()
        line = {
            "model": job.name,
            "run": job.run,
            "epoch": epoch,
            "steps": step,
            "seconds": self._seconds(),
            "val_bleu": round(score, 2),
            "val_chrf": round(chrf, 2),
            "last": last,
        }
        if all(score > each["val_bleu"] for each in log if each["model"] == job.name):
            write_weights(job.weights_file, weights)
        others = [each for each in log if each["run"] == job.run]
        if job.run and all(score > each["val_bleu"] for each in others):
            self._write_run(job.corpus, weights, line)
        with open(job.corpus.output / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        print(job.corpus.name, json.dumps(line), flush=True)

    def _write_run(self, corpus, weights, line):
        config = {**self._model.get_config(), "dtype": "bfloat16"}
        model = Transformer.from_config(config)
        for variable, weight in zip(model.trainable_variables, weights, strict=True):
            variable.assign(weight)
        folder = corpus.output / line["run"]
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder / "new.keras")
        (folder / "new.keras").replace(folder / "model.keras")
        shutil.copyfile(corpus.tokenizer_file, folder / "tokenizer.model")
        config = {"schema": 3, "data": [corpus.name], "source": "en", "target": "de"}
        config |= {"architecture": "transformer", "preset": self._preset, "weights": "best"}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        row = {"step": line["steps"], **{n: line[n] for n in LOG if n in line}}
        text = ",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n"
        (folder / "log.csv").write_text(text)

    def _initial(self, job):
        """Weights, from the job's seed or file; the state of dropout; that of the optimizer."""
        keras.utils.set_random_seed(job.seed)
        fresh = self._model.from_config(self._model.get_config())
        trainable = [v.value for v in fresh.trainable_variables]
        if job.init:
            trainable = read_weights(job.corpus.output / f"{job.init}.npz")
        other = [v.value + job.seed for v in self._model.non_trainable_variables]
        return trainable, other, self._optimizer_state

    def _loss(self, trainable, other, batch):
        source, target = batch
        inputs, labels = {"source": source, "target": target[:, :-1]}, target[:, 1:]
        cross_entropy, divergence = CrossEntropy(LABEL_SMOOTHING), SymmetricKLDivergence()
        logits, other = self._model.stateless_call(trainable, other, inputs, training=True)
        again, other = self._model.stateless_call(trainable, other, inputs, training=True)
        loss = cross_entropy(labels, logits) + cross_entropy(labels, again)
        loss += RDROP * divergence(logits, again, token_weights(labels, 0))
        return loss / 2, other

    def _update_one(self, state, batch, rate):
        trainable, other, moments = state
        (loss, other), gradients = jax.value_and_grad(self._loss, has_aux=True)(
            trainable, other, batch
        )
        moments = [rate if i == self._rate else m for i, m in enumerate(moments)]
        trainable, moments = self._optimizer.stateless_apply(moments, gradients, trainable)
        return (trainable, other, moments), loss

    def _translated(self, corpus, weights, lines):
        ids = corpus.tokenizer.encode(lines)
        other = [v.value for v in self._model.non_trainable_variables]
        order, found = np.argsort([len(each) for each in ids], kind="stable"), {}
        for begin in range(0, len(order), ROWS):
            members = order[begin : begin + ROWS]
            longest = max(len(ids[i]) for i in members) + 1
            length = next(each for each in (*LENGTHS, 3 * LENGTHS[-1]) if each >= longest)
            source = np.zeros((ROWS, length), "int32")
            for row, i in enumerate(members):
                source[row, : len(ids[i]) + 1] = [*ids[i], END]
            best = jax.device_get(self._run(weights, other, source, length=length + 8))
            for i, tokens in zip(members, best.tolist(), strict=False):
                found[i] = tokens[: tokens.index(END)] if END in tokens else tokens
        texts = corpus.tokenizer.decode([found[i] for i in range(len(ids))])
        return [" ".join(text.split()) for text in texts]

    def _search(self, weights, other, source, length):
        """Beam search without a cache, so that few shapes are compiled; averages the models."""
        rows, model = len(source), self._model
        variables = [*model.trainable_variables, *model.non_trainable_variables]
        mask = jnp.repeat(source != 0, BEAMS, axis=0)
        memories = []
        for each in weights:
            with keras.StatelessScope(zip(variables, [*each, *other], strict=True)):
                memories.append(jnp.repeat(model.encode(source), BEAMS, axis=0))
        tokens = jnp.zeros((rows * BEAMS, length + 1), "int32").at[:, 0].set(START)
        scores = jnp.tile(jnp.array([0.0] + [-1e9] * (BEAMS - 1)), (rows, 1))
        lengths, ended = jnp.zeros((rows, BEAMS), "int32"), jnp.zeros((rows, BEAMS), bool)

        def step(carry):
            position, tokens, scores, lengths, ended = carry
            total = 0.0
            for each, memory in zip(weights, memories, strict=True):
                with keras.StatelessScope(zip(variables, [*each, *other], strict=True)):
                    hidden = model.target_embedding(tokens[:, :length])
                    for block in model.decoder_stack.blocks:
                        hidden = block(hidden, memory, memory_mask=mask)
                    hidden = jax.lax.dynamic_slice_in_dim(hidden, position, 1, axis=1)
                    logits = model.target_embedding(hidden, reverse=True)
                total += jax.nn.softmax(logits[:, 0].astype("float32"))
            log_p = jnp.log(total / len(weights) + 1e-30).reshape(rows, BEAMS, VOCAB_SIZE)
            log_p = log_p.at[:, :, jnp.array([0, 1, START])].set(-1e9)
            # A hypothesis that has ended continues with padding, at no cost.
            stays = jnp.full((VOCAB_SIZE,), -1e9).at[0].set(0.0)
            log_p = jnp.where(ended[..., None], stays, log_p)
            scores, best = jax.lax.top_k((scores[..., None] + log_p).reshape(rows, -1), BEAMS)
            parents, chosen = best // VOCAB_SIZE, best % VOCAB_SIZE
            tokens = tokens.reshape(rows, BEAMS, -1)
            tokens = jnp.take_along_axis(tokens, parents[..., None], axis=1)
            tokens = tokens.at[:, :, position + 1].set(chosen).reshape(rows * BEAMS, -1)
            ended = jnp.take_along_axis(ended, parents, axis=1)
            lengths = jnp.take_along_axis(lengths, parents, axis=1) + ~ended
            return position + 1, tokens, scores, lengths, ended | (chosen == END)

        def goes_on(carry):
            return (carry[0] < length) & ~jnp.all(carry[4])

        carry = jax.lax.while_loop(goes_on, step, (0, tokens, scores, lengths, ended))
        best = jnp.argmax(carry[2] / carry[3] ** LENGTH_PENALTY, axis=1)
        tokens = carry[1].reshape(rows, BEAMS, -1)[:, :, 1:]
        return jnp.take_along_axis(tokens, best[:, None, None], axis=1)[:, 0]

    def _seconds(self):
        return round(time.time() - self._began)


def stack(states):
    return jax.tree.map(lambda *each: jnp.stack(each), *states)


def read_weights(path):
    with np.load(path) as saved:
        return [jnp.asarray(saved[name]) for name in saved.files]


def write_weights(path, weights):
    temporary = path.with_suffix(".part")
    with open(temporary, "wb") as file:
        np.savez(file, *jax.device_get(weights))
    temporary.replace(path)


if __name__ == "__main__":
    main()
