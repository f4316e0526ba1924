"""The constructions of the phrasebook: each makes one sentence in both languages.

A construction is a function of a random number generator, under the decorator that registers it
with a weight. It returns a `Sentence`, or None where the draw makes no sense (it is then drawn
again). The rules that make the English answer unique: `irá` is "will", but a plan with verbs of
travel ("is travelling"); `vai` + infinitive is "going to"; `está` + gerund is "is ...ing"; English
puts place before time at the end, wherever Portuguese has them.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from keras_mt.data.phrasebook import lexicon as lex
from keras_mt.data.phrasebook.morphology import (
    ARTICLES,
    a,
    agree,
    attach,
    en_verb,
    genitive,
    pt_gerund,
    pt_imperative,
    pt_participle,
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


CONSTRUCTIONS: dict[str, tuple[Callable[[Random], Sentence | None], float]] = {}


def construction(weight: float = 1.0):
    """Registers a function as a construction that is drawn this often."""

    def register(function):
        CONSTRUCTIONS[function.__name__] = (function, weight)
        return function

    return register


def draw(rng: Random, name: str) -> Example | None:
    """One example of a construction, or None where the draw makes no sense."""
    sentence = CONSTRUCTIONS[name][0](rng)
    if sentence is None:
        return None
    pt, en = (text[0].upper() + text[1:] for text in sentence[:2])
    return Example(pt, en, name, tuple(dict.fromkeys(sentence.words)))


# Words by class.

BARE = {"language", "subject", "instrument", "sport"}
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
        FRAMES.setdefault(_frame, []).append(_verb)
VERB = {verb.pt: verb for verb in lex.INTRANSITIVE}
QUALITIES = {
    noun.pt: [x for x in lex.ADJECTIVES if {noun.classes[0], noun.pt} & {*x.goes_with}]
    for noun in (*lex.NOUNS, *BY_CLASS["place"])
}
THINGS = [
    noun
    for noun in lex.NOUNS
    if QUALITIES[noun.pt] and not {"mass", "event", "food", "room", "show"} & {*noun.classes}
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
    elif det == "number":
        number, english = rng.choice(lex.NUMBERS[1:10])
        pt, en = f"{agree(number, gender, False)} {pt}", f"{english} {en}"
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


def bare(noun: lex.Noun, plural: bool = False) -> Phrase:
    """A noun without a determiner."""
    return Phrase(
        noun.pt_plural if plural else noun.pt,
        noun.en_plural if plural else noun.en,
        (noun.pt,),
        noun.gender,
        plural or "plural" in noun.classes,
    )


def described(noun: Phrase, adjective: lex.Adjective, very: bool = False) -> Phrase:
    """A bare noun with an adjective: after it in Portuguese, before it in English."""
    form = agree(adjective.pt, noun.gender, noun.plural)
    return noun._replace(
        pt=f"{noun.pt} {'muito ' if very else ''}{form}",
        en=f"{'very ' if very else ''}{adjective.en} {noun.en}",
        words=(*noun.words, adjective.pt),
    )


OWNERS = ("my", "our", "his", "her", "their", "name's", "person's")
DEFINITE = ("the", "the", "the", "this", "that", "my", "our", "his", "her", "name's", "person's")
ANY = (*DEFINITE, "a", "a", "a", "a", "number", "many")


def noun_phrase(rng: Random, noun: lex.Noun, dets=ANY, adjective: float = 0.35) -> Phrase:
    """A noun with a determiner and sometimes an adjective."""
    if noun.classes[0] in BARE:
        return bare(noun)
    mass = "mass" in noun.classes
    det = rng.choice(dets)
    if mass and det in ("a", "number", "many"):
        det = "bare"
    plural = det in ("number", "many") or (not mass and det != "a" and rng.random() < 0.35)
    phrase = bare(noun, plural)
    if QUALITIES[noun.pt] and rng.random() < adjective:
        phrase = described(phrase, rng.choice(QUALITIES[noun.pt]))
    return with_determiner(rng, det, phrase)


def relative(rng: Random, owners=OWNERS) -> Phrase:
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


I = Phrase("", "I", person=1)  # noqa: E741
WE = Phrase("", "we", person=1, plural=True)
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


def target(rng: Random, verb: lex.Verb, dets=ANY, adjective: float = 0.35) -> Phrase:
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
    place = rng.choice(rng.choice((lex.CITIES, lex.COUNTRIES)))
    pt = place.pt if place.article == "-" else f"{place.article} {place.pt}"
    return Phrase(attach(preposition, pt), f"{english} {place.en}", (place.pt,))


def city(rng: Random) -> Phrase:
    place = rng.choice(lex.CITIES)
    pt = place.pt if place.article == "-" else f"{place.article} {place.pt}"
    return Phrase(attach("em", pt), f"in {place.en}", (place.pt,))


def at_place(rng: Random) -> Phrase:
    """Being somewhere: `na praia`, at the beach."""
    noun, preposition = rng.choice(lex.PLACES)
    phrase = with_determiner(rng, "the", bare(noun))
    return phrase._replace(pt=attach("em", phrase.pt), en=f"{preposition} {phrase.en}")


def month(rng: Random) -> Phrase:
    pt, en = rng.choice(lex.MONTHS)
    return Phrase(f"em {pt}", f"in {en}", (pt,))


def month_of_year(rng: Random) -> Phrase:
    """A month long past: the year tells that it is."""
    pt, en = rng.choice(lex.MONTHS)
    year = rng.randint(2001, 2020)
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


UNITS = (("dia", "m", "day"), ("semana", "f", "week"), ("mês", "m", "month"), ("ano", "m", "year"))


def stretch(rng: Random) -> Phrase:
    """A stretch of time: `três semanas`."""
    pt, gender, en = rng.choice(UNITS)
    plural = "meses" if pt == "mês" else pt + "s"
    return with_determiner(rng, "number", Phrase(plural, en + "s", (pt,), gender, True))


def ago(rng: Random) -> Phrase:
    phrase = stretch(rng)
    return phrase._replace(pt=f"há {phrase.pt}", en=f"{phrase.en} ago")


def from_now(rng: Random) -> Phrase:
    phrase = stretch(rng)
    return phrase._replace(pt=attach("daqui a", phrase.pt), en=f"in {phrase.en}")


def hour(rng: Random) -> Phrase:
    """A time of day, without `at`, that agrees as Portuguese hours do."""
    index = rng.randrange(11)
    pt, en = lex.NUMBERS[index]
    pt = agree(pt, "f", False) if index < 2 else pt
    following, english = lex.NUMBERS[index + 1]
    following = agree(following, "f", False) if index == 0 else following
    article = "a" if index == 0 else "as"
    kind = rng.randrange(5)
    if kind == 0:
        hours = "hora" if index == 0 else "horas"
        return Phrase(f"{article} {pt} {hours}", f"{en} o'clock")
    if kind == 1:
        return Phrase(f"{article} {pt} e meia", f"half past {en}")
    if kind == 2:
        return Phrase(f"{article} {pt} e quinze", f"a quarter past {en}")
    if kind == 3:
        return Phrase(f"as quinze para as {following}", f"a quarter to {english}")
    part, english = rng.choice((("da manhã", "in the morning"), ("da tarde", "in the afternoon")))
    if (part == "da manhã") == (index < 5):
        return hour(rng)
    return Phrase(f"{article} {pt} {part}", f"{en} {english}")


def at_hour(rng: Random) -> Phrase:
    if rng.random() < 0.1:
        return rng.choice((Phrase("ao meio-dia", "at noon"), Phrase("à meia-noite", "at midnight")))
    phrase = hour(rng)
    return Phrase(attach("a", phrase.pt), f"at {phrase.en}")


def fixed(tense: str) -> Callable[[Random], Phrase]:
    """Draws from the fixed adverbials of a tense."""
    return lambda rng: Phrase(*rng.choice(lex.TIMES[tense]))


WHEN = {
    "past": (fixed("past"), fixed("past"), last_weekday, ago, month_of_year),
    "future": (fixed("future"), fixed("future"), next_weekday, from_now, month, date, weekday),
    "now": (fixed("now"),),
    "habit": (fixed("habit"), weekdays),
}


def when(rng: Random, tense: str) -> Phrase:
    return rng.choice(WHEN[tense])(rng)


# Clauses.


def english(subject: Phrase, tense: str, verb: str) -> tuple[str, str]:
    """The auxiliary and the main verb of an English clause; `be` is its own auxiliary."""
    third = subject.person == 3 and not subject.plural and subject.en != "you"
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
    return pt_verb(verb, tense, subject.person, subject.plural)


def join(*parts: str) -> str:
    return " ".join(filter(None, parts))


def clause(
    subject: Phrase,
    tense: str,
    pt: str,
    en: str,
    rest: Phrase = Phrase("", ""),
    mood: str = "",
    adverb: tuple[str, str] = ("", ""),
) -> Phrase:
    """A clause without its full stop.

    Args:
        subject: Who.
        tense: `present`, `past`, `future`, `progressive` or `going`; or two, Portuguese:English.
        pt: The Portuguese infinitive.
        en: The English verb without `to`.
        rest: What follows the verb.
        mood: Empty, `not` or `?`.
        adverb: An adverb of frequency, which stands before the verb.
    """
    pt_tense, _, en_tense = tense.partition(":")
    en_tense = en_tense or tense
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


def finish(clause: Phrase, end: str = ".") -> Sentence:
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
