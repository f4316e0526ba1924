"""Texts as jobs, and translations put together from their answers."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from keras_mt.serving.texts import Plan, Wish
from keras_mt.serving.worker import Answer, Facts
from keras_mt.text import Fragment
from keras_mt.translation.results import Hypothesis

FACTS = Facts(0, [("en", "de")], [], True, True, True, 8)
TEXTS = st.one_of(
    st.text("aB.? \t\n\r\x85\u3000。"), st.text(st.characters(exclude_categories=["C"]))
)


def translated(text, change=lambda job: job.text, facts=FACTS, **wishes):
    """A translation by a model that changes each job to a text, or to hypotheses."""
    plan = Plan(text, Wish("en", "de", **wishes), facts)
    answers = []
    for job in plan.jobs:
        found = change(job)
        found = found if isinstance(found, list) else [found]
        made = [x if isinstance(x, Hypothesis) else Hypothesis(x, 0.0) for x in found]
        answers.append(Answer(made, ((0, 0),) if job.detailed else ()))
    return plan.translation(answers)


@settings(max_examples=500)
@given(TEXTS, st.sampled_from("01"), st.booleans())
def test_white_space_stays(text, split, by_sentence):
    facts = FACTS._replace(split_sentences=by_sentence)
    assert translated(text, split=split, facts=facts).text == text


@given(TEXTS)
def test_sentences_may_cross_lines_and_keep_all_else(text):
    found = translated(text, split="nonewlines").text
    assert found.split() == text.split() and not re.search(r"[\n\r\v\f\x85\u2028\u2029]", found)


@given(TEXTS, st.sampled_from(["0", "1", "nonewlines"]))
def test_no_job_is_empty_or_has_space_around_it(text, split):
    for job in Plan(text, Wish("en", "de", split=split), FACTS).jobs:
        assert job.text.strip() == job.text != ""


def test_alternatives_are_those_of_all_parts_the_best_first():
    numbers = {"One.": 3, "Two.": 2, "Three.": 1}

    def change(job):
        return [f"{job.text[:-1]}{k}." for k in range(numbers[job.text])]

    found = translated("One. Two.\nThree.", change)
    assert found.text == "One0. Two0.\nThree0."
    assert found.alternatives == ["One1. Two1.\nThree0.", "One2. Two1.\nThree0."]
    assert translated("One.", lambda job: ["a", "a", "b"]).alternatives == ["b"]


def test_links_and_warnings_have_their_places_in_the_whole():
    def change(job):
        text = job.text.replace("cat", "Katze")
        return Hypothesis(text, 0.0, warnings=("loop",) if "x" in text else ())

    text = "  The cat.  My cat.\n\nAn x cat. "
    found = translated(text, change, detailed=True)
    pairs = [(text[a:b], found.text[c:d]) for a, b, c, d in found.links]
    assert pairs == [("The", "The"), ("My", "My"), ("An", "An")]
    [(start, end, warning)] = found.warnings
    assert (found.text[start:end], warning) == ("An x Katze.", "loop")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>A <b>dog</b>.</p>\n<pre>x</pre>", "<p>A <b>DOG</b>.</p>\n<pre>x</pre>"),
        ("A <b>dog</b> &amp; a cat", "A <b>DOG</b> &amp; A CAT"),
        ("<ul><li>one<li>two</ul>", "<ul><li>ONE<li>TWO</ul>"),
        ("  plain  ", "  PLAIN  "),
        ("", ""),
    ],
)
def test_html_keeps_its_form(html, expected):
    def change(job):
        return Fragment(job.text.upper(), getattr(job.text, "elements", ()))

    assert translated(html, change, html=True).text == expected


def test_what_a_model_cannot_do_is_refused():
    blind = FACTS._replace(supports_alignment=False, supports_terms=False)
    assert translated("<p>a</p><p>b</p>", facts=blind, html=True).text == "<p>a</p><p>b</p>"
    for wish, text, message in (
        ({"html": True}, "A <b>dog</b>.", "no attention"),
        ({"glossary": "x"}, "A dog.", "takes no glossary"),
    ):
        with pytest.raises(HTTPException, match=message) as error:
            Plan(text, Wish("en", "de", **wish), blind)
        assert error.value.status_code == 400


def test_a_part_that_is_refused_or_fails_is_said():
    plan = Plan("One. Two.", Wish("en", "de"), FACTS)
    for answer, status, message in (
        (Answer(refusal="too long"), 400, "'Two.' is refused: too long"),
        (Answer(failure="its workers died"), 500, "its workers died"),
    ):
        with pytest.raises(HTTPException, match=message) as error:
            plan.translation([Answer([Hypothesis("Eins.", 0.0)]), answer])
        assert error.value.status_code == status


def test_only_models_of_several_languages_are_told_which():
    several = FACTS._replace(languages=["en", "de"])
    for facts, expected in ((several, ("en", "de")), (FACTS, (None, None))):
        [job] = Plan("a", Wish("en", "de"), facts).jobs
        assert (job.source_language, job.target_language) == expected
