"""Phrases and clauses in both languages at once, drawn at random.

The rules that make the English answer unique: `irá` is "will", but a plan with verbs of travel ("is
travelling"); `vai` + infinitive is "going to"; `está` + gerund is "is ...ing"; the Portuguese
present is the English one, but with `há` for how long it is "has ..."; English puts place before
time at the end, wherever Portuguese has them.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from phrasebook import lexicon as lex
from phrasebook.morphology import (
    ARTICLES,
    a,
    agree,
    attach,
    en_verb,
    genitive,
    pt_gerund,
    pt_verb,
)


class Phrase(NamedTuple):
    """A phrase in both languages, with what agreement needs and the lemmas in it."""

    pt: str
    en: str
    words: tuple[str, ...] = ()
    gender: str = "m"
    plural: bool = False
    person: int = 3


NOTHING = Phrase("", "")


class Sentence(NamedTuple):
    """A sentence before its capital letter, with the lemmas in it."""

    pt: str
    en: str
    words: tuple[str, ...]


class Example(NamedTuple):
    """A pair of the corpus, the construction that made it and the lemmas in it."""

    pt: str
    en: str
    construction: str
    words: tuple[str, ...]


# Words by class.


def fits(adjective: lex.Adjective, noun: lex.Noun) -> bool:
    """Whether an adjective makes sense with a noun."""
    return bool({*noun.classes, noun.pt} & {*adjective.goes_with})


BARE = {"language", "subject", "instrument", "sport", "audio"}
BY_CLASS: dict[str, list[lex.Noun]] = {}
for _noun in lex.NOUNS:
    for _class in _noun.classes:
        BY_CLASS.setdefault(_class, []).append(_noun)
BY_CLASS["place"] = [noun for noun, _ in lex.PLACES]
OBJECTS = {
    verb.pt: [
        noun for noun in (*lex.NOUNS, *BY_CLASS["place"]) if set(verb.takes) & {*noun.classes}
    ]
    for verb in lex.VERBS
}
FRAMES: dict[str, list[lex.Verb]] = {}
for _verb in (*lex.VERBS, *lex.INTRANSITIVE):
    for _frame in _verb.frames:
        # A verb of few frames is drawn more often in these.
        FRAMES.setdefault(_frame, []).extend([_verb] * max(1, 4 // len(_verb.frames)))
# Adjectives that go with few nouns are drawn more often with these.
_TAKERS = {
    adjective.pt: [noun for noun in (*lex.NOUNS, *BY_CLASS["place"]) if fits(adjective, noun)]
    for adjective in lex.ADJECTIVES
}
QUALITIES = {
    noun.pt: [
        adjective
        for adjective in lex.ADJECTIVES
        if fits(adjective, noun)
        for _ in range(max(1, 24 // len(_TAKERS[adjective.pt])))
    ]
    for noun in (*lex.NOUNS, *BY_CLASS["place"])
}
THINGS = [
    noun
    for noun in lex.NOUNS
    if QUALITIES[noun.pt] and not {"mass", "event", "food", "room"} & {*noun.classes}
]
FOR_SALE = [
    noun
    for noun in THINGS
    if {"wear", "object", "furniture", "vehicle", "tableware", "sold"} & {*noun.classes}
]
# Who owns things ("my brother's car"), and who has relatives: not "my brother's sister".
OWNING = [noun for noun in (*BY_CLASS["kin"], *BY_CLASS["job"]) if "plural" not in noun.classes]
OWNERS_OF = {
    noun.pt: BY_CLASS["job"]
    if "friend" in noun.classes
    else [*BY_CLASS["job"], *BY_CLASS["friend"]]
    for noun in BY_CLASS["kin"]
}


# Noun phrases.


def name(rng: Random) -> Phrase:
    """A person's name."""
    gender = rng.choice("mf")
    word = rng.choice(lex.MEN if gender == "m" else lex.WOMEN)
    return Phrase(word, word, (word,), gender)


def with_determiner(rng: Random, det: str, noun: Phrase) -> Phrase:
    """Gives a bare noun, with or without its adjective, a determiner."""
    pt, en, words, gender, plural, _ = noun
    article = ARTICLES[gender, plural]
    if det == "the":
        pt, en = f"{article} {pt}", f"the {en}"
    elif det == "a":
        pt, en = f"{agree('um', gender, False)} {pt}", a(en)
    elif det == "this":
        pt, en = f"{agree('este', gender, plural)} {pt}", f"{'these' if plural else 'this'} {en}"
    elif det == "that":
        pt, en = f"{agree('aquele', gender, plural)} {pt}", f"{'those' if plural else 'that'} {en}"
    elif det == "many":
        pt, en = f"{agree('muito', gender, True)} {pt}", f"many {en}"
    elif det in ("number", "few"):
        number, english = rng.choice(lex.NUMBERS[1:6] if det == "number" else lex.NUMBERS[1:3])
        pt, en = f"{counted(number, gender)} {pt}", f"{english} {en}"
    elif det in ("my", "our"):
        pt, en = f"{agree('meu' if det == 'my' else 'nosso', gender, plural)} {pt}", f"{det} {en}"
    elif det in ("his", "her", "their"):
        owner = {"his": "dele", "her": "dela", "their": "deles"}[det]
        pt, en = f"{article} {pt} {owner}", f"{det} {en}"
    elif det == "name's":
        owner = name(rng)
        pt, en = f"{article} {pt} de {owner.pt}", f"{genitive(owner.en)} {en}"
        words += owner.words
    elif det == "person's":
        owner = rng.choice(OWNERS_OF.get(words[0], OWNING))
        owner = with_determiner(rng, "my" if "kin" in owner.classes else "the", bare(owner))
        pt, en = f"{article} {pt} {attach('de', owner.pt)}", f"{genitive(owner.en)} {en}"
        words += owner.words
    return Phrase(pt, en, words, gender, plural)


def counted(number: str, gender: str) -> str:
    """A number before a noun: only one and two have a gender."""
    return agree(number, gender, False) if number in ("um", "dois") else number


def bare(noun: lex.Noun, plural: bool = False) -> Phrase:
    """A noun without a determiner."""
    return Phrase(
        noun.pt_plural if plural else noun.pt,
        noun.en_plural if plural else noun.en,
        (noun.pt,),
        noun.gender,
        plural or "plural" in noun.classes,
    )


def described(noun: Phrase, adjective: lex.Adjective) -> Phrase:
    """A bare noun with an adjective: after it in Portuguese, before it in English."""
    form = agree(adjective.pt, noun.gender, noun.plural)
    return noun._replace(
        pt=f"{noun.pt} {form}", en=f"{adjective.en} {noun.en}", words=(*noun.words, adjective.pt)
    )


OWNERS = ("my", "our", "his", "her", "their", "name's", "person's")
DEFINITE = ("the", "the", "the", "this", "that", "my", "our", "his", "her", "name's", "person's")
ANY = (*DEFINITE, "a", "a", "a", "a", "number", "many")


def noun_phrase(
    rng: Random,
    noun: lex.Noun,
    dets: Sequence[str] = ANY,
    adjective: float = 0.35,
    plurals: float = 0.35,
) -> Phrase:
    """A noun with a determiner and sometimes an adjective."""
    if noun.classes[0] in BARE:
        return bare(noun)
    mass = "mass" in noun.classes
    det = rng.choice(dets)
    if {"place", "transport"} & {*noun.classes} and det in OWNERS:
        det = "the"
    if {"room", "transport"} & {*noun.classes}:
        plurals = 0.0
    if mass and det in ("a", "number", "many"):
        det = "bare"
    plural = det in ("number", "many") or (not mass and det != "a" and rng.random() < plurals)
    phrase = bare(noun, plural)
    if QUALITIES[noun.pt] and rng.random() < adjective:
        phrase = described(phrase, rng.choice(QUALITIES[noun.pt]))
    return with_determiner(rng, det, phrase)


def relative(rng: Random, owners: Sequence[str] = OWNERS) -> Phrase:
    """A relative, friend or neighbour: always somebody's."""
    noun = rng.choice(BY_CLASS["kin"])
    plural = "plural" in noun.classes or (bool(noun.pt_plural) and rng.random() < 0.2)
    return with_determiner(rng, rng.choice(owners), bare(noun, plural))


def professional(rng: Random) -> Phrase:
    """A person known by the job."""
    return with_determiner(rng, "the", bare(rng.choice(BY_CLASS["job"]), rng.random() < 0.25))


def person(rng: Random) -> Phrase:
    """A third person by name, relation or job, for subjects and objects."""
    return rng.choice((name, name, relative, relative, professional))(rng)


# Not a word of the corpus: keeps "I" and "with me" out of one sentence.
FIRST_PERSON = ""
I = Phrase("", "I", (FIRST_PERSON,), person=1)  # noqa: E741
WE = Phrase("", "we", (FIRST_PERSON,), person=1, plural=True)
YOU = (Phrase("você", "you"), Phrase("vocês", "you", plural=True))
PRONOUNS = (
    Phrase("ele", "he"),
    Phrase("ela", "she", gender="f"),
    Phrase("eles", "they", plural=True),
    Phrase("elas", "they", gender="f", plural=True),
)


def subject(rng: Random, we: bool = True) -> Phrase:
    """A subject; the first person is dropped in Portuguese, where the verb tells it."""
    draw = rng.random()
    if draw < 0.22:
        return WE if we and draw < 0.09 else I
    if draw < 0.27:
        return rng.choice(YOU)
    return rng.choice(PRONOUNS) if draw < 0.39 else person(rng)


def asked(rng: Random) -> Phrase:
    """The subject of a question."""
    draw = rng.random()
    if draw < 0.4:
        return rng.choice(YOU)
    return rng.choice(PRONOUNS) if draw < 0.5 else person(rng)


def companion(rng: Random) -> Phrase:
    """With whom: `comigo`, with me."""
    draw = rng.random()
    if draw < 0.3:
        pt, en = rng.choice((("comigo", "with me"), ("conosco", "with us")))
        return Phrase(pt, en, (FIRST_PERSON,))
    other = person(rng)
    return other._replace(pt=f"com {other.pt}", en=f"with {other.en}")


# By lemma, the ages that make sense: the young, then the old.
AGES = {"avós": (65, 90), "mãe": (40, 65), "pai": (40, 65), "pais": (40, 65)}
AGES |= {
    "filho": (2, 30),
    "filha": (2, 30),
    "tio": (30, 70),
    "tia": (30, 70),
    "estudante": (15, 25),
}
AGES |= {noun.pt: (25, 64) for noun in BY_CLASS["job"] if noun.pt != "estudante"}


def aged(rng: Random) -> tuple[Phrase, int]:
    """Somebody with an age that makes sense."""
    who = rng.choice(
        (I, *PRONOUNS[:2], name(rng), *(relative(rng) for _ in range(4)), professional(rng))
    )
    low, high = AGES.get(who.words[0] if who.words else "", (12, 60))
    # Young ages, then round ones: each number often enough to be learned.
    return who, rng.choice([n for n in range(low, high + 1) if n < 20 or n % 5 == 0])


def sibling(rng: Random) -> Phrase:
    """A relative who may be of any age."""
    noun = rng.choice([n for n in BY_CLASS["kin"] if n.pt not in AGES and n.pt_plural])
    return with_determiner(rng, rng.choice(OWNERS), bare(noun))


def generic(noun: lex.Noun) -> Phrase:
    """All there is of something: `maçãs`, `café`."""
    return bare(noun, noun.classes[0] not in BARE and "mass" not in noun.classes)


def amount(rng: Random) -> Phrase:
    """Some money: `vinte e cinco reais`."""
    pt, en = rng.choice(lex.TENS)
    unit = rng.randrange(10)
    if unit:
        more, english = lex.NUMBERS[unit - 1]
        pt, en = f"{pt} e {more}", f"{en}-{english}"
    return Phrase(f"{pt} reais", f"{en} reais")


def target(
    rng: Random, verb: lex.Verb, dets: Sequence[str] = ANY, adjective: float = 0.35
) -> Phrase:
    """An object of a verb, with the prepositions that the verb governs."""
    noun = rng.choice(OBJECTS[verb.pt])
    phrase = relative(rng) if "kin" in noun.classes else noun_phrase(rng, noun, dets, adjective)
    if verb.pt_preposition:
        phrase = phrase._replace(pt=attach(verb.pt_preposition, phrase.pt))
    en = f"{verb.en_preposition} {phrase.en}" if verb.en_preposition else phrase.en
    return phrase._replace(en=en, words=(verb.pt, *phrase.words))


# Place and time.


def destination(rng: Random, preposition: str, english: str) -> Phrase:
    """A city or country after a preposition: `ao Rio`, `a Lisboa`."""
    return _named(rng.choice(rng.choice((lex.CITIES, lex.COUNTRIES))), preposition, english)


def _named(place: lex.Name, preposition: str, english: str) -> Phrase:
    pt = place.pt if place.article == "-" else f"{place.article} {place.pt}"
    return Phrase(attach(preposition, pt), f"{english} {place.en}", (place.pt,))


def city(rng: Random, preposition: str = "em", english: str = "in") -> Phrase:
    place = rng.choice(lex.CITIES)
    return _named(place, preposition, english)


def at_place(rng: Random, places: tuple[str, ...] = ()) -> Phrase:
    """Being somewhere: `na praia`, at the beach."""
    noun, preposition = rng.choice([p for p in lex.PLACES if not places or p[0].pt in places])
    phrase = with_determiner(rng, "the", bare(noun))
    return phrase._replace(pt=attach("em", phrase.pt), en=f"{preposition} {phrase.en}")


def month(rng: Random) -> Phrase:
    pt, en = rng.choice(lex.MONTHS)
    return Phrase(f"em {pt}", f"in {en}", (pt,))


def month_of_year(rng: Random) -> Phrase:
    """A month long past: the year tells that it is."""
    pt, en = rng.choice(lex.MONTHS)
    year = rng.randint(1991, 2020)
    return Phrase(f"em {pt} de {year}", f"in {en} {year}", (pt,))


def date(rng: Random) -> Phrase:
    pt, en = rng.choice(lex.MONTHS)
    day = rng.randint(2, 28)
    return Phrase(f"no dia {day} de {pt}", f"on {en} {day}", (pt,))


def weekday(rng: Random) -> Phrase:
    pt, gender, en = rng.choice(lex.WEEKDAYS)
    return Phrase(attach("em", f"{ARTICLES[gender, False]} {pt}"), f"on {en}", (pt,))


def weekdays(rng: Random) -> Phrase:
    pt, gender, en = rng.choice(lex.WEEKDAYS)
    # Both parts of segunda-feira take the plural.
    plural = "-".join(part + "s" for part in pt.split("-"))
    return Phrase(attach("a", f"{ARTICLES[gender, True]} {plural}"), f"on {en}s", (pt,))


def last_weekday(rng: Random) -> Phrase:
    pt, gender, en = rng.choice(lex.WEEKDAYS)
    phrase = f"{ARTICLES[gender, False]} {pt} {agree('passado', gender, False)}"
    return Phrase(attach("em", phrase), f"last {en}", (pt,))


def next_weekday(rng: Random) -> Phrase:
    pt, gender, en = rng.choice(lex.WEEKDAYS)
    phrase = f"{ARTICLES[gender, False]} {agree('próximo', gender, False)} {pt}"
    return Phrase(attach("em", phrase), f"next {en}", (pt,))


Unit = tuple[str, str, str]  # In Portuguese, its gender, in English.
DAYS = (("dia", "m", "day"),)
WEEKS = (*DAYS, ("semana", "f", "week"))
YEARS = (("mês", "m", "month"), ("ano", "m", "year"))


def stretch(rng: Random, units: Sequence[Unit] = YEARS) -> Phrase:
    """A stretch of time: `três semanas`."""
    pt, gender, en = rng.choice(units)
    plural = "meses" if pt == "mês" else pt + "s"
    return with_determiner(rng, "number", Phrase(plural, en + "s", (), gender, True))


def ago(units: Sequence[Unit]) -> Callable[[Random], Phrase]:
    """Draws how long ago: `há dois dias`."""

    def make(rng: Random) -> Phrase:
        phrase = stretch(rng, units)
        return phrase._replace(pt=f"há {phrase.pt}", en=f"{phrase.en} ago")

    return make


def from_now(units: Sequence[Unit]) -> Callable[[Random], Phrase]:
    """Draws in how long: `daqui a dois dias`."""

    def make(rng: Random) -> Phrase:
        phrase = stretch(rng, units)
        return phrase._replace(pt=f"daqui a {phrase.pt}", en=f"in {phrase.en}")

    return make


HOURS = tuple(range(1, 12))


def hour(rng: Random, hours: tuple[int, ...]) -> Phrase:
    """A time of day, without `at`; among some hours the part of the day goes without saying."""
    parts = len(hours) == len(HOURS)
    index = rng.choice(hours) - 1
    pt, en = lex.NUMBERS[index]
    following, english = lex.NUMBERS[index + 1]
    pt, following = counted(pt, "f"), counted(following, "f")
    article = "a" if index == 0 else "as"
    kind = rng.randrange(5 if parts else 4)
    if kind == 0:
        unit = "hora" if index == 0 else "horas"
        return Phrase(f"{article} {pt} {unit}", f"{en} o'clock")
    if kind == 1:
        return Phrase(f"{article} {pt} e meia", f"half past {en}")
    if kind == 2:
        return Phrase(f"{article} {pt} e quinze", f"a quarter past {en}")
    if kind == 3:
        return Phrase(f"as quinze para as {following}", f"a quarter to {english}")
    part, english = rng.choice((("da manhã", "in the morning"), ("da tarde", "in the afternoon")))
    if (part == "da manhã") == (index < 5):
        return hour(rng, hours)
    return Phrase(f"{article} {pt} {part}", f"{en} {english}")


def at_hour(rng: Random, hours: tuple[int, ...] = HOURS) -> Phrase:
    if hours is HOURS and rng.random() < 0.1:
        return rng.choice((Phrase("ao meio-dia", "at noon"), Phrase("à meia-noite", "at midnight")))
    phrase = hour(rng, hours)
    return Phrase(attach("a", phrase.pt), f"at {phrase.en}")


def fixed(tense: str) -> Callable[[Random], Phrase]:
    """Draws from the fixed adverbials of a tense."""
    return lambda rng: Phrase(*rng.choice(lex.TIMES[tense]))


# What lasts or matters is told by months and years (`era`, `plan`), the rest by days.
WHEN = {
    "past": (fixed("past"), fixed("past"), last_weekday, ago(DAYS)),
    "era": (fixed("past"), fixed("era"), last_weekday, ago(WEEKS), ago(YEARS), month_of_year),
    "day": (lambda rng: Phrase("ontem", "yesterday"), last_weekday),
    # Nobody learns a language in a day.
    "far past": (fixed("era"), ago(YEARS), month_of_year),
    "far future": (fixed("plan"), from_now(YEARS), month),
    # For what did not happen, and for the weather.
    "recent": (fixed("past"), fixed("past"), last_weekday),
    "future": (fixed("future"), fixed("future"), next_weekday, weekday, from_now(DAYS), date),
    "plan": (
        *(fixed("future"), fixed("plan"), next_weekday, weekday),
        *(from_now(WEEKS), from_now(YEARS), date, month, month),
    ),
    "soon": (fixed("future"), next_weekday, weekday),
    "now": (fixed("now"),),
    "often": (fixed("often"), fixed("part"), fixed("season"), weekdays),
    "part": (fixed("part"), fixed("season"), weekdays),
    "daytime": (fixed("part"),),
    "season": (fixed("season"), weekdays, weekdays),
}


def when(rng: Random, tense: str) -> Phrase:
    return rng.choice(WHEN[tense])(rng)


# Clauses.


def english(subject: Phrase, tense: str, verb: str) -> tuple[str, str]:
    """The auxiliary and the main verb of an English clause; `be` is its own auxiliary."""
    third = subject.person == 3 and not subject.plural and subject.en != "you"
    if tense == "was doing":
        return "was" if third else "were", en_verb(verb, "ing")
    if tense in ("progressive", "going") or verb == "be":
        past = tense == "past"
        if subject.en == "I":
            auxiliary = "was" if past else "am"
        else:
            auxiliary = ("was" if past else "is") if third else ("were" if past else "are")
        main = {"progressive": en_verb(verb, "ing"), "going": f"going to {verb}"}
        return ("will", "be") if tense == "future" else (auxiliary, main.get(tense, ""))
    if tense == "future":
        return "will", verb
    if tense == "perfect":
        return "has" if third else "have", en_verb(verb, "participle")
    if tense == "past":
        return "did", verb
    return "does" if third else "do", verb


def portuguese(subject: Phrase, tense: str, verb: str) -> str:
    """The verb of a Portuguese clause."""
    if tense == "progressive":
        return f"{pt_verb('estar', 'present', subject.person, subject.plural)} {pt_gerund(verb)}"
    if tense == "going":
        return f"{pt_verb('ir', 'present', subject.person, subject.plural)} {verb}"
    if tense == "future":
        forms = {(1, False): "irei", (1, True): "iremos", (3, False): "irá", (3, True): "irão"}
        return f"{forms[subject.person, subject.plural]} {verb}"
    if tense in ("was", "was doing"):
        # The third person alone: "eu estava" cannot be told from "ele estava" once dropped.
        was = "estavam" if subject.plural else "estava"
        return was if tense == "was" else f"{was} {pt_gerund(verb)}"
    return pt_verb(verb, tense, subject.person, subject.plural)


def join(*parts: str) -> str:
    return " ".join(filter(None, parts))


def clause(
    subject: Phrase,
    tense: str,
    pt: str,
    en: str,
    rest: Phrase = NOTHING,
    mood: str = "",
    adverb: tuple[str, str] = ("", ""),
) -> Phrase:
    """A clause without its full stop.

    Args:
        subject: Who.
        tense: `present`, `past`, `future`, `progressive`, `going`, `was doing`, or where they
            differ the Portuguese and the English one, as in `present:perfect`.
        pt: The Portuguese infinitive.
        en: The English verb without `to`.
        rest: What follows the verb.
        mood: Empty, `not` or `?`.
        adverb: An adverb of frequency, which stands before the verb.
    """
    if tense == "going" and subject is WE:
        # "Vamos dançar" would be "let's dance".
        subject = subject._replace(pt="nós")
    if tense == "present" and pt == "comer" and subject is I:
        # "Como" is also "how" and "like".
        subject = subject._replace(pt="eu")
    pt_tense, _, en_tense = tense.partition(":")
    en_tense = en_tense or pt_tense
    auxiliary, main = english(subject, en_tense, en)
    words = (*subject.words, *rest.words)
    no = "não" if mood == "not" else ""
    portuguese_clause = join(subject.pt, no, adverb[0], portuguese(subject, pt_tense, pt), rest.pt)
    if mood == "?":
        english_clause = join(auxiliary, subject.en, main, rest.en)
    elif mood == "not":
        english_clause = join(subject.en, auxiliary, "not", main, rest.en)
    elif auxiliary in ("do", "does", "did"):
        form = {"do": "", "does": "s", "did": "past"}[auxiliary]
        finite = en_verb(en, form) if form else en
        english_clause = join(subject.en, adverb[1], finite, rest.en)
    else:
        english_clause = join(subject.en, auxiliary, adverb[1], main, rest.en)
    return Phrase(portuguese_clause, english_clause, words)


def finish(clause: Phrase, mood: str = "") -> Sentence:
    """A clause with its full stop or question mark."""
    end = "?" if mood == "?" else "."
    return Sentence(clause.pt + end, clause.en + end, clause.words)


def timed(rng: Random, clause: Phrase, time: Phrase, front: float = 0.45) -> Sentence:
    """A statement with its time: first or last in Portuguese, always last in English."""
    first = rng.random() < front
    pt = f"{time.pt}, {clause.pt}" if first else f"{clause.pt} {time.pt}"
    return Sentence(pt + ".", f"{clause.en} {time.en}.", (*clause.words, *time.words))


def distinct(*phrases: Phrase) -> bool:
    """Whether no lemma occurs in two phrases ("Ana helps Ana")."""
    words = [word for phrase in phrases for word in set(phrase.words)]
    return len(words) == len(set(words))


def chain(*phrases: Phrase) -> Phrase:
    """Phrases one after the other in both languages."""
    return Phrase(
        join(*(p.pt for p in phrases)),
        join(*(p.en for p in phrases)),
        tuple(word for p in phrases for word in p.words),
    )
