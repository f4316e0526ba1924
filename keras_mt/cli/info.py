"""`keras-mt info`."""

import json

import click

from keras_mt.cli.command import Command, import_for
from keras_mt.cli.models import kind_of
from keras_mt.cli.options import MODEL, option
from keras_mt.cli.output import to_json
from keras_mt.convert.hub import hub_name, local_run
from keras_mt.errors import InputError
from keras_mt.files import MODEL_CARD, find_export
from keras_mt.options import TranslationOptions

_MAX_LISTED = 12


@click.command(cls=Command, is_light=True)
@click.argument("model", type=MODEL)
@option("--json", "as_json", is_flag=True, help="Write one JSON object, with all fields.")
@click.pass_obj
def info(run_package, model, as_json):
    """Show what a run or an export is.

    Shown are languages, vocabulary, size, scores, license, and the options that differ from the
    defaults. Those of an export are in its model card, those of a run in its files.

    \b
    keras-mt info runs/en_de
    keras-mt info saved_models/en_de --json
    """
    if run_package and hub_name(model):
        import_for({"run"}, run_package)  # The model may have to be imported.
    path = local_run(model)
    kind = kind_of(path)
    try:
        fields = {"kind": kind, **(_of_run(path) if kind == "run" else _card(path))}
        fields["bytes"] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        text = to_json(fields) if as_json else _table(fields)
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}. Put its files back.") from error
    click.echo(text, nl=as_json)


def _card(path):
    """The model card of an export, or of the last version of several."""
    card = next(find_export(path).rglob(MODEL_CARD), None)
    return json.loads(card.read_text("utf-8")) if card else {}


def _of_run(path):
    """The fields of a model card that a run's files have."""
    from keras_mt.run_folder import RunFolder

    folder = RunFolder(path)
    fields = folder.card()
    if folder.model_file.exists():
        with folder.open_model() as (_, saved):
            model = {"architecture": saved["class_name"], **saved["config"]}
        fields["model"] = {n: x for n, x in model.items() if isinstance(x, (bool, int, float, str))}
    if folder.tokenizer_path.exists():
        fields["tokenizer"] = folder.tokenizer_facts()
    if config := folder.config:
        given = {**(config.generation or {}), **config.languages}
        fields["options"] = vars(TranslationOptions(**given))
    if log := folder.read_log():
        columns = {x: [row[x] for row in log if row[x]] for x in ("step", "epoch", "seconds")}
        fields["trained"] = {x: json.loads(found[-1]) for x, found in columns.items() if found}
    return fields


def _table(fields):
    """The fields that count, in two columns."""
    tokenizer, model = fields.pop("tokenizer", {}), fields.pop("model", {})
    options, usual = fields.pop("options", {}), vars(TranslationOptions())
    fields.pop("versions", None)
    rows = {
        **fields,
        "languages": tokenizer.get("languages") or fields.get("languages"),
        "vocabulary": tokenizer and f"{tokenizer['vocab_size']:,} ({tokenizer['kind']})",
        "model": {x: model[x] for x in ("architecture", "d_model", "parameters") if x in model},
        "options": {n: x for n, x in options.items() if _text(x) != _text(usual.get(n, False))},
        "size": f"{fields['bytes'] / 1e6:,.1f} MB",
    }
    del rows["bytes"]
    formatter = click.HelpFormatter(max_width=100)
    formatter.write_dl([(name, _text(value)) for name, value in rows.items() if value])
    return formatter.getvalue()


def _text(value):
    if isinstance(value, dict):
        shown = {name: _text(x) for name, x in value.items() if name != "signature"}
        return ", ".join(f"{name}={text}" for name, text in shown.items() if text)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) if len(value) <= _MAX_LISTED else f"{len(value)} in all"
    return f"{value:,}" if type(value) is int else "" if value is None else str(value)
