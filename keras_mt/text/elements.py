"""The elements of HTML, by how a text goes through them."""

# Within a text. Of elements that are in no list a page's are blocks, since scripts make them so;
# a fragment's, such as `<x/>`, stand for something within the text.
INLINE = frozenset(
    """a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math
    q rb rp rt ruby s samp small span strike strong sub sup svg time tt u var wbr""".split()  # noqa: SIM905
)
# A text ends at their bounds.
BLOCKS = frozenset(
    """address article aside blockquote body caption center col colgroup dd details dialog dir div
    dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr
    html legend li main menu nav ol optgroup option p pre search section summary table tbody td
    tfoot th thead title tr ul""".split()  # noqa: SIM905
)
# Without an end tag.
VOID = frozenset(
    """area base basefont bgsound br col embed frame hr img input keygen link meta param source
    track wbr""".split()  # noqa: SIM905
)
# Where one of these begins, one of the same name ends.
SINGLE = frozenset(["dd", "dt", "li", "option", "p", "td", "th", "tr"])
# What is in them stays as it is.
KEPT = frozenset(["code", "kbd", "math", "pre", "samp", "svg", "template", "var"])
# What is in them is no markup.
RAW = frozenset(["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"])
# They have no text that readers see.
HIDDEN = frozenset(["script", "style"])
