import ast
import gzip
import hashlib
import re
import subprocess
import sys
from collections import Counter
from random import Random

import phrasebook as generator
import pytest
import sacrebleu
from conftest import ROOT
from phrasebook import baselines, constructions, grammar

from keras_mt.data import phrasebook

FOLDER = ROOT / "examples" / "phrasebook"
TRAIN, VALIDATION, TEST, ALL, TEST_PAIRS = [], [], [], [], []  # As `made` fills them.
# An independent list: nouns of the corpus that are certainly of one gender.
MASCULINE = re.findall(r"\S+", """
livro jornal poema romance relatório mapa carro barco trem avião gato cachorro pássaro cavalo coelho
irmão pai tio médico professor hospital museu parque restaurante aeroporto hotel casaco chapéu
guarda-chuva presente computador telefone garfo prato copo espelho sofá bolo ovo
""")  # fmt: skip
FEMININE = re.findall(r"\S+", """
revista carta maçã laranja banana sopa salada camisa camiseta jaqueta gravata chave câmera caneta
bola boneca faca xícara garrafa mesa cadeira cama caixa gaveta mochila geladeira cesta porta janela
bicicleta casa cozinha sala garagem mãe irmã filha tia amiga vizinha médica professora praia
biblioteca padaria farmácia estação praça reunião festa aula canção
""")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def made():
    """The corpus, which is made when its first test begins, and not when tests are collected."""
    for split, part in zip(phrasebook.SPLITS, (TRAIN, VALIDATION, TEST), strict=True):
        part.extend(generator.examples()[split])
    ALL.extend([*TRAIN, *VALIDATION, *TEST])
    TEST_PAIRS.extend(phrasebook.pairs("test"))


def forms(text):
    return re.findall(r"[\w'-]+", text.lower())


def combinations(example):
    return {(word, example.construction) for word in example.words}


def test_sizes():
    assert 18_500 <= len(TRAIN) <= 19_500
    assert len(VALIDATION) == 500
    assert 600 <= len(TEST) <= 1000


def test_no_sentence_twice_in_either_language():
    """Hence one English sentence for each Portuguese one, and no overlap of the splits."""
    for side in (0, 1):
        counts = Counter(example[side] for example in ALL)
        assert [text for text, n in counts.items() if n > 1] == []


def test_pairs_are_the_examples():
    assert phrasebook.LANGUAGES == ("pt", "en")
    for split in phrasebook.SPLITS:
        assert list(phrasebook.pairs(split)) == [e[:2] for e in generator.examples()[split]]


def test_unknown_split():
    with pytest.raises(ValueError, match="train, validation, test"):
        phrasebook.pairs("dev")


def test_another_seed_draws_other_sentences():
    other = {example.pt for example in generator.examples(1)["train"]}
    assert len(other & {example.pt for example in TRAIN}) < len(other) // 2
    for split, held in (("train", False), ("test", True)):
        for example in generator.examples(1)[split]:
            assert bool(combinations(example) & generator.held_out()) == held


# Trained models depend on the pairs and on their order. A change of the words or of the grammar
# changes it: then write the file anew, and take the new one from the failure.
DIGEST = "16de18e3b82c29c4798428a6e6893c1e17b24b21994688550f467a8f7f1078c3"


def test_the_pairs_stay_as_they_are():
    lines = ["\t".join(pair) for split in phrasebook.SPLITS for pair in phrasebook.pairs(split)]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == DIGEST


@pytest.mark.long
def test_the_grammar_makes_the_package_s_file_again(tmp_path):
    made, packed = tmp_path / "made.tsv.gz", ROOT / "keras_mt" / "data" / "phrasebook.tsv.gz"
    subprocess.run(
        [sys.executable, "-m", "phrasebook", made],
        env={"PYTHONHASHSEED": "77", "PATH": ""},
        cwd=FOLDER.parent,
        check=True,
    )
    # Another zlib may pack the same text differently.
    assert gzip.decompress(made.read_bytes()) == gzip.decompress(packed.read_bytes())
    assert made.read_bytes()[4:8] == b"\0\0\0\0"  # Without the time.


def test_standard_library_only():
    allowed = {*sys.stdlib_module_names, "phrasebook"}
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module]
            assert {module.split(".")[0] for module in modules} <= allowed


# The held-out combinations.


def test_training_and_validation_have_no_held_out_combination():
    for example in (*TRAIN, *VALIDATION):
        assert not combinations(example) & generator.held_out(), example


def test_each_test_sentence_has_a_held_out_combination():
    for example in TEST:
        assert combinations(example) & generator.held_out(), example


def test_held_out_words_and_constructions_are_known_apart():
    words = Counter(word for example in TRAIN for word in example.words)
    homes = Counter(word for word, _ in {c for e in TRAIN for c in combinations(e)})
    constructions_seen = Counter(example.construction for example in TRAIN)
    for word, construction in generator.held_out():
        assert words[word] >= 40, word
        assert homes[word] >= 3, word
        assert constructions_seen[construction] >= 250, construction


def test_most_held_out_combinations_are_tested():
    tested = set().union(*(combinations(example) for example in TEST)) & generator.held_out()
    assert len(tested) >= 0.9 * len(generator.held_out()) >= 80


def test_the_words_of_an_example_are_in_it():
    """The proof above stands on the lemmas that the generator claims: no noun goes unclaimed."""
    nouns = {}
    for noun in grammar.BY_CLASS["portable"] + grammar.BY_CLASS["kin"] + grammar.BY_CLASS["place"]:
        nouns |= {form: noun.pt for form in (noun.pt, noun.pt_plural) if form}
    for example in ALL:
        if example.construction != "greeting":
            said = {nouns[form] for form in re.findall(r"[\w-]+", example.pt) if form in nouns}
            assert said <= {*example.words}, example


def test_every_form_of_the_test_set_is_in_training():
    for side in (0, 1):
        known = Counter(form for example in TRAIN for form in forms(example[side]))
        rare = {form for e in TEST for form in forms(e[side]) if known[form] < 10}
        assert rare == set()


def test_lemmas_and_constructions_are_frequent():
    words = Counter(word for example in TRAIN for word in example.words)
    assert 250 <= len(words) <= 350
    assert sorted(words.values())[0] >= 40
    assert sorted(words.values())[len(words) // 10] >= 60
    kinds = Counter(example.construction for example in TRAIN)
    assert kinds.pop("greeting") == 20
    assert set(kinds) == set(constructions.CONSTRUCTIONS)
    assert min(kinds.values()) >= 250


def test_lecture_sentences():
    assert TEST_PAIRS[:2] == [
        ("Em Dezembro, Lucas irá viajar ao Rio.", "Lucas is travelling to Rio in December."),
        ("O livro está em cima da mesa.", "The book is on the table."),
    ]
    assert ("Olá, como vai você?", "Hello, how are you?") in list(phrasebook.pairs("train"))


def test_the_grammar_makes_the_lecture_sentences():
    phrase = grammar.Phrase
    plan = grammar.clause(
        phrase("Lucas", "Lucas"),
        "future:progressive",
        "viajar",
        "travel",
        phrase("ao Rio", "to Rio"),
    )
    time = phrase("em Dezembro", "in December")
    assert grammar.timed(Random(0), plan, time, front=1.0)[:2] == (
        "em Dezembro, Lucas irá viajar ao Rio.",
        "Lucas is travelling to Rio in December.",
    )


def test_training_prepares_the_lecture_sentences():
    pt = [example.pt for example in TRAIN]
    assert sum("Lucas irá viajar" in text for text in pt) >= 2
    assert sum(text.startswith("Em Dezembro, ") for text in pt) >= 4
    assert sum("ao Rio" in text for text in pt) >= 5
    assert sum("irá viajar a" in text for text in pt) >= 50
    assert sum("em cima d" in text for text in pt) >= 40
    assert sum(re.search(r"o livro\b", text, re.I) is not None for text in pt) >= 40


# What there is to translate.

PHENOMENA = {
    "contraction with the article": (r"\b(ao|à|no|na|do|da|pelo|pela)s?\b", r"\b(the|of|in)\b"),
    "contraction with a demonstrative": (r"\b(n|d)(este|esta|aquele|aquela)s?\b", r"\bth(is|at)\b"),
    "negation": (r"\bnão\b", r"\bnot\b"),
    "question without a question word": (r"^(Você|Ele|Ana)\b.*\?$", r"^(Do|Did|Is|Are|Has|Will)\b"),
    "question word": (r"^Por que\b", r"^Why (did|is|are|was|were)\b"),
    "dropped first person": (r"^(Comprei|Moro|Gosto|Li)\b", r"^I\b"),
    "dropped plural": (r"^(Compramos|Moramos|Gostamos)\b", r"^We\b"),
    "fronted time": (r"^(Ontem|Amanhã), ", r"\b(yesterday|tomorrow)\.$"),
    "feminine plural": (r"\b[Aa]s \w+as \w+as\b", r""),
    "adjective after the noun": (
        r"(carro|casaco|livro) (novo|vermelho)",
        r"(new|red) (car|coat|book)",
    ),
    "date": (r"no dia \d+ de [A-Z]\w+", r"on [A-Z]\w+ \d+"),
    "hour": (r"às \w+ e meia", r"at half past \w+"),
    "year": (r"em [A-Z]\w+ de (19|20)\d\d", r"in [A-Z]\w+ (19|20)\d\d"),
    "number": (r"\bduas \w+s\b", r"\btwo \w+s?\b"),
    "tens": (r"vinte e cinco reais", r"twenty-five reais"),
    "planned trip": (r"irá viajar", r"(is|are|Is|Are)\b.* travelling"),
    "future": (r"irá comprar", r"(will|Will)\b.* buy"),
    "near future": (r"vai comprar", r"going to buy"),
    "present for how long": (r"mora .* há \w+ anos", r"has lived .* for \w+ years"),
    "past how long ago": (r"há \w+ (dias|anos)", r"\w+ (days|years) ago"),
    "possessor after the noun": (r"\b[oa] \w+ de Ana\b", r"Ana's \w+"),
    "possessive after the noun": (r"\b\w+ (dele|dela|deles)\b", r"\b(his|her|their) \w+"),
    "hunger": (r"\b(tenho|tem) (muita )?fome", r"\b(am|is|are) (very )?hungry"),
    "age": (r"tem \d+ anos", r"is \d+ years old"),
    "liking": (r"\bgosta d[eoa]s? ", r"\blikes? "),
    "there is": (r"\b[Hh]á (um|uma) ", r"\b([Tt]here is|Is there) an? "),
    "weather": (
        r"\bfaz (muito )?(calor|frio)\b",
        r"\b(it is|It is|is it|Is it)( not)?( very)? (hot|cold)\b",
    ),
    "profession without article": (r"é (médica|médico)\b", r"is a doctor"),
    "object pronoun before the verb": (r"\bnos (deu|mostrou)\b", r"\b(gave|showed) us\b"),
    "passive": (r"foram \w+s pel[ao]s? ", r"were \w+ by "),
    "comparison": (r"mais (alt|ric)[oa]s? do que", r"(taller|richer) than"),
    "let's would be wrong": (r"\b[Nn]ós vamos\b", r"\b[Ww]e are (not )?going to"),
}


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_phenomenon_occurs(phenomenon):
    portuguese, english = PHENOMENA[phenomenon]
    both = [e for e in TRAIN if re.search(portuguese, e.pt) and re.search(english, e.en)]
    assert len(both) >= 3


def test_a_planned_trip_is_never_will():
    for example in ALL:
        if re.search(r"\bir(á|ão|ei|emos) (viajar|voltar|partir)\b", example.pt, re.I):
            assert re.search(r"\b(travelling|returning|leaving)\b", example.en), example
        elif re.search(r"\bir(á|ão|ei|emos) ", example.pt.lower()):
            assert re.search(r"\bwill\b", example.en.lower()), example


def test_every_third_person_has_a_subject():
    """He or she? A Portuguese sentence that drops the subject would not say."""
    for example in ALL:
        subject = re.match(r"(He|She|They)\b", example.en)
        if subject:
            assert re.search(r"\b(ele|ela|eles|elas)\b", example.pt.lower()), example


# Grammar, by rules that know nothing of the generator.


def test_contractions_are_made():
    bare = re.compile(
        r"\b(de|em|por) (o|a|os|as)\b|\ba (o|os|as)\b|\b(de|em) (est[ea]s?|aquel[ea]s?|el[ea]s?)\b"
        r"|\ba a\b|\ba aquel"
    )
    for example in ALL:
        assert not bare.search(example.pt.lower()), example


def test_indefinite_article_in_english():
    wrong = re.compile(r"\ba [aeio]|\ba (umbrella|ugly)|\ban [^aeiou]", re.I)
    for example in ALL:
        assert not wrong.search(example.en), example


def test_articles_agree_with_the_gender():
    masculine, feminine = (
        "|".join(rf"{noun}s?" for noun in nouns) for nouns in (MASCULINE, FEMININE)
    )
    wrong = re.compile(
        rf"\b(a|as|uma|esta|aquela|minha|nossa|da|na|à|pela|duas|muitas) ({masculine})\b"
        rf"|\b(o|os|um|este|aquele|meu|nosso|do|no|ao|pelo|dois|muitos) ({feminine})\b"
    )
    checked = 0
    for example in ALL:
        text = example.pt.lower()
        checked += bool(re.search(rf"\b(o|a|um|uma) ({masculine}|{feminine})\b", text))
        # "a" is also a preposition: "prefere chá a bolos".
        found = wrong.search(text)
        assert not found or example.construction == "prefers", example
    assert checked > 3000


def test_adjectives_agree():
    masculine = "(vermelho|branco|preto|amarelo|novo|velho|sujo|pequeno|bonito|caro)"
    feminine = masculine.replace("o|", "a|").replace("o)", "a)")
    wrong = re.compile(
        rf"\b({'|'.join(FEMININE)})s? {masculine}s?\b"
        rf"|\b({'|'.join(MASCULINE)})s? {feminine}s?\b"
        rf"|\b([oa]s|estas|estes|muit[oa]s|du?[oa]s|três) \w+s ({masculine}|{feminine})\b"
        rf"|\b([oa]|esta|este|uma?) (?!ônibus)\w+[oaer] ({masculine}|{feminine})s\b"
    )
    right = re.compile(rf"\b({'|'.join(FEMININE)})s {feminine}s\b")
    for example in ALL:
        assert not wrong.search(example.pt.lower()), example
    assert sum(bool(right.search(example.pt)) for example in ALL) > 100


def test_english_verbs_agree():
    wrong = re.compile(
        r"\b(he|she|it|Ana|Lucas) (are|were|have|do|like|want)\b"
        r"|\b(they|we|you) (is|was|has|does)\b|\bI (is|are|were|has|does)\b"
        r"|\b(did|does|do|will)( not)? (is|was|went|bought|likes|wants|has|had)\b",
        re.I,
    )
    for example in ALL:
        if not example.en.endswith("?"):
            assert not wrong.search(example.en), example


def test_no_doubled_word():
    for example in ALL:
        for text in example[:2]:
            assert not re.search(r"\b(\w+) \1\b", text), example


def test_punctuation_and_capitals():
    for example in ALL:
        for text in example[:2]:
            assert text[0].isupper(), text
            assert re.fullmatch(r"[^.?!]+[.?!]", text), text
            assert not re.search(r"\s\s|\s[,.?!]|_|^\s|\s$", text), text
        assert example.pt[-1] == example.en[-1], example


def test_questions():
    opening = re.compile(
        r"((Hello|Hi|Good \w+), (\w+, )?how|Is|Are|Am|Was|Were|Do|Does|Did|Has|Have|Will|"
        r"Who|What|Where|When|Why|How)\b.*\?"
    )
    for example in ALL:
        if example.construction != "greeting":
            start = opening.match(
                example.en.split(", ")[0] if example.en[-1] != "?" else example.en
            )
            assert bool(start) == (example.en[-1] == "?"), example


def test_lengths():
    for example in ALL:
        assert len(example.pt.split()) <= 18 and len(example.en.split()) <= 18, example
    assert 6 < sum(len(example.pt.split()) for example in ALL) / len(ALL) < 9


@pytest.mark.parametrize(
    "preposition, phrase, expected",
    [
        ("de", "a casa", "da casa"),
        ("em cima de", "o sofá", "em cima do sofá"),
        ("a", "as praias", "às praias"),
        ("a", "aquela mesa", "àquela mesa"),
        ("em", "minha casa", "na minha casa"),
        ("em", "uma casa", "em uma casa"),
        ("com", "minha casa", "com minha casa"),
        ("de", "Lisboa", "de Lisboa"),
    ],
)
def test_attach(preposition, phrase, expected):
    assert grammar.attach(preposition, phrase) == expected


# Too hard for the baselines.


def bleu(hypotheses):
    return sacrebleu.corpus_bleu(hypotheses, [[en for _, en in TEST_PAIRS]]).score


def test_word_for_word_scores_under_40():
    score = bleu([baselines.word_for_word(pt) for pt, _ in TEST_PAIRS])
    # Over 15: the dictionary is a fair one.
    assert 15 < score < 40


def test_the_dictionary_knows_the_words():
    known = baselines.dictionary()
    names = {*map(str.lower, generator.PEOPLE)}
    unknown = {
        form
        for pt, _ in TEST_PAIRS
        for form in re.findall(r"[\w-]+", pt.lower())
        if form not in known and form not in names and not form.isdigit()
    }
    assert unknown == set()


def test_nearest_finds_the_sentence_itself():
    some = [example[:2] for example in TRAIN[:500]]
    assert baselines.nearest([pt for pt, _ in some[:50]], some) == [en for _, en in some[:50]]
