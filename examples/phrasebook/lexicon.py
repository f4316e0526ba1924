"""The words of the phrasebook: Portuguese, English and what they go with.

A table has one entry a line; an underscore stands for a space inside a word. To add a word, add a
line: its classes say which verbs and adjectives take it. A form that the rules below get wrong is
written after a slash (`pão/pães`, `knife/knives`) or put in the table of irregular verbs.
"""

from typing import NamedTuple

VOWELS = "aeiouáéíóúâêôãõ"


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
    pt_preposition: str
    en_preposition: str
    takes: tuple[str, ...]
    frames: tuple[str, ...]


class Name(NamedTuple):
    """A place name, with its Portuguese article or none."""

    pt: str
    en: str
    article: str


def _rows(table: str) -> list[list[str]]:
    return [
        [field.replace("_", " ") for field in line.split()] for line in table.strip().splitlines()
    ]


def _pairs(table: str) -> tuple[tuple[str, str], ...]:
    """Pairs of words: Portuguese, a space, English, a comma."""
    return tuple(
        (pt.replace("_", " "), en.replace("_", " "))
        for pt, en in (entry.split() for entry in table.split(","))
    )


def pt_plural(word: str) -> str:
    """The regular Portuguese plural of a noun or adjective."""
    for ending, plural in (
        ("ão", "ões"), ("m", "ns"), ("ável", "áveis"), ("ível", "íveis"), ("ícil", "íceis"),
        ("ácil", "áceis"), ("el", "éis"), ("al", "ais"), ("ol", "óis"), ("ul", "uis"),
        ("ês", "eses"), ("r", "res"), ("z", "zes"),
    ):  # fmt: skip
        if word.endswith(ending):
            return word.removesuffix(ending) + plural
    return word if word.endswith("s") else word + "s"


def en_s(word: str) -> str:
    """An English noun in the plural, or a verb in the third person."""
    if word.endswith(("s", "x", "ch", "sh", "o")) and word != "piano":
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _noun(pt: str, gender: str, en: str, *classes: str) -> Noun:
    pt, slash, plural = pt.partition("/")
    en, _, plurals = en.partition("/")
    # A slash with nothing after it: the plural means something else ("pais" are parents).
    return Noun(pt, plural if slash else pt_plural(pt), gender, en, plurals or en_s(en), classes)


def _verb(pt: str, en: str, *rest: str) -> Verb:
    pt_preposition, _, en_preposition = rest[0].partition(":")
    bar = rest.index("|")
    return Verb(pt, en, pt_preposition, en_preposition, rest[1:bar], rest[bar + 1 :])


NOUNS = tuple(
    _noun(*row)
    for row in _rows("""
livro           m book              text readable writable portable sold
jornal          m newspaper         text readable portable sold
revista         f magazine          text readable portable sold
carta           f letter            text readable writable portable openable
poema           m poem              text readable writable
romance         m novel             text readable writable sold
relatório       m report            text readable writable
maçã            f apple             fruit food
laranja         f orange            fruit food
banana          f banana            fruit food
bolo            m cake              dish food cookable portion
sopa            f soup              dish food mass cookable
salada          f salad             dish food cookable portion
sanduíche       m sandwich          dish food cookable portion
ovo             m egg               fresh food
peixe           m fish/fish         fresh food mass cookable
arroz           m rice              fresh food mass cookable
carne           f meat              fresh food mass cookable
pão/pães        m bread             fresh food mass
queijo          m cheese            fresh food mass
café            m coffee            drink mass
chá             m tea               drink mass
leite           m milk              drink mass
água            f water             drink mass
suco            m juice             drink mass
vinho           m wine              drink mass
camisa          f shirt             wear washable unisex
suéter          m sweater           wear washable unisex
casaco          m coat              wear washable unisex
chapéu          m hat               wear unisex
camiseta        f T-shirt           wear washable unisex
jaqueta         f jacket            wear washable unisex
gravata         f tie               wear
chave           f key               object portable
câmera          f camera            object portable fixable
guarda-chuva    m umbrella          object portable
caneta          f pen               object portable
mapa            m map               object portable
bola            f ball              object portable
boneca          f doll              object portable
presente        m gift              object portable openable
computador      m computer          object fixable
telefone        m phone             object fixable
faca            f knife/knives      tableware portable washable
garfo           m fork              tableware portable washable
prato           m plate             tableware washable fragile
copo            m glass             tableware washable fragile
xícara          f cup               tableware washable fragile
garrafa         f bottle            tableware washable fragile openable
espelho         m mirror            furniture fragile
mesa            f table             furniture surface paintable
cadeira         f chair             furniture surface paintable fixable
cama            f bed               furniture surface
sofá            m sofa              furniture surface
caixa           f box               furniture container surface openable closable larder
gaveta          f drawer            container openable closable
mochila         f backpack          container openable portable closable
geladeira       f fridge            furniture larder openable fixable closable
cesta           f basket            container larder
porta           f door              opening openable paintable closable
janela          f window            opening openable paintable fragile closable
carro           m car               vehicle washable fixable landmark road
bicicleta       f bicycle           vehicle washable fixable road
barco           m boat              vehicle fixable paintable
trem            m train             transport
ônibus          m bus               transport road
avião           m plane             transport
gato            m cat               animal pet
cachorro        m dog               animal pet
pássaro         m bird              animal pet
cavalo          m horse             animal
coelho          m rabbit            animal pet
casa            f house             building paintable landmark
cozinha         f kitchen           room
sala            f living_room       room
quarto          m bedroom           room
garagem         f garage            room
escritório      m office            room
mãe/            f mother            kin
pai/            m father            kin
pais/pais       m parents/parents   kin plural
avós/avós       m grandparents/grandparents kin plural
irmão/          m brother           kin
irmã            f sister            kin
filho/          m son               kin
filha           f daughter          kin
tio/            m uncle             kin
tia             f aunt              kin
primo           m cousin            kin friend
amigo           m friend            kin friend
amiga           f friend            kin friend
vizinho         m neighbour         kin friend
vizinha         f neighbour         kin friend
médico          m doctor            job
médica          f doctor            job
professor       m teacher           job
professora      f teacher           job
advogado        m lawyer            job
advogada        f lawyer            job
engenheiro      m engineer          job
engenheira      f engineer          job
enfermeiro      m nurse             job
enfermeira      f nurse             job
cozinheiro      m cook              job
cozinheira      f cook              job
dentista        m dentist           job
dentista        f dentist           job
jornalista      m journalist        job
jornalista      f journalist        job
estudante       m student           job
estudante       f student           job
reunião         f meeting           event
festa           f party             event social
concerto        m concert           event social watchable
aula            f class             event
casamento       m wedding           event social
jogo            m game              event watchable
filme           m film              event watchable
canção          f song              tune listenable
música          f music             audio listenable
inglês          m English           language
francês         m French            language
espanhol        m Spanish           language
alemão          m German            language
italiano        m Italian           language
japonês         m Japanese          language
matemática      f mathematics       subject
piano           m the_piano         instrument
violão          m the_guitar        instrument
violino         m the_violin        instrument
futebol         m football          sport
tênis           m tennis            sport
vôlei           m volleyball        sport
xadrez          m chess             sport
""")
)

# Places one goes to, with the English preposition for being there.
PLACES = tuple(
    (_noun(pt, gender, en, "place", *classes), preposition)
    for pt, gender, en, preposition, *classes in _rows("""
mercado     m market     at sight
praia       f beach      at sight pretty
cinema      m cinema     at public
hospital    m hospital   at public
museu       m museum     at sight public pretty
parque      m park       in sight pretty
biblioteca  f library    in sight public pretty
restaurante m restaurant at
padaria     f bakery     at
farmácia    f pharmacy   at
aeroporto   m airport    at public
estação     f station    at public
hotel       m hotel      at public pretty
teatro      m theatre    at public pretty
praça       f square     in pretty
jardim      m garden     in pretty
""")
)

ADJECTIVES = tuple(
    Adjective(pt, en, tuple(goes_with))
    for pt, en, *goes_with in _rows("""
vermelho     red           wear object furniture vehicle container opening tableware
azul         blue          wear object furniture vehicle container opening tableware
verde        green         wear object furniture vehicle container opening tableware building
branco       white         wear object furniture vehicle container opening tableware animal building
preto        black         wear object furniture vehicle container animal tableware
amarelo      yellow        wear object furniture vehicle container opening building
novo         new           text wear object furniture vehicle container building public
velho        old           text wear object furniture vehicle container building animal
grande       big           furniture vehicle container building animal opening place room portion
pequeno      small         furniture vehicle container building animal opening place room portion
bonito       beautiful     wear furniture vehicle building animal room tune pretty
caro         expensive     wear object furniture vehicle restaurante hotel
barato       cheap         wear object furniture vehicle restaurante hotel
pesado       heavy         furniture mochila caixa computador
interessante interesting   text museu aula filme jogo concerto
longo        long          poema romance carta relatório filme reunião aula concerto
difícil      difficult     poema romance relatório aula jogo
fácil        easy          poema jogo relatório
delicioso    delicious     fruit dish queijo pão peixe café suco vinho
fresco       fresh         fruit fresh leite suco salada
limpo        clean         wear tableware vehicle room
sujo         dirty         wear tableware vehicle room opening
quebrado     broken        cadeira espelho janela copo xícara câmera prato
vazio        empty         container garrafa copo xícara caixa
moderno      modern        furniture building public
tranquilo    quiet         praia parque hotel restaurante praça biblioteca jardim
rápido       fast          vehicle cavalo computador
confortável  comfortable   cadeira cama sofá hotel carro casaco sala quarto
elegante     elegant       wear hotel restaurante casa
""")
)

# What people are for now (estar) and what they always are (ser).
STATES = tuple(
    Adjective(pt, en, ())
    for pt, en in _pairs("""
cansado tired, doente ill, feliz happy, triste sad, ocupado busy, preocupado worried,
nervoso nervous, atrasado late, sozinho alone, pronto ready
""")
)
TRAITS = tuple(
    Adjective(pt, en, ())
    for pt, en in _pairs("""
alto tall, jovem young, inteligente intelligent, rico rich, famoso famous, simpático friendly
""")
)

# Portuguese, English, the prepositions as pt:en, what it takes, | the frames it fits.
VERBS = tuple(
    _verb(*row)
    for row in _rows("""
comprar   buy     :    object wear sold food furniture vehicle tableware | \
          past era future progressive passive want quantity
vender    sell    :    furniture vehicle building | past era future passive want
ler       read    :    readable | past future progressive habit imperative want quantity
escrever  write   :    writable | past era future progressive passive want quantity
comer     eat     :    food | past future progressive habit imperative want quantity
beber     drink   :    drink | past future progressive habit want imperative
usar      wear    :    unisex | past future progressive habit imperative
lavar     wash    :    washable | past future progressive habit imperative passive want
limpar    clean   :    room surface vehicle | past future progressive habit passive want
abrir     open    :    openable | past future imperative passive want progressive
fechar    close   :    closable | past future imperative passive
perder    lose    :    portable wear | past
encontrar find    :    portable wear animal | past passive want
procurar  look    :for portable wear animal kin | past progressive
esquecer  forget  :    portable wear | past
quebrar   break   :    fragile | past passive
pintar    paint   :    paintable room | past era future progressive passive want
desenhar  draw    :    animal building fruit vehicle | past future progressive want quantity
consertar repair  :    fixable | past era future progressive passive want
preparar  prepare :    cookable | past future progressive habit passive want
esperar   wait    :for kin transport | past progressive
ver       see     :    animal kin vehicle building | past want
visitar   visit   :    kin sight | past era future habit want
ajudar    help    :    kin | past future habit want progressive imperative
ligar     call    para: kin | past future habit want
assistir  watch   a:   watchable | past future progressive want habit
escutar   listen  :to  listenable | past progressive want habit
estudar   study   :    language subject | past era future progressive habit want
aprender  learn   :    language | past era future progressive want
falar     speak   :    language | habit want past
tocar     play    :    instrument | past future progressive habit want
jogar     play    :    sport | past future progressive habit want
""")
)  # fmt: skip

# Verbs without an object: those of activity with the places for it; with those of travel, `irá` is
# a plan ("is travelling").
INTRANSITIVE = tuple(
    _verb(*row)
    for row in _rows("""
trabalhar work        :    hospital museu biblioteca restaurante padaria farmácia hotel | activity
dançar    dance       :    praia praça teatro hotel | activity
cantar    sing        :    teatro praça parque restaurante | activity
correr    run         :    parque praia praça | activity
caminhar  walk        :    parque praia praça jardim | activity
dormir    sleep       :    hotel aeroporto estação praia jardim | activity
almoçar   have_lunch  :    restaurante hotel museu mercado padaria parque | activity
jantar    have_dinner :    restaurante hotel aeroporto jardim praia | activity
viajar    travel      a:to | travel
voltar    return      a:to | travel
partir    leave       para:for | travel
""")
)

TRANSFERS = tuple(
    _verb(pt, en, ":", "|")
    for pt, en in _pairs("dar give, enviar send, mostrar show, emprestar lend")
)

MEN = ("Lucas", "Pedro", "João", "Carlos", "Miguel", "Rafael")
WOMEN = ("Ana", "Maria", "Sofia", "Beatriz", "Clara", "Helena")

# An article that the name carries in Portuguese stands before it.
CITIES = tuple(
    Name(pt, en, article)
    for article, pt, en in _rows("""
o Rio       Rio
o Porto     Porto
o Cairo     Cairo
- Lisboa    Lisbon
- Londres   London
- Paris     Paris
- Roma      Rome
- Madri     Madrid
- Berlim    Berlin
- Viena     Vienna
- Salvador  Salvador
- São_Paulo São_Paulo
- Nova_York New_York
""")
)
COUNTRIES = tuple(
    Name(pt, en, article)
    for article, pt, en in _rows("""
o Brasil   Brazil
o Japão    Japan
o Canadá   Canada
o México   Mexico
o Chile    Chile
a França   France
a Itália   Italy
a Espanha  Spain
a Alemanha Germany
a Argentina Argentina
- Portugal Portugal
- Angola   Angola
os Estados_Unidos the_United_States
""")
)

MONTHS = _pairs("""
Janeiro January, Fevereiro February, Março March, Abril April, Maio May, Junho June, Julho July,
Agosto August, Setembro September, Outubro October, Novembro November, Dezembro December
""")
# Portuguese, gender, English.
WEEKDAYS = (
    ("segunda-feira", "f", "Monday"),
    ("terça-feira", "f", "Tuesday"),
    ("quarta-feira", "f", "Wednesday"),
    ("quinta-feira", "f", "Thursday"),
    ("sexta-feira", "f", "Friday"),
    ("sábado", "m", "Saturday"),
    ("domingo", "m", "Sunday"),
)
# From one: the masculine forms.
NUMBERS = _pairs("""
um one, dois two, três three, quatro four, cinco five, seis six, sete seven, oito eight, nove nine,
dez ten, onze eleven, doze twelve
""")
TENS = _pairs("""
vinte twenty, trinta thirty, quarenta forty, cinquenta fifty, sessenta sixty, setenta seventy,
oitenta eighty, noventa ninety
""")

# Adverbials of time by the tense they belong to; months, days and hours are made in the grammar.
TIMES = {
    "past": _pairs("ontem yesterday, ontem_à_noite last_night, hoje_de_manhã this_morning"),
    "era": _pairs("""
na_semana_passada last_week, no_mês_passado last_month, no_ano_passado last_year,
no_verão_passado last_summer
"""),
    "future": _pairs("""
amanhã tomorrow, amanhã_de_manhã tomorrow_morning, amanhã_à_tarde tomorrow_afternoon
"""),
    "plan": _pairs(
        "na_semana_que_vem next_week, no_mês_que_vem next_month, no_ano_que_vem next_year"
    ),
    "now": _pairs("agora now, neste_momento at_the_moment, hoje today"),
    "often": _pairs("""
todos_os_dias every_day, todas_as_manhãs every_morning, todas_as_semanas every_week,
uma_vez_por_semana once_a_week, duas_vezes_por_mês twice_a_month
"""),
    "part": _pairs("de_manhã in_the_morning, à_tarde in_the_afternoon"),
    "season": _pairs("no_verão in_summer, no_inverno in_winter"),
}
FREQUENCY = _pairs("""
sempre always, nunca never, raramente rarely, às_vezes sometimes, geralmente usually
""")
# Where something is.
POSITIONS = _pairs("""
em_cima_de on, embaixo_de under, atrás_de behind, ao_lado_de next_to, na_frente_de in_front_of,
perto_de near
""")
# ter + noun, be + adjective, the intensifier's gender.
FEELINGS = (
    ("fome", "hungry", "f"),
    ("sede", "thirsty", "f"),
    ("sono", "sleepy", "m"),
    ("frio", "cold", "m"),
    ("calor", "hot", "m"),
    ("pressa", "in a hurry", ""),
    ("razão", "right", ""),
)
BY_ROAD = _pairs("de_carro by_car, de_ônibus by_bus, de_bicicleta by_bicycle, a_pé on_foot")
BY_RAIL = _pairs("de_trem by_train, de_ônibus by_bus, de_carro by_car")
BY_SEA = _pairs("de_avião by_plane, de_navio by_ship")
# Where it snows, and where the summer is in December.
COLD = {"Londres", "Paris", "Berlim", "Viena", "Nova York", "Madri"}
COLD |= {"Japão", "Canadá", "França", "Itália", "Alemanha", "Estados Unidos"}
SOUTH = {"Rio", "Salvador", "São Paulo", "Brasil", "Chile", "Argentina", "Angola"}
# What one holds a drink in, and the drinks for it.
MEASURES = {
    "xícara": ("café", "chá", "leite"),
    "copo": ("água", "leite", "suco"),
    "garrafa": ("água", "leite", "suco", "vinho"),
}
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
PT_IRREGULAR = {
    pt: forms
    for pt, *forms in _rows("""
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
}
# Past and participle.
EN_IRREGULAR = {
    en: forms
    for en, *forms in _rows("""
buy bought bought
sell sold sold
read read read
write wrote written
eat ate eaten
drink drank drunk
wear wore worn
lose lost lost
find found found
forget forgot forgotten
break broke broken
draw drew drawn
see saw seen
speak spoke spoken
sing sang sung
run ran run
sleep slept slept
leave left left
go went gone
give gave given
send sent sent
show showed shown
lend lent lent
cost cost cost
have had had
travel travelled travelled
prefer preferred preferred
pay paid paid
wake woke woken
""")
}
EN_GERUNDS = {"run": "running", "travel": "travelling", "forget": "forgetting", "see": "seeing"}
