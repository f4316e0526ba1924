"""Subtitles (WebVTT): as SRT, with HTML's entities, and blocks that stay."""

from keras_mt.documents.base import DocumentError, functions_of
from keras_mt.documents.srt import SrtDocument


class VttDocument(SrtDocument):
    """WebVTT subtitles. The header, notes, styles, regions, ids, times and settings stay.

    See `keras_mt.documents.srt.SrtDocument`. Voices and times within a text stay in their cue.

    Args:
        data, options: As in `Document`.

    Example:

    >>> subtitles = VttDocument(b"WEBVTT\\n\\n00:01.000 --> 00:02.000 line:0\\n<v Ann>Hello.\\n")
    >>> [unit.text for unit in subtitles.units]
    ['Hello.']
    >>> print(subtitles.write(["Hallo."]).decode().splitlines()[-1])
    <v Ann>Hallo.
    """

    is_html = True

    def parse(self, source: str) -> None:
        if not source.startswith("WEBVTT"):
            raise DocumentError("it does not begin with WEBVTT.")
        if "-->" in source:
            super().parse(source)


units, write = functions_of(VttDocument)
