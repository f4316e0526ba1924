"""The models of a server by their languages, and the languages of texts."""

import itertools

import pytest
from served import Capitals
from starlette.exceptions import HTTPException

from keras_mt.serving.catalogue import Catalogue, name_of

TEXTS = {
    "en": "The dog runs through the park with its owner.",
    "de": "Der Hund rennt mit seinem Besitzer durch den Park.",
    "fr": "Le chien court dans le parc avec son maître.",
    "zh": "狗和主人一起在公园里奔跑。",
}
MANY = ["eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant"]


def many(*codes, pairs=None):
    """A model of several languages, of all pairs or of those that are given."""
    pool, pairs = Capitals("many", "languages"), pairs or [*itertools.permutations(codes, 2)]
    pool.facts = pool.facts._replace(pairs=pairs, languages=list(codes))
    return pool


def test_models_are_found_by_their_languages():
    pools = [Capitals("en", "de"), Capitals("en", "fr"), Capitals("de", "en"), Capitals("en", "de")]
    catalogue = Catalogue(pools)
    assert (catalogue.sources, catalogue.targets) == (["en", "de"], ["de", "fr", "en"])
    assert (catalogue.targets_of("en"), catalogue.sources_of("en")) == (["de", "fr"], ["de"])
    found = [catalogue.pool(*pair) for pair in (("en", "de"), ("en", "fr"), ("de", "en"))]
    assert found == pools[:3]  # Of two for one pair, the first counts.


def test_a_model_of_many_languages_offers_its_pairs():
    every = many(*MANY)
    catalogue = Catalogue([every])
    assert catalogue.sources == MANY and set(catalogue.targets) == set(MANY)
    assert catalogue.pool("zho_Hant", "eng_Latn") is every
    with pytest.raises(HTTPException):
        catalogue.pool("eng_Latn", "eng_Latn")
    few = Catalogue([many(*MANY, pairs=[("eng_Latn", "deu_Latn")])])
    assert (few.sources, few.targets) == (["eng_Latn"], ["deu_Latn"])


def test_an_unknown_pair_names_those_that_there_are():
    catalogue = Catalogue([Capitals("en", "de"), Capitals("fr", "en")])
    for call, message in (
        (lambda: catalogue.pool("fr", "de"), "no model for fr-de: there are en-de, fr-en"),
        (lambda: catalogue.source("xx"), "source language 'xx' .* may be en, fr"),
        (lambda: catalogue.target("fr"), "target language 'fr' .* may be de, en"),
    ):
        with pytest.raises(HTTPException, match=message) as error:
            call()
        assert error.value.status_code == 400


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("EN-US", "en"),
        ("en_gb", "en"),
        ("eng", "en"),
        ("eng_Latn", "en"),
        ("ZH", "zh"),
        ("zh-Hans", "zh"),
        ("zh-CN", "zh"),
        ("pt-BR", "pt-PT"),  # The one Portuguese that there is.
        ("no", "nb"),
        ("DE-at", "de"),
        ("fr", None),
        ("ru", None),
        ("und", None),
        ("mul", None),
        ("", None),
        ("auto", None),
        ("en de", None),
        ("../en", None),
        ("e" * 500, None),
        ("en\0", None),
        ("𝄞", None),
    ],
)
def test_codes_of_clients_are_matched(given, expected):
    catalogue = Catalogue([Capitals(code, "x") for code in ("en", "de", "zh", "pt-PT", "nb")])
    if expected:
        assert catalogue.source(given) == expected
    else:
        with pytest.raises(HTTPException):
            catalogue.source(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("en", "eng_Latn"),
        ("EN-GB", "eng_Latn"),
        ("eng_latn", "eng_Latn"),
        ("zh-Hans", "zho_Hans"),
        ("zh", "zho_Hans"),
        ("zh-TW", "zho_Hant"),
        ("ZH-HANT", "zho_Hant"),
        ("de", "deu_Latn"),
    ],
)
def test_codes_with_scripts_are_matched(given, expected):
    assert Catalogue([many(*MANY)]).source(given) == expected


def test_a_language_is_found_among_those_of_the_models():
    catalogue = Catalogue([Capitals("en", "fr"), Capitals("de", "fr")])
    for code in ("en", "de"):
        found = catalogue.detect(TEXTS[code])
        assert found[0][0] == code and found[0][1] > 0.9
        assert sum(probability for _, probability in found) == pytest.approx(1)
        assert [*found] == sorted(found, key=lambda row: -row[1])
        assert {code for code, _ in found} == {"en", "de"}
    # Texts of other languages have one of these too, and so has nothing.
    assert {catalogue.detect(text)[0][0] for text in (TEXTS["fr"], "", "\0", "12")} <= {"en", "de"}
    assert catalogue.detect(TEXTS["de"], ["en"]) == [("en", 1.0)]
    tags = f'<a href="{TEXTS["de"]}">The dog runs.</a>'
    assert catalogue.detect(tags, html=True)[0][0] == "en" != catalogue.detect(tags)[0][0]


def test_languages_are_found_by_models_own_codes():
    catalogue = Catalogue([many(*MANY)])
    found = {code: catalogue.detect(text)[0][0] for code, text in TEXTS.items() if code != "fr"}
    # The identifier has no scripts: of two Chinese ones, it is the first.
    assert found == {"en": "eng_Latn", "de": "deu_Latn", "zh": "zho_Hans"}
    norwegian = Catalogue([many("nb", "sv")])
    assert norwegian.detect("Hunden løper gjennom parken, og jeg har ikke sett den.")[0][0] == "nb"
    with pytest.raises(HTTPException, match="name the source language, one of gsw, tlh"):
        Catalogue([many("gsw", "tlh")]).detect("a")


def test_languages_have_english_names():
    names = {"de": "German", "eng_Latn": "English", "pt-BR": "Portuguese", "zho_Hant": "Chinese"}
    for code, name in names.items():
        assert name_of(code).startswith(name)
