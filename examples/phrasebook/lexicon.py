"""The words of the phrasebook: Portuguese, English and what they go with.

A comma or the end of a line ends an entry of a table; an underscore stands for a space. To add a
word, write it behind its classes, which say what verbs and adjectives take it. A form that the
rules below get wrong is written after a slash (`pão/pães`, `knife/knives`) or put in the table of
irregular verbs.
"""

import re
from typing import NamedTuple


class Noun(NamedTuple):
    """A noun; its first class is the kind that adjectives look at."""

    pt: str
    pt_plural: str
    gender: str
    en: str
    en_plural: str
    classes: tuple[str, ...]


class Adjective(NamedTuple):
    """An adjective by its masculine form, with the kinds of noun, or the nouns, it goes with."""

    pt: str
    en: str
    goes_with: tuple[str, ...]


class Verb(NamedTuple):
    """A verb with the prepositions it governs, the classes it takes and the frames it fits."""

    pt: str
    en: str
    pt_preposition: str = ""
    en_preposition: str = ""
    takes: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()


Row = tuple[str, ...]


def rows(table):
    """The entries of a table, each as its fields."""
    entries = (entry.split() for entry in re.split("[,\n]", table))
    return tuple(tuple(x.replace("_", " ") for x in entry) for entry in entries if entry)


def _by_class(table):
    """The entries of a table, each with the classes at the beginning of its line."""
    lines = (line.rpartition(":") for line in table.strip().splitlines())
    return [(entry, tuple(classes.split())) for classes, _, text in lines for entry in rows(text)]


def _by_first(table):
    return {first: tuple(rest) for first, *rest in rows(table)}


def pt_plural(word):
    """The regular Portuguese plural of a noun or adjective."""
    for ending, plural in PT_PLURALS:
        if word.endswith(ending):
            return word.removesuffix(ending) + plural
    return word if word.endswith("s") else word + "s"


PT_PLURALS = rows("""
ão ões, m ns, ável áveis, ível íveis, ícil íceis, ácil áceis, el éis, al ais, ol óis, ul uis,
ês eses, r res, z zes
""")


def en_s(word):
    """An English noun in the plural, or a verb in the third person."""
    if word.endswith(("s", "x", "ch", "sh", "o")) and word != "piano":
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _nouns(table):
    return tuple(_noun(*fields, classes) for fields, classes in _by_class(table))


def _noun(pt, gender, en, classes):
    pt, slash, plural = pt.partition("/")
    en, _, plurals = en.partition("/")
    # A slash with nothing after it: the plural means something else ("pais" are parents).
    return Noun(pt, plural if slash else pt_plural(pt), gender, en, plurals or en_s(en), classes)


def _adjectives(table):
    return tuple(Adjective(*words, goes_with) for words, goes_with in _by_class(table))


def _verbs(table):
    """Verbs, each with its preposition after a plus | what they take | the frames they fit."""
    verbs = []
    for words, takes, frames in (line.split("|") for line in table.strip().splitlines()):
        (pt, _, before), (en, _, english) = (word.partition("+") for word in rows(words)[0])
        verbs.append(Verb(pt, en, before, english, tuple(takes.split()), tuple(frames.split())))
    return tuple(verbs)


NOUNS = _nouns("""
text readable writable portable sold: livro m book
text readable portable sold: jornal m newspaper, revista f magazine
text readable writable portable openable: carta f letter
text readable writable: poema m poem
text readable writable sold: romance m novel
text readable writable: relatório m report
fruit food: maçã f apple, laranja f orange, banana f banana
dish food cookable portion: bolo m cake
dish food mass cookable: sopa f soup
dish food cookable portion: salada f salad, sanduíche m sandwich
fresh food: ovo m egg
fresh food mass cookable: peixe m fish/fish, arroz m rice, carne f meat
fresh food mass: pão/pães m bread, queijo m cheese
drink mass: café m coffee, chá m tea, leite m milk, água f water, suco m juice, vinho m wine
wear washable unisex: camisa f shirt, suéter m sweater, casaco m coat
wear unisex: chapéu m hat
wear washable unisex: camiseta f T-shirt, jaqueta f jacket
wear: gravata f tie
object portable: chave f key
object portable fixable: câmera f camera
object portable: guarda-chuva m umbrella, caneta f pen, mapa m map, bola f ball, boneca f doll
object portable openable: presente m gift
object fixable: computador m computer, telefone m phone
tableware portable washable: faca f knife/knives, garfo m fork
tableware washable fragile: prato m plate, copo m glass, xícara f cup
tableware washable fragile openable: garrafa f bottle
furniture fragile: espelho m mirror
furniture surface paintable: mesa f table
furniture surface paintable fixable: cadeira f chair
furniture surface: cama f bed, sofá m sofa
furniture container surface openable closable larder: caixa f box
container openable closable: gaveta f drawer
container openable portable closable: mochila f backpack
furniture larder openable fixable closable: geladeira f fridge
container larder: cesta f basket
opening openable paintable closable: porta f door
opening openable paintable fragile closable: janela f window
vehicle washable fixable landmark road: carro m car
vehicle washable fixable road: bicicleta f bicycle
vehicle fixable paintable: barco m boat
transport: trem m train
transport road: ônibus m bus
transport: avião m plane
animal pet: gato m cat, cachorro m dog, pássaro m bird
animal: cavalo m horse
animal pet: coelho m rabbit
building paintable landmark: casa f house
room: cozinha f kitchen, sala f living_room, quarto m bedroom, garagem f garage, escritório m office
kin: mãe/ f mother, pai/ m father
kin plural: pais/pais m parents/parents, avós/avós m grandparents/grandparents
kin: irmão/ m brother, irmã f sister, filho/ m son, filha f daughter, tio/ m uncle, tia f aunt
kin friend: primo m cousin, amigo m friend, amiga f friend, vizinho m neighbour, vizinha f neighbour
job: médico m doctor, médica f doctor, professor m teacher, professora f teacher, advogado m lawyer
job: advogada f lawyer, engenheiro m engineer, engenheira f engineer, enfermeiro m nurse
job: enfermeira f nurse, cozinheiro m cook, cozinheira f cook, dentista m dentist
job: dentista f dentist, jornalista m journalist, jornalista f journalist, estudante m student
job: estudante f student
event: reunião f meeting
event social: festa f party
event social watchable: concerto m concert
event: aula f class
event social: casamento m wedding
event watchable: jogo m game, filme m film
tune listenable: canção f song
audio listenable: música f music
language: inglês m English, francês m French, espanhol m Spanish, alemão m German
language: italiano m Italian, japonês m Japanese
subject: matemática f mathematics
instrument: piano m the_piano, violão m the_guitar, violino m the_violin
sport: futebol m football, tênis m tennis, vôlei m volleyball, xadrez m chess
""")

# Places one goes to; the second class is the English preposition for being there.
PLACES = _nouns("""
place at sight: mercado m market
place at sight pretty: praia f beach
place at public: cinema m cinema, hospital m hospital
place at sight public pretty: museu m museum
place in sight pretty: parque m park
place in sight public pretty: biblioteca f library
place at: restaurante m restaurant, padaria f bakery, farmácia f pharmacy
place at public: aeroporto m airport, estação f station
place at public pretty: hotel m hotel, teatro m theatre
place in pretty: praça f square, jardim m garden
""")

ADJECTIVES = _adjectives("""
wear object furniture vehicle container opening tableware: vermelho red, azul blue
wear object furniture vehicle container opening tableware building: verde green
wear object furniture vehicle container opening tableware animal building: branco white
wear object furniture vehicle container animal tableware: preto black
wear object furniture vehicle container opening building: amarelo yellow
text wear object furniture vehicle container building public: novo new
text wear object furniture vehicle container building animal: velho old
furniture vehicle container building animal opening place room portion: grande big, pequeno small
wear furniture vehicle building animal room tune pretty: bonito beautiful
wear object furniture vehicle restaurante hotel: caro expensive, barato cheap
furniture mochila caixa computador: pesado heavy
text museu aula filme jogo concerto: interessante interesting
poema romance carta relatório filme reunião aula concerto: longo long
poema romance relatório aula jogo: difícil difficult
poema jogo relatório: fácil easy
fruit dish queijo pão peixe café suco vinho: delicioso delicious
fruit fresh leite suco salada: fresco fresh
wear tableware vehicle room: limpo clean
wear tableware vehicle room opening: sujo dirty
cadeira espelho janela copo xícara câmera prato: quebrado broken
container garrafa copo xícara caixa: vazio empty
furniture building public: moderno modern
praia parque hotel restaurante praça biblioteca jardim: tranquilo quiet
vehicle cavalo computador: rápido fast
cadeira cama sofá hotel carro casaco sala quarto: confortável comfortable
wear hotel restaurante casa: elegante elegant
""")

# What people are for now (estar) and what they always are (ser).
STATES = _adjectives("""
cansado tired, doente ill, feliz happy, triste sad, ocupado busy, preocupado worried,
nervoso nervous, atrasado late, sozinho alone, pronto ready
""")
TRAITS = _adjectives("""
alto tall, jovem young, inteligente intelligent, rico rich, famoso famous, simpático friendly
""")

VERBS = _verbs("""
comprar buy | object wear sold food furniture vehicle tableware \
    | past era future progressive passive want quantity
vender sell | furniture vehicle building | past era future passive want
ler read | readable | past future progressive habit imperative want quantity
escrever write | writable | past era future progressive passive want quantity
comer eat | food | past future progressive habit imperative want quantity
beber drink | drink | past future progressive habit want imperative
usar wear | unisex | past future progressive habit imperative
lavar wash | washable | past future progressive habit imperative passive want
limpar clean | room surface vehicle | past future progressive habit passive want
abrir open | openable | past future imperative passive want progressive
fechar close | closable | past future imperative passive
perder lose | portable wear | past
encontrar find | portable wear animal | past passive want
procurar look+for | portable wear animal kin | past progressive
esquecer forget | portable wear | past
quebrar break | fragile | past passive
pintar paint | paintable room | past era future progressive passive want
desenhar draw | animal building fruit vehicle | past future progressive want quantity
consertar repair | fixable | past era future progressive passive want
preparar prepare | cookable | past future progressive habit passive want
esperar wait+for | kin transport | past progressive
ver see | animal kin vehicle building | past want
visitar visit | kin sight | past era future habit want
ajudar help | kin | past future habit want progressive imperative
ligar+para call | kin | past future habit want
assistir+a watch | watchable | past future progressive want habit
escutar listen+to | listenable | past progressive want habit
estudar study | language subject | past era future progressive habit want
aprender learn | language | past era future progressive want
falar speak | language | habit want past
tocar play | instrument | past future progressive habit want
jogar play | sport | past future progressive habit want
""")

# Verbs without an object: those of activity with the places for it; with those of travel, `irá` is
# a plan ("is travelling").
INTRANSITIVE = _verbs("""
trabalhar work | hospital museu biblioteca restaurante padaria farmácia hotel | activity
dançar dance | praia praça teatro hotel | activity
cantar sing | teatro praça parque restaurante | activity
correr run | parque praia praça | activity
caminhar walk | parque praia praça jardim | activity
dormir sleep | hotel aeroporto estação praia jardim | activity
almoçar have_lunch | restaurante hotel museu mercado padaria parque | activity
jantar have_dinner | restaurante hotel aeroporto jardim praia | activity
viajar+a travel+to | | travel
voltar+a return+to | | travel
partir+para leave+for | | travel
""")

TRANSFERS = tuple(
    Verb(*words) for words in rows("dar give, enviar send, mostrar show, emprestar lend")
)

MEN = ("Lucas", "Pedro", "João", "Carlos", "Miguel", "Rafael")
WOMEN = ("Ana", "Maria", "Sofia", "Beatriz", "Clara", "Helena")

# The article that the name carries in Portuguese, the name, and its English one.
CITIES = rows("""
o Rio Rio, o Porto Porto, o Cairo Cairo, - Lisboa Lisbon, - Londres London, - Paris Paris,
- Roma Rome, - Madri Madrid, - Berlim Berlin, - Viena Vienna, - Salvador Salvador,
- São_Paulo São_Paulo, - Nova_York New_York
""")
COUNTRIES = rows("""
o Brasil Brazil, o Japão Japan, o Canadá Canada, o México Mexico, o Chile Chile, a França France,
a Itália Italy, a Espanha Spain, a Alemanha Germany, a Argentina Argentina, - Portugal Portugal,
- Angola Angola, os Estados_Unidos the_United_States
""")

MONTHS = rows("""
Janeiro January, Fevereiro February, Março March, Abril April, Maio May, Junho June, Julho July,
Agosto August, Setembro September, Outubro October, Novembro November, Dezembro December
""")
WEEKDAYS = rows("""
segunda-feira f Monday, terça-feira f Tuesday, quarta-feira f Wednesday, quinta-feira f Thursday,
sexta-feira f Friday, sábado m Saturday, domingo m Sunday
""")
# From one: the masculine forms.
NUMBERS = rows("""
um one, dois two, três three, quatro four, cinco five, seis six, sete seven, oito eight, nove nine,
dez ten, onze eleven, doze twelve
""")
TENS = rows("""
vinte twenty, trinta thirty, quarenta forty, cinquenta fifty, sessenta sixty, setenta seventy,
oitenta eighty, noventa ninety
""")

# Adverbials of time by the tense they belong to; months, days and hours are made in the grammar.
TIMES: dict[str, list[Row]] = {}
for _words, (_tense,) in _by_class("""
past: ontem yesterday, ontem_à_noite last_night, hoje_de_manhã this_morning
era: na_semana_passada last_week, no_mês_passado last_month, no_ano_passado last_year
era: no_verão_passado last_summer
future: amanhã tomorrow, amanhã_de_manhã tomorrow_morning, amanhã_à_tarde tomorrow_afternoon
plan: na_semana_que_vem next_week, no_mês_que_vem next_month, no_ano_que_vem next_year
now: agora now, neste_momento at_the_moment, hoje today
often: todos_os_dias every_day, todas_as_manhãs every_morning, todas_as_semanas every_week
often: uma_vez_por_semana once_a_week, duas_vezes_por_mês twice_a_month
part: de_manhã in_the_morning, à_tarde in_the_afternoon
season: no_verão in_summer, no_inverno in_winter
"""):
    TIMES.setdefault(_tense, []).append(_words)
FREQUENCY = rows(
    "sempre always, nunca never, raramente rarely, às_vezes sometimes, geralmente usually"
)
# Where something is.
POSITIONS = rows("""
em_cima_de on, embaixo_de under, atrás_de behind, ao_lado_de next_to, na_frente_de in_front_of,
perto_de near
""")
# ter + noun, be + adjective, the intensifier's gender where there is one.
FEELINGS = rows("""
fome hungry f, sede thirsty f, sono sleepy m, frio cold m, calor hot m,
pressa in_a_hurry, razão right
""")
BY_ROAD = rows("de_carro by_car, de_ônibus by_bus, de_bicicleta by_bicycle, a_pé on_foot")
BY_RAIL = rows("de_trem by_train, de_ônibus by_bus, de_carro by_car")
BY_SEA = rows("de_avião by_plane, de_navio by_ship")
# Where it snows, and where the summer is in December.
COLD = {"Londres", "Paris", "Berlim", "Viena", "Nova York", "Madri"}
COLD |= {"Japão", "Canadá", "França", "Itália", "Alemanha", "Estados Unidos"}
SOUTH = {"Rio", "Salvador", "São Paulo", "Brasil", "Chile", "Argentina", "Angola"}
# What one holds a drink in, and the drinks for it.
MEASURES = _by_first("xícara café chá leite, copo água leite suco, garrafa água leite suco vinho")
GREETINGS = (
    ("Olá, como vai você?", "Hello, how are you?"),
    ("Bom dia!", "Good morning!"),
    ("Boa tarde!", "Good afternoon!"),
    ("Boa noite!", "Good night!"),
    ("Bom dia, como vai você?", "Good morning, how are you?"),
    ("Boa tarde, como vai você?", "Good afternoon, how are you?"),
    ("Muito obrigado!", "Thank you very much!"),
    ("De nada.", "You are welcome."),
    ("Até logo!", "See you later!"),
    ("Até amanhã!", "See you tomorrow!"),
    ("Muito prazer!", "Nice to meet you!"),
    ("Feliz aniversário!", "Happy birthday!"),
    ("Boa sorte!", "Good luck!"),
    ("Boa viagem!", "Have a good trip!"),
    ("Bem-vindo ao Brasil!", "Welcome to Brazil!"),
    ("Que horas são?", "What time is it?"),
    ("Que dia é hoje?", "What day is it today?"),
    ("Onde você mora?", "Where do you live?"),
    ("Quantos anos você tem?", "How old are you?"),
    ("Você fala inglês?", "Do you speak English?"),
)

# present eu/ele/nós/eles, past eu/ele/nós/eles, gerund, participle, imperative; "-" is regular.
PT_IRREGULAR = _by_first("""
ler       leio lê lemos leem             li leu lemos leram               lendo    lido    leia
ver       vejo vê vemos veem             vi viu vimos viram               vendo    visto   veja
dar       dou dá damos dão               dei deu demos deram              dando    dado    dê
ir        vou vai vamos vão              fui foi fomos foram              indo     ido     vá
ter       tenho tem temos têm            tive teve tivemos tiveram        tendo    tido    tenha
ser       sou é somos são                fui foi fomos foram              sendo    sido    seja
estar     estou está estamos estão       estive esteve estivemos estiveram estando estado  esteja
querer    quero quer queremos querem     quis quis quisemos quiseram      querendo querido queira
perder    perco - - -                    - - - -                          -        -       perca
dormir    durmo - - -                    - - - -                          -        -       durma
preferir  prefiro - - -                  - - - -                          -        -       prefira
abrir     - - - -                        - - - -                          -        aberto  -
escrever  - - - -                        - - - -                          -        escrito -
fazer     faço faz fazemos fazem         fiz fez fizemos fizeram          fazendo  feito   faça
esquecer  esqueço - - -                  - - - -                          -        -       esqueça
""")
# Past, and the participle where it is another.
EN_IRREGULAR = _by_first("""
buy bought, sell sold, read read, write wrote written, eat ate eaten, drink drank drunk,
wear wore worn, lose lost, find found, forget forgot forgotten, break broke broken,
draw drew drawn, see saw seen, speak spoke spoken, sing sang sung, run ran run, sleep slept,
leave left, go went gone, give gave given, send sent, show showed shown, lend lent, cost cost,
have had, travel travelled, prefer preferred, pay paid, wake woke woken
""")
EN_GERUNDS = {"run": "running", "travel": "travelling", "forget": "forgetting", "see": "seeing"}
