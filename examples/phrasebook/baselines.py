"""Two ways to translate the phrasebook without learning it: what a model has to beat.

If either did well, the corpus would be too easy.
"""

import functools
import math
import re
from collections import Counter, defaultdict

from phrasebook import lexicon as lex
from phrasebook.morphology import PARTICIPLE, agree, en_verb, pt_forms

# Each word by its most common translation in the corpus.
FUNCTION_WORDS = """
 ").split("=") o=the a=the os=the as=the um=a uma=a ao=to_the à=to_the aos=on às=at de=of do=of_the
da=of_the dos=of_the das=of_the em=in no=in_the na=in_the nos=us nas=in_the por=by pelo=by_the
pela=by_the pelos=by_the pelas=by_the com=with comigo=with_me conosco=with_us para=to que=that
mais=more este=this esta=this estes=these estas=these aquele=that aquela=that aqueles=those
aquelas=those deste=of_this desta=of_this neste=at_this nesta=in_this naquele=in_that
naquela=in_that daquele=of_that daquela=of_that destes=of_these destas=of_these meu=my minha=my
meus=my minhas=my nosso=our nossa=our nossos=our nossas=our dele=his dela=her deles=their ele=he
eu=I ela=she eles=they elas=they você=you vocês=you me=me não=not e=and quem=who onde=where
quando=when quanto=how_much quantos=how_many quantas=how_many qual=what muito=very muita=much
muitos=many muitas=many há=there_is anos=years ano=year mês=month meses=months dia=day dias=days
semana=week semanas=weeks vez=time vezes=times passado=last passada=last próximo=next próxima=next
ontem=yesterday hoje=today amanhã=tomorrow agora=now momento=moment noite=night manhã=morning
manhãs=mornings tarde=afternoon verão=summer inverno=winter todos=every todas=every sempre=always
nunca=never raramente=rarely geralmente=usually cima=on embaixo=under atrás=behind lado=side
frente=front perto=near daqui=from_here horas=o'clock hora=o'clock meia=half quinze=fifteen
meio-dia=noon meia-noite=midnight favor=favour pé=foot navio=ship aniversário=birthday reais=reais
medo=fear fome=hunger sede=thirst sono=sleep frio=cold calor=heat sol=sun pressa=hurry razão=reason
maior=bigger menor=smaller irei=will irá=will iremos=will irão=will vou=am_going_to vai=is_going_to
vamos=are_going_to vão=are_going_to foi=was foram=were fui=went fomos=went é=is são=are sou=am
somos=are está=is estão=are estou=am estamos=are estava=was estavam=were tem=has têm=have
tenho=have temos=have nasci=was_born nasceu=was_born faz=is fez=was vem=comes maiores=bigger
menores=smaller daquelas=of_those daqueles=of_those àquele=to_that àquela=to_that àqueles=to_those
àquelas=to_those bom=good boa=good nós=we
olá=hello oi=hi
"""
# The verbs that constructions have built in.
BUILT_IN = """
gostar=like precisar=need preferir=prefer custar=cost pagar=pay começar=start terminar=end
acordar=wake_up convidar=invite chover=rain nevar=snow tomar=take chegar=arrive morar=live fazer=do
nascer=be_born ir=go ter=have querer=want estar=be ser=be
"""


def _entries(table):
    entries = (entry.partition("=") for entry in table.split())
    return [(pt, en.replace("_", " ")) for pt, _, en in entries]


@functools.lru_cache(maxsize=1)
def dictionary():
    """Each Portuguese word form with one English translation."""
    words: dict[str, str] = {"duas": "two", "estados": "United", "unidos": "States"}
    for _, pt, en in (*lex.CITIES, *lex.COUNTRIES):
        words |= dict(zip(pt.lower().split(), en.split(), strict=False))
    for adjective in (*lex.ADJECTIVES, *lex.STATES, *lex.TRAITS):
        for gender in "mf":
            for plural in (False, True):
                words[agree(adjective.pt, gender, plural)] = adjective.en
    verbs = [(v.pt, v.en) for v in (*lex.VERBS, *lex.INTRANSITIVE, *lex.TRANSFERS)]
    for pt, en in (*verbs, *_entries(BUILT_IN)):
        english = (en, en_verb(en, "s"), en, en, *(en_verb(en, "past"),) * 4)
        english += (en_verb(en, "ing"), en_verb(en, "participle"), en)
        participle = pt_forms(pt)[PARTICIPLE]
        words |= {agree(participle, g, n): english[PARTICIPLE] for g in "mf" for n in (False, True)}
        # The last first: "compramos" is rather the past, "compra" the present.
        words |= dict(zip(pt_forms(pt), english, strict=True)) | {pt: en}
    for noun in (*lex.NOUNS, *lex.PLACES):
        words |= {noun.pt_plural: noun.en_plural, noun.pt: noun.en}
    words |= {day: english for day, _, english in lex.WEEKDAYS}
    for day, _, english in lex.WEEKDAYS:
        words["-".join(part + "s" for part in day.split("-"))] = english + "s"
    words |= dict((*lex.MONTHS, *lex.NUMBERS, *lex.TENS))
    words |= dict(_entries(FUNCTION_WORDS))
    return {pt.lower(): en for pt, en in words.items()}


def word_for_word(sentence):
    """Translates by looking up every word, in the Portuguese order."""
    words = dictionary()
    english = re.sub(r"[\w-]+", lambda match: words.get(match[0].lower(), match[0]), sentence)
    return english[0].upper() + english[1:]


def _trigrams(sentence):
    text = f" {sentence.lower()} "
    return Counter(text[i : i + 3] for i in range(len(text) - 2))


def nearest(sentences, training_pairs):
    """Translates each sentence by the English of the most similar Portuguese sentence.

    Similar is the cosine between character trigrams, weighted by how rare they are; those of more
    than one sentence in twenty say little and are left out.
    """
    grams = [_trigrams(pt) for pt, _ in training_pairs]
    frequency = Counter(gram for row in grams for gram in row)
    most = max(10, len(grams) // 20)
    rarity = {gram: math.log(len(grams) / n) if n < most else 0.0 for gram, n in frequency.items()}
    index: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, row in enumerate(grams):
        weights = {gram: n * rarity[gram] for gram, n in row.items()}
        norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        for gram, weight in weights.items():
            if weight:
                index[gram].append((number, weight / norm))
    translations = []
    for sentence in sentences:
        scores: dict[int, float] = defaultdict(float)
        for gram, n in _trigrams(sentence).items():
            for number, weight in index.get(gram, ()):
                scores[number] += n * rarity[gram] * weight
        best = max(scores, key=lambda number: (scores[number], -number), default=0)
        translations.append(training_pairs[best][1])
    return translations
