"""The constructions of the phrasebook, one function each: a sentence in both languages.

A construction takes a random number generator and returns a sentence, or raises `Senseless` where
the draw makes no sense. `@construction(weight)` registers it under its name.
"""

from phrasebook import grammar as g
from phrasebook import lexicon as lex
from phrasebook import morphology as m
from phrasebook.grammar import (
    NOTHING,
    Phrase,
    Senseless,
    apart,
    clause,
    finish,
    some,
    timed,
    unsaid,
)
from phrasebook.morphology import agree

CONSTRUCTIONS: dict[str, tuple[g.Draw, float]] = {}


def construction(weight=1.0):
    """Registers a function as a construction that is drawn this often."""

    def register(function):
        CONSTRUCTIONS[function.__name__] = (function, weight)
        return function

    return register


# What they share.


def mood(rng, no=0.2, question=0.0):
    """A mood for a clause: mostly a statement."""
    draw = rng.random()
    return "not" if draw < no else "?" if draw < no + question else ""


def who(rng, mood, we=True):
    return g.asked(rng) if mood == "?" else g.subject(rng, we)


def ended(rng, clause, time, mood):
    """A statement with its time in either place, or a question with its time at the end."""
    if mood == "?":
        return finish(clause + time, "?")
    return timed(rng, clause, time, 0.1 if mood == "not" else 0.45)


def say(rng, mood, subject, tense, pt, en, rest=NOTHING, time=""):
    """A sentence of a subject, a verb in both languages, the rest, and a time of a kind."""
    does = clause(subject, tense, pt, en, rest, mood)
    return ended(rng, does, g.when(rng, time), mood) if time else finish(does, mood)


# What did not happen has other times.
UNDONE = {"often": "part", "past": "recent", "era": "recent", "far past": "recent"}


def stated(rng, tense, pt, en, rest, time="", no=0.15, question=0.15):
    """A sentence of somebody, who is drawn, as its mood is."""
    kind = mood(rng, no, question)
    time = UNDONE.get(time, time) if kind == "not" else time
    # "Compramos" is present and past: only a time tells which.
    subject = who(rng, kind, we=tense != "past" or bool(time))
    apart(subject, rest)
    return say(rng, kind, subject, tense, pt, en, unsaid(pt) + rest, time)


def ask(pt, en, clause):
    """A question with a question word."""
    return finish(Phrase(pt, en) + clause, "?")


def inverted(subject, tense, pt, en):
    """A clause with its subject last in Portuguese: `está o livro`, is the book."""
    auxiliary, main = g.english(subject, tense, en)
    portuguese = f"{g.portuguese(subject, tense, pt)} {subject.pt}"
    return Phrase(portuguese, g.join(auxiliary, subject.en, main), subject.words)


def quality_of(adjective, thing, very=False):
    """`muito pesadas`, very heavy."""
    form = agree(adjective.pt, thing.gender, thing.plural)
    return Phrase(f"{'muito ' * very}{form}", f"{'very ' * very}{adjective.en}", (adjective.pt,))


FOOD = {noun.pt for noun in g.BY_CLASS["food"] + g.BY_CLASS["drink"]}


def time_of(tense, verb, rest=NOTHING):
    """The times for a verb: what matters is told by years, not a banana that one buys."""
    tense = "future" if tense == "going" else tense
    if verb.pt == "aprender":
        return f"far {tense}"
    matters = "era" in verb.frames and FOOD.isdisjoint(rest.words)
    return {"past": "era", "future": "plan"}[tense] if matters else tense


# Being somewhere.


@construction(1.3)
def located(rng):
    """O livro está em cima da mesa. / The book is on the table."""
    thing = g.noun_phrase(rng, some(rng, "portable", "portable", "pet"), g.DEFINITE)
    noun = rng.choice(g.BY_CLASS["surface"] * 2 + g.BY_CLASS["landmark"])
    position = rng.choice(lex.POSITIONS[2 if "landmark" in noun.classes else 0 :])
    place = g.noun_phrase(rng, noun, g.DEFINITE, adjective=0.25, plurals=0.1)
    apart(thing, place)
    kind = mood(rng, 0.15, 0.15)
    return say(rng, kind, thing, "present", "estar", "be", place.after(*position))


@construction(0.8)
def inside(rng):
    """As chaves de Ana não estão na gaveta. / Ana's keys are not in the drawer."""
    thing = g.noun_phrase(rng, some(rng, "portable"), g.DEFINITE)
    place = g.bare(rng.choice(g.BY_CLASS["container"] + g.BY_CLASS["room"]))
    place = g.with_determiner(rng, rng.choice(g.DEFINITE), place)
    apart(thing, place)
    kind = mood(rng, 0.2, 0.2)
    return say(rng, kind, thing, "present", "estar", "be", place.after("em", "in"))


@construction(0.8)
def where(rng):
    """Onde estão as chaves novas de Ana? / Where are Ana's new keys?"""
    noun = some(rng, "portable", "wear", "pet")
    thing = g.noun_phrase(rng, noun, ("the", *g.OWNERS), adjective=0.5)
    return ask("onde", "where", inverted(thing, "present", "estar", "be"))


@construction(1.4)
def there_is(rng):
    """Há três livros na caixa. / There are three books in the box."""
    if rng.random() < 0.5:
        kind, holder = rng.choice(lex.rows("portable container, tableware container, food larder"))
        noun, place = some(rng, kind), g.bare(some(rng, holder))
        place = g.with_determiner(rng, rng.choice(g.DEFINITE), place).after("em", "in")
    else:
        kind, *places = rng.choice(
            lex.rows("""
            animal parque praia praça jardim, job, road praça hotel mercado estação aeroporto
            """)
        )
        noun, place = some(rng, kind), g.at_place(rng, places)
    question, none = rng.random() < 0.2, rng.random() < 0.2
    thing = g.noun_phrase(rng, noun, ("bare",) if none else ("a", "number", "many"))
    if none and not thing.plural and "mass" not in noun.classes:
        raise Senseless
    apart(thing, place)
    be = "are" if thing.plural else "is"
    if none:
        return finish(Phrase("não há", f"there {be} no") + thing + place)
    if question:
        return finish(Phrase("há", f"{be} there") + thing + place, "?")
    return timed(rng, Phrase("há", f"there {be}") + thing, place, 0.3)


@construction(0.8)
def lives(rng):
    """Moramos em uma casa pequena em Lisboa. / We live in a small house in Lisbon."""
    tail = g.somewhere(rng, 0.6)
    if rng.random() < 0.5:
        home = g.described(rng, Phrase("casa", "house", ("casa",), "f"), 0.8, g.QUALITIES["casa"])
        tail = g.with_determiner(rng, "a", home).after("em", "in") + tail
    elif rng.random() < 0.7:
        tail += g.companion(rng)
    return stated(rng, "present", "morar", "live", tail)


@construction(1.1)
def for_years(rng):
    """Moro em Lisboa há dez anos. / I have lived in Lisbon for ten years."""
    kind = rng.randrange(3)
    if kind == 0:
        verb, rest = ("morar", "live"), g.destination(rng, "em", "in")
    elif kind == 1:
        verb, rest = ("trabalhar", "work"), g.at_place(rng, g.FRAMES["activity"][0].takes)
    else:
        noun = rng.choice(g.BY_CLASS["language"] + g.BY_CLASS["subject"] * 2)
        verb, rest = ("estudar", "study"), g.bare(noun)
    rest += g.stretch("há {}", "for {}", g.YEARS)(rng)
    return stated(rng, "present:perfect", *verb, rest, question=0.1)


# Going places.

TRAVEL = [verb for verb in lex.INTRANSITIVE if "travel" in verb.frames]
TRAVEL += TRAVEL[:1]


def trip_of(rng, how):
    """A verb of travel with where to and, with a probability, how."""
    verb = rng.choice(TRAVEL)
    to = unsaid(verb.pt) + g.destination(rng, verb.pt_preposition, verb.en_preposition)
    if rng.random() < how:
        in_city = any(place in to.words for _, place, _ in lex.CITIES)
        to += Phrase(*rng.choice(lex.BY_RAIL if in_city else lex.BY_SEA))
    return verb, to


@construction(1.4)
def trip(rng):
    """Em Dezembro, Lucas irá viajar ao Rio. / Lucas is travelling to Rio in December."""
    alone = rng.random() < 0.8
    verb, to = trip_of(rng, 0.3 if alone else 0)
    to = to if alone else to + g.companion(rng)
    return stated(rng, "future:progressive", *verb[:2], to, "plan", 0.1, 0.1)


@construction(0.8)
def when_trip(rng):
    """Quando Lucas irá viajar ao Rio? / When is Lucas travelling to Rio?"""
    verb, to = trip_of(rng, 0.6)
    plan = clause(g.asked(rng), "future:progressive", *verb[:2], to, "?")
    question = rng.choice((("quando", "when"), ("quando", "when"), ("por que", "why")))
    return ask(*question, plan)


@construction(1.2)
def travelled(rng):
    """Viajei a Paris de trem ontem. / I travelled to Paris by train yesterday."""
    verb, to = trip_of(rng, 0.4)
    return stated(rng, "past", *verb[:2], to, "era", 0.15, 0.1)


@construction(1.0)
def went(rng):
    """Ontem, fomos ao mercado a pé. / We went to the market on foot yesterday."""
    place = g.the(some(rng, "place"))
    pt, en, preposition = rng.choice(lex.rows("ir go to, ir go to, chegar arrive at"))
    to = place.after("a", preposition)
    draw = rng.random()
    if draw < 0.4:
        to += Phrase(*rng.choice(lex.BY_ROAD))
    elif draw < 0.6:
        to += g.companion(rng)
    tense = rng.choice(("past", "present")) if pt == "ir" else "past"
    return stated(rng, tense, pt, en, to, "past" if tense == "past" else "often", 0.1, 0.1)


@construction(1.2)
def activity(rng):
    """Ana almoçou comigo no restaurante ontem. / Ana had lunch with me at the restaurant ..."""
    verb = rng.choice(g.FRAMES["activity"])
    place = g.at_place(rng, verb.takes)
    rest = g.companion(rng) + place if rng.random() < 0.4 else place
    tense, time = rng.choice(lex.rows("past past, present often, going future"))
    return stated(rng, tense, *verb[:2], rest, time, 0.15, 0.1)


# Doing things.

NOT_MANY = (*g.DEFINITE, "a", "a", "a")


@construction(1.6)
def past(rng):
    """Ontem, Ana comprou um carro azul. / Ana bought a blue car yesterday."""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, g.ANY if "quantity" in verb.frames else NOT_MANY)
    return stated(rng, "past", *verb[:2], rest, time_of("past", verb, rest), 0, 0)


def deed(rng, frame, tense, dets, no, question):
    """Somebody does something to something."""
    verb = rng.choice(g.FRAMES[frame])
    rest = g.target(rng, verb, dets)
    return stated(rng, tense, *verb[:2], rest, time_of(tense, verb, rest), no, question)


@construction(1.2)
def past_negative(rng):
    """Ainda não li o jornal. / Ana não comprou o carro. / Ana did not buy the car."""
    return deed(rng, "past", "past", (*g.DEFINITE, "a"), 1, 0)


@construction(1.2)
def past_question(rng):
    """Você leu o livro de Ana? / Did you read Ana's book?"""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, (*g.DEFINITE, "a", "a"))
    time = time_of("past", verb, rest) if rng.random() < 0.5 else ""
    return stated(rng, "past", *verb[:2], rest, time, 0, 1)


@construction(1.2)
def wh_past(rng):
    """Onde Ana comprou este livro? / Where did Ana buy this book?"""
    question = rng.choice(lex.rows("onde where, quando when, por_que why, o_que what"))
    verb = rng.choice(g.FRAMES["passive" if question[0] in ("onde", "o que") else "past"])
    if question[0] != "o que":
        rest = g.target(rng, verb, g.DEFINITE)
    elif verb.pt in ("abrir", "fechar"):
        raise Senseless
    else:
        rest = unsaid(verb.pt) + g.when(rng, time_of("past", verb))
        rest = rest + g.at_place(rng) if verb.pt == "comprar" else rest
    subject = g.asked(rng)
    apart(subject, rest)
    return ask(*question, clause(subject, "past", *verb[:2], rest, "?"))


@construction(0.9)
def who_did(rng):
    """Quem comprou o carro de Ana? / Who bought Ana's car?"""
    verb = rng.choice(g.FRAMES["past"])
    rest = g.target(rng, verb, g.DEFINITE)
    did = clause(Phrase("quem", "who"), "past", *verb[:2], rest)
    if rng.random() < 0.4:
        did += g.when(rng, time_of("past", verb, rest))
    return finish(did, "?")


@construction(1.0)
def how_many(rng):
    """Quantas maçãs Ana comprou? / How many apples did Ana buy?"""
    verb = rng.choice(g.FRAMES["quantity"])
    noun = rng.choice(g.OBJECTS[verb.pt])
    if "mass" in noun.classes:
        raise Senseless
    things = g.described(rng, g.bare(noun, plural=True), 0.4, g.QUALITIES[noun.pt])
    tense = "going" if rng.random() < 0.3 else "past"
    subject = g.asked(rng)
    time = g.when(rng, time_of(tense, verb, things))
    rest = unsaid(verb.pt, *things.words)
    if tense == "going" or rng.random() < 0.4:
        rest += time
    did = clause(subject, tense, *verb[:2], rest, "?")
    return ask(f"{agree('quanto', noun.gender, True)} {things.pt}", f"how many {things.en}", did)


@construction(1.4)
def progressive(rng):
    """Minha irmã está lendo um livro agora. / My sister is reading a book now."""
    verb = rng.choice(g.FRAMES["progressive"])
    time = "now" if rng.random() < 0.5 else ""
    rest = g.target(rng, verb, NOT_MANY)
    return stated(rng, "progressive", *verb[:2], rest, time, 0.15, 0.25)


@construction(1.4)
def future(rng):
    """Amanhã, irei pintar a porta. / I will paint the door tomorrow."""
    return deed(rng, "future", "future", NOT_MANY, 0.2, 0.1)


@construction(1.2)
def going_to(rng):
    """Ana vai comprar um carro em Maio. / Ana is going to buy a car in May."""
    return deed(rng, "future", "going", NOT_MANY, 0.15, 0.25)


def habit_of(rng):
    """What one does again and again, and with what."""
    verb = rng.choice(g.FRAMES["habit"])
    dets = ("the",) if verb.pt in ("lavar", "limpar", "visitar") else ("a",)
    return verb, g.target(rng, verb, dets, adjective=0.25)


@construction(1.2)
def habit(rng):
    """Aos sábados, bebemos café. / We drink coffee on Saturdays."""
    verb, rest = habit_of(rng)
    return stated(rng, "present", *verb[:2], rest, "often")


@construction(1.0)
def frequency(rng):
    """Ana nunca come peixe à tarde. / Ana never eats fish in the afternoon."""
    verb, rest = habit_of(rng)
    adverb = rng.choice(lex.FREQUENCY)
    subject = g.subject(rng)
    apart(subject, rest)
    time = g.when(rng, "part")
    does = clause(subject, "present", *verb[:2], rest, adverb=adverb)
    return timed(rng, does, time, 0.3) if rng.random() < 0.6 else finish(does)


@construction(0.8)
def imperative(rng):
    """Por favor, feche a porta. / Please close the door."""
    verb = rng.choice(g.FRAMES["imperative"])
    order = g.target(rng, verb, g.DEFINITE)
    no, english = ("não ", "do not ") if rng.random() < 0.3 else ("", "")
    order = Phrase(f"{no}{m.pt_forms(verb.pt)[m.IMPERATIVE]}", f"{english}{verb.en}") + order
    form = rng.randrange(3)
    if form == 0:
        return finish(Phrase("por favor,", "please") + order)
    if form == 1:
        return finish(order._replace(pt=f"{order.pt}, por favor", en=f"{order.en}, please"))
    return finish(order, "!")


@construction(1.2)
def passive(rng):
    """A carta foi escrita pela professora. / The letter was written by the teacher."""
    verb = rng.choice(g.FRAMES["passive"])
    thing = g.target(rng, verb, ("the", "the", "this", "that", "my", "our"))
    by = g.person(rng)
    apart(thing, by)
    participle = agree(m.pt_forms(verb.pt)[m.PARTICIPLE], thing.gender, thing.plural)
    rest = Phrase(participle, m.en_verb(verb.en, "participle")) + by.after("por", "by")
    kind = mood(rng, 0.12, 0.2)
    time = time_of("past", verb, thing) if rng.random() < 0.4 else ""
    return say(rng, kind, thing, "past", "ser", "be", rest, time)


@construction(1.0)
def modal(rng):
    """Quero vender meu carro amanhã. / I want to sell my car tomorrow."""
    verb = rng.choice(g.FRAMES["want"])
    rest = g.target(rng, verb, NOT_MANY)
    pt, en = rng.choice(lex.rows("querer want, precisar need, ter have"))
    rest = Phrase("que" if pt == "ter" else "", "") + Phrase(verb.pt, f"to {verb.en}") + rest
    time = "soon" if verb.pt not in ("aprender", "falar") and rng.random() < 0.6 else ""
    return stated(rng, "present", pt, en, rest, time, 0.2, 0.2)


@construction(1.0)
def likes_doing(rng):
    """Minha mãe gosta de ler jornais. / My mother likes reading newspapers."""
    verb = rng.choice(g.FRAMES["habit"])
    noun = rng.choice(g.OBJECTS[verb.pt])
    thing = g.relative(rng) if "kin" in noun.classes else g.generic(noun)
    rest = Phrase(f"de {verb.pt}", m.en_verb(verb.en, "ing"), (verb.pt,))
    rest += thing.after(verb.pt_preposition, verb.en_preposition)
    time = "part" if rng.random() < 0.6 else ""
    return stated(rng, "present", "gostar", "like", rest, time, 0.2, 0.2)


# Giving and meeting.


def gift(rng):
    noun = some(rng, "readable", "portable", "wear")
    return g.noun_phrase(rng, noun, (*g.DEFINITE, "a", "a", "a", "a", "a"))


@construction(1.2)
def gave(rng):
    """Ontem, dei um livro ao irmão de Ana. / I gave a book to Ana's brother yesterday."""
    verb, thing, to = rng.choice(lex.TRANSFERS), gift(rng), g.person(rng)
    tense = rng.choice(("past", "past", "future", "going"))
    apart(thing, to)
    time = "past" if tense == "past" else "future"
    return stated(rng, tense, *verb[:2], thing + to.after("a", "to"), time, 0.1, 0.15)


@construction(0.9)
def gave_me(rng):
    """Lucas nos mostrou as fotos. / Lucas showed us the photos."""
    verb, thing, subject = rng.choice(lex.TRANSFERS), gift(rng), g.asked(rng)
    apart(subject, thing)
    pt, en = rng.choice((("me", "me"), ("nos", "us")))
    kind = mood(rng, 0.1, 0.2)
    rest = Phrase("", en, (verb.pt,)) + thing
    gave = clause(subject, "past", *verb[:2], rest, kind, (pt, ""))
    return ended(rng, gave, g.when(rng, "past"), kind)


@construction(0.9)
def invited(rng):
    """Convidei o médico para a festa. / I invited the doctor to the party."""
    guest, det = g.person(rng), rng.choice(("the", "my", "our", "name's"))
    event = g.with_determiner(rng, det, g.bare(some(rng, "social")))
    apart(guest, event)
    tense = rng.choice(("past", "past", "future", "going"))
    time = "past" if tense == "past" else "future"
    rest = guest + event.after("para", "to")
    return stated(rng, tense, "convidar", "invite", rest, time, 0.15, 0.2)


# People.


@construction(2.0)
def hungry(rng):
    """Ana tem muita sede agora. / Ana is very thirsty now."""
    if rng.random() < 0.2:
        animals = some(rng, "animal")
        animals = g.described(rng, g.bare(animals, True), 0.5, g.QUALITIES[animals.pt])
        rest, time = animals.after("medo de", "afraid of"), ""
    else:
        pt, en, *genders = rng.choice(lex.FEELINGS)
        rest = Phrase(pt, en, (pt,))
        if genders and rng.random() < 0.4:
            rest = Phrase(agree("muito", genders[0]), "very") + rest
        time = rng.choice(("now", "daytime", "")) if genders else ""
    kind = mood(rng, 0.2, 0.25)
    return say(rng, kind, who(rng, kind), "present", "ter", "be", rest, time)


@construction(1.3)
def age(rng):
    """Minha avó tem 80 anos. / My grandmother is 80 years old."""
    subject, years = g.aged(rng)
    form = rng.randrange(5)
    if form < 3:
        rest = Phrase(f"{years} anos", f"{years} years old")
        return say(rng, mood(rng, 0.15, 0.15), subject, "present", "ter", "be", rest)
    tense, time = ("past", "past") if form == 3 else ("future", "plan")
    return say(rng, "", subject, tense, "fazer", "turn", Phrase(f"{years} anos", f"{years}"), time)


@construction(0.8)
def how_old(rng):
    """Quantos anos tem a irmã de Ana? / How old is Ana's sister?"""
    subject = rng.choice((g.name, g.relative, g.relative, g.relative, g.professional))(rng)
    return ask("quantos anos", "how old", inverted(subject, "present", "ter", "be"))


@construction(0.8)
def birthday(rng):
    """O aniversário de Ana é no dia 5 de Março. / Ana's birthday is on March 5."""
    thing = Phrase("aniversário", "birthday", ("aniversário",))
    day = g.with_determiner(rng, rng.choice(g.OWNERS), thing)
    rest = rng.choice((g.date, g.date, g.month))(rng)
    if rng.random() < 0.2:
        rest = Phrase("hoje", "today")
    return say(rng, mood(rng, 0.1, 0.2), day, "present", "ser", "be", rest)


@construction(1.0)
def born(rng):
    """Nasci em Lisboa em Maio de 1990. / I was born in Lisbon in May 1990."""
    subject = rng.choice((g.I, *g.PRONOUNS[:2], g.name(rng), g.name(rng), g.sibling(rng)))
    place = g.somewhere(rng, 0.6)
    day = g.month_of_year(rng) if rng.random() < 0.5 else g.date(rng)
    kind = mood(rng, 0.1)
    be, _ = g.english(subject, "past", "be")
    no, english = ("não ", "not ") if kind else ("", "")
    verb = Phrase(no + g.portuguese(subject, "past", "nascer"), f"{be} {english}born", ("nascer",))
    return ended(rng, subject + verb + place, day, kind)


@construction(1.0)
def job(rng):
    """Minhas irmãs são médicas em Lisboa. / My sisters are doctors in Lisbon."""
    kind = mood(rng, 0.15, 0.2)
    subject = g.asked(rng) if kind == "?" else rng.choice((g.subject, g.name, g.relative))(rng)
    nouns = [n for n in g.BY_CLASS["job"] if n.gender == subject.gender]
    noun = g.bare(rng.choice(nouns), subject.plural)
    if rng.random() < 0.35:
        noun = g.described(rng, noun, 1.0, lex.TRAITS)
        noun = noun if noun.plural else g.with_determiner(rng, "a", noun)
    elif not noun.plural:
        # Portuguese names a profession without an article.
        noun = noun._replace(en=g.a(noun.en))
    apart(subject, noun)
    if subject.words[:1] in {(noun.pt,) for noun in g.BY_CLASS["job"]}:
        raise Senseless
    rest = noun + g.city(rng) if rng.random() < 0.5 else noun
    return say(rng, kind, subject, "present", "ser", "be", rest)


@construction(2.1)
def feels(rng):
    """Minha irmã está muito cansada hoje. / My sister is very tired today."""
    kind = mood(rng, 0.15, 0.3)
    past = rng.random() < 0.3
    subject = who(rng, kind)
    if past and subject.person == 1:
        raise Senseless
    state = rng.choice(lex.STATES)
    very = state.en not in ("alone", "ready") and kind != "not" and rng.random() < 0.3
    time = Phrase(*rng.choice(lex.TIMES["past" if past else "now"]))
    rest = quality_of(state, subject, very)
    is_so = clause(subject, "was:past" if past else "present", "estar", "be", rest, kind)
    if kind == "?" and rng.random() < 0.5:
        return ask("por que", "why", is_so)
    return ended(rng, is_so, time, kind)


# Things.

BY_ESTAR = {"limpo", "sujo", "quebrado", "vazio"}
UNGRADED = {"vermelho", "azul", "verde", "branco", "preto", "amarelo", "quebrado", "vazio"}


def gradable(noun):
    """The qualities of a thing that it can have more of than another."""
    return [x for x in g.QUALITIES[noun.pt] if x.pt not in UNGRADED | BY_ESTAR]


def be(adjective):
    return "estar" if adjective.pt in BY_ESTAR else "ser", "be"


@construction(2.0)
def quality(rng):
    """Estas mesas são muito pesadas. / These tables are very heavy."""
    noun = rng.choice(g.THINGS + g.BY_CLASS["room"])
    adjective = rng.choice(g.QUALITIES[noun.pt])
    thing = g.noun_phrase(rng, noun, g.DEFINITE, adjective=0)
    kind = mood(rng, 0.2, 0.25)
    very = adjective.pt not in UNGRADED and kind != "not" and rng.random() < 0.3
    return say(rng, kind, thing, "present", *be(adjective), quality_of(adjective, thing, very))


@construction(1.0)
def that_was_bought(rng):
    """O livro que Ana comprou ontem é caro. / The book that Ana bought yesterday is expensive."""
    verb = rng.choice(g.FRAMES["passive"])
    noun = rng.choice(g.OBJECTS[verb.pt])
    unfit = ("quebrado", "sujo", "novo", "velho")
    qualities = [x for x in g.QUALITIES[noun.pt] if x.pt not in unfit]
    subject = g.subject(rng)
    if not qualities or "mass" in noun.classes or subject.en == "you":
        raise Senseless
    adjective = rng.choice(qualities)
    thing = g.with_determiner(rng, "the", g.bare(noun, rng.random() < 0.3))
    apart(subject, thing)
    did = clause(subject, "past", *verb[:2])
    time = g.when(rng, time_of("past", verb, thing)) if rng.random() < 0.5 else NOTHING
    whole = thing + Phrase("que", "that", (verb.pt,)) + did + time
    whole = whole._replace(gender=thing.gender, plural=thing.plural)
    return say(rng, "", whole, "present", *be(adjective), quality_of(adjective, thing))


@construction(1.2)
def compared(rng):
    """Ana é mais alta do que Pedro. / Ana is taller than Pedro."""
    people = rng.random() < 0.5
    kind = mood(rng, 0.1, 0.2)
    if people:
        subject, other = (g.asked(rng) if kind == "?" else g.person(rng)), g.person(rng)
        apart(subject, other)
        adjective = rng.choice(lex.TRAITS)
    else:
        noun = rng.choice(g.THINGS)
        if not gradable(noun):
            raise Senseless
        adjective = rng.choice(gradable(noun))
        subject = g.noun_phrase(rng, noun, ("this", "that", *g.OWNERS), adjective=0)
        other = g.noun_phrase(rng, noun, g.OWNERS, adjective=0)
        if subject.plural != other.plural or {*subject.words[1:]} & {*other.words[1:]}:
            raise Senseless
    if subject.pt == other.pt:
        raise Senseless
    more = m.pt_more(adjective.pt, subject.gender, subject.plural)
    rest = Phrase(f"{more} do que", f"{m.en_degree(adjective.en, 'er')} than", (adjective.pt,))
    return say(rng, kind, subject, "present", "ser", "be", rest + other)


@construction(0.8)
def superlative_place(rng):
    """Esta é a praia mais bonita do Brasil. / This is the most beautiful beach in Brazil."""
    noun = some(rng, "place")
    adjective = rng.choice(gradable(noun))
    where = g.destination(rng, "de", "in")
    more = m.pt_more(adjective.pt, noun.gender, False)
    # "a maior praia", but "a praia mais bonita".
    pt = f"{noun.pt} {more}" if more.startswith("mais") else f"{more} {noun.pt}"
    most = noun._replace(pt=pt, en=f"{m.en_degree(adjective.en, 'est')} {noun.en}")
    most = g.the(most)._replace(words=(noun.pt, adjective.pt)) + where
    form = rng.randrange(3)
    if form == 0:
        return ask("qual é", "what is", most)
    if form == 2:
        this = Phrase(agree("este", noun.gender), "this")
        return say(rng, "", this, "present", "ser", "be", most)
    if "sight" not in noun.classes:
        raise Senseless
    return stated(rng, "past", "visitar", "visit", most, "era", 0.1, 0.15)


UNSOLD = BY_ESTAR | {"barato", "caro"}


def for_sale(rng):
    """A thing with its adjective, not one that nobody would pay for."""
    noun = rng.choice(g.FOR_SALE)
    qualities = [x for x in g.QUALITIES[noun.pt] if x.pt not in UNSOLD]
    thing = g.described(rng, g.bare(noun, rng.random() < 0.35), 0.5, qualities)
    return g.with_determiner(rng, rng.choice(("the", "the", "this", "that")), thing)


@construction(1.0)
def price(rng):
    """Estes livros custam vinte reais. / These books cost twenty reais."""
    thing = for_sale(rng)
    reais = g.amount(rng)
    if rng.random() < 0.6:
        kind = mood(rng, 0.1, 0.15)
        tense = "past" if rng.random() < 0.3 else "present"
        return say(rng, kind, thing, tense, "custar", "cost", reais)
    return stated(rng, "past", "pagar", "pay", reais + thing.after("por", "for"))


@construction(0.9)
def how_much(rng):
    """Quanto custa este carro? / How much does this car cost?"""
    thing = for_sale(rng)
    thing = thing._replace(words=(*thing.words, "custar"))
    tense = rng.choice(("present", "present", "past"))
    return ask("quanto", "how much", inverted(thing, tense, "custar", "cost"))


@construction(1.4)
def likes(rng):
    """Ana não gosta de café. / Ana does not like coffee."""
    noun = some(rng, "food", "food", "drink", "sport", "animal", "wear", "readable")
    if rng.random() < 0.5 or noun.classes[0] in g.BARE or noun.pt in FOOD:
        thing = g.described(rng, g.generic(noun), 0.4, g.QUALITIES[noun.pt])
    else:
        thing = g.noun_phrase(rng, noun, g.DEFINITE)
    much = rng.random() < 0.25
    thing = thing.after("muito de" if much else "de", "")
    rest = thing + Phrase("", "very much") if much else thing
    return stated(rng, "present", "gostar", "like", rest, "", 0.0 if much else 0.3, 0.3)


@construction(1.0)
def needs(rng):
    """Preciso de uma caneta azul. / I need a blue pen."""
    noun = some(rng, "object", "wear", "vehicle", "tableware", "container")
    thing = g.noun_phrase(rng, noun, ("a", "a", "number", "the", "my", "name's"), 0.5)
    time = "now" if rng.random() < 0.2 else ""
    return stated(rng, "present", "precisar", "need", thing.after("de", ""), time, 0.2, 0.25)


@construction(1.1)
def prefers(rng):
    """Prefiro chá a café. / I prefer tea to coffee."""
    nouns = g.BY_CLASS[rng.choice(("food", "food", "drink", "sport", "animal", "language"))]
    one, other = (g.generic(noun) for noun in rng.sample(nouns, 2))
    time = "part" if one.words[0] in FOOD and rng.random() < 0.6 else ""
    rest = one + Phrase("a", "to") + other
    return stated(rng, "present", "preferir", "prefer", rest, time, 0.1, 0.2)


@construction(1.0)
def cup_of(rng):
    """Ana bebeu dois copos de água. / Ana drank two glasses of water."""
    vessel = rng.choice([noun for noun in g.BY_CLASS["tableware"] if noun.pt in lex.MEASURES])
    plural = rng.random() < 0.4
    drinks = [noun for noun in g.BY_CLASS["drink"] if noun.pt in lex.MEASURES[vessel.pt]]
    drink = rng.choice(drinks)
    liquid = g.described(rng, g.bare(drink), 0.3, g.QUALITIES[drink.pt])
    cup = g.bare(vessel, plural) + liquid.after("de", "of")
    cup = cup._replace(gender=vessel.gender, plural=plural)
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
def weather(rng):
    """Em Agosto, faz calor em Lisboa. / It is hot in Lisbon in August."""
    place = g.somewhere(rng, 0.5)
    kind = mood(rng, 0.15, 0.2)
    tense, times = rng.choice(lex.rows("present month, past recent, future forecast"))
    time, warm = g.when(rng, times), None
    if tense == "present":
        warm = (time.words[0] in WARM) != (place.words[0] in lex.SOUTH)
    if rng.random() < 0.6:
        pt, en = rng.choice((("calor", "hot"), ("frio", "cold"), ("sol", "sunny")))
        if pt == "sol" and "noite" in time.pt:
            raise Senseless
        if (pt, warm) in (("calor", False), ("frio", True)):
            raise Senseless
        very = pt != "sol" and kind != "not" and rng.random() < 0.3
        rest = Phrase(f"{'muito ' * very}{pt}", f"{'very ' * very}{en}", (pt,)) + place
        pt, en = "fazer", "be"
    else:
        pt, en = rng.choice((("chover", "rain"), ("nevar", "snow")))
        if pt == "nevar" and (warm or place.words[0] not in lex.COLD):
            raise Senseless
        much = kind != "not" and rng.random() < 0.4
        rest = Phrase("muito", "a lot") + place if much else place
    return ended(rng, clause(Phrase("", "it"), tense, pt, en, rest, kind), time, kind)


@construction(1.3)
def starts(rng):
    """A reunião começa às três e meia. / The meeting starts at half past three."""
    det = rng.choice(("the", "the", "the", "our", "name's"))
    event = g.with_determiner(rng, det, g.bare(some(rng, "event")))
    verb = rng.choice((("começar", "start"), ("terminar", "end")))
    tense, times = rng.choice(lex.rows("present weekdays, past day, future agenda"))
    time = g.when(rng, times)
    kind = mood(rng, 0.1, 0.15)
    does = clause(event, tense, *verb, g.at_hour(rng), kind)
    return ended(rng, does, time, kind) if rng.random() < 0.5 else finish(does, kind)


@construction(0.9)
def leaves_at(rng):
    """O trem para Lisboa parte às dez e quinze. / The train to Lisbon leaves at ..."""
    vehicle = g.the(some(rng, "transport"))
    away = rng.random() < 0.5
    vehicle += g.city(rng, "para", "to") if away else g.city(rng, "de", "from")
    kind = mood(rng, 0.1, 0.15)
    tense = rng.choice(("present", "present", "past"))
    verb = ("partir", "leave") if away else ("chegar", "arrive")
    return say(rng, kind, vehicle, tense, *verb, g.at_hour(rng))


MEALS = (
    ("acordar", "wake up", (5, 6, 7, 8, 9)),
    ("tomar café da manhã", "have breakfast", (6, 7, 8, 9)),
    ("almoçar", "have lunch", (11, 1, 2)),
    ("jantar", "have dinner", (6, 7, 8, 9)),
)


@construction(0.9)
def daily(rng):
    """Aos domingos, acordamos às nove e meia. / We wake up at half past nine on Sundays."""
    pt, en, hours = rng.choice(MEALS)
    verb, _, rest = pt.partition(" ")
    rest = Phrase(rest, "") + g.at_hour(rng, hours)
    tense, time = ("past", "day") if rng.random() < 0.35 else ("present", "season")
    return stated(rng, tense, verb, en, rest, time, 0.15, 0.2)


PORTABLE = {"ler", "escrever", "comer", "beber", "desenhar", "estudar", "ajudar", "esperar"}
PORTABLE |= {"escutar"}


@construction(1.2)
def when_arrived(rng):
    """Quando cheguei ao hotel, Ana estava dormindo. / When I arrived at the hotel, Ana was ..."""
    place = g.the(some(rng, "place"))
    arrived = clause(g.subject(rng), "past", "chegar", "arrive", place.after("a", "at"))
    subject = rng.choice((g.name, g.relative, g.professional))(rng)
    if rng.random() < 0.4:
        verb = rng.choice(g.FRAMES["activity"])
        rest = unsaid(verb.pt)
    else:
        verb = rng.choice([v for v in g.FRAMES["progressive"] if v.pt in PORTABLE])
        rest = g.target(rng, verb, ("a",), adjective=0.2)
    doing = clause(subject, "was doing", *verb[:2], rest)
    apart(arrived, doing)
    arrived = arrived._replace(pt=f"{arrived.pt},", en=f"{arrived.en},")
    return finish(Phrase("quando", "when") + arrived + doing)


@construction(0.9)
def asking_after(rng):
    """Olá, Ana, como vai Pedro? / Hello, Ana, how is Pedro?"""
    pt, en = rng.choice(
        lex.rows("olá hello, oi hi, bom_dia good_morning, boa_tarde good_afternoon")
    )
    friend = g.name(rng) if rng.random() < 0.8 else NOTHING
    you = rng.random() < 0.5
    other = g.YOU[0] if you else g.person(rng)
    apart(friend, other)
    called = f", {friend.pt}" if friend.pt else ""
    goes = "vão" if other.plural else "vai"
    does = "are" if you or other.plural else "is"
    greeting = Phrase(f"{pt}{called}, como {goes}", f"{en}{called}, how {does}", friend.words)
    return finish(greeting + other, "?")
