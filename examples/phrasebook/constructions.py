"""The constructions of the phrasebook, one function each: a sentence in both languages.

A construction takes a random number generator and returns a `Sentence`, or None where the draw
makes no sense (it is then drawn again). `@construction(weight)` registers it under its name.
"""

from collections.abc import Callable
from random import Random

from phrasebook import grammar as g
from phrasebook import lexicon as lex
from phrasebook.grammar import (
    NOTHING,
    Phrase,
    Sentence,
    chain,
    clause,
    distinct,
    finish,
    timed,
)
from phrasebook.morphology import (
    agree,
    attach,
    comparative,
    en_verb,
    pt_imperative,
    pt_more,
    pt_participle,
    superlative,
)

Construction = Callable[[Random], Sentence | None]

CONSTRUCTIONS: dict[str, tuple[Construction, float]] = {}


def construction(weight: float = 1.0) -> Callable[[Construction], Construction]:
    """Registers a function as a construction that is drawn this often."""

    def register(function):
        CONSTRUCTIONS[function.__name__] = (function, weight)
        return function

    return register


def mood(rng: Random, no: float = 0.2, question: float = 0.0) -> str:
    """A mood for a clause: mostly a statement."""
    draw = rng.random()
    return "not" if draw < no else "?" if draw < no + question else ""


def who(rng: Random, mood: str, we: bool = True) -> Phrase:
    return g.asked(rng) if mood == "?" else g.subject(rng, we)


def ended(rng: Random, clause: Phrase, time: Phrase, mood: str) -> Sentence:
    """A statement with its time in either place, or a question with its time at the end."""
    if mood == "?":
        return finish(chain(clause, time), "?")
    return timed(rng, clause, time, 0.1 if mood == "not" else 0.45)


# Being somewhere.


@construction(1.3)
def located(rng: Random) -> Sentence | None:
    """O livro está em cima da mesa. / The book is on the table."""
    things = rng.choice(("portable", "portable", "pet"))
    thing = g.noun_phrase(rng, rng.choice(g.BY_CLASS[things]), g.DEFINITE)
    noun = rng.choice(g.BY_CLASS["surface"] * 2 + g.BY_CLASS["landmark"])
    preposition, english = rng.choice(
        lex.POSITIONS[2:] if "landmark" in noun.classes else lex.POSITIONS
    )
    place = g.noun_phrase(rng, noun, g.DEFINITE, adjective=0.25, plurals=0.1)
    if not distinct(thing, place):
        return None
    rest = place._replace(pt=attach(preposition, place.pt), en=f"{english} {place.en}")
    kind = mood(rng, 0.15, 0.15)
    return finish(clause(thing, "present", "estar", "be", rest, kind), kind)


@construction(0.8)
def inside(rng: Random) -> Sentence | None:
    """As chaves de Ana não estão na gaveta. / Ana's keys are not in the drawer."""
    thing = g.noun_phrase(rng, rng.choice(g.BY_CLASS["portable"]), g.DEFINITE)
    container = rng.choice(g.BY_CLASS["container"] + g.BY_CLASS["room"])
    place = g.with_determiner(rng, rng.choice(g.DEFINITE), g.bare(container))
    if not distinct(thing, place):
        return None
    rest = place._replace(pt=attach("em", place.pt), en=f"in {place.en}")
    kind = mood(rng, 0.2, 0.2)
    return finish(clause(thing, "present", "estar", "be", rest, kind), kind)


@construction(0.8)
def where(rng: Random) -> Sentence:
    """Onde estão as chaves novas de Ana? / Where are Ana's new keys?"""
    nouns = g.BY_CLASS[rng.choice(("portable", "wear", "pet"))]
    thing = g.noun_phrase(rng, rng.choice(nouns), ("the", *g.OWNERS), adjective=0.5)
    verb = g.portuguese(thing, "present", "estar")
    be, _ = g.english(thing, "present", "be")
    return Sentence(f"onde {verb} {thing.pt}?", f"where {be} {thing.en}?", thing.words)


@construction(1.4)
def there_is(rng: Random) -> Sentence | None:
    """Há três livros na caixa. / There are three books in the box."""
    if rng.random() < 0.5:
        kind, holder = rng.choice(
            (("portable", "container"), ("tableware", "container"), ("food", "larder"))
        )
        noun, place = rng.choice(g.BY_CLASS[kind]), g.bare(rng.choice(g.BY_CLASS[holder]))
        place = g.with_determiner(rng, rng.choice(g.DEFINITE), place)
        place = place._replace(pt=attach("em", place.pt), en=f"in {place.en}")
    else:
        kind, places = rng.choice(
            (
                ("animal", ("parque", "praia", "praça", "jardim")),
                ("job", ()),
                ("road", ("praça", "hotel", "mercado", "estação", "aeroporto")),
            )
        )
        noun, place = rng.choice(g.BY_CLASS[kind]), g.at_place(rng, places)
    question, none = rng.random() < 0.2, rng.random() < 0.2
    thing = g.noun_phrase(rng, noun, ("bare",) if none else ("a", "number", "many"))
    plural = thing.plural
    if (none and not plural and "mass" not in noun.classes) or not distinct(thing, place):
        return None
    words = (*thing.words, *place.words)
    be = "are" if plural else "is"
    if question and not none:
        return Sentence(f"há {thing.pt} {place.pt}?", f"{be} there {thing.en} {place.en}?", words)
    no, english = ("não ", "no ") if none else ("", "")
    en = f"there {be} {english}{thing.en} {place.en}."
    if not none and rng.random() < 0.3:
        return Sentence(f"{place.pt}, há {thing.pt}.", en, words)
    return Sentence(f"{no}há {thing.pt} {place.pt}.", en, words)


@construction(0.8)
def lives(rng: Random) -> Sentence | None:
    """Moramos em uma casa pequena em Lisboa. / We live in a small house in Lisbon."""
    tail = g.city(rng) if rng.random() < 0.6 else g.destination(rng, "em", "in")
    if rng.random() < 0.5:
        home = g.bare(HOUSE)
        if rng.random() < 0.8:
            home = g.described(home, rng.choice(g.QUALITIES["casa"]))
        home = g.with_determiner(rng, "a", home)
        tail = chain(home._replace(pt=f"em {home.pt}", en=f"in {home.en}"), tail)
    elif rng.random() < 0.7:
        tail = chain(tail, g.companion(rng))
    return stated(rng, "present", "morar", "live", tail)


HOUSE = next(noun for noun in lex.NOUNS if noun.pt == "casa")


@construction(1.1)
def for_years(rng: Random) -> Sentence | None:
    """Moro em Lisboa há dez anos. / I have lived in Lisbon for ten years."""
    kind = rng.randrange(3)
    if kind == 0:
        verb, english, rest = "morar", "live", g.destination(rng, "em", "in")
    elif kind == 1:
        verb, english, rest = "trabalhar", "work", g.at_place(rng, g.FRAMES["activity"][0].takes)
    else:
        noun = rng.choice(g.BY_CLASS["language"] + g.BY_CLASS["subject"] * 2)
        verb, english, rest = "estudar", "study", g.bare(noun)
    time = g.stretch(rng)
    rest = chain(rest, time._replace(pt=f"há {time.pt}", en=f"for {time.en}"))
    return stated(rng, "present:perfect", verb, english, rest, question=0.1)


# Going places.


def trip_of(rng: Random, how: float) -> tuple[lex.Verb, Phrase]:
    """A verb of travel with where to and, with a probability, how."""
    verb = rng.choice(TRAVEL)
    to = word(verb, g.destination(rng, verb.pt_preposition, verb.en_preposition))
    if rng.random() < how:
        city = any(place.pt in to.words for place in lex.CITIES)
        to = chain(to, Phrase(*rng.choice(lex.BY_RAIL if city else lex.BY_SEA)))
    return verb, to


TRAVEL = [verb for verb in lex.INTRANSITIVE if "travel" in verb.frames]
TRAVEL += TRAVEL[:1]


@construction(1.4)
def trip(rng: Random) -> Sentence | None:
    """Em Dezembro, Lucas irá viajar ao Rio. / Lucas is travelling to Rio in December."""
    alone = rng.random() < 0.8
    verb, to = trip_of(rng, 0.3 if alone else 0)
    to = to if alone else chain(to, g.companion(rng))
    kind = mood(rng, 0.1, 0.1)
    subject = who(rng, kind)
    if not distinct(subject, to):
        return None
    plan = clause(subject, "future:progressive", verb.pt, verb.en, to, kind)
    return ended(rng, plan, g.when(rng, "plan"), kind)


@construction(0.8)
def when_trip(rng: Random) -> Sentence:
    """Quando Lucas irá viajar ao Rio? / When is Lucas travelling to Rio?"""
    verb, to = trip_of(rng, 0.6)
    plan = clause(g.asked(rng), "future:progressive", verb.pt, verb.en, to, "?")
    pt, en = rng.choice((("quando", "when"), ("quando", "when"), ("por que", "why")))
    return Sentence(f"{pt} {plan.pt}?", f"{en} {plan.en}?", plan.words)


@construction(1.2)
def travelled(rng: Random) -> Sentence | None:
    """Viajei a Paris de trem ontem. / I travelled to Paris by train yesterday."""
    verb, to = trip_of(rng, 0.4)
    return stated(rng, "past", verb.pt, verb.en, to, "era", 0.15, 0.1)


@construction(1.0)
def went(rng: Random) -> Sentence | None:
    """Ontem, fomos ao mercado a pé. / We went to the market on foot yesterday."""
    place = g.with_determiner(rng, "the", g.bare(rng.choice(g.BY_CLASS["place"])))
    pt, en, preposition, english = rng.choice(
        (("ir", "go", "a", "to"), ("ir", "go", "a", "to"), ("chegar", "arrive", "a", "at"))
    )
    to = Phrase(attach(preposition, place.pt), f"{english} {place.en}", (pt, *place.words))
    draw = rng.random()
    if draw < 0.4:
        to = chain(to, Phrase(*rng.choice(lex.BY_ROAD)))
    elif draw < 0.6:
        to = chain(to, g.companion(rng))
    tense = rng.choice(("past", "present")) if pt == "ir" else "past"
    return stated(rng, tense, pt, en, to, "past" if tense == "past" else "often", 0.1, 0.1)


@construction(1.2)
def activity(rng: Random) -> Sentence | None:
    """Ana almoçou comigo no restaurante ontem. / Ana had lunch with me at the restaurant ..."""
    verb = rng.choice(g.FRAMES["activity"])
    place = g.at_place(rng, verb.takes)
    rest = chain(g.companion(rng), place) if rng.random() < 0.4 else place
    tense, time = rng.choice((("past", "past"), ("present", "often"), ("going", "future")))
    return stated(rng, tense, verb.pt, verb.en, word(verb, rest), time, 0.15, 0.1)


# Doing things.


FOOD = {noun.pt for noun in g.BY_CLASS["food"] + g.BY_CLASS["drink"]}


def time_of(tense: str, verb: lex.Verb, rest: Phrase = NOTHING) -> str:
    """The times for a verb: what matters is told by years, not a banana that one buys."""
    if verb.pt == "aprender":
        return f"far {tense}"
    matters = "era" in verb.frames and FOOD.isdisjoint(rest.words)
    return {"past": "era", "future": "plan"}[tense] if matters else tense


@construction(1.6)
def past(rng: Random) -> Sentence | None:
    """Ontem, Ana comprou um carro azul. / Ana bought a blue car yesterday."""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, g.ANY if "quantity" in verb.frames else NOT_MANY)
    return stated(rng, "past", verb.pt, verb.en, rest, time_of("past", verb, rest), 0, 0)


@construction(1.2)
def past_negative(rng: Random) -> Sentence | None:
    """Ainda não li o jornal. / Ana não comprou o carro. / Ana did not buy the car."""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, (*g.DEFINITE, "a"))
    return stated(rng, "past", verb.pt, verb.en, rest, time_of("past", verb, rest), 1, 0)


@construction(1.2)
def past_question(rng: Random) -> Sentence | None:
    """Você leu o livro de Ana? / Did you read Ana's book?"""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, (*g.DEFINITE, "a", "a"))
    time = time_of("past", verb, rest) if rng.random() < 0.5 else ""
    return stated(rng, "past", verb.pt, verb.en, rest, time, 0, 1)


@construction(1.2)
def wh_past(rng: Random) -> Sentence | None:
    """Onde Ana comprou este livro? / Where did Ana buy this book?"""
    pt, en = rng.choice(
        (("onde", "where"), ("quando", "when"), ("por que", "why"), ("o que", "what"))
    )
    verb = rng.choice(g.FRAMES["passive"] if pt in ("onde", "o que") else g.FRAMES["past"])
    if pt == "o que" and verb.pt in ("abrir", "fechar"):
        return None
    if pt == "o que":
        rest = chain(Phrase("", "", (verb.pt,)), g.when(rng, time_of("past", verb)))
        rest = chain(rest, g.at_place(rng)) if verb.pt == "comprar" else rest
    else:
        rest = g.target(rng, verb, g.DEFINITE)
    subject = g.asked(rng)
    if not distinct(subject, rest):
        return None
    did = clause(subject, "past", verb.pt, verb.en, rest, "?")
    return Sentence(f"{pt} {did.pt}?", f"{en} {did.en}?", did.words)


@construction(0.9)
def who_did(rng: Random) -> Sentence:
    """Quem comprou o carro de Ana? / Who bought Ana's car?"""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, g.DEFINITE)
    did = clause(Phrase("quem", "who"), "past", verb.pt, verb.en, rest)
    return finish(
        chain(did, g.when(rng, time_of("past", verb, rest))) if rng.random() < 0.4 else did, "?"
    )


@construction(1.0)
def how_many(rng: Random) -> Sentence | None:
    """Quantas maçãs Ana comprou? / How many apples did Ana buy?"""
    verb = rng.choice(g.FRAMES["quantity"])
    noun = rng.choice(g.OBJECTS[verb.pt])
    if "mass" in noun.classes:
        return None
    things = g.bare(noun, plural=True)
    if rng.random() < 0.4 and g.QUALITIES[noun.pt]:
        things = g.described(things, rng.choice(g.QUALITIES[noun.pt]))
    future = rng.random() < 0.3
    subject = g.asked(rng)
    time = g.when(rng, time_of("future" if future else "past", verb, things))
    rest = Phrase("", "", (verb.pt, *things.words))
    if future or rng.random() < 0.4:
        rest = chain(rest, time)
    did = clause(subject, "going" if future else "past", verb.pt, verb.en, rest, "?")
    quantos = agree("quanto", noun.gender, True)
    return Sentence(
        f"{quantos} {things.pt} {did.pt}?", f"how many {things.en} {did.en}?", did.words
    )


@construction(1.4)
def progressive(rng: Random) -> Sentence | None:
    """Minha irmã está lendo um livro agora. / My sister is reading a book now."""
    verb = rng.choice(g.FRAMES["progressive"])
    time = "now" if rng.random() < 0.5 else ""
    return stated(
        rng, "progressive", verb.pt, verb.en, g.target(rng, verb, NOT_MANY), time, 0.15, 0.25
    )


NOT_MANY = (*g.DEFINITE, "a", "a", "a")


@construction(1.4)
def future(rng: Random) -> Sentence | None:
    """Amanhã, irei pintar a porta. / I will paint the door tomorrow."""
    verb = rng.choice(g.FRAMES["future"])
    rest = g.target(rng, verb, NOT_MANY)
    return stated(rng, "future", verb.pt, verb.en, rest, time_of("future", verb, rest), 0.2, 0.1)


@construction(1.2)
def going_to(rng: Random) -> Sentence | None:
    """Ana vai comprar um carro em Maio. / Ana is going to buy a car in May."""
    verb = rng.choice(g.FRAMES["future"])
    rest = g.target(rng, verb, NOT_MANY)
    return stated(rng, "going", verb.pt, verb.en, rest, time_of("future", verb, rest), 0.15, 0.25)


def habitual(verb: lex.Verb) -> tuple[str, ...]:
    return ("the",) if verb.pt in ("lavar", "limpar", "visitar") else ("a",)


@construction(1.2)
def habit(rng: Random) -> Sentence | None:
    """Aos sábados, bebemos café. / We drink coffee on Saturdays."""
    verb = rng.choice(g.FRAMES["habit"])
    rest = g.target(rng, verb, habitual(verb), adjective=0.25)
    return stated(rng, "present", verb.pt, verb.en, rest, "often", 0.15, 0.15)


@construction(1.0)
def frequency(rng: Random) -> Sentence | None:
    """Ana nunca come peixe à tarde. / Ana never eats fish in the afternoon."""
    verb = rng.choice(g.FRAMES["habit"])
    rest = g.target(rng, verb, habitual(verb), adjective=0.25)
    adverb = rng.choice(lex.FREQUENCY)
    subject = g.subject(rng)
    if not distinct(subject, rest):
        return None
    time = g.when(rng, "part")
    does = clause(subject, "present", verb.pt, verb.en, rest, adverb=adverb)
    return timed(rng, does, time, 0.3) if rng.random() < 0.6 else finish(does)


@construction(0.8)
def imperative(rng: Random) -> Sentence:
    """Por favor, feche a porta. / Please close the door."""
    verb = rng.choice(g.FRAMES["imperative"])
    rest = g.target(rng, verb, g.DEFINITE)
    no, english = ("não ", "do not ") if rng.random() < 0.3 else ("", "")
    pt, en = f"{no}{pt_imperative(verb.pt)} {rest.pt}", f"{english}{verb.en} {rest.en}"
    form = rng.randrange(3)
    if form == 0:
        return Sentence(f"por favor, {pt}.", f"please {en}.", rest.words)
    if form == 1:
        return Sentence(f"{pt}, por favor.", f"{en}, please.", rest.words)
    return Sentence(f"{pt}!", f"{en}!", rest.words)


@construction(1.2)
def passive(rng: Random) -> Sentence | None:
    """A carta foi escrita pela professora. / The letter was written by the teacher."""
    verb = rng.choice(g.FRAMES["passive"])
    thing = g.target(rng, verb, ("the", "the", "this", "that", "my", "our"))
    by = g.person(rng)
    if not distinct(thing, by):
        return None
    participle = agree(pt_participle(verb.pt), thing.gender, thing.plural)
    rest = Phrase(
        f"{participle} {attach('por', by.pt)}",
        f"{en_verb(verb.en, 'participle')} by {by.en}",
        by.words,
    )
    kind = mood(rng, 0.12, 0.2)
    done = clause(thing, "past", "ser", "be", rest, kind)
    return (
        ended(rng, done, g.when(rng, time_of("past", verb, thing)), kind)
        if rng.random() < 0.4
        else finish(done, kind)
    )


@construction(1.0)
def modal(rng: Random) -> Sentence | None:
    """Quero vender meu carro amanhã. / I want to sell my car tomorrow."""
    verb = rng.choice(g.FRAMES["want"])
    rest = g.target(rng, verb, NOT_MANY)
    pt, en = rng.choice((("querer", "want"), ("precisar", "need"), ("ter", "have")))
    que = "que " if pt == "ter" else ""
    rest = rest._replace(pt=f"{que}{verb.pt} {rest.pt}", en=f"to {verb.en} {rest.en}")
    time = "soon" if verb.pt not in ("aprender", "falar") and rng.random() < 0.6 else ""
    return stated(rng, "present", pt, en, rest, time, 0.2, 0.2)


@construction(1.0)
def likes_doing(rng: Random) -> Sentence | None:
    """Minha mãe gosta de ler jornais. / My mother likes reading newspapers."""
    verb = rng.choice(g.FRAMES["habit"])
    noun = rng.choice(g.OBJECTS[verb.pt])
    thing = g.relative(rng) if "kin" in noun.classes else g.generic(noun)
    thing = (
        thing._replace(pt=attach(verb.pt_preposition, thing.pt)) if verb.pt_preposition else thing
    )
    doing = en_verb(verb.en, "ing")
    preposition = f"{verb.en_preposition} " if verb.en_preposition else ""
    rest = Phrase(
        f"de {verb.pt} {thing.pt}", f"{doing} {preposition}{thing.en}", (verb.pt, *thing.words)
    )
    time = "part" if rng.random() < 0.6 else ""
    return stated(rng, "present", "gostar", "like", rest, time, 0.2, 0.2)


# Giving and meeting.


def gift(rng: Random) -> Phrase:
    nouns = g.BY_CLASS[rng.choice(("readable", "portable", "wear"))]
    return g.noun_phrase(rng, rng.choice(nouns), (*g.DEFINITE, "a", "a", "a", "a", "a"))


@construction(1.2)
def gave(rng: Random) -> Sentence | None:
    """Ontem, dei um livro ao irmão de Ana. / I gave a book to Ana's brother yesterday."""
    verb, thing, to = rng.choice(lex.TRANSFERS), gift(rng), g.person(rng)
    tense = rng.choice(("past", "past", "future", "going"))
    to = to._replace(pt=attach("a", to.pt), en=f"to {to.en}")
    if not distinct(thing, to):
        return None
    rest = word(verb, chain(thing, to))
    return stated(
        rng, tense, verb.pt, verb.en, rest, "past" if tense == "past" else "future", 0.1, 0.15
    )


@construction(0.9)
def gave_me(rng: Random) -> Sentence | None:
    """Lucas nos mostrou as fotos. / Lucas showed us the photos."""
    verb, thing, subject = rng.choice(lex.TRANSFERS), gift(rng), g.asked(rng)
    if not distinct(subject, thing):
        return None
    pronoun = rng.choice((("me", "me"), ("nos", "us")))
    kind = mood(rng, 0.1, 0.2)
    rest = word(verb, thing)._replace(en=f"{pronoun[1]} {thing.en}")
    gave = clause(subject, "past", verb.pt, verb.en, rest, kind, (pronoun[0], ""))
    return ended(rng, gave, g.when(rng, "past"), kind)


@construction(0.9)
def invited(rng: Random) -> Sentence | None:
    """Convidei o médico para a festa. / I invited the doctor to the party."""
    guest = g.person(rng)
    event = g.with_determiner(
        rng, rng.choice(("the", "my", "our", "name's")), g.bare(rng.choice(g.BY_CLASS["social"]))
    )
    if not distinct(guest, event):
        return None
    rest = chain(guest, event._replace(pt=f"para {event.pt}", en=f"to {event.en}"))
    tense = rng.choice(("past", "past", "future", "going"))
    time = "past" if tense == "past" else "future"
    return stated(rng, tense, "convidar", "invite", rest, time, 0.15, 0.2)


# People.


@construction(2.0)
def hungry(rng: Random) -> Sentence:
    """Ana tem muita sede agora. / Ana is very thirsty now."""
    if rng.random() < 0.2:
        animals = g.bare(rng.choice(g.BY_CLASS["animal"]), plural=True)
        if rng.random() < 0.5:
            animals = g.described(animals, rng.choice(g.QUALITIES[animals.words[0]]))
        rest = animals._replace(pt=f"medo de {animals.pt}", en=f"afraid of {animals.en}")
        time = ""
    else:
        pt, en, gender = rng.choice(lex.FEELINGS)
        very = gender and rng.random() < 0.4
        rest = (
            Phrase(f"{agree('muito', gender, False)} {pt}", f"very {en}")
            if very
            else Phrase(pt, en)
        )
        rest = rest._replace(words=(pt,))
        time = rng.choice(("now", "daytime", "")) if gender else ""
    kind = mood(rng, 0.2, 0.25)
    subject = who(rng, kind)
    has = clause(subject, "present", "ter", "be", rest, kind)
    return ended(rng, has, g.when(rng, time), kind) if time else finish(has, kind)


@construction(1.3)
def age(rng: Random) -> Sentence:
    """Minha avó tem 80 anos. / My grandmother is 80 years old."""
    subject, years = g.aged(rng)
    form = rng.randrange(5)
    if form < 3:
        kind = mood(rng, 0.15, 0.15)
        rest = Phrase(f"{years} anos", f"{years} years old")
        return finish(clause(subject, "present", "ter", "be", rest, kind), kind)
    rest = Phrase(f"{years} anos", str(years))
    tense, time = ("past", "past") if form == 3 else ("future", "plan")
    turns = clause(subject, tense, "fazer", "turn", rest)
    return timed(rng, turns, g.when(rng, time))


@construction(0.8)
def how_old(rng: Random) -> Sentence:
    """Quantos anos tem a irmã de Ana? / How old is Ana's sister?"""
    subject = rng.choice((g.name, g.relative, g.relative, g.relative, g.professional))(rng)
    tem = g.portuguese(subject, "present", "ter")
    be, _ = g.english(subject, "present", "be")
    return Sentence(
        f"quantos anos {tem} {subject.pt}?", f"how old {be} {subject.en}?", subject.words
    )


@construction(0.8)
def birthday(rng: Random) -> Sentence:
    """O aniversário de Ana é no dia 5 de Março. / Ana's birthday is on March 5."""
    thing = Phrase("aniversário", "birthday", ("aniversário",))
    day = g.with_determiner(rng, rng.choice(g.OWNERS), thing)
    rest = rng.choice((g.date, g.date, g.month))(rng)
    if rng.random() < 0.2:
        rest = Phrase("hoje", "today")
    kind = mood(rng, 0.1, 0.2)
    return finish(clause(day, "present", "ser", "be", rest, kind), kind)


@construction(1.0)
def born(rng: Random) -> Sentence:
    """Nasci em Lisboa em Maio de 1990. / I was born in Lisbon in May 1990."""
    subject = rng.choice((g.I, *g.PRONOUNS[:2], g.name(rng), g.name(rng), g.sibling(rng)))
    place = g.city(rng) if rng.random() < 0.6 else g.destination(rng, "em", "in")
    day = g.month_of_year(rng) if rng.random() < 0.5 else g.date(rng)
    kind = mood(rng, 0.1)
    pt = join_pt(subject, "não" if kind else "", g.portuguese(subject, "past", "nascer"), place.pt)
    be, _ = g.english(subject, "past", "be")
    en = f"{subject.en} {be} {'not ' if kind else ''}born {place.en}"
    return ended(rng, Phrase(pt, en, (*subject.words, "nascer", *place.words)), day, kind)


def join_pt(subject: Phrase, *parts: str) -> str:
    return " ".join(part for part in (subject.pt, *parts) if part)


JOBS = {noun.pt for noun in g.BY_CLASS["job"]}


@construction(1.0)
def job(rng: Random) -> Sentence | None:
    """Minhas irmãs são médicas em Lisboa. / My sisters are doctors in Lisbon."""
    kind = mood(rng, 0.15, 0.2)
    subject = g.asked(rng) if kind == "?" else rng.choice((g.subject, g.name, g.relative))(rng)
    nouns = [n for n in g.BY_CLASS["job"] if n.gender == subject.gender]
    noun = g.bare(rng.choice(nouns), subject.plural)
    if rng.random() < 0.35:
        noun = g.described(noun, rng.choice(lex.TRAITS))
        noun = noun if noun.plural else g.with_determiner(rng, "a", noun)
    elif not noun.plural:
        # Portuguese names a profession without an article.
        noun = noun._replace(en=g.a(noun.en))
    if not distinct(subject, noun) or JOBS & {*subject.words[:1]}:
        return None
    rest = chain(noun, g.city(rng)) if rng.random() < 0.5 else noun
    return finish(clause(subject, "present", "ser", "be", rest, kind), kind)


@construction(2.1)
def feels(rng: Random) -> Sentence | None:
    """Minha irmã está muito cansada hoje. / My sister is very tired today."""
    kind = mood(rng, 0.15, 0.3)
    past = rng.random() < 0.3
    subject = who(rng, kind)
    if past and subject.person == 1:
        return None
    state = rng.choice(lex.STATES)
    form = agree(state.pt, subject.gender, subject.plural)
    very = state.en not in ("alone", "ready") and kind != "not" and rng.random() < 0.3
    rest = Phrase(f"{'muito ' * very}{form}", f"{'very ' * very}{state.en}", (state.pt,))
    if past:
        time, tense = rng.choice(lex.TIMES["past"]), "was:past"
    else:
        time, tense = rng.choice(lex.TIMES["now"]), "present"
    is_so = clause(subject, tense, "estar", "be", rest, kind)
    if kind == "?" and rng.random() < 0.5:
        return Sentence(f"por que {is_so.pt}?", f"why {is_so.en}?", is_so.words)
    return ended(rng, is_so, Phrase(*time), kind)


# Things.

BY_ESTAR = {"limpo", "sujo", "quebrado", "vazio"}
UNGRADED = {"vermelho", "azul", "verde", "branco", "preto", "amarelo", "quebrado", "vazio"}
# More or less of it can be compared.
GRADABLE = {adjective.pt for adjective in lex.ADJECTIVES} - UNGRADED - BY_ESTAR


@construction(2.0)
def quality(rng: Random) -> Sentence:
    """Estas mesas são muito pesadas. / These tables are very heavy."""
    noun = rng.choice(g.THINGS + g.BY_CLASS["room"])
    adjective = rng.choice(g.QUALITIES[noun.pt])
    thing = g.noun_phrase(rng, noun, g.DEFINITE, adjective=0)
    form = agree(adjective.pt, thing.gender, thing.plural)
    kind = mood(rng, 0.2, 0.25)
    very = adjective.pt not in UNGRADED and kind != "not" and rng.random() < 0.3
    rest = Phrase(f"{'muito ' * very}{form}", f"{'very ' * very}{adjective.en}", (adjective.pt,))
    verb = "estar" if adjective.pt in BY_ESTAR else "ser"
    return finish(clause(thing, "present", verb, "be", rest, kind), kind)


@construction(1.0)
def that_was_bought(rng: Random) -> Sentence | None:
    """O livro que Ana comprou ontem é caro. / The book that Ana bought yesterday is expensive."""
    verb = rng.choice(g.FRAMES["passive"])
    noun = rng.choice(g.OBJECTS[verb.pt])
    qualities = [
        x for x in g.QUALITIES[noun.pt] if x.pt not in ("quebrado", "sujo", "novo", "velho")
    ]
    subject = g.subject(rng)
    if not qualities or "mass" in noun.classes or subject.en == "you":
        return None
    adjective = rng.choice(qualities)
    thing = g.with_determiner(rng, "the", g.bare(noun, rng.random() < 0.3))
    if not distinct(subject, thing):
        return None
    did = clause(subject, "past", verb.pt, verb.en)
    time = g.when(rng, time_of("past", verb, thing)) if rng.random() < 0.5 else NOTHING
    pt, en = f"{thing.pt} que {did.pt}", f"{thing.en} that {did.en}"
    if time.pt:
        pt, en = f"{pt} {time.pt}", f"{en} {time.en}"
    whole = thing._replace(pt=pt, en=en, words=(*thing.words, verb.pt, *did.words, *time.words))
    form = agree(adjective.pt, thing.gender, thing.plural)
    verb = "estar" if adjective.pt in BY_ESTAR else "ser"
    return finish(clause(whole, "present", verb, "be", Phrase(form, adjective.en, (adjective.pt,))))


@construction(1.2)
def compared(rng: Random) -> Sentence | None:
    """Ana é mais alta do que Pedro. / Ana is taller than Pedro."""
    if rng.random() < 0.5:
        kind = mood(rng, 0.1, 0.2)
        subject, other = (g.asked(rng) if kind == "?" else g.person(rng)), g.person(rng)
        if not distinct(subject, other):
            return None
        adjective = rng.choice(lex.TRAITS)
    else:
        kind = mood(rng, 0.1, 0.2)
        noun = rng.choice(g.THINGS)
        qualities = [x for x in g.QUALITIES[noun.pt] if x.pt in GRADABLE]
        if not qualities:
            return None
        adjective = rng.choice(qualities)
        subject = g.noun_phrase(rng, noun, ("this", "that", *g.OWNERS), adjective=0)
        other = g.noun_phrase(rng, noun, g.OWNERS, adjective=0)
        if subject.plural != other.plural or set(subject.words[1:]) & set(other.words[1:]):
            return None
    if subject.pt == other.pt:
        return None
    more = pt_more(adjective.pt, subject.gender, subject.plural)
    rest = Phrase(
        f"{more} do que {other.pt}",
        f"{comparative(adjective.en)} than {other.en}",
        (adjective.pt, *other.words),
    )
    return finish(clause(subject, "present", "ser", "be", rest, kind), kind)


@construction(0.8)
def superlative_place(rng: Random) -> Sentence | None:
    """Esta é a praia mais bonita do Brasil. / This is the most beautiful beach in Brazil."""
    noun = rng.choice(g.BY_CLASS["place"])
    adjective = rng.choice([x for x in g.QUALITIES[noun.pt] if x.pt in GRADABLE])
    where = g.destination(rng, "de", "in")
    more = pt_more(adjective.pt, noun.gender, False)
    # "a maior praia", but "a praia mais bonita".
    pt = f"{noun.pt} {more}" if more.startswith("mais") else f"{more} {noun.pt}"
    most = g.with_determiner(rng, "the", g.bare(noun)._replace(
        pt=pt, en=f"{superlative(adjective.en)} {noun.en}", words=(noun.pt, adjective.pt)
    ))  # fmt: skip
    most = chain(most, where)
    form = rng.randrange(3)
    if form == 0:
        return Sentence(f"qual é {most.pt}?", f"what is {most.en}?", most.words)
    if form == 1:
        if "sight" not in noun.classes:
            return None
        return stated(rng, "past", "visitar", "visit", most, "era", 0.1, 0.15)
    this = Phrase(agree("este", noun.gender, False), "this")
    return finish(clause(this, "present", "ser", "be", most))


def for_sale(rng: Random) -> Phrase:
    """A thing with its adjective, not one that nobody would pay for."""
    noun = rng.choice(g.FOR_SALE)
    qualities = [x for x in g.QUALITIES[noun.pt] if x.pt not in UNSOLD]
    thing = g.bare(noun, rng.random() < 0.35)
    if rng.random() < 0.5 and qualities:
        thing = g.described(thing, rng.choice(qualities))
    return g.with_determiner(rng, rng.choice(("the", "the", "this", "that")), thing)


UNSOLD = BY_ESTAR | {"barato", "caro"}


@construction(1.0)
def price(rng: Random) -> Sentence | None:
    """Estes livros custam vinte reais. / These books cost twenty reais."""
    thing = for_sale(rng)
    reais = g.amount(rng)
    if rng.random() < 0.6:
        kind = mood(rng, 0.1, 0.15)
        tense = "past" if rng.random() < 0.3 else "present"
        return finish(clause(thing, tense, "custar", "cost", reais, kind), kind)
    rest = Phrase(
        f"{reais.pt} {attach('por', thing.pt)}", f"{reais.en} for {thing.en}", thing.words
    )
    return stated(rng, "past", "pagar", "pay", rest, "")


@construction(0.9)
def how_much(rng: Random) -> Sentence:
    """Quanto custa este carro? / How much does this car cost?"""
    thing = for_sale(rng)
    tense = rng.choice(("present", "present", "past"))
    custa = g.portuguese(thing, tense, "custar")
    auxiliary, cost = g.english(thing, tense, "cost")
    words = (*thing.words, "custar")
    return Sentence(
        f"quanto {custa} {thing.pt}?", f"how much {auxiliary} {thing.en} {cost}?", words
    )


@construction(1.4)
def likes(rng: Random) -> Sentence | None:
    """Ana não gosta de café. / Ana does not like coffee."""
    noun = rng.choice(
        g.BY_CLASS[rng.choice(("food", "food", "drink", "sport", "animal", "wear", "readable"))]
    )
    if rng.random() < 0.5 or noun.classes[0] in g.BARE or noun.pt in FOOD:
        thing = g.generic(noun)
        if rng.random() < 0.4 and g.QUALITIES[noun.pt]:
            thing = g.described(thing, rng.choice(g.QUALITIES[noun.pt]))
    else:
        thing = g.noun_phrase(rng, noun, g.DEFINITE)
    much = rng.random() < 0.25
    rest = Phrase(
        f"{'muito ' * much}{attach('de', thing.pt)}",
        f"{thing.en}{' very much' * much}",
        thing.words,
    )
    return stated(rng, "present", "gostar", "like", rest, "", 0.0 if much else 0.3, 0.3)


@construction(1.0)
def needs(rng: Random) -> Sentence | None:
    """Preciso de uma caneta azul. / I need a blue pen."""
    nouns = g.BY_CLASS[rng.choice(("object", "wear", "vehicle", "tableware", "container"))]
    thing = g.noun_phrase(rng, rng.choice(nouns), ("a", "a", "number", "the", "my", "name's"), 0.5)
    rest = thing._replace(pt=attach("de", thing.pt))
    time = "now" if rng.random() < 0.2 else ""
    return stated(rng, "present", "precisar", "need", rest, time, 0.2, 0.25)


@construction(1.1)
def prefers(rng: Random) -> Sentence | None:
    """Prefiro chá a café. / I prefer tea to coffee."""
    nouns = g.BY_CLASS[rng.choice(("food", "food", "drink", "sport", "animal", "language"))]
    one, other = (g.generic(noun) for noun in rng.sample(nouns, 2))
    rest = chain(one, other._replace(pt=f"a {other.pt}", en=f"to {other.en}"))
    time = "part" if one.words[0] in FOOD and rng.random() < 0.6 else ""
    return stated(rng, "present", "preferir", "prefer", rest, time, 0.1, 0.2)


@construction(1.0)
def cup_of(rng: Random) -> Sentence | None:
    """Ana bebeu dois copos de água. / Ana drank two glasses of water."""
    vessel, drinks = rng.choice(
        [(v, d) for v in g.BY_CLASS["tableware"] if (d := lex.MEASURES.get(v.pt))]
    )
    plural = rng.random() < 0.4
    drink = rng.choice([noun for noun in g.BY_CLASS["drink"] if noun.pt in drinks])
    cup, liquid = g.bare(vessel, plural), g.bare(drink)
    if rng.random() < 0.3 and g.QUALITIES[drink.pt]:
        liquid = g.described(liquid, rng.choice(g.QUALITIES[drink.pt]))
    cup = cup._replace(
        pt=f"{cup.pt} de {liquid.pt}", en=f"{cup.en} of {liquid.en}", words=cup.words + liquid.words
    )
    cup = g.with_determiner(rng, "few" if plural else "a", cup)
    form = rng.randrange(4)
    if form == 0:
        return stated(rng, "present", "querer", "want", cup, "", 0, 0.4)
    if form == 1:
        return stated(rng, "past", "beber", "drink", cup, "past", 0, 0.2)
    if form == 2:
        return stated(rng, "present", "beber", "drink", cup, "often", 0, 0.1)
    return stated(rng, "going", "beber", "drink", cup, "", 0, 0.2)


# Weather, hours and both at once.


# Half the year, in the north.
WARM = {pt for pt, _ in lex.MONTHS[4:9]}


@construction(1.0)
def weather(rng: Random) -> Sentence | None:
    """Em Agosto, faz calor em Lisboa. / It is hot in Lisbon in August."""
    place = g.city(rng) if rng.random() < 0.5 else g.destination(rng, "em", "in")
    it = Phrase("", "it")
    kind = mood(rng, 0.15, 0.2)
    tense, times = rng.choice(
        (("present", (g.month,)), ("past", g.WHEN["recent"]), ("future", g.WHEN["future"][:4]))
    )
    time = rng.choice(times)(rng)
    warm = None
    if tense == "present":
        warm = (time.words[0] in WARM) != (place.words[0] in lex.SOUTH)
    if rng.random() < 0.6:
        pt, en = rng.choice((("calor", "hot"), ("frio", "cold"), ("sol", "sunny")))
        if pt == "sol" and "noite" in time.pt:
            return None
        if warm is not None and (pt, warm) in (("calor", False), ("frio", True)):
            return None
        very = pt != "sol" and kind != "not" and rng.random() < 0.3
        rest = chain(Phrase(f"{'muito ' * very}{pt}", f"{'very ' * very}{en}", (pt,)), place)
        return ended(rng, clause(it, tense, "fazer", "be", rest, kind), time, kind)
    pt, en = rng.choice((("chover", "rain"), ("nevar", "snow")))
    if pt == "nevar" and (warm or place.words[0] not in lex.COLD):
        return None
    much = kind != "not" and rng.random() < 0.4
    rest = chain(Phrase("muito", "a lot"), place) if much else place
    return ended(rng, clause(it, tense, pt, en, rest, kind), time, kind)


@construction(1.3)
def starts(rng: Random) -> Sentence:
    """A reunião começa às três e meia. / The meeting starts at half past three."""
    event = g.with_determiner(
        rng,
        rng.choice(("the", "the", "the", "our", "name's")),
        g.bare(rng.choice(g.BY_CLASS["event"])),
    )
    pt, en = rng.choice((("começar", "start"), ("terminar", "end")))
    tense, times = rng.choice(
        (
            ("present", (g.weekdays,)),
            ("past", g.WHEN["day"]),
            ("future", (g.next_weekday, g.date, g.weekday)),
        )
    )
    time = rng.choice(times)(rng)
    kind = mood(rng, 0.1, 0.15)
    does = clause(event, tense, pt, en, g.at_hour(rng), kind)
    return ended(rng, does, time, kind) if rng.random() < 0.5 else finish(does, kind)


@construction(0.9)
def leaves_at(rng: Random) -> Sentence:
    """O trem para Lisboa parte às dez e quinze. / The train to Lisbon leaves at ..."""
    vehicle = g.with_determiner(rng, "the", g.bare(rng.choice(g.BY_CLASS["transport"])))
    away = rng.random() < 0.5
    place = g.city(rng, "para", "to") if away else g.city(rng, "de", "from")
    vehicle = chain(vehicle, place)
    pt, en = ("partir", "leave") if away else ("chegar", "arrive")
    kind = mood(rng, 0.1, 0.15)
    tense = rng.choice(("present", "present", "past"))
    does = clause(vehicle, tense, pt, en, g.at_hour(rng), kind)
    return finish(does, kind)


MEALS = (
    ("acordar", "wake up", (5, 6, 7, 8, 9)),
    ("tomar café da manhã", "have breakfast", (6, 7, 8, 9)),
    ("almoçar", "have lunch", (11, 1, 2)),
    ("jantar", "have dinner", (6, 7, 8, 9)),
)


@construction(0.9)
def daily(rng: Random) -> Sentence | None:
    """Aos domingos, acordamos às nove e meia. / We wake up at half past nine on Sundays."""
    pt, en, hours = rng.choice(MEALS)
    verb, _, rest = pt.partition(" ")
    hour = g.at_hour(rng, hours)
    rest = chain(Phrase(rest, ""), hour)
    if rng.random() < 0.35:
        return stated(rng, "past", verb, en, rest, "day", 0.15, 0.2)
    return stated(rng, "present", verb, en, rest, "season", 0.15, 0.2)


@construction(1.2)
def when_arrived(rng: Random) -> Sentence | None:
    """Quando cheguei ao hotel, Ana estava dormindo. / When I arrived at the hotel, Ana was ..."""
    place = g.with_determiner(rng, "the", g.bare(rng.choice(g.BY_CLASS["place"])))
    to = Phrase(attach("a", place.pt), f"at {place.en}", place.words)
    arrived = clause(g.subject(rng), "past", "chegar", "arrive", to)
    subject = rng.choice((g.name, g.relative, g.professional))(rng)
    if rng.random() < 0.4:
        verb = rng.choice(g.FRAMES["activity"])
        rest = word(verb, NOTHING)
    else:
        verb = rng.choice([v for v in g.FRAMES["progressive"] if v.pt in PORTABLE])
        rest = g.target(rng, verb, ("a",), adjective=0.2)
    doing = clause(subject, "was doing", verb.pt, verb.en, rest)
    if not distinct(arrived, doing):
        return None
    return Sentence(
        f"quando {arrived.pt}, {doing.pt}.",
        f"when {arrived.en}, {doing.en}.",
        (*arrived.words, *doing.words),
    )


PORTABLE = {
    "ler",
    "escrever",
    "comer",
    "beber",
    "desenhar",
    "estudar",
    "ajudar",
    "esperar",
    "escutar",
}


@construction(0.9)
def asking_after(rng: Random) -> Sentence | None:
    """Olá, Ana, como vai Pedro? / Hello, Ana, how is Pedro?"""
    greetings = ("olá", "hello"), ("oi", "hi"), ("bom dia", "good morning")
    pt, en = rng.choice((*greetings, ("boa tarde", "good afternoon")))
    friend = g.name(rng) if rng.random() < 0.8 else NOTHING
    you = rng.random() < 0.5
    other = g.YOU[0] if you else g.person(rng)
    if not distinct(friend, other):
        return None
    called = f", {friend.pt}" if friend.pt else ""
    goes = "vão" if other.plural else "vai"
    does = "are" if you or other.plural else "is"
    return Sentence(
        f"{pt}{called}, como {goes} {other.pt}?",
        f"{en}{called}, how {does} {other.en}?",
        (*friend.words, *other.words),
    )


def word(verb: lex.Verb, rest: Phrase) -> Phrase:
    """A phrase that counts the verb among its lemmas."""
    return rest._replace(words=(verb.pt, *rest.words))


def stated(
    rng: Random,
    tense: str,
    pt: str,
    en: str,
    rest: Phrase,
    time: str = "",
    no: float = 0.15,
    question: float = 0.15,
) -> Sentence | None:
    """A sentence of somebody who does something, with a time of a kind, or without."""
    kind = mood(rng, no, question)
    if kind == "not":
        time = {"often": "part", "past": "recent", "era": "recent", "far past": "recent"}.get(
            time, time
        )
    # "Compramos" is present and past: only a time tells which.
    subject = who(rng, kind, we=tense != "past" or bool(time))
    if not distinct(subject, rest):
        return None
    rest = rest._replace(words=(pt, *rest.words))
    does = clause(subject, tense, pt, en, rest, kind)
    return ended(rng, does, g.when(rng, time), kind) if time else finish(does, kind)
