"""Draws the Transformer with the shape of every tensor, as an SVG file: `architecture.svg`.

The sizes are those of the base model of Vaswani et al. 2017, for a source of S tokens, a target of
T and a vocabulary of V.
"""

from html import escape

import walk
from draw import GREY, INK, PAPER

TINTS = {"attention": "#dbe7f5", "cross": "#f6ddd9", "network": "#dcefe3"}
TINTS |= {"norm": "#f4eecb", "table": "#ebe5f2"}
WIDTH, HEIGHT, BOX, MIDDLE = 900, 860, 274, 450
ENCODER, DECODER = 232, 668  # The middle of each column.
parts = []


def text(x, y, words, size=14, colour=INK, anchor="middle", weight="normal"):
    parts.append(
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(words)}</text>'
    )


def box(x, y, words, kind, shapes="", width=BOX):
    """A box around (x, y), with a second line of shapes where there is one."""
    height = 44 if shapes else 28
    parts.append(
        f'<rect x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="7" '
        f'fill="{TINTS[kind]}" stroke="{GREY}"/>'
    )
    text(x, y - 3 if shapes else y + 5, words)
    if shapes:
        text(x, y + 14, shapes, 11.5, GREY)


def arrow(*points, colour=INK):
    """A line through the points, with a head at the last."""
    line = " ".join(f"{x},{y}" for x, y in points)
    parts.append(
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5" '
        'marker-end="url(#head)"/>'
    )


def stack(x, y, letter, sublayers, side):
    """Sublayers from y upwards, each with its norm and residual; gives the top of the frame.

    `side` is -1 or 1: where the residual sums go around.
    """
    top = y - 116 * len(sublayers) + 10
    parts.append(
        f'<rect x="{x - 180}" y="{top}" width="360" height="{y - top + 26}" rx="12" fill="none" '
        f'stroke="{GREY}" stroke-dasharray="5 4"/>'
    )
    text(x + side * 205, (y + top) / 2 + 18, "N = 6", 14, INK, "middle", "bold")
    for i, (words, kind, shapes) in enumerate(sublayers):
        if i:
            arrow((x, y + 20), (x, y - 1))
        box(x, y - 24, words, kind, shapes.format(letter))
        box(x, y - 82, "add and normalize", "norm")
        arrow((x, y - 46), (x, y - 67))
        turn = x + side * (BOX / 2 + 22)
        arrow((x, y + 11), (turn, y + 11), (turn, y - 82), (x + side * BOX / 2, y - 82))
        y -= 116
    return top


def column(x, side, letter, words, sublayers):
    """From the tokens to the top of the blocks; gives the height where the blocks end."""
    text(x, 842, words, 14, INK, "middle", "bold")
    arrow((x, 826), (x, 814))
    box(x, 790, "embedding E, times √512", "table", f"[{letter}] → [{letter}, 512]")
    arrow((x, 768), (x, 752))
    parts.append(f'<circle cx="{x}" cy="738" r="13" fill="{PAPER}" stroke="{INK}"/>')
    text(x, 743, "+", 18)
    arrow((MIDDLE + side * 66, 738), (x - side * 14, 738))
    arrow((x, 725), (x, 667))
    text(x + side * 10, 716, f"[{letter}, 512]", 11.5, GREY, "start" if side > 0 else "end")
    return stack(x, 668, letter, sublayers, side)


ATTEND = "Q, K, V [8, {0}, 64], weights [8, {0}, {0}]"
NETWORK = ("feed-forward network", "network", "[{0}, 512] → [{0}, 2048] → [{0}, 512]")
ACROSS = ("cross-attention", "cross", "Q [8, T, 64], K, V [8, S, 64], weights [8, T, S]")
HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{INK}"/></marker></defs>\n'
    f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="{PAPER}"/>'
)


def main():
    encoder = [("self-attention", "attention", ATTEND), NETWORK]
    decoder = [("masked self-attention", "attention", ATTEND), ACROSS, NETWORK]
    top = column(ENCODER, -1, "S", "source, end", encoder)
    end = column(DECODER, 1, "T", "start, target", decoder)
    box(MIDDLE, 738, "sinusoids", "table", width=130)
    over, into = top - 26, DECODER - BOX / 2 - 1
    arrow((ENCODER, top + 10), (ENCODER, over), (MIDDLE, over), (MIDDLE, 528), (into, 528))
    text(ENCODER + 10, top - 34, "memory [S, 512]", 11.5, GREY, "start")
    text(MIDDLE + 6, 520, "K, V", 11.5, GREY, "start")
    arrow((DECODER, end + 10), (DECODER, end - 21))
    text(DECODER + 10, end - 6, "[T, 512]", 11.5, GREY, "start")
    box(DECODER, end - 44, "times E transposed", "table", "[T, 512] → logits [T, V]")
    arrow((DECODER, end - 66), (DECODER, end - 87))
    box(DECODER, end - 102, "softmax", "norm")
    arrow((DECODER, end - 117), (DECODER, end - 138))
    text(DECODER, end - 148, "target, end", weight="bold")
    text(DECODER, end - 166, "the next token at each position, [T, V]", 11.5, GREY)
    text(ENCODER, 60, "The Transformer", 22, weight="bold")
    text(ENCODER, 86, "base: d = 512, 8 heads of width 64", 13, GREY)
    text(ENCODER, 106, "S and T tokens, V in the vocabulary", 13, GREY)
    text(ENCODER, 126, "one matrix E [V, 512] at three places", 13, GREY)
    arguments = walk.options(__doc__)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "architecture.svg"
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    start += f' {size} font-family="system-ui, Helvetica, Arial, sans-serif">'
    path.write_text("\n".join([start, HEAD, *parts, "</svg>\n"]), encoding="utf-8")
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
