"""Phrases and clauses in both languages at once, drawn at random.

The rules that make the English answer unique: `irá` is "will", but a plan with verbs of travel ("is
travelling"); `vai` + infinitive is "going to"; `está` + gerund is "is ...ing"; the Portuguese
present is the English one, but with `há` for how long it is "has ..."; English puts place before
time at the end, wherever Portuguese has them.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from phrasebook import lexicon as lex
from phrasebook.morphology import FEMININES, GERUND, a, agree, attach, en_verb, pt_forms


class Phrase(NamedTuple):
    """A phrase in both languages, with what agreement needs and the lemmas in it."""

    pt: str
    en: str
    words: tuple[str, ...] = ()
    gender: str = "m"
    plural: bool = False
    person: int = 3

    def __add__(self, other):
        """One after the other in both languages; nothing agrees with the whole."""
        pt, en = f"{self.pt} {other.pt}".strip(), f"{self.en} {other.en}".strip()
        return Phrase(pt, en, self.words + other.words)

    def after(self, pt, en):
        """The phrase behind prepositions: `no livro`, in the book."""
        pt = attach(pt, self.pt) if pt else self.pt
        return self._replace(pt=pt, en=f"{en} {self.en}".strip())


NOTHING = Phrase("", "")


def unsaid(*words):
    """Lemmas alone, which count where the phrase is."""
    return Phrase("", "", words)


Draw = Callable[[Random], Phrase]


class Senseless(Exception):  # noqa: N818
    """What was drawn makes no sense: it is drawn again."""


def apart(*phrases):
    """Refuses phrases that have a lemma in common ("Ana helps Ana")."""
    words = [word for phrase in phrases for word in {*phrase.words}]
    if len(words) > len({*words}):
        raise Senseless


# Words by class.


def fits(adjective, noun):
    """Whether an adjective makes sense with a noun."""
    return not {*noun.classes, noun.pt}.isdisjoint(adjective.goes_with)


BARE = {"language", "subject", "instrument", "sport", "audio"}
NOUNS = (*lex.NOUNS, *lex.PLACES)
BY_CLASS: dict[str, list[lex.Noun]] = {}
for _noun in NOUNS:
    for _class in _noun.classes:
        BY_CLASS.setdefault(_class, []).append(_noun)
OBJECTS = {
    verb.pt: [noun for noun in NOUNS if not {*verb.takes}.isdisjoint(noun.classes)]
    for verb in lex.VERBS
}
FRAMES: dict[str, list[lex.Verb]] = {}
for _verb in (*lex.VERBS, *lex.INTRANSITIVE):
    for _frame in _verb.frames:
        # A verb of few frames is drawn more often in these.
        FRAMES.setdefault(_frame, []).extend([_verb] * max(1, 4 // len(_verb.frames)))
# Adjectives that go with few nouns are drawn more often with these.
QUALITIES: dict[str, list[lex.Adjective]] = {noun.pt: [] for noun in NOUNS}
for _adjective in lex.ADJECTIVES:
    _takers = [noun.pt for noun in NOUNS if fits(_adjective, noun)]
    for _pt in dict.fromkeys(_takers):
        QUALITIES[_pt] += [_adjective] * max(1, 24 // len(_takers))
THINGS = [
    noun
    for noun in lex.NOUNS
    if QUALITIES[noun.pt] and {"mass", "event", "food", "room"}.isdisjoint(noun.classes)
]
_SOLD = {"wear", "object", "furniture", "vehicle", "tableware", "sold"}
FOR_SALE = [noun for noun in THINGS if not _SOLD.isdisjoint(noun.classes)]
# Who owns things ("my brother's car"), and who has relatives: not "my brother's sister".
OWNING = [noun for noun in (*BY_CLASS["kin"], *BY_CLASS["job"]) if "plural" not in noun.classes]
OWNERS_OF = {
    noun.pt: BY_CLASS["job"] + ([] if "friend" in noun.classes else BY_CLASS["friend"])
    for noun in BY_CLASS["kin"]
}


def some(rng, *classes):
    """A noun of one of some classes."""
    return rng.choice(BY_CLASS[rng.choice(classes) if len(classes) > 1 else classes[0]])


# Noun phrases.

OWNERS = ("my", "our", "his", "her", "their", "name's", "person's")
DEFINITE = ("the", "the", "the", "this", "that", "my", "our", "his", "her", "name's", "person's")
ANY = (*DEFINITE, "a", "a", "a", "a", "number", "many")
# Those that agree with the noun: in Portuguese, in the English singular and plural.
AGREEING = {"the": "o the the", "this": "este this these", "that": "aquele that those"}
AGREEING |= {"many": "muito many many", "my": "meu my my", "our": "nosso our our"}
BEHIND = {"his": "dele", "her": "dela", "their": "deles"}


def name(rng):
    """A person's name."""
    gender = rng.choice("mf")
    word = rng.choice(lex.MEN if gender == "m" else lex.WOMEN)
    return Phrase(word, word, (word,), gender)


def with_determiner(rng, det, noun):
    """Gives a bare noun, with or without its adjective, a determiner."""
    pt, en, words, gender, plural, _ = noun
    if det == "a":
        pt, en = f"{agree('um', gender)} {pt}", a(en)
    elif det in AGREEING:
        before, singular, plurals = AGREEING[det].split()
        pt, en = f"{agree(before, gender, plural)} {pt}", f"{plurals if plural else singular} {en}"
    elif det in ("number", "few"):
        number, english = rng.choice(lex.NUMBERS[1 : 6 if det == "number" else 3])
        pt, en = f"{counted(number, gender)} {pt}", f"{english} {en}"
    elif det != "bare":
        behind, english, more = owner(rng, det, noun)
        pt, en = f"{agree('o', gender, plural)} {pt} {behind}", f"{english} {en}"
        words += more
    return Phrase(pt, en, words, gender, plural)


def owner(rng, det, noun):
    """Whose a noun is: in Portuguese, behind it, in English, before it, and the lemmas."""
    if det in BEHIND:
        return BEHIND[det], det, ()
    if det == "name's":
        who = name(rng)
    else:
        other = rng.choice(OWNERS_OF.get(noun.words[0], OWNING))
        who = with_determiner(rng, "my" if "kin" in other.classes else "the", bare(other))
    return attach("de", who.pt), f"{who.en}'s", who.words


def counted(number, gender):
    """A number before a noun: only one and two have a gender."""
    return FEMININES.get(number, number) if gender == "f" else number


def bare(noun, plural=False):
    """A noun without a determiner."""
    pt, en = (noun.pt_plural, noun.en_plural) if plural else (noun.pt, noun.en)
    return Phrase(pt, en, (noun.pt,), noun.gender, plural or "plural" in noun.classes)


def the(noun):
    """A noun in the singular with its definite article."""
    article = agree("o", noun.gender)
    return Phrase(f"{article} {noun.pt}", f"the {noun.en}", (noun.pt,), noun.gender)


def described(rng, noun, chance, adjectives):
    """A bare noun, sometimes with an adjective: after it in Portuguese, before it in English."""
    if (chance < 1 and rng.random() >= chance) or not adjectives:
        return noun
    adjective = rng.choice(adjectives)
    pt = f"{noun.pt} {agree(adjective.pt, noun.gender, noun.plural)}"
    return noun._replace(pt=pt, en=f"{adjective.en} {noun.en}", words=(*noun.words, adjective.pt))


def noun_phrase(rng, noun, dets=ANY, adjective=0.35, plurals=0.35):
    """A noun with a determiner and sometimes an adjective."""
    if noun.classes[0] in BARE:
        return bare(noun)
    det = rng.choice(dets)
    kinds = {*noun.classes}
    if {"place", "transport"} & kinds and det in OWNERS:
        det = "the"
    if {"room", "transport"} & kinds:
        plurals = 0.0
    if "mass" in kinds and det in ("a", "number", "many"):
        det = "bare"
    single = "mass" in kinds or det == "a"
    phrase = bare(noun, det in ("number", "many") or (not single and rng.random() < plurals))
    if QUALITIES[noun.pt]:
        phrase = described(rng, phrase, adjective, QUALITIES[noun.pt])
    return with_determiner(rng, det, phrase)


def relative(rng):
    """A relative, friend or neighbour: always somebody's."""
    noun = some(rng, "kin")
    plural = "plural" in noun.classes or (bool(noun.pt_plural) and rng.random() < 0.2)
    return with_determiner(rng, rng.choice(OWNERS), bare(noun, plural))


def professional(rng):
    """A person known by the job."""
    return with_determiner(rng, "the", bare(some(rng, "job"), rng.random() < 0.25))


def person(rng):
    """A third person by name, relation or job, for subjects and objects."""
    return rng.choice((name, name, relative, relative, professional))(rng)


# Not a word of the corpus: keeps "I" and "with me" out of one sentence.
FIRST_PERSON = ""
I = Phrase("", "I", (FIRST_PERSON,), person=1)  # noqa: E741
WE = Phrase("", "we", (FIRST_PERSON,), person=1, plural=True)
YOU = (Phrase("você", "you"), Phrase("vocês", "you", plural=True))
PRONOUNS = (
    *(Phrase("ele", "he"), Phrase("ela", "she", gender="f")),
    *(Phrase("eles", "they", plural=True), Phrase("elas", "they", gender="f", plural=True)),
)


def subject(rng, we=True):
    """A subject; the first person is dropped in Portuguese, where the verb tells it."""
    draw = rng.random()
    if draw < 0.22:
        return WE if we and draw < 0.09 else I
    if draw < 0.27:
        return rng.choice(YOU)
    return rng.choice(PRONOUNS) if draw < 0.39 else person(rng)


def asked(rng):
    """The subject of a question."""
    draw = rng.random()
    if draw < 0.4:
        return rng.choice(YOU)
    return rng.choice(PRONOUNS) if draw < 0.5 else person(rng)


def companion(rng):
    """With whom: `comigo`, with me."""
    if rng.random() < 0.3:
        pt, en = rng.choice((("comigo", "with me"), ("conosco", "with us")))
        return Phrase(pt, en, (FIRST_PERSON,))
    return person(rng).after("com", "with")


# By lemma, the ages that make sense: the young, then the old.
AGES = {noun.pt: (25, 64) for noun in BY_CLASS["job"]}
AGES |= {"avós": (65, 90), "mãe": (40, 65), "pai": (40, 65), "pais": (40, 65)}
AGES |= {"filho": (2, 30), "filha": (2, 30), "tio": (30, 70), "tia": (30, 70)}
AGES |= {"estudante": (15, 25)}


def aged(rng):
    """Somebody with an age that makes sense."""
    who = rng.choice(
        (I, *PRONOUNS[:2], name(rng), *(relative(rng) for _ in range(4)), professional(rng))
    )
    low, high = AGES.get(who.words[0] if who.words else "", (12, 60))
    # Young ages, then round ones: each number often enough to be learned.
    return who, rng.choice([n for n in range(low, high + 1) if n < 20 or n % 5 == 0])


def sibling(rng):
    """A relative who may be of any age."""
    noun = rng.choice([n for n in BY_CLASS["kin"] if n.pt not in AGES and n.pt_plural])
    return with_determiner(rng, rng.choice(OWNERS), bare(noun))


def generic(noun):
    """All there is of something: `maçãs`, `café`."""
    return bare(noun, noun.classes[0] not in BARE and "mass" not in noun.classes)


def amount(rng):
    """Some money: `vinte e cinco reais`."""
    pt, en = rng.choice(lex.TENS)
    if unit := rng.randrange(10):
        more, english = lex.NUMBERS[unit - 1]
        pt, en = f"{pt} e {more}", f"{en}-{english}"
    return Phrase(f"{pt} reais", f"{en} reais")


def target(rng, verb, dets=ANY, adjective=0.35):
    """An object of a verb, with the prepositions that the verb governs."""
    noun = rng.choice(OBJECTS[verb.pt])
    phrase = relative(rng) if "kin" in noun.classes else noun_phrase(rng, noun, dets, adjective)
    phrase = phrase.after(verb.pt_preposition, verb.en_preposition)
    return phrase._replace(words=(verb.pt, *phrase.words))


# Place and time.


def destination(rng, pt, en, *kinds):
    """A city or country after a preposition: `ao Rio`, `a Lisboa`."""
    kinds = kinds or (lex.CITIES, lex.COUNTRIES)
    article, place, english = rng.choice(rng.choice(kinds) if len(kinds) > 1 else kinds[0])
    whole = place if article == "-" else f"{article} {place}"
    return Phrase(whole, english, (place,)).after(pt, en)


def city(rng, pt="em", en="in"):
    return destination(rng, pt, en, lex.CITIES)


def somewhere(rng, cities):
    """In a city or country, with a probability surely in a city."""
    return city(rng) if rng.random() < cities else destination(rng, "em", "in")


def at_place(rng, places=()):
    """Being somewhere: `na praia`, at the beach."""
    noun = rng.choice([p for p in lex.PLACES if not places or p.pt in places])
    return the(noun).after("em", noun.classes[1])


def month(rng):
    pt, en = rng.choice(lex.MONTHS)
    return Phrase(f"em {pt}", f"in {en}", (pt,))


def month_of_year(rng):
    """A month long past: the year tells that it is."""
    long_ago, year = month(rng), rng.randint(1991, 2020)
    return long_ago + Phrase(f"de {year}", f"{year}")


def date(rng):
    pt, en = rng.choice(lex.MONTHS)
    day = rng.randint(2, 28)
    return Phrase(f"no dia {day} de {pt}", f"on {en} {day}", (pt,))


def weekday(pt, en, preposition="em", plural=False):
    """Draws a day of the week, `{}`, with which the other words agree: `no próximo domingo`."""

    def draw(rng):
        day, gender, english = rng.choice(lex.WEEKDAYS)
        words = " ".join(agree(word, gender, plural) for word in pt.split())
        # Both parts of segunda-feira take the plural.
        words = words.format(day.replace("-", "s-") if plural else day)
        return Phrase(attach(preposition, words), en.format(english), (day,))

    return draw


DAYS = (("dia", "m", "day"),)
WEEKS = (*DAYS, ("semana", "f", "week"))
YEARS = (("mês", "m", "month"), ("ano", "m", "year"))


def stretch(pt, en, units):
    """Draws a stretch of time, `{}`: `há três semanas`, three weeks ago."""

    def draw(rng):
        unit, gender, english = rng.choice(units)
        plural = Phrase(lex.pt_plural(unit), english + "s", (), gender, True)
        long = with_determiner(rng, "number", plural)
        return long._replace(pt=pt.format(long.pt), en=en.format(long.en))

    return draw


HOURS = tuple(range(1, 12))


def hour(rng, hours):
    """A time of day, without `at`; among some hours the part of the day goes without saying."""
    index = rng.choice(hours) - 1
    (pt, en), (following, after) = lex.NUMBERS[index : index + 2]
    pt, following = counted(pt, "f"), counted(following, "f")
    pt, unit = (f"as {pt}", "horas") if index else (f"a {pt}", "hora")
    kind = rng.randrange(5 if hours == HOURS else 4)
    if kind == 4:
        part, english = rng.choice(
            (("da manhã", "in the morning"), ("da tarde", "in the afternoon"))
        )
        if (part == "da manhã") == (index < 5):
            return hour(rng, hours)
        return Phrase(f"{pt} {part}", f"{en} {english}")
    return (
        Phrase(f"{pt} {unit}", f"{en} o'clock"),
        Phrase(f"{pt} e meia", f"half past {en}"),
        Phrase(f"{pt} e quinze", f"a quarter past {en}"),
        Phrase(f"as quinze para as {following}", f"a quarter to {after}"),
    )[kind]


def at_hour(rng, hours=HOURS):
    if hours is HOURS and rng.random() < 0.1:
        return rng.choice((Phrase("ao meio-dia", "at noon"), Phrase("à meia-noite", "at midnight")))
    return hour(rng, hours).after("a", "at")


AGO, FROM_NOW = ("há {}", "{} ago"), ("daqui a {}", "in {}")
# How each adverbial of time is drawn; others are the fixed ones of the lexicon.
TIMES = {
    "last": weekday("o {} passado", "last {}"),
    "next": weekday("o próximo {}", "next {}"),
    "weekday": weekday("o {}", "on {}"),
    "weekdays": weekday("o {}", "on {}s", "a", plural=True),
    "date": date,
    "month": month,
    "year": month_of_year,
    "days ago": stretch(*AGO, DAYS),
    "weeks ago": stretch(*AGO, WEEKS),
    "years ago": stretch(*AGO, YEARS),
    "in days": stretch(*FROM_NOW, DAYS),
    "in weeks": stretch(*FROM_NOW, WEEKS),
    "in years": stretch(*FROM_NOW, YEARS),
    "yesterday": lambda rng: Phrase("ontem", "yesterday"),
}
# What lasts or matters is told by months and years (`era`, `plan`), the rest by days.
WHEN = {
    "past": "past, past, last, days ago",
    "era": "past, era, last, weeks ago, years ago, year",
    "day": "yesterday, last",
    # Nobody learns a language in a day.
    "far past": "era, years ago, year",
    "far future": "plan, in years, month",
    # For what did not happen, and for the weather.
    "recent": "past, past, last",
    "future": "future, future, next, weekday, in days, date",
    "forecast": "future, future, next, weekday",
    "plan": "future, plan, next, weekday, in weeks, in years, date, month, month",
    "soon": "future, next, weekday",
    "agenda": "next, date, weekday",
    "now": "now",
    "often": "often, part, season, weekdays",
    "part": "part, season, weekdays",
    "daytime": "part",
    "season": "season, weekdays, weekdays",
    "month": "month",
    "weekdays": "weekdays",
}


def when(rng, kind):
    time = rng.choice(WHEN[kind].split(", "))
    return TIMES[time](rng) if time in TIMES else Phrase(*rng.choice(lex.TIMES[time]))


# Clauses.


def english(subject, tense, verb):
    """The auxiliary and the main verb of an English clause; `be` is its own auxiliary."""
    third = subject.person == 3 and not subject.plural and subject.en != "you"
    am = "am" if subject.en == "I" else "is" if third else "are"
    was = "was" if third or subject.en == "I" else "were"
    be = verb == "be"
    return {
        "present": (am, "") if be else ("does" if third else "do", verb),
        "past": (was, "") if be else ("did", verb),
        "future": ("will", verb),
        "going": (am, f"going to {verb}"),
        "perfect": ("has" if third else "have", en_verb(verb, "participle")),
        "progressive": (am, en_verb(verb, "ing")),
        "was doing": (was, en_verb(verb, "ing")),
    }[tense]


def portuguese(subject, tense, verb):
    """The verb of a Portuguese clause."""
    form = 2 * subject.plural + (subject.person == 3)
    # The third person alone: "eu estava" cannot be told from "ele estava" once dropped.
    was = "estavam" if subject.plural else "estava"
    return {
        "present": pt_forms(verb)[form],
        "past": pt_forms(verb)[4 + form],
        "future": f"{('irei', 'irá', 'iremos', 'irão')[form]} {verb}",
        "going": f"{pt_forms('ir')[form]} {verb}",
        "progressive": f"{pt_forms('estar')[form]} {pt_forms(verb)[GERUND]}",
        "was": was,
        "was doing": f"{was} {pt_forms(verb)[GERUND]}",
    }[tense]


def join(*parts):
    return " ".join(filter(None, parts))


def clause(subject, tense, pt, en, rest=NOTHING, mood="", adverb=("", "")):
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
    auxiliary, main = english(subject, en_tense or pt_tense, en)
    no = "não" if mood == "not" else ""
    portuguese_clause = join(subject.pt, no, adverb[0], portuguese(subject, pt_tense, pt), rest.pt)
    finite = {"do": "", "does": "s", "did": "past"}
    if mood == "?":
        order = auxiliary, subject.en, main
    elif mood == "not":
        order = subject.en, auxiliary, "not", main
    elif auxiliary in finite:
        order = subject.en, adverb[1], en_verb(en, finite[auxiliary])
    else:
        order = subject.en, auxiliary, adverb[1], main
    return Phrase(portuguese_clause, join(*order, rest.en), subject.words + rest.words)


def finish(clause, mood=""):
    """A clause with its full stop, question mark or exclamation mark."""
    end = mood if mood in ("?", "!") else "."
    return clause._replace(pt=clause.pt + end, en=clause.en + end)


def timed(rng, clause, time, front=0.45):
    """A statement with its time: first or last in Portuguese, always last in English."""
    first, whole = rng.random() < front, clause + time
    return finish(whole._replace(pt=f"{time.pt}, {clause.pt}") if first else whole)
