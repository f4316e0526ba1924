"""The page at /: what is sent with it, and what people do with it in Chromium."""

import itertools
import json
import re

import html5lib
import pytest
import requests
from chromium import BROWSER
from served import KEY, Capitals, serving_here
from starlette.testclient import TestClient

from keras_mt.serving.app import Service, Settings, create_app
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries

FILES = {
    "/": "text/html; charset=utf-8",
    "/icon.svg": "image/svg+xml",
    "/page.css": "text/css; charset=utf-8",
    "/page.js": "text/javascript; charset=utf-8",
}
ATTACK = "<img src=x onerror=hacked=1>"
# Stands for the server: answers by their paths, with a status and headers.
STAND_IN = """
window.asked = [];
window.fetch = async (path, { body, headers }) => {
  asked.push({ path, headers, ...(body instanceof Blob && JSON.parse(await body.text())) });
  const [answer, status, more] = answers[path];
  return new Response(JSON.stringify(answer), { status, headers: more });
};
window.answers = """
ANSWERS = {
    "frontend/settings": (
        {"charLimit": 1000, "frontendTimeout": 50, "language": {"target": {"code": "de"}}},
    ),
    "languages": (
        [
            {"code": "en", "name": "English", "targets": ["de", "heb_Hebr"]},
            {"code": "de", "name": "German", "targets": ["en"]},
            {"code": "heb_Hebr", "name": "Hebrew", "targets": []},
        ],
    ),
    "glossaries": ([{"id": "g", "name": ATTACK, "source": "en", "target": "de"}],),
    "translate": (
        {
            "translatedText": f"🐕 Der Hund bellt {ATTACK}",
            "detectedLanguage": {"language": "en", "confidence": 90.0},
            # In code points, of which a dog is one.
            "details": {"links": [[2, 5, 6, 10], [6, 11, 11, 16]], "warnings": [[6, 16, "loop"]]},
        },
    ),
}
chromium = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")


class Page:
    """The page in a browser."""

    def __init__(self, browser, url, answers=None):
        self.browser = browser
        browser.open()
        if answers:
            browser("Page.enable")
            script = STAND_IN + json.dumps(answers)
            browser("Page.addScriptToEvaluateOnNewDocument", source=script)
        browser("Page.navigate", url=url)
        self.wait("document.readyState == 'complete' && document.getElementById('target').value")

    def show(self, width, scheme):
        """Shows it at a width, light or dark."""
        self.browser(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser("Emulation.setEmulatedMedia", features=features)

    def __call__(self, name, of="textContent"):
        return self.browser.value(f"document.getElementById('{name}').{of}")

    def wait(self, expression):
        self.browser.wait_for(expression, 20)

    def type(self, text, into="text"):
        self(into, "focus()")
        self(into, "select()")
        self.browser("Input.insertText", text=text)

    def translation_of(self, text):
        self.type(text)
        return self.translation()

    def translation(self):
        self.wait("!document.body.classList.contains('stale')")
        return self("result")

    def press(self, key, code=0, text="", modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.browser(
                "Input.dispatchKeyEvent",
                type=kind, key=key, windowsVirtualKeyCode=code, text=text, modifiers=modifiers,
            )  # fmt: skip
            text = ""

    def point(self, box, word):
        place = f"""(() => {{
            const words = [...document.querySelectorAll('#{box} span')];
            const r = words.find((each) => each.textContent == '{word}').getBoundingClientRect();
            return JSON.stringify({{ x: r.x + r.width / 2, y: r.y + r.height / 2 }});
        }})()"""
        place = json.loads(self.browser.value(place))
        self.browser("Input.dispatchMouseEvent", type="mouseMoved", **place)

    def words(self, of):
        return self.browser.value(
            f"[...document.querySelectorAll('.{of}')].map((x) => x.textContent).join()"
        )


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The client of a server that asks for keys."""
    settings = Settings(tmp_path_factory.mktemp("page"), {KEY: "tester"})
    return TestClient(create_app(Service(Catalogue([Capitals()]), settings, Glossaries())))


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_sent_with_its_kind_and_may_load_nothing_from_elsewhere(client, path):
    found = client.get(path)
    assert (found.status_code, found.headers["content-type"]) == (200, FILES[path])
    policy = found.headers["content-security-policy"]
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert {rules[f"{kind}-src"] for kind in ("connect", "img", "script", "style")} == {"'self'"}
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cache-control"] == "no-cache"
    again = client.get(path, headers={"If-None-Match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.head(path).content == b"" and client.post(path).status_code == 405


def test_no_file_names_another_host(client):
    for path in FILES:
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""//\w|url\(|@import|["'`(]\w+:[^ ]""", text), path


def test_what_the_page_names_is_there_and_no_more(client):
    tree = html5lib.parse(client.get("/").text, namespaceHTMLElements=False)
    names = {each.get("src") or each.get("href") for each in tree.iter()} - {None}
    assert names == {path.removeprefix("/") for path in FILES} - {""}
    ids = {each.get("id") for each in tree.iter()}
    assert set(re.findall(r'\$\("([^"]+)"\)', client.get("/page.js").text)) <= ids
    for path in ("/page.py", "/page/page.js", "/..%2fapp.py", "/index.htm"):
        assert client.get(path).status_code == 404


def test_colours_have_the_contrast_of_wcag_aa(client):
    schemes = re.findall(r":root \{(.*?)\}", client.get("/page.css").text, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = {
            name: _luminance(digits) for name, digits in re.findall(r"--(\S+): #(\w+);", scheme)
        }
        pairs = [("text", "lit"), ("on-accent", "accent"), ("bad", "on-bad"), ("warn", "card")]
        pairs += itertools.product(["text", "quiet", "accent"], ["page", "card"])
        for one, other in [*pairs, ("edge", "card"), ("edge", "page")]:
            dark, light = sorted([colours[one], colours[other]])
            needed = 3.0 if one == "edge" else 4.5
            assert (light + 0.05) / (dark + 0.05) >= needed, (one, other)


def _luminance(digits):
    """The relative luminance of a colour, as WCAG 2 defines it."""
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@chromium
@pytest.mark.long
def test_someone_with_a_key_translates_and_sees_where_words_come_from(browser, server, tmp_path):
    page = Page(browser, server.url)
    page.wait("!document.getElementById('key-form').hidden")
    assert page("key-problem") == "This server asks for an API key."
    page.type("a wrong one", "key")
    page.press("Enter", 13, "\r")
    page.wait("document.getElementById('key-problem').textContent == 'This key is wrong.'")
    page.type(KEY, "key")
    page.press("Enter", 13, "\r")
    page.wait("document.getElementById('key-form').hidden")
    assert browser.value("document.activeElement.id") == "text"
    assert page.translation_of("Two dogs run.") == "Zwei Hunde laufen."
    assert page("source", "selectedOptions[0].text") == "English (detected)"
    page.point("shadow", "dogs")
    assert (page.words("lit"), page("hint")) == ("dogs,Hunde", "dogs → Hunde")
    assert page.translation_of(f"A man {ATTACK} sleeps.")
    page.type("A dog sleeps.")
    page("glossary", "value = 'dogs'")
    page("glossary", "dispatchEvent(new Event('change'))")
    page.wait("document.getElementById('result').textContent == 'Ein Köter schläft.'")
    (tmp_path / "dogs.txt").write_text("A dog sleeps.\n")
    chosen = browser("Runtime.evaluate", expression="document.getElementById('file')")["result"]
    browser(
        "DOM.setFileInputFiles", files=[str(tmp_path / "dogs.txt")], objectId=chosen["objectId"]
    )
    page.wait("!document.getElementById('download').hidden")
    assert "Köter" in requests.get(page("download", "href")).text
    assert browser.value("document.querySelectorAll('img').length == 1 && !window.hacked")
    tops = "['text', 'result'].map((x) => document.getElementById(x).getBoundingClientRect().top)"
    colour = "getComputedStyle(document.body).backgroundColor"
    for width, scheme in ((1280, "light"), (390, "dark")):
        page.show(width, scheme)
        assert browser.value("document.documentElement.scrollWidth") <= width
        assert browser.value(f"new Set({tops}).size") == (1 if width > 700 else 2)
        assert (browser.value(colour) == "rgb(18, 21, 26)") == (scheme == "dark")


@pytest.fixture
def page(browser, tmp_path):
    """The page, with a stand-in for what it asks."""
    with serving_here(tmp_path, Capitals()) as server:
        yield Page(browser, server.url, answers=ANSWERS)


@chromium
@pytest.mark.long
def test_words_are_lit_by_their_characters_and_doubts_are_said(page):
    translation = ANSWERS["translate"][0]["translatedText"]
    assert page.translation_of("🐕 The dog barks") == translation
    assert page("doubts") == "“Hund bellt” repeats itself, and may be wrong."
    assert page.words("doubt") == "Hund,bellt"
    page.point("result", "bellt")
    assert (page.words("lit"), page("hint")) == ("dog,bellt", "bellt ← dog")
    page.point("shadow", "The")
    assert (page.words("lit"), page("hint")) == ("The,Hund", "The → Hund")
    page("translate", "focus()")
    page.press("Tab", 9)
    assert page.browser.value("document.activeElement.id") == "result"
    for key, word in [("Right", "Hund"), ("Right", "bellt"), ("Right", "Hund"), ("Left", "bellt")]:
        page.press(f"Arrow{key}")
        assert page("hint").startswith(word)


@chromium
@pytest.mark.long
def test_what_others_write_is_text(page):
    assert ATTACK in page.translation_of(f"dog {ATTACK}")
    assert page("glossary", "options[1].text") == ATTACK
    assert page.browser.value("document.querySelectorAll('img').length == 1 && !window.hacked")
    assert page.browser.value("try { document.body.innerHTML = 'x' } catch { 'refused' }") == (
        "refused"
    )


@chromium
@pytest.mark.long
def test_a_request_that_fails_is_said_in_words_and_tried_again(page):
    def answer(*values):
        page.browser.value(f"answers.translate = {json.dumps(values)}")

    answer({"error": "too many texts are waiting"}, 429, {"Retry-After": "1"})
    page.type("The dog")
    page.wait("!document.getElementById('trouble').hidden")
    assert (page("problem"), page("wait")) == ("Too many texts are waiting.", "Next try in 1 s.")
    answer(*ANSWERS["translate"])
    assert "Hund" in page.translation()  # It tried again by itself.
    assert page("trouble", "hidden") is True
    for status, said in [
        (503, "The server is not ready."),
        (413, "That is too much at once. A request may have 9 characters."),
        (400, "A request may have 9 characters."),
    ]:
        answer({"error": "a request may have 9 characters"}, status)
        page.type(f"The dog {status}")
        page.wait("!document.getElementById('trouble').hidden")
        assert page("problem") == said
    page.browser.value("window.fetch = () => Promise.reject(new TypeError('no network'))")
    page("again", "click()")
    page.wait("document.getElementById('problem').textContent.includes('offline')")


@chromium
@pytest.mark.long
def test_the_last_text_wins(page):
    page.browser.value("const now = fetch; let held; window.fetch = async (path, request) => {"
                       "  const own = held; await own; return now(path, request); }")  # fmt: skip
    page.browser.value("let free; held = new Promise((resolve) => (free = resolve))")
    page.type("first")
    page.wait("!document.getElementById('busy').hidden")
    page.browser.value("held = null")
    page.type("second")
    page.press("Enter", 13, modifiers=2)  # With Ctrl: at once.
    assert "Hund" in page.translation()
    page.browser.value("answers.translate[0].translatedText = 'late'; free()")
    page.wait("asked.at(-1).q == 'first'")
    assert "Hund" in page("result")
    assert page.browser.value("asked.filter((x) => x.q)[0].q") == "second"


@chromium
@pytest.mark.long
def test_languages_have_names_and_directions(page):
    names = "[...document.getElementById('target').options].map((x) => x.text).join()"
    assert page.browser.value(names) == "English,German,Hebrew (Hebrew)"
    page("target", "value = 'heb_Hebr'")
    page("target", "dispatchEvent(new Event('change'))")
    page.browser.value("answers.translate[0].translatedText = 'הכלב נובח'")
    page.browser.value("answers.translate[0].details = {}")
    page.translation_of("The dog barks")
    assert page("result", "lang") == "heb-Hebr"
    style = "getComputedStyle(document.getElementById('result'))"
    assert page.browser.value(f"{style}.direction") == "rtl"
    assert page("swap", "disabled") is True  # There is no model for it.
    page("target", "value = 'de'")
    page("target", "dispatchEvent(new Event('change'))")
    page.translation()
    page("swap", "click()")
    assert (
        page.browser.value(
            "['source', 'target'].map((id) => document.getElementById(id).value).join()"
        )
        == "de,en"
    )


def test_a_range_is_not_heeded(client):
    assert client.get("/page.css", headers={"Range": "lines=x"}).status_code == 200
