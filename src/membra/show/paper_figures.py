"""The paper's two figures: a sheet of join groups, and the processing of one fragment, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from membra.show.figures import COLOURS, FRAME, bare, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

_GLYPHS_ACROSS, _GLYPHS_DOWN = 5, 4  # grid of patches and of prototypes in the pipeline figure


@dataclass(frozen=True)
class Steps:
    """The intermediate results of one fragment.

    photograph : (h, w, 3); ink : (a, b) uint8, 255 on ink
    boxes : (n, 4) of the glyphs in the photograph; patches : (n, 64, 64)
    embeddings : (n, d); words : (patch nearest to the prototype, its share of the letters), heaviest first
    """

    name: str
    photograph: "NDArray[np.uint8]"
    ink: "NDArray[np.uint8]"
    boxes: "NDArray[np.int32]"
    patches: "NDArray[np.uint8]"
    embeddings: "NDArray[np.float32]"
    words: Sequence[tuple["NDArray[np.uint8]", float]]


def join_sheet(rows: "Sequence[tuple[str, Sequence[Image]]]") -> "Figure":
    """Draw one join per row: its name, and the photographs of its fragments."""
    across = max(len(images) for _, images in rows)
    figure, axes = new_figure(2.1 * across, 2.4 * len(rows), len(rows), across)
    for line, (name, images) in zip(axes, rows, strict=True):
        for axis in line:
            bare(axis)
        for axis, image in zip(line, images, strict=False):
            axis.imshow(np.asarray(image), interpolation="antialiased")
            _framed(axis)
        line[0].set_title(plain(name)[:40], fontsize=10, loc="left", parse_math=False)
    return figure


def pipeline(steps: Steps) -> "Figure":
    """Draw six panels, from left to right, the upper row first."""
    figure, axes = new_figure(10.5, 7.4, 2, 3)
    panels = axes.reshape(-1)
    count = len(steps.boxes)
    titles = (
        "1. photograph",
        "2. ink",
        f"3. {count} components kept",
        f"4. patches of 64 × 64 ({min(count, _GLYPHS_ACROSS * _GLYPHS_DOWN)} shown)",
        f"5. embeddings: {count} × {steps.embeddings.shape[1]}",
        f"6. bag: {len(steps.words)} visual words and their shares",
    )
    for axis, title in zip(panels, titles, strict=True):
        bare(axis)
        axis.set_title(title, fontsize=10, loc="left")
    panels[0].imshow(steps.photograph, interpolation="antialiased")
    panels[1].imshow(255 - steps.ink, cmap="gray", vmin=0, vmax=255, interpolation="antialiased")
    _draw_boxes(panels[2], steps)
    for axis in panels[:3]:
        _framed(axis)
    even = np.linspace(0, max(count - 1, 0), min(count, _GLYPHS_ACROSS * _GLYPHS_DOWN)).astype(int)
    _draw_grid(panels[3], [(steps.patches[at], "") for at in even])
    _draw_grid(panels[5], [(patch, f"{share:.0%}") for patch, share in steps.words[: _GLYPHS_ACROSS * _GLYPHS_DOWN]])
    spread = np.abs(steps.embeddings).max() or 1.0
    panels[4].imshow(steps.embeddings, cmap="gray_r", vmin=-spread, vmax=spread, aspect="auto", interpolation="nearest")
    panels[4].set_xlabel("dimension")
    panels[4].set_ylabel("letter")
    _framed(panels[4])
    figure.suptitle(plain(steps.name)[:80], fontsize=10, parse_math=False)
    return figure


def _draw_boxes(axis: Any, steps: Steps) -> None:
    from matplotlib.collections import LineCollection

    axis.imshow(steps.photograph, interpolation="antialiased", alpha=0.35)
    edges = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)] for x, y, w, h in steps.boxes.tolist()]
    axis.add_collection(LineCollection(edges, colors=COLOURS[0], linewidths=0.7))
    axis.set_xlim(0, steps.photograph.shape[1])
    axis.set_ylim(steps.photograph.shape[0], 0)


def _draw_grid(axis: Any, cells: Sequence[tuple["NDArray[np.uint8]", str]]) -> None:
    """Draw patches in rows of five, each with a label below it."""
    from matplotlib.patches import Rectangle

    for index, (patch, label) in enumerate(cells):
        line, column = divmod(index, _GLYPHS_ACROSS)
        top, left = 1.25 * line, column
        axis.imshow(
            255 - patch,
            cmap="gray",
            vmin=0,
            vmax=255,
            interpolation="nearest",
            extent=(left + 0.04, left + 0.96, top + 0.96, top + 0.04),
        )
        axis.add_patch(Rectangle((left + 0.04, top + 0.04), 0.92, 0.92, fill=False, edgecolor=FRAME))
        axis.text(left + 0.5, top + 1.1, label, ha="center", va="center", fontsize=8)
    axis.set_xlim(0, _GLYPHS_ACROSS)
    axis.set_ylim(1.25 * _GLYPHS_DOWN, 0)


def _framed(axis: Any) -> None:
    for side in axis.spines.values():
        side.set_visible(True)
        side.set_color(FRAME)
