"""Make the encoder that ships with membra, and measure how it does on manuscripts that it has not seen.

    python tools/ready_encoder.py gather DATA --out letters.npz       cut the letters of the labelled sets
    python tools/ready_encoder.py train letters.npz --out WEIGHTS/    train on all and on each split (torch, NumPy)
    python tools/ready_encoder.py ship WEIGHTS/                       write src/membra/describe/ready.onnx
    python tools/ready_encoder.py score DATA WEIGHTS/                 the splits' scores on what each has not seen

DATA holds the sets `hebrew`, `latin`, `tiny`, `hebrew-pages` and `latin-pages`, each with `fragments.csv`. Splits:
latin (tested on Hebrew), hebrew (tested on Latin), and two halves of the manuscripts of both, each tested on the
other. Manuscripts are the classes.
"""

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from membra.describe.encoder import Encoder
    from membra.see.glyphs import Glyphs
    from membra.sources.fragment import Fragment

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

SETS = ("hebrew", "tiny", "hebrew-pages", "latin", "latin-pages")
PAGE_LETTERS = 120  # letters of an uncut page: enough of its hand, without outweighing the fragments
SEEDS = (0, 1, 2)
READY = Path(__file__).parents[1] / "src" / "membra" / "describe" / "ready.onnx"


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def gather(data: Path, out: Path) -> None:
    """Cut the letters; 16 grey levels, two to a byte, which compress well and lose nothing that training needs."""
    from membra.compare.threads import processors
    from membra.describe.recipe import MEMBRA
    from membra.describe.workers import Workers
    from membra.sources.fragment import fragments
    from membra.train.training_glyphs import cut_letters

    patches, joins, sets = [], [], []
    with Workers(processors()) as crew:
        for name in SETS:
            found = fragments(data / name / "fragments.csv")
            most = PAGE_LETTERS if name.endswith("pages") else sys.maxsize
            own, owners, pieces, refused = cut_letters(found, MEMBRA, crew, most=most)
            if refused:  # then the sets are not what the encoder's card says
                raise refused[0]
            patches.append(own)
            joins += [pieces[owner].columns["join"] for owner in owners]
            sets += [name.split("-")[0].replace("tiny", "hebrew")] * len(own)
            click.echo(f"{name}: {sum(map(len, patches))} letters so far")
    levels = (np.concatenate(patches) >> 4).reshape(len(joins), -1)
    packed = (levels[:, ::2] << 4) | levels[:, 1::2]
    np.savez_compressed(out, packed=packed, joins=np.array(joins), sets=np.array(sets))


def read(letters: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patches (n, 64, 64) uint8, the manuscript (n,) and the script (n,) of each."""
    with np.load(letters, allow_pickle=False) as archive:
        packed, joins, sets = archive["packed"], archive["joins"], archive["sets"]
    levels = np.stack([packed >> 4, packed & 15], axis=2).reshape(len(packed), 64, 64)
    return (levels * 17).astype(np.uint8), joins, sets


def halves(joins: np.ndarray, sets: np.ndarray) -> set[str]:
    """Half of the manuscripts of each script, by a fixed draw: not the one (0) on which settings were chosen."""
    first: set[str] = set()
    for script in ("hebrew", "latin"):
        names = np.unique(joins[sets == script])
        order = np.random.default_rng(1).permutation(len(names))
        first |= set(names[order[: len(names) // 2]].tolist())
    return first


def splits(joins: np.ndarray, sets: np.ndarray) -> dict[str, np.ndarray]:
    """Which letters (n,) each encoder is trained on."""
    first = np.isin(joins, sorted(halves(joins, sets)))
    return {
        "all": np.ones(len(joins), dtype=bool),
        "latin": sets == "latin",
        "hebrew": sets == "hebrew",
        "half0": first,
        "half1": ~first,
    }


@main.command()
@click.argument("letters", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path))
def train(letters: Path, out: Path) -> None:
    """Train each split with each seed; one file a split, weights named `seed.name`."""
    from dataclasses import replace

    import torch
    from safetensors.numpy import save_file

    from membra.train.identity import READY as SETTINGS
    from membra.train.identity import train_identity

    device = "cuda" if torch.cuda.is_available() else "cpu"
    patches, joins, sets = read(letters)
    classes = np.unique(joins, return_inverse=True)[1]
    out.mkdir(parents=True, exist_ok=True)
    for name, chosen in splits(joins, sets).items():
        kept: dict[str, NDArray[Any]] = {}
        for seed in SEEDS:
            weights = train_identity(patches[chosen], classes[chosen], replace(SETTINGS, seed=seed), device=device)
            kept |= {f"{seed}.{part}": value for part, value in weights.items() if value.ndim}
        save_file(kept, out / f"{name}.safetensors")
        click.echo(f"{name}: trained on {chosen.sum()} letters of {len(set(joins[chosen]))} manuscripts")


def weights_of_seed(folder: Path, split: str, seed: int) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    whole = load_file(folder / f"{split}.safetensors")
    return {name.split(".", 1)[1]: value for name, value in whole.items() if name.startswith(f"{seed}.")}


@main.command()
@click.argument("weights", type=click.Path(path_type=Path))
def ship(weights: Path) -> None:
    """Write the encoder trained on everything, seed 0, into the package."""
    from membra.describe.graph import identity_graph

    READY.write_bytes(identity_graph(weights_of_seed(weights, "all", 0)))
    click.echo(f"{READY}: {READY.stat().st_size / 1e6:.2f} MB")
    click.echo(f"add to SHIPPED in describe/encoder.py: {hashlib.sha256(READY.read_bytes()).hexdigest()}")


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("weights", type=click.Path(path_type=Path))
@click.option("--seeds", default=len(SEEDS), show_default=True)
@click.option("--methods", default="fused,bob-local,pool-mean-cosine", show_default=True)
def score(data: Path, weights: Path, seeds: int, methods: str) -> None:
    """Hit@1 and mAP, own leaf left out, on manuscripts that the encoder has not seen; mean over the seeds."""
    from membra.describe.encoder import Encoder
    from membra.describe.graph import identity_graph
    from membra.describe.recipe import MEMBRA, pick
    from membra.sources.fragment import fragments

    tables = {name: fragments(data / name / "fragments.csv") for name in ("hebrew", "latin", "tiny")}
    glyphs = {name: [pick(fragment, MEMBRA)[1].glyphs for fragment in found] for name, found in tables.items()}
    click.echo(f"letters cut: { {name: sum(map(len, found)) for name, found in glyphs.items()} }")
    joins = np.array([f.columns["join"] for name in ("hebrew", "latin") for f in tables[name]])
    first = halves(joins, np.array([name for name in ("hebrew", "latin") for _ in tables[name]]))
    tests = [("latin", "hebrew"), ("hebrew", "latin"), ("latin", "tiny")]
    tests += [(half, name) for name in ("hebrew", "latin", "tiny") for half in ("half0", "half1")]
    for split, name in tests:
        kept = [
            place
            for place, fragment in enumerate(tables[name])
            if not split.startswith("half") or (fragment.columns["join"] in first) == (split == "half1")
        ]
        rows = []
        for seed in range(seeds):
            encoder = Encoder(identity_graph(weights_of_seed(weights, split, seed)))
            found = [(tables[name][place], glyphs[name][place]) for place in kept]
            rows.append(_scores(found, encoder, methods.split(",")))
        said = "  ".join(f"{m} {h:.3f}/{p:.3f}" for m, (h, p) in zip(methods.split(","), np.mean(rows, 0), strict=True))
        click.echo(f"trained on {split}, tested on {name} ({len(kept)} fragments, {seeds} seeds): {said}")


def _scores(
    found: list[tuple["Fragment", "Glyphs"]], encoder: "Encoder", methods: list[str]
) -> list[tuple[float, float]]:
    """Hit@1 and mAP by each method of fragments and their glyphs, described with `encoder`."""
    from membra.compare.methods import distances
    from membra.describe.bag import make_bag
    from membra.describe.recipe import MEMBRA, Description
    from membra.judge.evaluate import ask, outcomes
    from membra.judge.metrics import score as judge

    described, held = [], []
    for fragment, glyphs in found:
        if len(glyphs):
            embeddings = encoder.encode(glyphs.patches)
            held.append(Description(glyphs.boxes, embeddings, make_bag(embeddings, MEMBRA.bag)))
            described.append(fragment.id)
    lost = [fragment.id for fragment, glyphs in found if not len(glyphs)]
    question = ask(described, lost, {fragment.id: dict(fragment.columns) for fragment, _ in found}, "leaf")
    results = []
    for method in methods:
        matrix = distances(held, held, method, same=range(len(held)))
        scores = judge(outcomes(question, matrix))
        hit, precision = scores["hit@1"], scores["map"]
        assert isinstance(hit, float)
        assert isinstance(precision, float)
        results.append((hit, precision))
    return results


if __name__ == "__main__":
    main()
