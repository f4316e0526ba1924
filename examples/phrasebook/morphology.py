"""Agreement, contraction and conjugation in Portuguese; articles and verbs in English."""

import functools

from phrasebook.lexicon import EN_GERUNDS, EN_IRREGULAR, PT_IRREGULAR, en_s, pt_plural

FEMININES = {"um": "uma", "dois": "duas", "meu": "minha", "este": "esta", "aquele": "aquela"}
ARTICLES = ("o", "a", "os", "as")
DEMONSTRATIVES = ("este", "esta", "estes", "estas", "aquele", "aquela", "aqueles", "aquelas")
POSSESSIVES = ("meu", "minha", "meus", "minhas", "nosso", "nossa", "nossos", "nossas")
CONTRACTIONS = {("por", word): f"pel{word}" for word in ARTICLES}
CONTRACTIONS |= {("de", word): f"d{word}" for word in (*ARTICLES, *DEMONSTRATIVES)}
CONTRACTIONS |= {("em", word): f"n{word}" for word in (*ARTICLES, *DEMONSTRATIVES)}
CONTRACTIONS |= {
    ("a", word): f"à{word[1:]}" if word[0] == "a" else f"a{word}"
    for word in (*ARTICLES, *DEMONSTRATIVES[4:])
}


def attach(preposition, phrase):
    """Puts a Portuguese preposition before a phrase: `de` + `a casa` -> `da casa`.

    A possessive takes the article that it does without elsewhere: `de` + `meu pai` -> `do meu pai`.
    """
    *start, last = preposition.split()
    first, *rest = phrase.split()
    if first in POSSESSIVES and (last, "o") in CONTRACTIONS:
        first, rest = ARTICLES[POSSESSIVES.index(first) % 4], phrase.split()
    return " ".join([*start, CONTRACTIONS.get((last, first), f"{last} {first}"), *rest])


@functools.cache
def agree(adjective, gender, plural=False):
    """A Portuguese adjective or article, from its masculine form, in a gender and number."""
    if gender == "f":
        regular = adjective[:-1] + "a" if adjective.endswith("o") else adjective
        adjective = FEMININES.get(adjective, regular)
    return pt_plural(adjective) if plural else adjective


def a(phrase):
    """An English phrase with its indefinite article."""
    return f"an {phrase}" if phrase[0].lower() in "aeiou" else f"a {phrase}"


ENDINGS = {
    "a": "o a amos am ei ou amos aram ando ado e",
    "e": "o e emos em i eu emos eram endo ido a",
    "i": "o e imos em i iu imos iram indo ido a",
}
# The sound of the stem stays before an e: tocar, toquei; jogar, joguei; dançar, dancei.
BEFORE_E = {"c": "qu", "g": "gu", "ç": "c"}
GERUND, PARTICIPLE, IMPERATIVE = 8, 9, 10


@functools.cache
def pt_forms(verb):
    """The forms of a Portuguese verb in the order of the table of irregular verbs."""
    stem, vowel = verb[:-2], verb[-2]
    soft = stem[:-1] + BEFORE_E.get(stem[-1:], stem[-1:]) if vowel == "a" else stem
    regular = [(soft if e[0] == "e" else stem) + e for e in ENDINGS[vowel].split()]
    irregular = PT_IRREGULAR.get(verb, ["-"] * len(regular))
    return tuple(r if i == "-" else i for r, i in zip(regular, irregular, strict=True))


@functools.cache
def en_verb(verb, form):
    """An English verb (its first word inflects): `s`, `past`, `participle`, `ing`, or ""."""
    head, space, rest = verb.partition(" ")
    if not form:
        return verb
    if form == "s":
        head = "has" if head == "have" else en_s(head)
    elif form == "ing":
        head = EN_GERUNDS.get(head, head.removesuffix("e") + "ing")
    elif head in EN_IRREGULAR:
        head = EN_IRREGULAR[head][0 if form == "past" else -1]
    else:
        stem = head[:-1] + "i" if head.endswith("y") and head[-2] not in "aeiou" else head
        head = stem.removesuffix("e") + "ed"
    return head + space + rest


GRADED = {"big", "heavy", "easy", "friendly", "tall", "young", "old", "new", "fast", "cheap"}
GRADED |= {"long", "rich", "small", "quiet"}


def en_degree(adjective, ending):
    """The comparative (`er`) or superlative (`est`) of an English adjective."""
    if adjective not in GRADED:
        return f"{'more' if ending == 'er' else 'most'} {adjective}"
    stem = adjective[:-1] + "i" if adjective.endswith("y") else adjective
    return ("bigg" if stem == "big" else stem) + ending


def pt_more(adjective, gender, plural):
    """The comparative of a Portuguese adjective; `grande` and `pequeno` have their own."""
    own = {"grande": "maior", "pequeno": "menor"}.get(adjective)
    return agree(own, "m", plural) if own else f"mais {agree(adjective, gender, plural)}"
