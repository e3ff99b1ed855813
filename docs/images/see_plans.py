"""Draw docs/images/see-plans.png: outlines of what is detected on six library photographs.

    python docs/images/see_plans.py FOLDER

The photographs belong to the library, so only outlines are drawn: the detected fragment (grey), its boxes (red), and
the positions of ruler, chart, label and tape (hatched; measured by hand on the photographs, in px).
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from membra.describe.recipe import MEMBRA
from membra.see.glyphs import cut_glyphs
from membra.see.ink import find_ink
from membra.see.parchment import find_parchment
from membra.sources.photograph import read_photograph

BESIDE = {  # photograph: (what, left, top, width, height)
    "plate1094_005_recto_ir.jpg": [
        ("chart", 430, 20, 2370, 360),
        ("ruler", 265, 2300, 2810, 380),
        ("label", 2960, 820, 250, 910),
        ("tape", 1195, 510, 170, 600),
        ("tape", 2215, 570, 170, 700),
    ],
    "plate1101_005_recto_ir.jpg": [
        ("chart", 780, 40, 2380, 340),
        ("ruler", 495, 2295, 2815, 385),
        ("label", 3255, 730, 205, 910),
        ("tape", 1245, 555, 165, 340),
        ("tape", 2175, 540, 165, 480),
    ],
    "plate1108_003_recto_ir.jpg": [
        ("chart", 395, 60, 2375, 340),
        ("ruler", 255, 2245, 2815, 430),
        ("label", 2685, 835, 180, 770),
        ("tape", 800, 555, 230, 1200),
        ("tape", 1430, 520, 165, 500),
        ("tape", 2035, 515, 160, 240),
    ],
    "plate124_001.jpg": [("tape", 1000, 5, 175, 530)],
    "plate124_004.jpg": [("tape", 860, 0, 145, 540), ("tape", 2175, 0, 145, 270)],
    "plate690_004.jpg": [("tape", 697, 25, 285, 640)],
}


def main() -> None:
    folder = Path(sys.argv[1])
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    for axis, (name, beside) in zip(axes.flat, BESIDE.items(), strict=True):
        photograph = read_photograph(folder / name)
        parchment = find_parchment(photograph, MEMBRA.parchment)
        glyphs = cut_glyphs(find_ink(photograph, parchment, MEMBRA.ink), MEMBRA.glyphs)
        axis.imshow(
            ~parchment[::4, ::4], cmap="gray", vmin=-3, vmax=1, extent=(0, parchment.shape[1], parchment.shape[0], 0)
        )
        for what, left, top, width, height in beside:
            axis.add_patch(
                Rectangle((left, top), width, height, fill=False, hatch="///", edgecolor="0.6", linewidth=0.8)
            )
            axis.text(left + width / 2, top + height / 2, what, ha="center", va="center", fontsize=7)
        for x, y, width, height in glyphs.boxes.tolist():
            axis.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor="red", linewidth=0.5))
        axis.set_title(f"{Path(name).stem}: {len(glyphs)} boxes", fontsize=8)
        axis.set_axis_off()
    figure.savefig(Path(__file__).parent / "see-plans.png", dpi=110)


if __name__ == "__main__":
    main()
