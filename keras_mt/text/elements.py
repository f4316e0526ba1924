"""The elements of HTML, by how a text goes through them."""

# Within a text.
INLINE = frozenset(
    """a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math
    q rb rp rt ruby s samp small span strike strong sub sup svg time tt u var wbr""".split()  # noqa: SIM905
)
# A text ends at their bounds. It does at those of elements in no list in a page, where scripts make
# them anything; in a fragment these, such as `<x/>`, stand for something within the text.
BLOCKS = frozenset(
    """address area article aside audio base basefont bgsound blockquote body button canvas caption
    center col colgroup datalist dd details dialog dir div dl dt embed fieldset figcaption figure
    footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html input keygen legend li
    link main map menu meta meter nav noscript object ol optgroup option output p param picture pre
    progress search section select slot source summary table tbody td template tfoot th thead title
    tr track ul video""".split()  # noqa: SIM905
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
# What is in them is no markup; of these, only a title is text.
RAW = frozenset(["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"])
HIDDEN = RAW - {"title"}
