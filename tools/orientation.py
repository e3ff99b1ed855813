"""Make the network that tells which way letters stand (`see/orientation.py`), and say how well it does.

    python tools/orientation.py gather DATA --out windows.npz      ink about letters, as the eye reads it (half an hour)
    python tools/orientation.py train windows.npz --out W.safetensors [--without 0,1]     (twenty minutes on one core)
    python tools/orientation.py score DATA W.safetensors --folds 0,1    turns told rightly, without it and with it
    python tools/orientation.py ship W.safetensors                 write src/membra/see/orientation.onnx

DATA holds the sets `hebrew`, `tiny`, `latin`, `hands` and `ink`. Photographs are seen as they are, and as windows of 20
to 80 letters that are worn, turned and photographed anew (`scribes/recapture.py`); those that the eye alone reads
rightly are learnt from. `--without` leaves out manuscripts of these folds (`folds.csv`).
"""

import csv
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import click
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.encoder_letters import fold_of, window  # noqa: E402  (where they are found is said above)

from membra.describe.recipe import MEMBRA  # noqa: E402
from membra.scribes.recapture import recaptured  # noqa: E402
from membra.see.eye import ORIENTATION, READY, Eye, open_eye  # noqa: E402
from membra.see.orientation import Orientation  # noqa: E402
from membra.see.read import letter_windows, read_pieces  # noqa: E402
from membra.see.reading import Reading  # noqa: E402
from membra.sources.fragment import Fragment, fragments  # noqa: E402
from membra.sources.photograph import read_photograph  # noqa: E402

EVERY = {"hebrew": 2, "tiny": 3, "latin": 1, "hands": 2}  # one photograph of so many
INK = ("dibco", "phibd", "bickley")  # sources of `ink` whose pages stand upright; of no fold
LETTERS = (20, 80)  # of a window, from and to
MARGIN = 0.8  # letter heights around a window that is then torn
MOST = 60  # letters that are learnt from a photograph
RIGHT = 15.0  # degrees
NO_FOLD = -1
main = click.Group(help=__doc__)


@dataclass(frozen=True)
class Worn:
    """A photograph and a window of it that was photographed anew."""

    set: str
    fold: int
    plain: Reading  # of the photograph
    again: NDArray[np.uint8]  # (h, w, 3) RGB
    turn: float  # degrees counter-clockwise by which its writing is turned, 0 <= turn < 360


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def gather(data: Path, out: Path) -> None:
    """Windows of ink that stands upright, with the fold of each, into one file."""
    eye, windows, folds = open_eye(READY), [], []

    def keep(reading: Reading, fold: int) -> None:
        windows.append(letter_windows(reading, MOST))
        folds.append(np.full(len(windows[-1]), fold, np.int8))

    for row in worn(data, eye):
        if off(row.plain.angle or 0.0, 0.0) < 2 * RIGHT:
            keep(row.plain, row.fold)
        seen = legible(row.again, eye)
        if seen.angle is not None and off(seen.angle, row.turn) < RIGHT:
            keep(seen, row.fold)
    with (data / "ink" / "ink.csv").open(newline="") as file:
        pages = [data / "ink" / "images" / row["image"] for row in csv.DictReader(file)]
    for path in (page for page in pages if page.name.startswith(INK)):
        seen = legible(read_photograph(path), eye)
        if off(seen.angle or 0.0, 0.0) < 2 * RIGHT:
            keep(seen, NO_FOLD)
    np.savez_compressed(out, windows=np.concatenate(windows), folds=np.concatenate(folds))
    click.echo(f"{out}: {sum(map(len, folds))} windows")


@main.command()
@click.argument("windows", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--without", default="", help="Folds that are left out, with commas between.")
@click.option("--steps", default=4000, show_default=True)
def train(windows: Path, out: Path, without: str, steps: int) -> None:
    """Train the network on the CPU."""
    from safetensors.numpy import save_file

    from membra.train.orientation_training import OrientationSettings, train_orientation

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with np.load(windows, allow_pickle=False) as archive:
        kept = archive["windows"][~np.isin(archive["folds"], numbers(without))]
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(train_orientation(kept, OrientationSettings(steps=steps)), out)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--folds", default="0,1", show_default=True, help="Folds that are asked, with commas between.")
def score(data: Path, weights: Path, folds: str) -> None:
    """Of worn windows, how many are read at their turn by the eye alone, and with a network."""
    alone = open_eye(READY)
    both = Eye(READY.read_bytes(), orientation=Orientation(onnx_of(weights)))
    asked: dict[str, list[list[bool]]] = {}
    for row in worn(data, alone, numbers(folds)):
        seen = [legible(row.again, eye) for eye in (alone, both)]
        right = [one.angle is not None and off(one.angle, row.turn) < RIGHT for one in seen]
        asked.setdefault(row.set, []).append(right)
    for name, answers in asked.items():
        before, after = np.mean(answers, axis=0)
        click.echo(f"{name}: {len(answers)} windows, at their turn {before:.3f} by the eye, {after:.3f} with letters")


@main.command()
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--out", default=ORIENTATION, show_default=True, type=click.Path(path_type=Path))
def ship(weights: Path, out: Path) -> None:
    """Write weights as ONNX, into the package unless told otherwise."""
    out.write_bytes(onnx_of(weights))
    click.echo(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def onnx_of(weights: Path) -> bytes:
    from safetensors.numpy import load_file

    from membra.train.orientation_training import orientation_graph

    return orientation_graph(load_file(weights))


def worn(data: Path, eye: Eye, only: Sequence[int] = ()) -> Iterator[Worn]:
    """Photographs with enough writing, of `only` these folds, each with a window of it that was worn and taken anew."""
    folds = fold_of()
    for name, step in EVERY.items():
        for index, fragment in list(enumerate(fragments(data / name / "fragments.csv")))[::step]:
            if only and folds[fragment.columns["join"]] not in only:
                continue
            again = _again(fragment, eye, crc32(f"{name}-{index}-9".encode()))
            if again:
                yield Worn(name, folds[fragment.columns["join"]], *again)


def _again(fragment: Fragment, eye: Eye, seed: int) -> tuple[Reading, NDArray[np.uint8], float] | None:
    """What is seen of a photograph, a worn window of it, and how that is turned; None where there is little writing."""
    plain = legible(read_photograph(fragment.path), eye)
    boxes = plain.glyphs.boxes
    if len(boxes) < LETTERS[0] or plain.legibility < 0.5:
        return None
    count = min(len(boxes), int(np.random.default_rng(seed).integers(*LETTERS, endpoint=True)))
    cut = window(fragment.path, boxes, count, round(MARGIN * plain.letter_height), seed)
    again = recaptured(cut, plain.letter_height, seed)
    return plain, np.ascontiguousarray(again.picture[..., ::-1]), (again.turn + (plain.angle or 0.0)) % 360


def legible(photograph: NDArray[np.uint8], eye: Eye) -> Reading:
    """The most legible piece of a photograph."""
    readings = read_pieces(photograph, eye, MEMBRA.reading, MEMBRA.letters)
    return max(readings, key=lambda reading: (reading.legibility, len(reading.glyphs)))


def off(angle: float, truth: float) -> float:
    return abs((angle - truth + 180) % 360 - 180)


def numbers(folds: str) -> list[int]:
    return [int(fold) for fold in folds.split(",") if fold]


if __name__ == "__main__":
    main()
