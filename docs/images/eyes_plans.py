"""Draw docs/images/eyes-scrolls.png and eyes-photographs.png: outlines of what is detected on real photographs.

    python docs/images/eyes_plans.py DATA

DATA contains `dss/images` and `photographs`. The photographs belong to the library, so only outlines are drawn, above
those of the recipe `sauvola` (rules and Sauvola's threshold), below those of the eye: pieces in grey, letters in red.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Polygon, Rectangle

from membra.describe.recipe import MEMBRA, SAUVOLA, Recipe, see
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph


def main() -> None:
    data = Path(sys.argv[1])
    draw(sorted((data / "dss" / "images").iterdir()), 10, "eyes-scrolls.png")
    draw(sorted((data / "photographs").glob("*.jpg")), 6, "eyes-photographs.png")


def draw(paths: list[Path], across: int, name: str) -> None:
    rows = 2 * -(-len(paths) // across)
    figure, axes = plt.subplots(rows, across, figsize=(1.7 * across, 2.1 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for number, path in enumerate(paths):
        row, column = 2 * (number // across), number % across
        plan(axes[row][column], path, SAUVOLA)
        plan(axes[row + 1][column], path, MEMBRA)
    figure.savefig(Path(__file__).parent / name, dpi=100)


def plan(axis: plt.Axes, path: Path, recipe: Recipe) -> None:
    height, width = read_photograph(path).shape[:2]
    readings = see(Fragment(path.name, path), recipe)
    axis.set_xlim(0, width)
    axis.set_ylim(height, 0)
    axis.set_aspect("equal")
    axis.add_patch(Rectangle((0, 0), width, height, facecolor="0.93", edgecolor="0.7", linewidth=0.5))
    for reading in readings:
        if len(reading.outline):
            axis.add_patch(Polygon(reading.outline, closed=True, facecolor="0.8", edgecolor="0.6", linewidth=0.5))
        for x, y, wide, high in reading.glyphs.boxes.tolist():
            axis.add_patch(Rectangle((x, y), wide, high, fill=False, edgecolor="#c00000", linewidth=0.6))
    letters = sum(len(reading.glyphs) for reading in readings)
    angles = [reading.angle for reading in readings if reading.angle is not None]
    turn = f", turned {angles[0]:.0f}°" if angles and recipe is MEMBRA else ""
    axis.set_title(f"{path.stem if recipe is SAUVOLA else 'eye'}: {letters}{turn}", fontsize=6)


if __name__ == "__main__":
    main()
