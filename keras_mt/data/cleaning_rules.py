"""The rules of cleaning: each drops sentence pairs that are unlikely to be translations."""

import collections
import copy
import functools
import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_mt.errors import InputError
from keras_mt.extras import require

MAX_WORDS, MAX_CHARACTERS = 200, 1500
MAX_RATIO, SLACK = 2.5, 15
MIN_COPIED_WORDS, MIN_COPIED_CHARACTERS = 3, 20
MIN_SCRIPT = 0.5
MIN_LANGUAGE, MIN_LANGUAGE_LETTERS = 0.01, 20

# The scripts of languages, by the first word of their letters' Unicode names.
_SCRIPTS = {
    "LATIN": "af az bs ca cs cy da de en eo es et eu fi fo fr fy ga gl hr ht hu id ig is it jv ku "
    "la lb ln lt lv mg mi ms mt nb nl nn no oc pl pt rm ro sk sl so sq sr st su sv sw tk tl tr uz "
    "vi wo xh yo zu",
    "CYRILLIC": "az be bg ce cv kk ky mk mn ru sr tg tk tt uk uz",
    "ARABIC": "ar az fa ku ps sd ug ur",
    "DEVANAGARI": "hi mr ne sa", "CJK": "ja zh", "HIRAGANA": "ja", "KATAKANA": "ja",
    "BOPOMOFO": "zh", "HANGUL": "ko", "GREEK": "el", "HEBREW": "he yi", "THAI": "th",
    "ARMENIAN": "hy", "GEORGIAN": "ka", "BENGALI": "as bn", "TAMIL": "ta", "TELUGU": "te",
    "GUJARATI": "gu", "GURMUKHI": "pa", "KANNADA": "kn", "MALAYALAM": "ml", "SINHALA": "si",
    "KHMER": "km", "LAO": "lo", "MYANMAR": "my", "ETHIOPIC": "am ti",
}  # fmt: skip
# Tags, entities (but for those that the Moses tokenizer writes), control and private characters,
# and UTF-8 that was read as Latin-1.
_MARKUP = re.compile(
    r"</?[a-zA-Z][\w:-]*(?:\s[^<>]*)?/?>|&(?!(?:amp|lt|gt|quot|apos|#91|#93|#124);)"
    r"(?:[a-zA-Z]{2,8}|#\d{2,6}|#[xX][0-9a-fA-F]{2,6});"
    "|[\x00-\x08\x0a-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\ufffe\uffff]"
    "|[ÃÂ][\x80-\x9f\xa1-\xaa\xac-\xba\xbc-\xbf]|â€"
)
# White space, and punctuation of ASCII, Latin-1, and Unicode's general and CJK blocks.
_PUNCTUATION = re.compile(r"[\s!-/:-@\[-`{-~\u00a0-\u00bf\u2000-\u206f\u3000-\u303f]+")


class Rule(NamedTuple):
    """A rule of cleaning: `drops` is true for a pair to drop, given texts and their languages."""

    description: str
    drops: Callable[[str, str, str, str], bool]


# By name, in the order in which they are asked: a pair counts for the first that drops it.
RULES: dict[str, Rule] = {}


def _rule(description, each_side=False):
    """Registers the rule of a function's name: of both texts, or of a text and its language."""

    def register(is_bad):
        def drops(source, target, *languages):
            if each_side:
                return any(map(is_bad, (source, target), languages))
            return is_bad(source, target)

        RULES[is_bad.__name__.strip("_")] = Rule(description, drops)
        return is_bad

    return register


@_rule("a side has no letter or digit", each_side=True)
def _empty(text, language):
    return not any(map(str.isalnum, text))


@_rule(f"a side has more than {MAX_WORDS} words or {MAX_CHARACTERS:,} characters", each_side=True)
def _long(text, language):
    return len(text) > MAX_CHARACTERS or len(text.split()) > MAX_WORDS


@_rule(
    f"a side is more than {MAX_RATIO} times as long as the other, in characters and in bytes, with "
    f"{SLACK} added to both"
)
def _ratio(source, target):
    sizes = (len(source), len(target)), (len(source.encode()), len(target.encode()))
    return all(max(pair) + SLACK > MAX_RATIO * (min(pair) + SLACK) for pair in sizes)


@_rule(
    "both sides are the same, but for case and punctuation, and have "
    f"{MIN_COPIED_WORDS} words or {MIN_COPIED_CHARACTERS} letters"
)
def _copy(source, target):
    text = normalized(source)
    is_long = len(source.split()) >= MIN_COPIED_WORDS or len(text) >= MIN_COPIED_CHARACTERS
    return is_long and text == normalized(target)


@_rule("a tag, an entity, a control character or a wrongly decoded one is left", each_side=True)
def _markup(text, language):
    return _MARKUP.search(text) is not None


@_rule(
    f"less than {MIN_SCRIPT:.0%} of a side's letters are of its language's script", each_side=True
)
def _script(text, language):
    scripts = _scripts(language)
    if not scripts or (text.isascii() and "LATIN" in scripts):
        return False
    letters = {c: n for c, n in collections.Counter(text).items() if c.isalpha()}
    right = sum(n for c, n in letters.items() if _script_of(c) in scripts)
    return right < MIN_SCRIPT * sum(letters.values())


@_rule(
    "numbers of two or more digits are all others, or only one side has numbers, and one of four "
    "digits"
)
def _numbers(source, target):
    sides = [re.findall(r"\d+", text) for text in (source, target)]
    if not any(sides):
        return False
    # Separators differ: 1,000.5 and 1.000,5 are 1, 0 and 5 alike. Small numbers may be words.
    a, b = ({n for n in map(_number, side) if len(n) > 1} for side in sides)
    if a & b or not (a or b) or _significant(sides[0]) == _significant(sides[1]):
        return False
    return bool(a and b) or (not all(sides) and max(map(len, a | b)) > 3)


@_rule(
    f"a side of {MIN_LANGUAGE_LETTERS} letters or more is in its language with a probability below "
    f"{MIN_LANGUAGE:.0%}, by py3langid",
    each_side=True,
)
def _language(text, language):
    code = _identified(language)
    if sum(map(str.isalpha, text)) < MIN_LANGUAGE_LETTERS:
        return False
    best, probability = language_identifier().classify(text)
    if best == code or probability < 0.5:
        return False
    return dict(language_identifier().rank(text))[code] < MIN_LANGUAGE


@_rule("the pair repeats an earlier one, but for case, punctuation and white space")
def _duplicate(source, target):
    return False  # `Cleaning` compares the pairs with each other.


def rule_names(identify: bool = False, without: Sequence[str] = ()) -> tuple[str, ...]:
    """All rules but those in `without`; `language` only to `identify`."""
    if unknown := [name for name in without if name not in RULES]:
        raise InputError(f"There is no rule {unknown[0]!r}; there are {', '.join(RULES)}.")
    if identify:
        require("py3langid", "langid", "The rule language")
    return tuple(n for n in RULES if n not in without and (identify or n != "language"))


def normalized(text: str) -> str:
    """A text without case, white space and punctuation, in the form NFKC."""
    return _PUNCTUATION.sub("", unicodedata.normalize("NFKC", text).casefold())


def pair_hash(source: str, target: str) -> int:
    """64 bits that normalized pairs have in common if they are equal."""
    text = f"{normalized(source)}\n{normalized(target)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


@functools.cache
def _script_of(letter):
    return unicodedata.name(unicodedata.normalize("NFKC", letter)[0], "").split(" ")[0]


def _base(language):
    """The code without region and script."""
    return re.split("[-_]", language.lower())[0]


@functools.cache
def _scripts(language):
    """The scripts of a language; none where that is not known."""
    return {name for name, codes in _SCRIPTS.items() if _base(language) in codes.split()}


def _number(digits):
    """The digits of a number in ASCII, without zeros before it."""
    return "".join(str(unicodedata.digit(digit)) for digit in digits).lstrip("0")


def _significant(numbers):
    """The digits of several numbers but for zeros, in any order: 12 million is 12,000,000."""
    return sorted(_number("".join(numbers)).replace("0", ""))


@functools.cache
def language_identifier(codes: tuple[str, ...] = ()) -> Any:
    """py3langid's identifier, of some languages or of all."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    if not codes:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier = copy.copy(language_identifier())  # It shares the model.
    identifier.set_languages(codes)
    return identifier


def identifier_code(language: str) -> str | None:
    """The identifier's code of a language; None if it does not know the language."""
    code = {"nb": "no"}.get(_base(language), _base(language))
    return code if code in language_identifier().labels else None


@functools.cache
def _identified(language):
    if code := identifier_code(language):
        return code
    raise InputError(
        f"py3langid does not know the language {language!r}; it knows "
        f"{', '.join(sorted(language_identifier().labels))}. Leave --identify out."
    )
