"""Table 18: a sweep of the limits that the paper sets by eye (areas in pixels, 200 components)."""

from dataclasses import replace

from membra.describe.encoder import Encoder
from membra.describe.recipe import Recipe
from membra.judge.tables import Column, Row, Table
from membra.reproduce.experiments import COVERAGE, Known, empty_table, text_column, why_left_out, without
from membra.reproduce.labels import known_of
from membra.reproduce.material import Material
from membra.reproduce.measurements import everything, plain_scores
from membra.reproduce.settings import FIRST_SEED

LIMITS_STEP = "sweeping limits"
MIN_AREAS, MAX_AREAS, LEAST = (150, 600), (1500, 6000), (50, 100, 400)  # in addition to the recipe's own


def limits(material: Material, known: Known) -> Table:
    """Return coverage and BoB-Chamfer scores for each limit, with the encoder of table 1."""
    columns = [
        text_column("limit"),
        *COVERAGE,
        Column("hit@1", "Hit@1"),
        Column("map", "mAP"),
        Column("whole_hit@1", "Hit@1, all"),
        Column("whole_map", "mAP, all"),
    ]
    table = empty_table(material, known, 18, "limits", "Area limits and the 200-component rule", columns)
    if why := why_left_out(material, known):
        return without(table, why)
    recipe = material.settings.recipe
    if recipe.ink.threshold == "learned":
        return without(table, f"the recipe {recipe.name} has no areas in pixels; use --recipe paper")
    encoder = Encoder.open(material.encoder(material.main, FIRST_SEED))
    ways = _ways(recipe)
    rows: list[Row] = []
    with material.steps.step(LIMITS_STEP) as within:
        for done, (name, other) in enumerate(ways.items(), start=1):
            settings = replace(material.settings, recipe=other)
            limited = Material(
                material.fragments, settings, material.work, material.steps, encoder=encoder, pool=material.pool
            )
            rows.append(_row(name, limited, known))
            within(done, len(ways))
    return replace(
        table,
        rows=rows,
        reading="What the limits exclude, and the effect on the scores: among the fragments that are left (with other "
        "queries in each row), and with every fragment that is not described counted as a miss.",
        notes=[
            f"BoB-Chamfer, seed {FIRST_SEED}; the encoder is that of table 1 throughout. Rows have different queries: "
            "compare the columns marked `all`, which have the same ones."
        ],
    )


def _ways(recipe: Recipe) -> dict[str, Recipe]:
    glyphs = recipe.glyphs
    found = {f"as it is: {glyphs.min_area} to {glyphs.max_area} px, {recipe.min_glyphs} components": recipe}
    for area in MIN_AREAS:
        found[f"at least {area} px"] = replace(recipe, glyphs=replace(glyphs, min_area=area))
    for area in MAX_AREAS:
        found[f"at most {area} px"] = replace(recipe, glyphs=replace(glyphs, max_area=area))
    for least in LEAST:
        found[f"{least} components"] = replace(recipe, min_glyphs=least)
    return found


def _row(name: str, material: Material, known: Known) -> Row:
    row: Row = {"limit": name, "described": len(material.described)}
    own = known_of(material, known.labels, "", known.exclude_same)
    if own.why_not or len(material.described) < 2:
        return row | {"missing": own.why_not or "fewer than two fragments are described"}
    matrices = [material.matrix(material.main, FIRST_SEED, "bob-chamfer")]
    scores = plain_scores(own.runs(matrices))
    whole = everything(material, own, dict(known.labels), matrices)
    row |= {"asked": len(own.question.queries()), "hit@1": scores["hit@1"], "map": scores["map"]}
    row |= {"whole_hit@1": whole["hit@1"], "whole_map": whole["map"]}
    ends = {"hit@1": scores["ci95"]["hit@1"], "map": scores["ci95"]["map"]}
    return row | {"ci95": ends | {f"whole_{key}": whole["ci95"][key] for key in ("hit@1", "map")}}
