"""How the commands show their help: common options, all others by group, examples at the end."""

import functools
import inspect

import click

# The options that `--help` leaves to `--help-all`, by their names in Python; others are common.
GROUPS = {
    "Search": "length_penalty word_penalty early_stopping patience force_end repetition_penalty "
    "no_repeat_ngram_size renormalize shortlist",
    "Lengths": "max_length max_length_factor min_length max_line_bytes",
    "Sampling": "temperature top_k top_p seed subword_sampling",
    "Texts": "split_sentences keep prefixes part_lines corpus_weights clean augment terms",
    "Models": "architecture ensemble model tokenizer vocab_size lora_rank",
    "Training": "steps batch_tokens gradient_accumulation_steps learning_rate warmup_steps "
    "clip_norm dropout label_smoothing rdrop_weight guided_alignment",
    "Precision": "dtype devices",
    "Scores": "bleu_freq references paired resamples tokenize token_scores no_confidence",
    "Checkpoints": "checkpoint_steps weights stop_after tensorboard",
    "Contents": "signatures card",
    "Limits": "max_body max_file max_texts max_characters max_glossaries max_waiting timeout",
}
_FEW = 10  # A command of no more options than this shows all.
_SHOWS_ALL = "keras_mt.shows_all"
_METAVARS = {"DIRECTORY": "FOLDER", "FILENAME": "FILE", "FLOAT": "X", "INTEGER": "N"}


class Option(click.Option):
    """An option with a short metavar; its help says if it may be repeated."""

    def make_metavar(self, ctx):
        metavar = super().make_metavar(ctx)
        return _METAVARS.get(metavar.removesuffix(" RANGE"), metavar)

    def get_help_extra(self, ctx):
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return {**extra, "range": "repeatable"} if self.multiple else extra


option = functools.partial(click.option, cls=Option, show_default=True)


def groups_of(command):
    """The options of a command by group, the common ones first."""
    options = {x.name: x for x in command.params if isinstance(x, click.Option)}
    names = {title: names.split() if len(options) > _FEW else () for title, names in GROUPS.items()}
    others = {title: [options.pop(x) for x in names[title] if x in options] for title in names}
    return {"Options": [*options.values()], **{x: found for x, found in others.items() if found}}


class WithExamples(click.Command):
    """A command whose docstring ends with examples: its last paragraph, which \\b begins."""

    def __init__(self, *args, help=None, **kwargs):
        text, _, examples = inspect.cleandoc(help or "").partition("\n\b\n")
        super().__init__(*args, help=text, epilog=examples and f"\b\n{examples}", **kwargs)

    def format_epilog(self, context, formatter):
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write_text(self.epilog)


class WithGroups(WithExamples):
    """A command that shows its common options with `--help`, and all with `--help-all`."""

    def get_params(self, context):
        return [*super().get_params(context), _HELP_ALL]

    def format_options(self, context, formatter):
        common, *groups = groups_of(self).items()
        for title, options in (common, *groups) if context.meta.get(_SHOWS_ALL) else [common]:
            records = [option.get_help_record(context) for option in options]
            if options is common[1]:
                records.append(self.get_help_option(context).get_help_record(context))
                others = ", ".join(title for title, _ in groups)
                records += [("--help-all", f"Show all options: also {others}.")] if others else []
            with formatter.section(title):
                formatter.write_dl(records)


def _show_all(context, option, value):
    if value and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        click.echo(context.get_help())
        context.exit()


_HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all
)
