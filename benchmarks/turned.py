"""Consistency of the measured rotation when a photograph is rotated, for photographs without ground truth.

    python benchmarks/turned.py [CSV or FOLDER]

The most legible piece of each photograph is read as it is, and again after the photograph is rotated by several angles,
blurred a little and saved again. `right`: the measured angle is the first one plus the rotation, to 5 degrees;
`not_told`: no angle is reported. Both are counted for photographs with a dozen letters and more, and for the others
(`few`), only if an angle was reported for the original (`untold` counts the rest). `letters` is the number of letters
read, relative to the original.
"""

import json
import tempfile
from pathlib import Path

import cv2
import numpy as np
from _photographs import photographs
from _timing import progress

from membra.describe.recipe import MEMBRA, pick
from membra.see.reading import Reading
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph

ANGLES = (15.0, 45.0, 90.0, 180.0, 270.0)  # degrees counter-clockwise
NEAR = 5.0  # degrees
ENOUGH = 12  # letters
QUALITY = 88  # of the JPEG


def main() -> None:
    outcomes: dict[str, list[float | None]] = {"many": [], "few": []}
    untold, shares = 0, []
    with tempfile.TemporaryDirectory() as folder:
        source, found = photographs(Path(folder))
        for fragment in found:
            upright = pick(fragment, MEMBRA)[1]
            if upright.angle is None:
                untold += 1
                continue
            size = "many" if len(upright.glyphs) >= ENOUGH else "few"
            for angle in ANGLES:
                reading = pick(again(fragment, angle, Path(folder)), MEMBRA)[1]
                outcomes[size].append(off(upright, reading, angle))
                shares.append(len(reading.glyphs) / len(upright.glyphs))
            progress(f"{fragment.id}: {len(upright.glyphs)} letters, off by {outcomes[size][-len(ANGLES) :]}")
    line: dict[str, object] = {"name": "turned", "source": source, "photographs": len(found), "untold": untold}
    for size, offs in outcomes.items():
        told = np.array([one for one in offs if one is not None])
        right, missing = int((np.abs(told) <= NEAR).sum()), len(offs) - len(told)
        line[size] = {"asked": len(offs), "right": right, "not_told": missing}
    print(json.dumps(line | {"letters": round(float(np.mean(shares)), 3) if shares else None}))


def again(fragment: Fragment, angle: float, folder: Path) -> Fragment:
    """Rotate the photograph, blur it a little and save it."""
    picture = cv2.cvtColor(read_photograph(fragment.path), cv2.COLOR_RGB2BGR)
    high, wide = picture.shape[:2]
    matrix = cv2.getRotationMatrix2D((wide / 2, high / 2), angle, 1)
    size = np.ceil(np.abs(matrix[:, :2]) @ (wide, high)).astype(int)
    matrix[:, 2] += (size - (wide, high)) / 2
    canvas = cv2.warpAffine(picture, matrix, size.tolist(), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    softer = cv2.GaussianBlur(canvas, (0, 0), 0.7)
    path = folder / "turned.jpg"
    cv2.imwrite(str(path), softer, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return Fragment(path.name, path)


def off(before: Reading, now: Reading, angle: float) -> float | None:
    """Return the deviation of the measured angle from the earlier one plus `angle`, in degrees; None without one."""
    if now.angle is None or before.angle is None:
        return None
    return round((now.angle - before.angle - angle + 180) % 360 - 180, 1)


if __name__ == "__main__":
    main()
