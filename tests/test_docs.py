"""Every block of the README and the chapters: run where it can be, parsed where it cannot."""

import ast
import functools
import gzip
import re
import shlex
import subprocess

import keras
import pytest
import tensorflow as tf
from command import run_line
from conftest import ROOT, needed

from keras_mt import Translator
from keras_mt.data import phrasebook
from keras_mt.models import PRESETS

# In a reader's order: a chapter may use what the README has made.
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "training", "decoding", "terms", "files", "corpora", "evaluation", "serving",
            "pretrained", "models", "architectures", "own_model", "performance", "reliability",
            "tutorial", "recipes", "gpu", "troubleshooting",
        )
    ),
]  # fmt: skip
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
BLOCKS = [
    (path, *found)
    for path, text in TEXTS.items()
    if path.stem != "evaluation"  # tests/evaluation/test_chapter.py runs that one's.
    for found in re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
]


def blocks(language):
    return [text for _, kind, text in BLOCKS if kind == language]


@pytest.fixture(scope="module")
def workplace(corpus, tmp_path_factory):
    """A folder with the reader's corpus."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "saved_models").mkdir()
    light = "saved_models/multi30k_en_de_litert"  # A chapter runs it by LiteRT's own interpreter.
    (folder / light).symlink_to(ROOT / light)
    (folder / "my_corpus").mkdir()
    for split in ("train", "validation", "test"):
        sides = [
            (corpus / f"{language}.{split}.txt").read_text(encoding="utf-8").splitlines()
            for language in ("en", "pt")
        ]
        # Of like length, so that an epoch is a step or two.
        pairs = [pair for pair in zip(*sides, strict=True) if len(pair[0].split()) in (6, 7)]
        pairs = pairs[: 40 if split == "train" else 3]
        for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            path = folder / "my_corpus" / f"{language}.{split}.txt"
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return folder


def test_every_block_is_of_a_kind_that_is_checked():
    assert {kind for _, kind, _ in BLOCKS} == {"bash", "json", "python", "sh", "text"}


@pytest.mark.long
@pytest.mark.usefixtures("bare_end", "eager", "load_once")
def test_shell_and_python_run_in_the_readers_order(workplace, monkeypatch, signatures_alone):
    signatures_alone("serving_default", "align")
    monkeypatch.chdir(workplace)
    small = {"num_layers": 1, "d_model": 32, "num_heads": 2, "d_ff": 32}
    for name in ("tiny", "small"):
        preset = {**PRESETS[name], "model": {**PRESETS[name]["model"], **small}}
        monkeypatch.setitem(PRESETS, name, preset)
    fit = keras.Model.fit

    def short_fit(self, *args, **kwargs):
        return fit(self, *args, **{**kwargs, "epochs": 1, "steps_per_epoch": 3, "verbose": 0})

    monkeypatch.setattr(keras.Model, "fit", short_fit)
    init = Translator.__init__
    short = {"max_length_factor": 0.5}  # What is hardly trained does not find an end.
    monkeypatch.setattr(
        Translator, "__init__", lambda *args, **options: init(*args, **{**short, **options})
    )
    for block in blocks("bash"):
        subprocess.run(["bash", "-nc", block], check=True)
        for line in block.replace("\\\n", "").splitlines():
            run_line(line)
    lines = [
        (workplace / p).read_bytes().count(b"\n")
        for p in ("my_corpus/en.test.txt", "translations.txt")
    ]
    assert lines[0] == lines[1] > 1

    signatures_alone("score")  # The second export is not read.
    lines = gzip.decompress(phrasebook.FILE.read_bytes()).splitlines(keepends=True)
    few = workplace / "phrasebook.tsv.gz"
    few.write_bytes(gzip.compress(b"".join(lines[:300])))
    monkeypatch.setattr(phrasebook, "FILE", few)
    monkeypatch.setattr(tf.saved_model, "load", functools.cache(tf.saved_model.load))
    # The model that is shown registers itself under the name of the example's.
    monkeypatch.setitem(keras.saving.get_custom_objects(), "own_model>GRUTranslator", None)
    (workplace / "runs" / "tutorial").symlink_to("en_de")
    namespaces = {path: {} for path in PAGES}  # A page needs no other's names.
    for path, kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, path.name, "exec"), namespaces[path])
    assert (workplace / "saved_models" / "en_de" / "2" / "saved_model.pb").is_file()
    outputs = namespaces[ROOT / "docs" / "serving.md"]["outputs"]
    assert set(outputs) == {"translations", "scores"}


def test_the_first_command_prints_what_is_shown(monkeypatch):
    needed("ai_edge_litert")
    monkeypatch.chdir(ROOT)
    install, command = BLOCKS[0][-1].splitlines()
    readme, printed = TEXTS[PAGES[0]], run_line(command).strip()
    assert install == "pip install '.[lite]'" and f"It prints `{printed}`" in readme


def scripts():
    """Those that blocks give options, with these."""
    found = {}
    for block in blocks("sh"):
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line.split(" | ")[-1].split(" < ")[0].split(" > ")[0])
            if words[0] == "python":
                options = {word for word in words if word.startswith("--")}
                found.setdefault(words[1], set()).update(options)
    return {script: options for script, options in found.items() if options}


@pytest.mark.long
@pytest.mark.parametrize("script", scripts())
def test_scripts_have_the_options_that_they_are_given(python, script):
    text = python(ROOT / script, "--help").stdout
    assert all(option in text for option in scripts()[script])


COMMANDS = {
    "make", "keras-mt", "python", ".", "docker", "curl", "pip", "python3", "mkdir", "grep", "cp",
    "cat", "head", "split", "printf", "msgattrib", "argospm", "argos-translate",
}  # fmt: skip


@pytest.mark.parametrize("block", dict.fromkeys(blocks("sh")))
def test_other_shell_is_parsed(block):
    """make, docker and long runs: the shell's grammar, and that each command exists as written."""
    from keras_mt.cli import main

    subprocess.run(["bash", "-nc", block], check=True)
    for line in block.replace("\\\n", "").splitlines():
        words = shlex.split(line.split(" | ")[-1].split(" < ")[0].split(" > ")[0])
        assert words[0] in COMMANDS
        if words[0] == "python":
            assert (ROOT / words[1]).is_file()
        if words[0] == "make":
            subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True)
        if words[0] == "keras-mt":
            subcommand = main.commands[words[1]]
            arguments = [
                str(ROOT) if re.match("runs|saved_models|site$", w) else w for w in words[2:]
            ]
            file = r"[\w./]+\.(txt|tsv|html|docx|po|srt)(\.gz)?"
            arguments = [str(ROOT / "README.md") if re.fullmatch(file, w) else w for w in arguments]
            subcommand.make_context(words[1], arguments)  # Parses; does not invoke.


def test_the_model_of_ones_own_is_shown_whole():
    source = (ROOT / "examples" / "own_model.py").read_text(encoding="utf-8")
    model = source[source.index("@keras.saving") : source.index("\n\nif __name__")]
    assert any(model in block for block in blocks("python"))


def anchors(text):
    """Those of GitHub and of the site: a heading's words in small letters."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


MORE = ["CHANGELOG.md", "CONTRIBUTING.md", "docs/index.md"]


@pytest.mark.parametrize("path", [*PAGES, *(ROOT / name for name in MORE)], ids=lambda p: p.stem)
def test_what_a_page_links_to_is_there(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!https?:)[^)]+)\)", text):
        name, _, anchor = target.partition("#")
        place = path.parent / name if name else path
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text(encoding="utf-8")), target


def test_the_readme_is_short_and_the_index_leads_to_every_chapter():
    readme, *chapters = TEXTS
    assert len(TEXTS[readme].splitlines()) <= 150
    others = {ROOT / "docs" / f"{name}.md" for name in ("changelog", "contributing", "index")}
    assert {*(ROOT / "docs").glob("*.md")} == {*chapters} | others
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in index for path in chapters)


def test_the_picture_of_the_commands_names_those_that_there_are():
    from keras_mt.cli import main

    picture = (ROOT / "docs" / "images" / "commands.svg").read_text(encoding="utf-8")
    named = re.findall(r'class="command"[^>]*>([\w-]+)', picture)
    assert "train" in named and {*named} <= {*main.commands}


def plain(message):
    """Without backticks, and with the names of options as Python has them."""
    flag = r"--([a-z]+(?:-[a-z]+)*)"
    return re.sub(flag, lambda m: m[1].replace("-", "_"), message.replace("`", ""))


@pytest.mark.long
def test_troubleshooting_has_the_messages_that_there_are():
    strings = set()
    for path in (ROOT / "keras_mt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(plain(node.value))
    text = TEXTS[ROOT / "docs" / "troubleshooting.md"]
    ours, _ = text.split("## Messages of others")
    messages = re.findall(r"^### `(.+)`", ours, flags=re.MULTILINE)
    assert len(messages) > 10
    for message in messages:
        # The command shows an option as it is typed.
        typed = re.sub(r"--[a-z-]+(?==)", lambda x: x[0][2:].replace("-", "_"), message)
        for part in plain(typed.replace("--devices must", "devices must")).split("…"):
            assert any(part.strip() in string for string in strings), (message, part)
