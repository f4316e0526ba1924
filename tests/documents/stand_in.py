"""A translator that changes letters alone, and puts elements where they were."""

import re


def upper(unit):
    """The unit's text in upper case; markup and entities as they are."""
    if not unit.markup:
        return unit.text.upper()
    return re.sub(r"<[^<>]*>|&#?\w+;|([^<&]+)", lambda m: m[1].upper() if m[1] else m[0], unit.text)


def marked(unit):
    """The unit's text with a space at its end, so that it counts as new."""
    return unit.text + " "
