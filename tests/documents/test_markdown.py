import importlib.metadata

import pytest
from markdown_it import MarkdownIt
from stand_in_translator import same, texts, through, upper

from keras_mt.errors import InputError

TEXT = """---
title: Not this
---
# A *heading* with `code`

A paragraph of \\*two\\* &amp; more
lines, [a link](http://a.b/c_d "title") and [another][ref].

> A quotation
> with **two** lines.

1. First, see [ref] and <http://a.b>
2. Second\\
   with a break

| Name | What |
| --- | --- |
| a\\|b | `x` is *one* |

![A picture](a.png) <b>HTML</b>

```python
code = "stays"
```

<div>
An HTML block stays.
</div>

[ref]: http://a.b/ref "Title"
"""


def shape(text, change=str):
    """The tokens of what is rendered, with texts joined."""
    found, joined = [], ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        for inner in token.children or [token]:
            if inner.type in ("text", "softbreak"):
                joined += inner.content or " "
                continue
            found.append(" ".join(change(joined).split()))
            joined = ""
            shown = inner.content.strip()
            shown = change(shown) if inner.type == "image" else shown
            found.append((inner.type, inner.tag, str(inner.attrs), shown))
    return found


def test_texts_are_blocks():
    assert texts("markdown", TEXT.encode()) == [
        "A <0>heading</0> with <1:code/>",
        "A paragraph of *two* & more lines, <0>a link</0> and <1>another</1>.",
        "A quotation with <0>two</0> lines.",
        "First, see <0>ref</0> and <1:http://a.b/>",
        "Second<0: />with a break",
        "Name",
        "What",
        "a|b",
        "<0:x/> is <1>one</1>",
        "A picture",
        "HTML",
    ]


def test_markup_addresses_and_code_stay():
    data = TEXT.encode()
    assert through("markdown", data, lambda unit: unit.text)[0] == data
    written, refusals = through("markdown", data, upper)
    text = written.decode()
    assert not refusals and text.startswith(
        "---\ntitle: Not this\n---\n# A *HEADING* WITH `code`\n"
    )
    assert "[REF][ref]" in text and "2. SECOND\\\n   WITH A BREAK" in text
    bodies = [whole.partition("---\n#")[2] for whole in (text, TEXT)]
    assert shape(bodies[0], str.lower) == shape(bodies[1], str.lower)


EXTENDED = r"""- [ ] Feed the cat
- [x] see [^1] and [^note]
  1. [X] third

> [!NOTE]
> Mind the gap
> again

Costs $5 and $10, and $E = mc^2$ of $a_1 * b_2 * c$.[^1]

$$
x^2
$$

The sum $$\\{a\\} * b *$$ of \$5 is \$x$.

[ ] no box

[^1]: A note with *stress*.
[^note]: Word

[ref]: word
"""


def test_boxes_footnotes_and_formulas_stay():
    data = EXTENDED.encode()
    assert texts("markdown", data) == [
        "Feed the cat",
        "see <0/> and",
        "third",
        "Mind the gap again",
        "Costs $5 and $10, and <0:E = mc^2/> of <1:a_1 * b_2 * c/>.",
        "The sum <0:\\\\{a\\\\} * b */> of $5 is $x$.",
        "no box",
        "A note with <0>stress</0>.",
        "Word",
    ]
    assert through("markdown", data, lambda unit: unit.text)[0] == data
    written, refusals = through("markdown", data, upper)
    expected = EXTENDED.upper().replace("[X] SEE", "[x] SEE").replace("GAP\n> AGAIN", "GAP AGAIN")
    expected = expected.replace(r"\$5", "$5")
    for kept in ("E = mc^2", "a_1 * b_2 * c", "{a\\\\} * b", "[^note]", "x^2", "[ref]: word"):
        expected = expected.replace(kept.upper(), kept)
    assert written.decode() == expected and not refusals


@pytest.mark.parametrize(
    "new", ["# a", "1. a", "- a", "> a", "a *b* _c_", "`a`", "[ref]", "<b>", "---", "&amp;", "a_b"]
)
def test_a_translation_is_no_markup_by_chance(new):
    written, _ = through("markdown", b"text\n\n[ref]: a\n", lambda unit: new)
    paragraph, inline = MarkdownIt("commonmark").parse(written.decode())[:2]
    assert paragraph.type == "paragraph_open"
    assert [(t.type, t.content) for t in inline.children] == [("text", new)]


def _real_files():
    found = []
    for package in ("pyzmq", "markdown-it-py", "huggingface_hub"):
        try:
            text = importlib.metadata.metadata(package).get_payload()
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [pytest.param(text, id=package)] if text else []
    return found


@pytest.mark.parametrize("text", _real_files())
def test_real_descriptions_keep_their_form(text):
    data = text.encode()
    assert through("markdown", data, lambda unit: unit.text)[0] == data
    written, refusals = through("markdown", data, same)
    assert shape(written.decode()) == shape(text) and not refusals


def test_another_encoding_is_refused_by_name():
    with pytest.raises(InputError, match="encoding utf-8"):
        texts("markdown", b"\xff")
