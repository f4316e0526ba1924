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
    pt, _, plural = pt.partition("/")
    en, _, plurals = en.partition("/")
    return Noun(pt, plural or pt_plural(pt), gender, en, plurals or en_s(en), classes)


def _verb(pt: str, en: str, *rest: str) -> Verb:
    pt_preposition, _, en_preposition = rest[0].partition(":")
    bar = rest.index("|")
    return Verb(pt, en, pt_preposition, en_preposition, rest[1:bar], rest[bar + 1 :])


NOUNS = tuple(
    _noun(*row)
    for row in _rows("""
livro           m book              text readable writable portable
jornal          m newspaper         text readable portable
revista         f magazine          text readable portable
carta           f letter            text readable writable portable openable
poema           m poem              text readable writable
romance         m novel             text readable writable
relatório       m report            text readable writable
maçã            f apple             fruit food
laranja         f orange            fruit food
banana          f banana            fruit food
bolo            m cake              dish food cookable
sopa            f soup              dish food mass cookable
salada          f salad             dish food cookable
sanduíche       m sandwich          dish food cookable
ovo             m egg               fresh food
peixe           m fish/fish         fresh food mass cookable
arroz           m rice              fresh food mass cookable
carne           f meat              fresh food mass cookable
pão/pães        m bread             fresh food mass
queijo          m cheese            fresh food mass
café            m coffee            drink mass hot
chá             m tea               drink mass hot
leite           m milk              drink mass
água            f water             drink mass
suco            m juice             drink mass
vinho           m wine              drink mass
camisa          f shirt             wear washable
vestido         m dress             wear washable
casaco          m coat              wear washable
chapéu          m hat               wear
saia            f skirt             wear washable
jaqueta         f jacket            wear washable
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
caixa           f box               furniture container surface openable
gaveta          f drawer            container openable
mochila         f backpack          container openable portable
geladeira       f fridge            container openable fixable
cesta           f basket            container
porta           f door              opening openable paintable
janela          f window            opening openable paintable fragile
carro           m car               vehicle washable fixable landmark
bicicleta       f bicycle           vehicle washable fixable
barco           m boat              vehicle fixable paintable
trem            m train             transport
ônibus          m bus               transport
avião           m plane             transport
gato            m cat               animal
cachorro        m dog               animal
pássaro         m bird              animal
cavalo          m horse             animal
coelho          m rabbit            animal
casa            f house             building paintable landmark
cozinha         f kitchen           room
sala            f living_room       room
quarto          m bedroom           room
garagem         f garage            room
escritório      m office            room
mãe             f mother            kin
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
enfermeira      f nurse             job
cozinheiro      m cook              job
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
exame           m exam              event
casamento       m wedding           event social
jogo            m game              event watchable
filme           m film              event watchable
série/séries    f series/series     show watchable
canção          f song              tune listenable
rádio           m radio             device listenable
inglês          m English           language
francês         m French            language
espanhol        m Spanish           language
alemão          m German            language
italiano        m Italian           language
japonês         m Japanese          language
matemática      f mathematics       subject
história        f history           subject
piano           m the_piano         instrument
violão          m the_guitar        instrument
violino         m the_violin        instrument
flauta          f the_flute         instrument
futebol         m football          sport
tênis           m tennis            sport
vôlei           m volleyball        sport
xadrez          m chess             sport
""")
)

# Places one goes to, with the English preposition for being there.
PLACES = tuple(
    (_noun(pt, gender, en, "place"), preposition)
    for pt, gender, en, preposition in _rows("""
mercado     m market     at
praia       f beach      at
cinema      m cinema     at
hospital    m hospital   at
museu       m museum     at
parque      m park       in
biblioteca  f library    in
restaurante m restaurant at
padaria     f bakery     at
farmácia    f pharmacy   at
aeroporto   m airport    at
estação     f station    at
hotel       m hotel      at
teatro      m theatre    at
praça       f square     in
jardim      m garden     in
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
novo         new           text wear object furniture vehicle container place building show
velho        old           text wear object furniture vehicle container building animal
grande       big           furniture vehicle container building animal opening place room dish
pequeno      small         furniture vehicle container building animal opening place room dish
bonito       beautiful     wear furniture vehicle place building animal room tune
caro         expensive     wear object furniture vehicle restaurante hotel
barato       cheap         wear object furniture vehicle restaurante hotel
pesado       heavy         furniture mochila caixa computador casaco
interessante interesting   text museu aula filme jogo concerto show
longo        long          poema romance carta relatório filme reunião aula viagem
difícil      difficult     poema romance relatório aula exame jogo
fácil        easy          poema exame jogo
delicioso    delicious     fruit dish drink queijo pão peixe
fresco       fresh         fruit fresh leite suco salada
limpo        clean         wear tableware vehicle room hotel praia
sujo         dirty         wear tableware vehicle room opening praia
quebrado     broken        cadeira espelho janela copo xícara câmera prato
vazio        empty         container garrafa copo xícara caixa
moderno      modern        place furniture building
tranquilo    quiet         praia parque hotel restaurante praça biblioteca jardim
rápido       fast          vehicle cavalo computador
confortável  comfortable   cadeira cama sofá hotel carro casaco sala quarto
elegante     elegant       wear hotel restaurante casa
""")
)

# What people are for now (estar) and what they always are (ser).
STATES = tuple(
    Adjective(pt, en, ())
    for pt, en in _rows("""
cansado tired
doente ill
feliz happy
triste sad
ocupado busy
preocupado worried
nervoso nervous
atrasado late
sozinho alone
pronto ready
""")
)
TRAITS = tuple(
    Adjective(pt, en, ())
    for pt, en in _rows("""
alto tall
jovem young
inteligente intelligent
rico rich
famoso famous
simpático friendly
""")
)

# Portuguese, English, the prepositions as pt:en, what it takes, | the frames it fits.
VERBS = tuple(
    _verb(*row)
    for row in _rows("""
comprar   buy     :    object wear text food furniture vehicle tableware container | past future progressive passive want quantity
vender    sell    :    furniture vehicle building | past future passive want
ler       read    :    readable | past future progressive habit imperative want quantity
escrever  write   :    writable | past future progressive passive want imperative quantity
comer     eat     :    food | past future progressive habit imperative want quantity
beber     drink   :    drink | past future progressive habit want imperative
usar      wear    :    wear | past future progressive habit imperative
lavar     wash    :    washable | past future progressive habit imperative passive want
limpar    clean   :    room surface vehicle opening | past future progressive habit imperative passive want
abrir     open    :    openable | past future imperative passive want progressive
fechar    close   :    opening container | past future imperative passive
perder    lose    :    portable wear | past
encontrar find    :    portable wear animal | past passive want
procurar  look    :for portable wear animal kin | past progressive
esquecer  forget  :    portable wear | past
quebrar   break   :    fragile | past passive
pintar    paint   :    paintable room | past future progressive passive want
desenhar  draw    :    animal building fruit vehicle | past future progressive want quantity
consertar repair  :    fixable | past future progressive passive want
preparar  prepare :    cookable | past future progressive habit passive want
esperar   wait    :for kin transport | past progressive
ver       see     :    animal kin vehicle building | past want
visitar   visit   :    kin place | past future habit want
ajudar    help    :    kin | past future habit want progressive imperative
assistir  watch   a:   watchable | past future progressive want habit
escutar   listen  :to  listenable | past progressive want habit
estudar   study   :    language subject | past future progressive habit want
aprender  learn   :    language | past future progressive want
falar     speak   :    language | habit want past
tocar     play    :    instrument | past future progressive habit want
jogar     play    :    sport | past future progressive habit want
""")
)  # fmt: skip

# Verbs without an object; `travel` verbs take `irá` as a plan ("is travelling").
INTRANSITIVE = tuple(
    _verb(pt, en, preposition, "|", *frames)
    for pt, en, preposition, *frames in _rows("""
trabalhar work        :    activity
dançar    dance       :    activity
cantar    sing        :    activity
correr    run         :    activity
caminhar  walk        :    activity
dormir    sleep       :    activity
almoçar   have_lunch  :    activity
jantar    have_dinner :    activity
viajar    travel      a:to travel
voltar    return      a:to travel
partir    leave       para:for travel
ir        go          a:to
morar     live        em:in
chegar    arrive      a:at
""")
)

TRANSFERS = tuple(
    _verb(pt, en, ":", "|")
    for pt, en in _rows("""
dar       give
enviar    send
mostrar   show
emprestar lend
""")
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

MONTHS = tuple(
    zip(
        "Janeiro Fevereiro Março Abril Maio Junho Julho Agosto Setembro Outubro Novembro"
        " Dezembro".split(),
        "January February March April May June July August September October November"
        " December".split(),
        strict=True,
    )
)
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
NUMBERS = tuple(
    zip(
        "um dois três quatro cinco seis sete oito nove dez onze doze".split(),
        "one two three four five six seven eight nine ten eleven twelve".split(),
        strict=True,
    )
)
TENS = tuple(
    zip(
        "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa".split(),
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),
        strict=True,
    )
)

# Adverbials of time by the tense they belong to; months, days and hours are made in the grammar.
TIMES = {
    "past": (
        ("ontem", "yesterday"),
        ("ontem à noite", "last night"),
        ("hoje de manhã", "this morning"),
        ("na semana passada", "last week"),
        ("no mês passado", "last month"),
        ("no ano passado", "last year"),
        ("no verão passado", "last summer"),
    ),
    "future": (
        ("amanhã", "tomorrow"),
        ("amanhã de manhã", "tomorrow morning"),
        ("amanhã à tarde", "tomorrow afternoon"),
        ("na semana que vem", "next week"),
        ("no mês que vem", "next month"),
        ("no ano que vem", "next year"),
    ),
    "now": (("agora", "now"), ("neste momento", "at the moment")),
    "habit": (
        ("todos os dias", "every day"),
        ("todas as manhãs", "every morning"),
        ("todas as noites", "every night"),
        ("todas as semanas", "every week"),
        ("uma vez por semana", "once a week"),
        ("duas vezes por mês", "twice a month"),
        ("de manhã", "in the morning"),
        ("à tarde", "in the afternoon"),
        ("no verão", "in summer"),
        ("no inverno", "in winter"),
    ),
}
FREQUENCY = (
    ("sempre", "always"),
    ("nunca", "never"),
    ("raramente", "rarely"),
    ("às vezes", "sometimes"),
    ("geralmente", "usually"),
)
# Where something is.
POSITIONS = (
    ("em cima de", "on"),
    ("embaixo de", "under"),
    ("atrás de", "behind"),
    ("ao lado de", "next to"),
    ("na frente de", "in front of"),
    ("perto de", "near"),
)
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
# What one holds a drink in, and the drinks for it.
MEASURES = (
    ("xícara", "cup", ("café", "chá", "leite")),
    ("copo", "glass", ("água", "leite", "suco", "vinho")),
    ("garrafa", "bottle", ("água", "leite", "suco", "vinho")),
)
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
""")
}
EN_GERUNDS = {"run": "running", "travel": "travelling", "forget": "forgetting", "see": "seeing"}
