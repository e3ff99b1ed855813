"""The run: from images and known joins to the tables, the figures and the page."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from membra.compare.threads import processors
from membra.describe.encoder import Encoder
from membra.describe.workers import Workers
from membra.errors import Invalid, MembraError, Unsupported
from membra.files import atomic_write
from membra.judge.evaluate import ask
from membra.judge.latex import to_latex
from membra.judge.peers import MAX_PROCESSES
from membra.judge.tables import Table
from membra.progress import Overview
from membra.reproduce import experiments, measurements, runtime
from membra.reproduce.claims import claims
from membra.reproduce.components import COMPONENTS_STEP, components
from membra.reproduce.degraded import DEGRADED_STEP, degraded
from membra.reproduce.elsewhere import ELSEWHERE_STEP, elsewhere
from membra.reproduce.experiments import Known
from membra.reproduce.gallery import gallery
from membra.reproduce.labels import known_of, labels_of
from membra.reproduce.limits import LIMITS_STEP, limits
from membra.reproduce.material import TRAINING_STEP, Material, seeing_step
from membra.reproduce.overlap import OVERLAP_STEP, overlap
from membra.reproduce.peers import ADAPT_STEP, KEYPOINTS_STEP, PEERS_STEP, peers
from membra.reproduce.pictures import draw_all
from membra.reproduce.settings import FITS, VARIANTS, ReproduceSettings
from membra.reproduce.steps import Steps
from membra.reproduce.sweeps import ENCODERS_STEP, SWEEP_STEP, encoders, sweep
from membra.reproduce.work import Work
from membra.show.reproduction import Summary, write_page
from membra.sources.fragment import fragments
from membra.train.training_settings import DEVICE

# Further tables, 11 to 19. Each takes what is known and states itself why it cannot be made.
FURTHER = (peers, components, overlap, sweep, encoders, gallery, elsewhere, limits, degraded)

_PATCHES_PER_SECOND = 2200  # in training on two cores: only for the first estimate of the time left


def reproduce(
    source: str | Path,
    joins: str | Path | None,
    out: str | Path,
    *,
    settings: ReproduceSettings | None = None,
    exclude_same: str | None = None,
    encoder: Path | None = None,
    device: str = DEVICE,
    show: Overview | None = None,
) -> Path:
    """Make every table and figure of the paper on a labelled set. Needs the extra `[train]`.

    Results are cached in `out`/work: a second run computes nothing again, a killed run continues.

    Parameters
    ----------
    source : path
        A folder of images, or a CSV file with a column `image`.
    joins : path, optional
        A CSV file with the columns image,join. Without it, labels come from the source: its column `join`, or the
        first folder below the source on the path of each image.
    out : path
        The folder to fill.
    settings : ReproduceSettings, optional
        Repetitions, epochs and recipe.
    exclude_same : str, optional
        A column of `joins`; candidates that share the query's value in it are left out.
    encoder : path, optional
        Replaces the trained encoder in all tables but the ablations; in table 17 it is compared with one trained on
        other manuscripts.
    device : {"auto", "cpu", "cuda"}
    show : callable, optional
        Called with the step, the share of it and of the run that is done, and the seconds left.

    Returns
    -------
    Path
        The page with all tables and figures.

    Raises
    ------
    MembraError
        If PyTorch is missing, `out` holds anything other than an earlier reproduction, or a file cannot be read.
    """
    settings, out = settings or ReproduceSettings(), Path(out)
    _check_torch()
    found = fragments(source)
    labels, unmatched = labels_of(source, joins, found)  # a file that cannot be read raises before the run starts
    ask(list(labels), [], labels, exclude_same)  # so does a missing column
    if out.exists() and any(out.iterdir()) and not (out / "work").is_dir():
        raise Invalid(
            "{folder} contains files that are not from a reproduction; give another folder with --out", folder=out
        )
    given = Encoder.open(encoder) if encoder else None
    work, steps = Work(out / "work"), Steps(show)
    with work.sole_user(), Workers(min(processors(), MAX_PROCESSES)) as pool:
        # A first estimate of 250 letters per image, until the letters are counted.
        guess = settings.seeds * settings.epochs * len(VARIANTS) * 250 * len(found) / _PATCHES_PER_SECOND
        steps.plan({seeing_step(variant.fit): 0.1 * len(found) for variant in FITS} | {TRAINING_STEP: guess})
        material = Material(found, settings, work, steps, encoder=given, device=device, pool=pool)
        if encoder and encoder.suffix == ".safetensors":
            material.decoder = encoder
        known = known_of(material, labels, unmatched, exclude_same)
        material.among = known.among(len(material.described))
        steps.plan(_weights(material, known))
        if not known.why_not:
            pool.dismiss()  # training has its own processes, and restarting these takes a second
            material.train(VARIANTS)
        tables, pairs = _tables(material, known, labels)
        said = claims(material, known, {table.name: table for table in tables})
        figures = draw_all(material, known, labels, {table.name: table for table in tables}, pairs)
        summary = Summary(
            fragments=len(found),
            described=len(material.described),
            excluded=material.excluded(),
            queries=len(known.question.queries()),
            joins=len(set(known.question.joins)),
            seeds=settings.seeds,
            epochs=settings.epochs,
            recipe=settings.recipe.name,
            encoder="given with --encoder" if given else "trained here",
            exclude_same=exclude_same or "",
        )
        _write(out, [said, *tables], figures, summary, settings)
    return out / "index.html"


def _tables(material: Material, known: Known, labels: dict[str, dict[str, str]]) -> tuple[list[Table], dict[str, Any]]:
    """Return all tables in the order of the page, and the pairs of table 8 for its figure."""
    if not material.described:
        least = material.settings.recipe.min_glyphs
        unknown = replace(known, why_not="nothing is described")
        why = f"none of the {len(material.fragments)} fragments has the {least} letters that the recipe requires"
        return [replace(table, missing=why) for table in _bare(material, known)] + [
            measurements.letters(material, known, labels),
            *(replace(make(material, unknown), missing=why) for make in FURTHER),
        ], {}
    bound, pairs = measurements.proposition(material, known)
    return [
        experiments.retrieval(material, known),
        experiments.separation(material, known),
        experiments.words(material, known),
        experiments.dimensions(material, known),
        experiments.sparsity(material, known),
        experiments.fit(material, known),
        runtime.runtime(material, known),
        bound,
        experiments.populated(material, known),
        measurements.letters(material, known, labels),
        *(_further(make, material, known) for make in FURTHER),
    ], pairs


def _further(make: Callable[[Material, Known], Table], material: Material, known: Known) -> Table:
    """Return one table of FURTHER; if there is too little data, without rows and with the reason."""
    try:
        return make(material, known)
    except MembraError as reason:
        return replace(make(material, replace(known, why_not=str(reason))), missing=str(reason))


def _bare(material: Material, known: Known) -> list[Table]:
    """Return tables 1 to 9 without rows."""
    unknown = replace(known, why_not="nothing is described")
    bound, _ = measurements.proposition(material, unknown)
    return [
        *(
            make(material, unknown)
            for make in (
                experiments.retrieval,
                experiments.separation,
                experiments.words,
                experiments.dimensions,
                experiments.sparsity,
                experiments.fit,
                runtime.runtime,
            )
        ),
        bound,
        experiments.populated(material, unknown),
    ]


def _weights(material: Material, known: Known) -> dict[str, float]:
    """Return the remaining steps with their rough seconds."""
    settings, seeds = material.settings, material.settings.seeds
    if not material.described:
        return {TRAINING_STEP: 0.0}
    weights: dict[str, float] = {}
    variants = VARIANTS if not known.why_not else (material.main,)
    letters = sum(min(300, material.glyph_counts[index]) for index in material.described)
    missing = [
        seed
        for variant in variants
        for seed in material.seeds(variant)
        if not material.encoder_path(variant, seed).exists()
    ]
    weights[TRAINING_STEP] = len(missing) * settings.epochs * letters / _PATCHES_PER_SECOND
    size = sum(material.glyph_counts[index] for index in material.described)
    weights |= {f"comparing: {name}": 1.0 for name in experiments.RETRIEVAL.values()}
    weights |= {f"comparing: {variant.name}": 7e-4 * size * seeds / 2 for variant in variants}
    weights |= {f"clustering: K = {words}": 1e-5 * size * words * seeds for words in settings.words}
    weights["comparing: BoW-RawPatches-L2"] = 1.3e-3 * size * seeds
    weights[measurements.BOUND_STEP] = 0.03 * settings.bound_pairs
    weights[measurements.LETTERS_STEP] = 10.0 * seeds
    if not known.why_not:
        weights |= _further_weights(material, size, letters)
    return weights


def _further_weights(material: Material, size: int, letters: int) -> dict[str, float]:
    """Return the steps of tables 11 to 19; `size` letters in all, `letters` of them in training."""
    settings, count = material.settings, len(material.described)
    weights = {KEYPOINTS_STEP: 0.5 * count, PEERS_STEP: 20.0, OVERLAP_STEP: 10.0 * settings.seeds}
    if settings.thorough:
        pairs = min(settings.component_pairs, count * (count - 1) // 2)
        weights |= {COMPONENTS_STEP: 0.06 * pairs, SWEEP_STEP: 4e-3 * size, ENCODERS_STEP: 1.5e-3 * size}
        weights |= {
            ELSEWHERE_STEP: settings.epochs * letters / _PATCHES_PER_SECOND,
            ADAPT_STEP: 300.0,
            LIMITS_STEP: 5e-3 * size,
            DEGRADED_STEP: 5e-3 * size,
        }
    return weights


def _write(out: Path, tables: list[Table], figures: list[Any], summary: Summary, settings: ReproduceSettings) -> None:
    (out / "tables").mkdir(exist_ok=True)
    (out / "figures").mkdir(exist_ok=True)
    for table in tables:
        stem = f"table-{table.number:02d}-{table.name}" if table.number else table.name
        atomic_write(out / "tables" / f"{stem}.json", table.to_json().encode())
        atomic_write(out / "tables" / f"{stem}.csv", table.to_csv().encode())
        atomic_write(out / "tables" / f"{stem}.tex", to_latex(table).encode())
    for figure in figures:
        for form, content in figure.files.items():
            atomic_write(out / "figures" / f"{figure.name}.{form}", content)
    whole = asdict(summary) | {"settings": asdict(settings), "tables": [table.name for table in tables if table.number]}
    atomic_write(out / "reproduction.json", json.dumps(whole, indent=1, ensure_ascii=False, default=str).encode())
    write_page(out / "index.html", tables, figures, summary)


def _check_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise Unsupported(
            "a reproduction trains encoders and needs PyTorch, which is not installed; run `pip install "
            "'membra[train]'`"
        )
