"""The patterns of lines, sentences and tags, in RE2's syntax, for the graph and for plain Python.

A rewrite is a pattern, and what stands for each of its matches; those of a tuple follow each other.
"""

from keras_mt.text.spans import GUARD, NO_END, SLOT, TERM, TERM_END

Rewrite = tuple[str, str]

# Control characters that no cleaned text contains: a cut, and a period within a sentence.
CUT, _POINT = "\x1f", "\x1d"
_SPACE = r"[\s\p{Z}]"  # RE2's \s is ASCII's alone.
_CLOSERS = r""""'”’»)\]」』）"""
_OPENING = r"""["'“‘„«(\[¿¡]*[\p{Lu}\p{Lt}\p{Lo}]"""
_OTHERS = rf"[^。！？\s\p{{Z}}{_CLOSERS}{CUT}{NO_END}{SLOT}]"
_ABBREVIATION = r"Mrs?|Ms|Mme|Drs?|Profs?|Sra?|St|Hr|Fr|Nr|No|vs|\pN{1,2}|(?:\pL\.)*\pL"


def _cleaned(but=""):
    return rf"[^\P{{Cc}}{but}\t\n\r]", " "


# Of texts: control characters become spaces, but for those that have a meaning.
TEXT = _cleaned(but=TERM + TERM_END + GUARD)
TERMS = rf"{TERM}([^{TERM}{TERM_END}\n]+){TERM_END}", rf"{SLOT}\1{SLOT}"
GUARDS = (
    (rf"{GUARD}({_SPACE})", rf"{NO_END}\1"),
    (rf"([。！？]){GUARD}", rf"\1{NO_END}"),
    (r"[\x01-\x03]", " "),
)
# The white space after the last line; the text without it, cut into lines; and what a line has.
TRAILING = rf"(?s)^.*?({_SPACE}*)$", r"\1"
LINES = (rf"(?s)^(.*?){_SPACE}*$", r"\1"), (rf"({_SPACE}*\n{_SPACE}*)", rf"{CUT}\1")
LINE = r"[\t\r]", " "
ENDS = frozenset(".!?…。！？")  # Nothing is rewritten in a line with none of these within it.
SENTENCES = (
    (rf"(^|[^\pL\pN])({_ABBREVIATION})\.", rf"\1\2{_POINT}"),
    (rf"([.!?…][{_CLOSERS}]*{SLOT}?){_SPACE}+({_OPENING})", rf"\1{CUT} \2"),
    (rf"([。！？]{SLOT}?){_SPACE}*({_OTHERS})", rf"\1{CUT} \2"),
    (_POINT, "."),
)
MAY_END = NO_END, ""  # Once sentences are cut.
# The white space that a line or sentence begins with; and the rest.
SEPARATOR = rf"(?s)^({_SPACE}*).*", r"\1"
SEGMENT = rf"^{_SPACE}+", ""
# What passes through untranslated: a line without a letter or digit.
NO_WORD = rf"[^\pL\pN{NO_END}{SLOT}]*"
# What SentencePiece would drop, or take for its space mark.
PIECES = _cleaned(), (r"[\t\n\r]", " "), ("▁", "_")
# The tag that a source begins with, if any.
TAG = r"(?s)^(>>.*?<<).*$", r"\1"
