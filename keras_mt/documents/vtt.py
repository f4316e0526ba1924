"""Subtitles (WebVTT): as SRT, with HTML's entities, and blocks that stay."""

from keras_mt.documents.srt import SrtDocument
from keras_mt.errors import InputError


class VttDocument(SrtDocument):
    """WebVTT subtitles, as `SrtDocument`; voices and times within a text stay in their cue."""

    has_entities = True

    def parse(self, source: str) -> None:
        if not source.startswith("WEBVTT"):
            raise InputError("it does not begin with WEBVTT.")
        if "-->" in source:
            super().parse(source)
