"""Figures of a reproduction, readable without colour: hatches, markers, line styles, labels.

matplotlib is imported when a figure is drawn, without a window; the same data gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from membra.find.proposals import Proposal

# Colour, marker and line style of each series; any one of the three distinguishes them.
COLOURS = ("#1f4e79", "#b2541a", "#3b7d3b", "#7b3f8c", "#8a6d1a", "#40424a")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
LINES = ("-", "--", ":", "-.")
HATCHES = ("", "////", "....")
FRAME = "#d9d2c7"  # around a letter

_STYLE: Any = {  # Any: matplotlib types every key
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "membra",  # otherwise the SVG's ids, and so its bytes, change between runs
    "figure.constrained_layout.use": True,
    "savefig.dpi": 130,
    "image.composite_image": False,  # keeps each letter in an SVG at full resolution
}


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> "tuple[Figure, NDArray[Any]]":
    """Return a figure without window or global state, and its axes (rows, columns)."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, squeeze=False)


def encoded(figure: "Figure") -> dict[str, bytes]:
    """Return the figure as PNG and SVG bytes, without dates."""
    import matplotlib as mpl

    files = {}
    for form in ("png", "svg"):
        buffer = BytesIO()
        with mpl.rc_context(_STYLE):
            figure.savefig(buffer, format=form, metadata={"Date": None} if form == "svg" else {"Software": None})
        files[form] = buffer.getvalue()
    return files


def reconstructions(patches: NDArray[np.uint8], rebuilt: NDArray[np.uint8]) -> "Figure":
    """Draw patches (n, 64, 64) above their reconstructions."""
    figure, axes = new_figure(0.78 * len(patches) + 0.6, 2.1, 2, len(patches))
    for row, images in enumerate((patches, rebuilt)):
        for column, image in enumerate(images):
            _glyph(axes[row, column], image)
        axes[row, 0].set_ylabel(("letter", "rebuilt")[row], fontsize=10)
    return figure


def distributions(pairs: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> "Figure":
    """Draw for each method the distances of mates and strangers as two histograms of equal area."""
    figure, axes = new_figure(4.2 * len(pairs), 3.4, 1, len(pairs))
    for axis, (name, (intra, inter)) in zip(axes[0], pairs.items(), strict=True):
        edges = np.histogram_bin_edges(np.concatenate([intra, inter]), bins=36)
        axis.hist(inter, edges, density=True, color="#d9d2c7", edgecolor="#6b645b", label=f"strangers ({len(inter)})")
        axis.hist(
            intra,
            edges,
            density=True,
            facecolor="none",
            edgecolor=COLOURS[0],
            hatch=HATCHES[1],
            linewidth=1.2,
            label=f"mates ({len(intra)})",
        )
        axis.set_title(name, fontsize=11)
        axis.set_xlabel("distance")
        axis.legend(fontsize=9, frameon=False)
    axes[0, 0].set_ylabel("density")
    return figure


def matched_words(
    rows: Sequence[tuple[float, Sequence[NDArray[np.uint8]], Sequence[NDArray[np.uint8]]]], names: tuple[str, str]
) -> "Figure":
    """Draw pairs of matched prototypes, best first, given the cost and glyphs of both fragments.

    The pairs are in two columns, the left one first.
    """
    from matplotlib.patches import Rectangle

    shown = 5  # glyphs per side
    half = (len(rows) + 1) // 2
    # One axis for all, since the layout of two hundred would take seconds.
    figure, axes = new_figure(11.5, 0.5 * half + 0.5)
    axis = axes[0, 0]
    axis.set_axis_off()
    for index, (cost, left, right) in enumerate(rows):
        line, offset = index % half, (index // half) * (2 * shown + 2)
        for side, glyphs in enumerate((left, right)):
            for at, glyph in enumerate(glyphs[:shown], start=offset + side * (shown + 1)):
                edges = (at + 0.05, at + 0.95, line + 0.95, line + 0.05)
                axis.imshow(255 - glyph, cmap="gray", vmin=0, vmax=255, interpolation="nearest", extent=edges)
                axis.add_patch(Rectangle((at + 0.05, line + 0.05), 0.9, 0.9, fill=False, edgecolor=FRAME))
        axis.text(offset + shown + 0.5, line + 0.5, f"{index + 1}.\n{cost:.2f}", ha="center", va="center", fontsize=8)
    axis.set_xlim(0, 4 * shown + 3)
    axis.set_ylim(half, 0)
    first, second = (plain(name)[:60] for name in names)
    figure.suptitle(f"left: {first}      right: {second}", fontsize=10, parse_math=False)
    return figure


def scores_by_words(lines: Mapping[str, Sequence[tuple[int, float, float, float]]], metrics: str) -> "Figure":
    """Plot scores against K: for each distance its (K, score, low, high)."""
    figure, axes = new_figure(6.4, 3.8)
    axis = axes[0, 0]
    for index, (name, points) in enumerate(lines.items()):
        words, score, low, high = (np.array(column, dtype=float) for column in zip(*points, strict=True))
        shift = 1 + 0.025 * (index - 1)  # so that intervals do not overlap
        axis.errorbar(
            words * shift,
            score,
            yerr=[score - low, high - score],
            color=COLOURS[index],
            linestyle=LINES[index],
            marker=MARKERS[index],
            capsize=3,
            label=name,
        )
    axis.set_xscale("log", base=2)
    ticks = sorted({int(point[0]) for points in lines.values() for point in points})
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set_xlabel("K, visual words per fragment")
    axis.set_ylabel(metrics)
    axis.legend(frameon=False)
    return figure


def bound(shares: Mapping[int, NDArray[np.float64]]) -> "Figure":
    """Plot for each K the share of the bound that pairs use: a box for the middle half, whiskers for all."""
    figure, axes = new_figure(6.4, 3.8)
    axis = axes[0, 0]
    axis.boxplot(
        list(shares.values()),
        tick_labels=[str(words) for words in shares],
        whis=(0, 100),
        widths=0.5,
        medianprops={"color": COLOURS[1], "linewidth": 2},
    )
    axis.axhline(1, color="#2b2622", linewidth=1.4)
    axis.annotate("the bound", (0.52, 1), xytext=(0, -4), textcoords="offset points", va="top", fontsize=10)
    axis.set_ylim(0, 1.05)
    axis.set_xlabel("K, visual words per fragment")
    axis.set_ylabel(r"deviation / ($\varepsilon_I + \varepsilon_J$)")
    return figure


def bag_map(points: NDArray[np.float64], joins: Sequence[str]) -> "Figure":
    """Plot the collection's bags in the plane (n, 2); fragments of a join share a marker and are connected."""
    figure, axes = new_figure(7.2, 5.4)
    axis = axes[0, 0]
    names = sorted({join for join in joins if join})
    for index, join in enumerate(names):
        at = points[[member == join for member in joins]]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        centre = at.mean(axis=0)
        for point in at:
            axis.plot(*zip(centre, point, strict=True), color=colour, linewidth=0.7, alpha=0.7)
        axis.scatter(at[:, 0], at[:, 1], s=38, color=colour, marker=marker, edgecolor="white", linewidths=0.5)
        axis.annotate(
            _short(join, names),
            centre,
            fontsize=8,
            ha="center",
            va="bottom",
            xytext=(0, 3),
            textcoords="offset points",
            parse_math=False,
        )
    rest = points[[not join for join in joins]]
    if len(rest):
        axis.scatter(rest[:, 0], rest[:, 1], s=18, color="#8c857b", marker=".", label="no known join")
        axis.legend(frameon=False)
    bare(axis)
    axis.set_aspect("equal", adjustable="datalim")
    return figure


def similarity_graph(
    points: NDArray[np.float64], proposals: "Sequence[Proposal]", joins: Sequence[str], barred: NDArray[np.bool_]
) -> "Figure":
    """Draw the graph of proposals: full lines between mates, broken ones between strangers, dotted ones between
    fragments that may not answer each other (`barred` (n, n), in either direction)."""
    figure, axes = new_figure(8.2, 5.6)
    axis = axes[0, 0]
    names = sorted({join for join in joins if join})
    for index, proposal in enumerate(proposals):
        for pair in proposal.pairs:
            known = bool(joins[pair.a]) and bool(joins[pair.b])
            right = known and joins[pair.a] == joins[pair.b]
            style = {"color": "#2b2622", "linestyle": "-"} if right else {"color": "#b23121", "linestyle": "--"}
            if known and (barred[pair.a, pair.b] or barred[pair.b, pair.a]):
                style = {"color": "#655d54", "linestyle": ":"}
            axis.plot(*zip(points[pair.a], points[pair.b], strict=True), linewidth=1.2, zorder=1, **style)
        at = points[list(proposal.members)]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        axis.scatter(at[:, 0], at[:, 1], s=120, color=colour, marker=marker, edgecolor="white", zorder=2)
        for member in proposal.members:
            label = _short(joins[member], names) if joins[member] else "?"
            axis.annotate(
                label, points[member], fontsize=8, xytext=(6, 5), textcoords="offset points", zorder=3, parse_math=False
            )
    bare(axis)
    axis.margins(0.06)
    return figure


def laid_out(proposals: "Sequence[Proposal]", size: int) -> NDArray[np.float64]:
    """Return positions (size, 2) for the graph: overlapping proposals share a circle, the circles form a grid."""
    groups: list[set[int]] = []
    for proposal in proposals:
        meeting = [group for group in groups if group & set(proposal.members)]
        groups = [group for group in groups if group not in meeting]
        groups.append(set(proposal.members).union(*meeting))
    points = np.zeros((size, 2))
    across = max(1, int(np.ceil(np.sqrt(len(groups) * 1.4))))
    for index, group in enumerate(sorted(groups, key=lambda group: (-len(group), min(group)))):
        centre = np.array([index % across, -0.72 * (index // across)], dtype=float)
        radius = 0.14 + 0.2 * min(1.0, len(group) / 12)
        for at, member in enumerate(sorted(group)):
            angle = 2 * np.pi * at / len(group) + np.pi / 5
            points[member] = centre + radius * np.array([np.cos(angle), np.sin(angle)])
    return points


def scores_by_letters(points: Sequence[tuple[int, float, float, float]], whole: float) -> "Figure":
    """Plot Hit@1 of cut queries, (letters, score, low, high) each, and the level of whole queries."""
    figure, axes = new_figure(6.4, 3.6)
    axis = axes[0, 0]
    letters, score, low, high = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    axis.errorbar(
        letters, score, yerr=[score - low, high - score], color=COLOURS[0], marker="o", capsize=3, label="cut"
    )
    axis.axhline(whole, color=COLOURS[1], linestyle="--", label="whole query")
    axis.set_xscale("log", base=2)
    axis.set_xticks(letters, [str(int(count)) for count in letters])
    axis.set_xlabel("letters left in the query")
    axis.set_ylabel("Hit@1")
    axis.set_ylim(0, 1.03)
    axis.legend(frameon=False, loc="lower right")
    return figure


def in_the_plane(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map distances (n, n) to points (n, 2) by classical multidimensional scaling; the result is deterministic.

    Infinite distances count as the largest finite one. Signs are fixed by the largest coordinate of each axis.
    """
    size = len(matrix)
    finite = matrix[np.isfinite(matrix)]
    squares = np.where(np.isfinite(matrix), matrix, finite.max() if len(finite) else 1.0) ** 2
    centring = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-centring @ squares @ centring / 2)
    points = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    signs = np.sign(points[np.abs(points).argmax(axis=0), [0, 1]])
    return np.asarray(points * np.where(signs == 0, 1, signs))


def bare(axis: Any) -> None:
    """Remove the scales of an axis whose positions have no unit."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for side in axis.spines.values():
        side.set_visible(False)


def _glyph(axis: Any, image: NDArray[np.uint8]) -> None:
    axis.imshow(255 - image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")  # dark ink, as on parchment
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for side in axis.spines.values():
        side.set_visible(True)
        side.set_color(FRAME)


def _short(join: str, joins: Sequence[str]) -> str:
    """Return the join's name without the common prefix of all names."""
    start = ""
    if len(joins) > 1:
        first, last = min(joins), max(joins)
        alike = next((index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
        start = first[:alike].rstrip("0123456789")
    return plain(join[len(start) :][:14] or join[:14])


def plain(name: str) -> str:
    """Return a name on one line without control characters, which are invalid in SVG."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())
