"""Agreement, contraction and conjugation in Portuguese; articles and verbs in English."""

import functools

from phrasebook.lexicon import (
    EN_GERUNDS,
    EN_IRREGULAR,
    PT_IRREGULAR,
    VOWELS,
    en_s,
    pt_plural,
)

ARTICLES = {("m", False): "o", ("f", False): "a", ("m", True): "os", ("f", True): "as"}
FEMININES = {
    "um": "uma",
    "dois": "duas",
    "meu": "minha",
    "este": "esta",
    "aquele": "aquela",
}
POSSESSIVES = {"meu": "o", "minha": "a", "meus": "os", "minhas": "as"}
POSSESSIVES |= {"nosso": "o", "nossa": "a", "nossos": "os", "nossas": "as"}
CONTRACTIONS = {
    "de": {"o": "do", "a": "da", "os": "dos", "as": "das"},
    "em": {"o": "no", "a": "na", "os": "nos", "as": "nas"},
    "a": {"o": "ao", "a": "à", "os": "aos", "as": "às"},
    "por": {"o": "pelo", "a": "pela", "os": "pelos", "as": "pelas"},
}
for _plural in ("", "s"):
    for _word in (f"este{_plural}", f"esta{_plural}", f"aquele{_plural}", f"aquela{_plural}"):
        CONTRACTIONS["de"][_word] = "d" + _word
        CONTRACTIONS["em"][_word] = "n" + _word
        if _word.startswith("a"):
            CONTRACTIONS["a"][_word] = "à" + _word[1:]


def attach(preposition: str, phrase: str) -> str:
    """Puts a Portuguese preposition before a phrase: `de` + `a casa` -> `da casa`.

    A possessive takes the article that it does without elsewhere: `de` + `meu pai` -> `do meu pai`.
    """
    start, _, last = preposition.rpartition(" ")
    first, _, rest = phrase.partition(" ")
    table = CONTRACTIONS.get(last, {})
    if first in POSSESSIVES and table:
        first, rest = POSSESSIVES[first], phrase
    first = table.get(first) or f"{last} {first}"
    return " ".join(filter(None, (start, first, rest)))


@functools.cache
def agree(adjective: str, gender: str, plural: bool) -> str:
    """A Portuguese adjective, from its masculine form, in a gender and number."""
    if gender == "f":
        regular = adjective[:-1] + "a" if adjective.endswith("o") else adjective
        adjective = FEMININES.get(adjective, regular)
    return pt_plural(adjective) if plural else adjective


def a(phrase: str) -> str:
    """An English phrase with its indefinite article."""
    return f"an {phrase}" if phrase[0].lower() in "aeiou" else f"a {phrase}"


def genitive(phrase: str) -> str:
    """An English possessor: `Lucas` -> `Lucas's`."""
    return f"{phrase}'s"


@functools.cache
def pt_forms(verb: str) -> tuple[str, ...]:
    """The forms of a Portuguese verb in the order of the table of irregular verbs."""
    stem, vowel = verb[:-2], verb[-2]
    soft = stem
    if vowel == "a":
        # The sound of the stem stays before an e: tocar, toquei; jogar, joguei; dançar, dancei.
        for hard, before_e in (("c", "qu"), ("g", "gu"), ("ç", "c")):
            if stem.endswith(hard):
                soft = stem[:-1] + before_e
                break
        endings = "o a amos am ei ou amos aram ando ado e"
    elif vowel == "e":
        endings = "o e emos em i eu emos eram endo ido a"
    else:
        endings = "o e imos em i iu imos iram indo ido a"
    regular = [(soft if e in ("ei", "e") and vowel == "a" else stem) + e for e in endings.split()]
    irregular = PT_IRREGULAR.get(verb, ["-"] * len(regular))
    return tuple(r if i == "-" else i for r, i in zip(regular, irregular, strict=True))


def pt_verb(verb: str, tense: str, person: int, plural: bool) -> str:
    """A Portuguese verb in the present or the past (preterite)."""
    index = {(1, False): 0, (3, False): 1, (1, True): 2, (3, True): 3}[person, plural]
    return pt_forms(verb)[index + (4 if tense == "past" else 0)]


def pt_gerund(verb: str) -> str:
    return pt_forms(verb)[8]


def pt_participle(verb: str) -> str:
    return pt_forms(verb)[9]


def pt_imperative(verb: str) -> str:
    return pt_forms(verb)[10]


@functools.cache
def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return verb + "ed"


@functools.cache
def en_verb(verb: str, form: str) -> str:
    """An English verb (its first word inflects) as `s`, `past`, `participle` or `ing`."""
    head, space, rest = verb.partition(" ")
    if form == "s":
        head = "has" if head == "have" else en_s(head)
    elif form == "ing":
        head = EN_GERUNDS.get(head) or (head[:-1] if head.endswith("e") else head) + "ing"
    else:
        past, participle = EN_IRREGULAR.get(head) or (_regular_past(head),) * 2
        head = past if form == "past" else participle
    return head + space + rest


GRADES = {
    "big": ("bigger", "biggest"),
    "heavy": ("heavier", "heaviest"),
    "easy": ("easier", "easiest"),
}
GRADES["friendly"] = ("friendlier", "friendliest")
GRADES |= {
    word: (word + "er", word + "est")
    for word in ("tall", "young", "old", "new", "fast", "cheap", "long", "rich", "small", "quiet")
}


def comparative(adjective: str) -> str:
    return GRADES[adjective][0] if adjective in GRADES else f"more {adjective}"


def superlative(adjective: str) -> str:
    return GRADES[adjective][1] if adjective in GRADES else f"most {adjective}"


def pt_more(adjective: str, gender: str, plural: bool) -> str:
    """The comparative of a Portuguese adjective; `grande` and `pequeno` have their own."""
    own = {"grande": "maior", "pequeno": "menor"}.get(adjective)
    return pt_plural(own) if own and plural else own or f"mais {agree(adjective, gender, plural)}"
