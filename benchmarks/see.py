"""From photograph to glyphs on one core: photographs per second, how many have glyphs, and memory.

`python benchmarks/see.py [CSV or FOLDER]`: without a source, 24 drawn fragments.
"""

import json
import resource
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from _photographs import photographs

from membra.describe.recipe import MEMBRA, pick


def main() -> None:
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        source, found = photographs(Path(folder))
        wall, busy = time.perf_counter(), time.process_time()
        counts = np.array([len(pick(fragment, MEMBRA)[1].glyphs) for fragment in found])
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
    line = {
        "name": "see",
        "source": source,
        "images": len(found),
        "images_a_second": round(len(found) / wall, 2),
        "images_a_cpu_second": round(len(found) / busy, 2),  # lower bound for an idle machine
        "described": int((counts > 0).sum()),
        "under_5_glyphs": int((counts < 5).sum()),
        "under_12_glyphs": int((counts < 12).sum()),
        "median_glyphs": float(np.median(counts)),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
