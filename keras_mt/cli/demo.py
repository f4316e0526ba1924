"""`keras-mt demo`."""

import click

from keras_mt.cli.errors import Command


@click.command(cls=Command)
@click.argument("saved_model", type=click.Path(exists=True))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=7860, show_default=True, help="Port to listen on.")
def demo(saved_model, host, port):
    """Serve a web page to type a text into: it shows translations, scores and alignments.

    \b
    keras-mt demo saved_models/en_de
    """
    from keras_mt.serving.demo import page

    page(saved_model).launch(server_name=host, server_port=port)
