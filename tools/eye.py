"""Train the eye that ships with membra, and eyes for each fold of test sources.

    python tools/eye.py gather DATA --out material.npz            crops of pages and damaged pages (a few minutes)
    python tools/eye.py train material.npz --out WEIGHTS/         an eye for each fold and one on everything (a GPU)
    python tools/eye.py ship WEIGHTS/all.safetensors              write src/membra/see/eye.onnx

DATA holds the sets `hebrew-pages`, `latin-pages`, `hands`, `ink`, `dss` and `photographs`. A fold leaves out a source
of `ink` with all material that belongs to it.
"""

import logging
import os
import sys
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

FOLDS = {
    "all": (),
    "scrolls": ("dss", "verso", "plates"),
    "dibco": ("dibco",),
    "phibd": ("phibd",),
    "bickley": ("bickley",),
}
SHIPPED = Path(__file__).parents[1] / "src" / "membra" / "see" / "eye.onnx"
main = click.Group(help=__doc__)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def gather(data: Path, out: Path) -> None:
    """Gather the training material of the eye into one file."""
    from membra.train.eye_material import Item, drawn, inked, pages, plates, write_material

    items: list[Item] = []
    for name, per_page in (("hebrew-pages", 1), ("latin-pages", 2), ("hands", 1)):
        items += pages(data / name, name.split("-")[0], per_page=per_page)
        click.echo(f"{name}: {len(items)} crops so far")
    items += drawn(60)
    items += inked(data / "ink")
    items += plates(sorted((data / "dss" / "images").iterdir()), "plates")
    items += plates(sorted((data / "photographs").glob("*.jpg")), "plates")
    write_material(items, out)
    click.echo(f"{out}: {len(items)} items, {out.stat().st_size / 1e6:.0f} MB")


@main.command()
@click.argument("material", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--samples", default=30000, show_default=True)
@click.option("--steps", default=9000, show_default=True)
@click.option("--folds", default=",".join(FOLDS), show_default=True)
@click.option("--device", default="cuda", show_default=True)
def train(material: Path, out: Path, samples: int, steps: int, folds: str, device: str) -> None:
    """Draw the samples, then train an eye for each fold."""
    from safetensors.numpy import save_file

    from membra.train.eye_training import EyeSettings, draw_bank, train_eye

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    bank = draw_bank(material, samples, os.cpu_count() or 1)
    click.echo(f"{samples} samples drawn in {time.monotonic() - began:.0f} s")
    for fold in folds.split(","):
        weights = train_eye(bank, EyeSettings(steps=steps), without=FOLDS[fold], device=device)
        save_file(weights, out / f"{fold}.safetensors")


@main.command()
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--out", default=SHIPPED, show_default=True, type=click.Path(path_type=Path))
def ship(weights: Path, out: Path) -> None:
    """Write an eye's weights as ONNX, by default into the package."""
    from safetensors.numpy import load_file

    from membra.train.eye_graph import eye_graph

    out.write_bytes(eye_graph(load_file(weights)))
    click.echo(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
