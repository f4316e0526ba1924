"""Imports point one way: from each room of keras_mt to rooms below it."""

import ast

from conftest import ROOT

# From below to above; rooms of one row do not import each other.
ROWS = [
    ("version", "errors"),
    ("extras", "files", "logs", "options"),
    ("compressed", "layers"),
    ("losses", "schedules"),
    ("metrics", "models", "text"),
    ("data", "decoding", "run_folder"),
    ("alignment",),
    ("inference",),
    ("plots", "translation"),
    ("beam", "documents", "evaluation", "training"),
    ("serving",),
    ("convert",),
    ("cli",),
    ("__init__", "__main__"),
]
# What reaches up inside of a function, so that it is imported when it is called.
SHORT_CUTS = {("translation", "convert")}


def rooms(path):
    """The room of a file, and those it imports: at its top, and inside of its functions."""
    name = path.relative_to(ROOT / "keras_mt").with_suffix("").parts[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "keras_mt":
            names = [f"{node.module}.{alias.name}".split(".")[1] for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name.split(".")[1] for a in node.names if a.name.startswith("keras_mt.")]
        else:
            continue
        found |= {(each, node in inside) for each in names}
    return name, {(each, within) for each, within in found if each != name}


def test_imports_point_one_way_and_without_a_circle():
    rank = {name: i for i, row in enumerate(ROWS) for name in row}
    seen = 0
    for path in (ROOT / "keras_mt").rglob("*.py"):
        name, imported = rooms(path)
        for other, within in imported:
            if within and (name, other) in SHORT_CUTS:
                continue
            assert rank[other] < rank[name], f"{path.name} imports {other}"
            seen += 1
    assert seen > 30


def test_no_file_but_its_own_knows_what_is_inside_a_model():
    inside = (
        "decoder_stack",
        "encoder_stack",
        "target_embedding",
        "num_layers",
        "self_attention",
    )
    for path in (ROOT / "keras_mt").rglob("*.py"):
        if path.parent.name in ("layers", "models", "convert"):  # Formats have places for weights.
            continue
        text = path.read_text(encoding="utf-8")
        # A preset's help may say its sizes.
        assert not [name for name in inside if f".{name}" in text or f'"{name}"' in text], path
