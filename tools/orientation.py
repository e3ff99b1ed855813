"""Train and score the orientation network (`see/orientation.py`), which finds the rotation of letters.

    python tools/orientation.py gather DATA --out windows.npz      windows of ink, as the eye reads it (half an hour)
    python tools/orientation.py draw FONTS --out scripts.npz       the same for letters drawn from fonts (ten minutes)
    python tools/orientation.py train windows.npz scripts.npz --out W.safetensors [--without 0,1]   (half an hour)
    python tools/orientation.py score DATA W.safetensors --folds 0,1    right rotations, without it and with it
    python tools/orientation.py scripts FONTS W.safetensors --folds 0,1       the same for drawn pages in many scripts
    python tools/orientation.py ship W.safetensors                 write src/membra/see/orientation.onnx

DATA holds the sets `hebrew`, `tiny`, `latin`, `hands` and `ink`. Photographs are read as they are, and as windows of 20
to 80 letters that are artificially worn, rotated and photographed again (`scribes/recapture.py`); those that the eye
alone reads at the right rotation are training examples. `--without` leaves out the manuscripts of the given folds
(`folds.csv`), and the font families of these folds.

FONTS is a folder of fonts in many scripts, such as /usr/share/fonts after the packages that docs/eyes.md names are
installed. membra contains no font and no drawing of one.
"""

import csv
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from zlib import crc32

import click
import cv2
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.drawn_scripts import NEAR, Script, page, unwritten, written  # noqa: E402  (needs the path set above)
from tools.drawn_scripts import scripts as scripts_of  # noqa: E402
from tools.encoder_letters import fold_of, window  # noqa: E402

from membra.describe.recipe import MEMBRA  # noqa: E402
from membra.scribes.recapture import recaptured  # noqa: E402
from membra.see.eye import ORIENTATION, READY, Eye, open_eye  # noqa: E402
from membra.see.letters import LetterSettings, find_letters  # noqa: E402
from membra.see.orientation import SIDE, Orientation, windows_of  # noqa: E402
from membra.see.read import component_height, letter_windows, read_pieces  # noqa: E402
from membra.see.reading import Reading  # noqa: E402
from membra.sources.fragment import Fragment, fragments  # noqa: E402
from membra.sources.photograph import read_photograph  # noqa: E402

EVERY = {"hebrew": 2, "tiny": 3, "latin": 1, "hands": 2}  # every n-th photograph of a set
INK = ("dibco", "phibd", "bickley")  # sources of `ink` with upright pages; in no fold
LETTERS = (20, 80)  # of a worn window, from and to
MARGIN = 0.8  # letter heights around a window that is then torn
MOST = 60  # letters per photograph
RIGHT = 15.0  # degrees; a smaller error is right
NO_FOLD = -1
FOLDS = 5
DRAWN_HIGH = 30.0  # px, letter height of drawn pages
PAGES, LINES, WIDTH, MOST_DRAWN = 40, 3, 700, 12  # pages of a script with one family; per page: lines, px, windows
BLANK = 2000  # sheets without writing
main = click.Group(help=__doc__)


@dataclass(frozen=True)
class Worn:
    """A photograph, and a worn window of it photographed again."""

    set: str
    fold: int
    plain: Reading  # of the photograph
    again: NDArray[np.uint8]  # (h, w, 3) RGB
    turn: float  # rotation of its writing in degrees counter-clockwise, 0 <= turn < 360


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def gather(data: Path, out: Path) -> None:
    """Write windows of upright ink, with the fold of each, into one file."""
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
    for path in (one for one in pages if one.name.startswith(INK)):
        seen = legible(read_photograph(path), eye)
        if off(seen.angle or 0.0, 0.0) < 2 * RIGHT:
            keep(seen, NO_FOLD)
    np.savez_compressed(out, windows=np.concatenate(windows), folds=np.concatenate(folds))
    click.echo(f"{out}: {sum(map(len, folds))} windows")


@main.command()
@click.argument("fonts", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--workers", default=2, show_default=True)
def draw(fonts: Path, out: Path, workers: int) -> None:
    """Write windows of ink drawn from fonts in all their scripts, with the fold of each font family, into one file."""
    by_script: dict[str, list[Script]] = {}
    for script in scripts_of(fonts):
        by_script.setdefault(script.name, []).append(script)
    tasks = [task for name in sorted(by_script) for task in _pages(by_script[name])]
    with Pool(workers) as pool:
        drawn = pool.starmap(drawn_windows, tasks, chunksize=16)
        nothing = pool.map(nothing_windows, range(BLANK), chunksize=16)
    folds = [np.full(len(some), fold_of_font(script), np.int8) for (script, _), some in zip(tasks, drawn, strict=True)]
    np.savez_compressed(out, windows=np.concatenate(drawn), folds=np.concatenate(folds), blank=np.concatenate(nothing))
    click.echo(f"{out}: {sum(map(len, drawn))} windows of {len(by_script)} scripts")


def _pages(fonts: list[Script]) -> list[tuple[Script, int]]:
    """List the pages of one script to draw, as font and seed; each family gets the same number of pages.

    The number grows with the square root of the number of families, because hands of such scripts vary more too, and is
    four times as large for the scripts in NEAR.
    """
    families: dict[str, list[Script]] = {}
    for font in fonts:
        families.setdefault(font.family, []).append(font)
    names = sorted(families)
    count = round((4 if fonts[0].name.split()[0] in NEAR.split() else 1) * PAGES * min(len(names), 64) ** 0.5)
    return [
        (families[names[page % len(names)]][page // len(names) % len(families[names[page % len(names)]])], page)
        for page in range(max(count, len(names)))
    ]


def drawn_windows(script: Script, seed: int) -> NDArray[np.uint8]:
    """Return windows (n, SIDE, SIDE) of a drawn page, around boxes found as in a photograph."""
    ink = written(script, LetterSettings().height, LINES, WIDTH, seed)
    return _some_windows(np.zeros((1, 1), np.float32) if ink is None else ink, seed)


def nothing_windows(seed: int) -> NDArray[np.uint8]:
    """Return windows (n, SIDE, SIDE) of marks that may be mistaken for letters."""
    return _some_windows(unwritten(LetterSettings().height, seed).astype(np.float32), seed)


def _some_windows(ink: NDArray[np.float32], seed: int) -> NDArray[np.uint8]:
    """Return at most MOST_DRAWN windows of ink (h, w) in 0..1."""
    settings = LetterSettings()
    if not (ink > 0.5).any():
        return np.zeros((0, SIDE, SIDE), np.uint8)
    grow = settings.height / component_height(ink > 0.5, settings.height)
    binary = np.where(cv2.resize(ink, None, fx=grow, fy=grow, interpolation=cv2.INTER_AREA) > 0.5, 255, 0)
    boxes = find_letters(binary.astype(np.uint8), settings).boxes
    order = np.random.default_rng((208, seed)).permutation(len(boxes))[:MOST_DRAWN]
    return windows_of(binary.astype(np.uint8), (boxes[:, :2] + boxes[:, 2:] / 2)[order], settings.height, MOST_DRAWN)


def fold_of_font(script: Script) -> int:
    """Return the fold of a font family."""
    return crc32(script.family.encode()) % FOLDS


@main.command()
@click.argument("windows", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--without", default="", help="Folds to leave out, separated by commas.")
@click.option("--steps", default=5500, show_default=True)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
def train(windows: tuple[Path, ...], out: Path, without: str, steps: int, device: str) -> None:
    """Train the network, with equal numbers of windows from each file."""
    from safetensors.numpy import save_file

    from membra.train.orientation_training import OrientationSettings, train_orientation

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    kept, blank = [], [np.zeros((0, SIDE, SIDE), np.uint8)]
    for file in windows:
        with np.load(file, allow_pickle=False) as archive:
            kept.append(archive["windows"][~np.isin(archive["folds"], numbers(without))])
            blank += [archive["blank"]] if "blank" in archive else []
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(train_orientation(kept, OrientationSettings(steps=steps), np.concatenate(blank), device), out)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--folds", default="0,1", show_default=True, help="Folds to test, separated by commas.")
def score(data: Path, weights: Path, folds: str) -> None:
    """Print the share of worn windows read at their rotation, by the eye alone and with a network."""
    alone = open_eye(READY)
    both = Eye(READY.read_bytes(), orientation=Orientation(onnx_of(weights)))
    results: dict[str, list[list[bool]]] = {}
    for row in worn(data, alone, numbers(folds)):
        seen = [legible(row.again, eye) for eye in (alone, both)]
        right = [one.angle is not None and off(one.angle, row.turn) < RIGHT for one in seen]
        results.setdefault(row.set, []).append(right)
    for name, answers in results.items():
        before, after = np.mean(answers, axis=0)
        click.echo(f"{name}: {len(answers)} windows, at their turn {before:.3f} by the eye, {after:.3f} with letters")


@main.command("scripts")
@click.argument("fonts", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--folds", default="0,1", show_default=True, help="Folds of fonts to test, separated by commas.")
@click.option("--families", default=2, show_default=True, help="Font families per script, at most.")
def in_scripts(fonts: Path, weights: Path, folds: str, families: int) -> None:
    """Print the share of drawn pages in every script, rotated or worn, that are read at their rotation."""
    alone = open_eye(READY)
    both = Eye(READY.read_bytes(), orientation=Orientation(onnx_of(weights)))
    results: dict[str, list[list[bool]]] = {}
    for name, picture, truth in _drawn_photographs(fonts, numbers(folds), families):
        seen = [legible(picture, eye) for eye in (alone, both)]
        right = [one.angle is not None and off(one.angle, truth) < RIGHT for one in seen]
        results.setdefault(name, []).append(right)
    for name, answers in sorted(results.items()):
        before, after = np.mean(answers, axis=0)
        click.echo(f"{name}: {len(answers)} photographs, at their turn {before:.3f} as shipped, {after:.3f} by WEIGHTS")


def _drawn_photographs(
    fonts: Path, only: Sequence[int], families: int
) -> Iterator[tuple[str, NDArray[np.uint8], float]]:
    """Yield kind, photograph and rotation of pages drawn from fonts of the folds `only`, rotated, and worn.

    A script without families in other folds is unknown to a network that was trained without these folds.
    """
    by_script: dict[str, dict[str, list[Script]]] = {}
    for script in scripts_of(fonts):
        by_script.setdefault(script.name, {}).setdefault(script.family, []).append(script)
    for name in sorted(by_script):
        tested = {family for family, some in by_script[name].items() if fold_of_font(some[0]) in only}
        known = "known" if set(by_script[name]) - tested else "unknown"
        for family in sorted(tested, key=lambda one: crc32(f"{name} {one}".encode()))[:families]:
            seed = crc32(f"{name} {family}".encode())
            some = by_script[name][family]
            picture = page(some[seed % len(some)], DRAWN_HIGH, seed)
            if picture is None:
                continue
            angle = float(np.random.default_rng((210, seed)).choice([0, 0, 90, 180, 270, seed % 360]))
            yield f"{known} scripts, clean", turned(picture, angle), angle
            again = recaptured(picture, DRAWN_HIGH, seed)
            yield f"{known} scripts, worn", np.ascontiguousarray(again.picture), again.turn % 360


def turned(picture: NDArray[np.uint8], angle: float) -> NDArray[np.uint8]:
    """Rotate a picture (h, w, 3) by degrees counter-clockwise, on a grey background."""
    high, wide = picture.shape[:2]
    side = int(1.05 * np.hypot(high, wide))
    matrix = np.asarray(cv2.getRotationMatrix2D((wide / 2, high / 2), angle, 1), float)
    matrix[:, 2] += side / 2 - np.array([wide / 2, high / 2])
    table = (100, 95, 90)
    return np.asarray(cv2.warpAffine(picture, matrix, (side, side), flags=cv2.INTER_CUBIC, borderValue=table), np.uint8)


@main.command()
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--out", default=ORIENTATION, show_default=True, type=click.Path(path_type=Path))
def ship(weights: Path, out: Path) -> None:
    """Write weights as ONNX, by default into the package."""
    out.write_bytes(onnx_of(weights))
    click.echo(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def onnx_of(weights: Path) -> bytes:
    from safetensors.numpy import load_file

    from membra.train.orientation_training import orientation_graph

    return orientation_graph(load_file(weights))


def worn(data: Path, eye: Eye, only: Sequence[int] = ()) -> Iterator[Worn]:
    """Yield photographs with enough writing of the folds `only` (none: all), each with a worn window of it."""
    folds = fold_of()
    for name, step in EVERY.items():
        for index, fragment in list(enumerate(fragments(data / name / "fragments.csv")))[::step]:
            if only and folds[fragment.columns["join"]] not in only:
                continue
            again = _worn_window(fragment, eye, crc32(f"{name}-{index}-9".encode()))
            if again:
                yield Worn(name, folds[fragment.columns["join"]], *again)


def _worn_window(fragment: Fragment, eye: Eye, seed: int) -> tuple[Reading, NDArray[np.uint8], float] | None:
    """Return the reading of a photograph, a worn window of it and its rotation; None if there is too little writing."""
    plain = legible(read_photograph(fragment.path), eye)
    boxes = plain.glyphs.boxes
    if len(boxes) < LETTERS[0] or plain.legibility < 0.5:
        return None
    count = min(len(boxes), int(np.random.default_rng(seed).integers(*LETTERS, endpoint=True)))
    cut = window(fragment.path, boxes, count, round(MARGIN * plain.letter_height), seed)
    again = recaptured(cut, plain.letter_height, seed)
    return plain, np.ascontiguousarray(again.picture[..., ::-1]), (again.turn + (plain.angle or 0.0)) % 360


def legible(photograph: NDArray[np.uint8], eye: Eye) -> Reading:
    """Return the reading of the most legible piece of a photograph."""
    readings = read_pieces(photograph, eye, MEMBRA.reading, MEMBRA.letters)
    return max(readings, key=lambda reading: (reading.legibility, len(reading.glyphs)))


def off(angle: float, truth: float) -> float:
    return abs((angle - truth + 180) % 360 - 180)


def numbers(folds: str) -> list[int]:
    return [int(fold) for fold in folds.split(",") if fold]


if __name__ == "__main__":
    main()
