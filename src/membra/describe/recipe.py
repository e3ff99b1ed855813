"""The recipe, which holds every setting that changes a number, and the whole path from photograph to bag."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.describe.bag import Bag, BagSettings, in_company, make_bag
from membra.describe.encoder import Encoder
from membra.errors import Incompatible, Refused, TooFewLetters
from membra.messages import Message, gettext_noop
from membra.see.eye import EyeSettings, ready_digest, ready_eye
from membra.see.fixes import BY_HAND, without_dropped
from membra.see.glyphs import PATCH, Glyphs, GlyphSettings, cut_glyphs
from membra.see.ink import InkSettings, find_ink
from membra.see.letters import LetterSettings
from membra.see.parchment import ParchmentSettings, find_parchment
from membra.see.read import HowMany, read_pieces
from membra.see.reading import Reading
from membra.sources.fragment import Fragment, piece_of
from membra.sources.photograph import read_photograph

# To be raised by any change of a number of a description or a distance, in a setting's default or in a constant of any
# room. tests/describe/test_revision.py detects one; a collection of another revision is read-only.
# 1: parchment by colour, ink by Sauvola, one piece per photograph, letters not rotated
# 2: surface and ink by the learned eye, each piece read upright, long components cut
# 3: looks at each piece until scale and rotation converge; the letter height is a mean shrunk to the eye's estimate,
#    not a median; the mean embedding added to each, local scales by three neighbours, an encoder of 182 manuscripts
# 4: the orientation network is run where the eye is not nearly certain
# 5: a letter at a tear is kept where nine tenths of its box are on the sheet
# 6: an orientation network trained on the scripts of books, which decides alone where the eye is uncertain
REVISION = 6

# Components that `see` leaves out, by the keys of `Glyphs.dropped`.
_NO_LETTERS = {
    "too small": gettext_noop("{count} too small"),
    "too large": gettext_noop("{count} too large"),
    "a line": gettext_noop("{count} shaped like a line"),
    "slender": gettext_noop("{count} too slender"),
    "edge speck": gettext_noop("{count} edge specks"),
    "blot": gettext_noop("{count} blots"),
    "cut off": gettext_noop("{count} cut off"),
    "sparse box": gettext_noop("{count} with a sparse box"),
    "sparse patch": gettext_noop("{count} with a sparse patch"),
    BY_HAND: gettext_noop("{count} removed by hand"),
}

Pieces = HowMany  # `auto`: each piece of a photograph is a fragment; `one`: the whole photograph is
DOUBTFUL = "doubtful"  # the note of a fragment that may have no writing


@dataclass(frozen=True)
class Recipe:
    """All that determines the numbers of a collection. Another recipe needs another collection, except for `adapt`."""

    name: str = "membra"
    parchment: ParchmentSettings = field(default_factory=ParchmentSettings)
    ink: InkSettings = field(default_factory=InkSettings)
    glyphs: GlyphSettings = field(default_factory=GlyphSettings)
    reading: EyeSettings = field(default_factory=EyeSettings)  # where the ink is `learned`; else parchment and glyphs
    letters: LetterSettings = field(default_factory=LetterSettings)  # likewise
    bag: BagSettings = field(default_factory=BagSettings)
    min_glyphs: int = 1  # fragments with fewer are listed as excluded
    few_letters: int = 12  # fragments with fewer are described, and marked `few letters`
    pieces: Pieces = "one"  # `auto`: each piece of a photograph is a fragment; `one`: the whole photograph is
    min_legibility: float = 0.0  # 0 to 1; fragments below it are described, and marked `doubtful`
    method: str = "bob-chamfer"  # default method of `search`
    encoder: str = ""  # SHA-256 of the encoder's ONNX bytes, set when a collection is created
    eye: str = ""  # SHA-256 of the ONNX bytes of both networks of `see`, set likewise; empty where none is used
    revision: int = REVISION  # of everything that is not a setting

    @property
    def eyes(self) -> tuple[object, ...]:
        """The settings that determine which pieces of a photograph are found, and their glyphs."""
        return (self.parchment, self.ink, self.glyphs, self.reading, self.letters, self.pieces, self.eye, self.revision)

    def to_json(self) -> str:
        """Serialise as one line of JSON with sorted keys, the form in which a collection stores its recipe."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Parse the JSON of `to_json`. Raises `Incompatible` for an unknown setting, which would be ignored otherwise.

        In a recipe of another revision unknown settings are ignored, since nothing is computed by it any more. Without
        a `revision` it is 1.
        """
        try:
            values: dict[str, Any] = {"revision": 1, **json.loads(text, object_hook=_renamed)}
            exact = values["revision"] == _revision_of(values.get("name", ""))

            def build(kind: Any, given: dict[str, Any]) -> Any:
                names = {setting.name for setting in dataclasses.fields(kind)}
                return kind(**{name: value for name, value in given.items() if exact or name in names})

            stages = {"parchment": ParchmentSettings, "ink": InkSettings, "glyphs": GlyphSettings, "bag": BagSettings}
            stages |= {"reading": EyeSettings, "letters": LetterSettings}
            settings = {key: build(stages[key], value) if key in stages else value for key, value in values.items()}
            return cls(**settings) if exact else build(cls, settings)
        except (ValueError, TypeError, AttributeError) as error:
            raise Incompatible(
                "this version of membra does not know the recipe ({why}); index the images again", why=error
            ) from None


# Exactly the paper: fixed areas in pixels, Otsu, K = 20, at least 200 components. Its numbers have never changed.
PAPER = Recipe(
    name="paper",
    revision=1,
    parchment=ParchmentSettings(find=False),
    ink=InkSettings(threshold="otsu", polarity="mean", letter_height=0),
    min_glyphs=200,
    few_letters=0,
)

# Keeps every fragment: segmented by the learned eye, letters upright and of one height; K is the number of letters, at
# most 64.
MEMBRA = Recipe(
    name="membra",
    ink=InkSettings(threshold="learned"),
    bag=BagSettings(words=64, letters_per_word=1, min_words=1, clusters="membra", full_length=True, company=0.5),
    pieces="auto",
    min_legibility=0.35,
    method="bob-local",
)

# For comparison: as `membra`, but segmented by rules and Sauvola's threshold, as in the first revision.
SAUVOLA = dataclasses.replace(
    MEMBRA,
    name="sauvola",
    ink=InkSettings(),
    glyphs=GlyphSettings(min_area=120, max_area=3000, inside=0.995, speck=0.6, blot=1.9, slender=6.0),
    pieces="one",
    min_legibility=0.0,
)

RECIPES = {recipe.name: recipe for recipe in (MEMBRA, PAPER, SAUVOLA)}


def computed(recipe: Recipe) -> Recipe:
    """Return the recipe with the revision and the eye of this version; equal to it if this version reproduces it."""
    return dataclasses.replace(recipe, revision=_revision_of(recipe.name), eye=eye_of(recipe))


def renewed(recipe: Recipe) -> Recipe:
    """Return the recipe with which a collection of `recipe` is described again.

    It is unchanged if this version reproduces it, otherwise the current recipe of its name. Encoder and `pieces` stay.
    """
    if recipe == computed(recipe):
        return recipe
    now = RECIPES.get(recipe.name, recipe)
    pieces = recipe.pieces if recipe.revision > 1 else now.pieces  # the first revision had no such setting
    return computed(dataclasses.replace(now, pieces=pieces, encoder=recipe.encoder))


def eye_of(recipe: Recipe) -> str:
    """Return the SHA-256 of the ONNX bytes of the networks that `see` uses by this recipe; empty where it uses none."""
    return ready_digest() if recipe.ink.threshold == "learned" else ""


def _renamed(settings: dict[str, Any]) -> dict[str, Any]:
    """Replace former names of settings: `min_area` and `max_area` were once `least_area` and `most_area`."""
    names = [re.sub("^least_", "min_", re.sub("^most_", "max_", name)) for name in settings]
    names = ["letters_per_word" if name == "letters_a_word" else name for name in names]
    return dict(zip(names, settings.values(), strict=True))


def _revision_of(name: str) -> int:
    """Return the current revision of the recipe of this name."""
    return RECIPES.get(name, MEMBRA).revision


@dataclass(frozen=True)
class Description:
    """The description of one fragment: the boxes and embeddings of its glyphs, and its bag.

    Attributes
    ----------
    boxes : (n, 4) int32
        x, y, width, height in pixels of the photograph.
    embeddings : (n, d) float32
        One of each glyph.
    bag : Bag
        The fragment's own vocabulary.
    note : str
        Any of `few letters`, `doubtful`, `turned` (lines run up or down), separated by commas.
    angle : float or None
        Rotation of the writing, degrees counter-clockwise; None: unknown.
    letter_height : float
        px in the photograph; 0: not measured.
    legibility : float
        0 to 1: how much reliable writing was found.
    outline : (k, 2) int32
        Of the piece in the photograph; empty: all of the photograph.
    """

    boxes: NDArray[np.int32]
    embeddings: NDArray[np.float32]
    bag: Bag
    note: str = ""
    angle: float | None = None
    letter_height: float = 0.0
    legibility: float = 1.0
    outline: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))

    @property
    def doubtful(self) -> bool:
        """Whether the fragment may have no writing."""
        return DOUBTFUL in self.note.split(", ")


@dataclass(frozen=True)
class Described:
    """The result for one photograph: its pieces, each described or rejected, and the number of `blank` ones."""

    pieces: list[tuple[Fragment, Description | Refused]]
    blank: int = 0


def describe_fragment(fragment: Fragment, encoder: Encoder, recipe: Recipe) -> Description:
    """Describe one fragment: from its photograph to its bag.

    Parameters
    ----------
    fragment : Fragment
        In a photograph of several pieces, the piece that the fragment names, or else the most legible.
    encoder : Encoder
    recipe : Recipe
        Every setting that changes a number. For comparison with a collection, use its `encoder()` and `recipe`.

    Returns
    -------
    Description
        Boxes (n, 4), embeddings (n, d) and the bag.

    Raises
    ------
    Refused
        Where the photograph cannot be read or has too few letters for the recipe.
    """
    return describe_reading(pick(fragment, recipe)[1], encoder, recipe)


describe = describe_fragment  # its former name, kept for scripts that call `membra.describe`


def describe_photograph(fragment: Fragment, encoder: Encoder, recipe: Recipe) -> Described:
    """Describe every piece of one photograph in reading order; a piece that cannot be described has the reason instead.

    A single piece is `fragment` itself; of several, each has its own id and a column `photograph`. Pieces without
    writing are only counted; where there is no writing at all, the photograph is rejected as a whole.
    """
    try:
        pieces, blank = pieces_of(fragment, recipe)
    except Refused as reason:
        return Described([(fragment, reason)])
    found: list[tuple[Fragment, Description | Refused]] = []
    for piece, reading in pieces:
        try:
            found.append((piece, describe_reading(reading, encoder, recipe)))
        except Refused as reason:
            found.append((piece, reason))
    return Described(found, blank)


def describe_reading(reading: Reading, encoder: Encoder, recipe: Recipe) -> Description:
    """Describe the reading of one piece. Raises `TooFewLetters` where the recipe requires more."""
    glyphs = reading.glyphs
    if len(glyphs) < recipe.min_glyphs:
        dropped = [Message(_NO_LETTERS[why], count=count) for why, count in glyphs.dropped.items() if count]
        if not dropped and not len(glyphs):
            raise TooFewLetters("no writing was found on it")
        if not len(glyphs):
            raise TooFewLetters("no letters were found on it ({why})", why=dropped)
        raise TooFewLetters(
            "{count} letters, fewer than {least} ({why})",
            count=len(glyphs),
            least=recipe.min_glyphs,
            why=dropped or Message("the rest is not writing"),
        )
    embeddings = in_company(encoder.encode(glyphs.patches), recipe.bag)
    bag = make_bag(embeddings, recipe.bag)
    seen = (reading.angle, reading.letter_height, reading.legibility, reading.outline)
    return Description(glyphs.boxes, embeddings, bag, note_of(reading, recipe), *seen)


def pick(fragment: Fragment, recipe: Recipe) -> tuple[Fragment, Reading]:
    """Return the piece that a fragment names, or the most legible of its photograph, as a fragment with its reading."""
    pieces, _ = pieces_of(fragment, recipe)
    if fragment.piece > len(pieces):
        raise Refused(
            "{file} has {count} pieces with writing, and no piece {piece}",
            file=fragment.path.name,
            count=len(pieces),
            piece=fragment.piece,
        )
    if fragment.piece:
        return fragment, pieces[fragment.piece - 1][1]
    return max(pieces, key=lambda piece: (piece[1].legibility, len(piece[1].glyphs)))


def pieces_of(photograph: Fragment, recipe: Recipe) -> tuple[list[tuple[Fragment, Reading]], int]:
    """Return the pieces with letters, as fragments with their readings, and the number of the other pieces.

    A single piece is the photograph itself, even if there are no letters at all.
    """
    readings = see(photograph, recipe)
    # a piece from which a person removed everything stays, so that the numbers of the others do not change
    written = [reading for reading in readings if len(reading.glyphs) or reading.glyphs.dropped.get(BY_HAND)]
    if len(written) > 1:
        pieces = [(piece_of(photograph, number), reading) for number, reading in enumerate(written, start=1)]
        return pieces, len(readings) - len(written)
    return [(photograph, [*written, *readings, _NOTHING][0])], len(readings) - 1 if written else 0


def see(fragment: Fragment, recipe: Recipe) -> list[Reading]:
    """Read one photograph: segment its pieces, in reading order, and find ink and glyphs of each.

    Raises `Refused` where the photograph cannot be read. The piece that the fragment names is not considered here.
    """
    if fragment.refused:
        raise Refused(fragment.refused)
    photograph = read_photograph(fragment.path)
    if recipe.ink.threshold == "learned":
        readings = read_pieces(photograph, ready_eye(), recipe.reading, recipe.letters, recipe.pieces, fragment.fixes)
        return [without_dropped(reading, fragment.fixes) for reading in readings]
    parchment = find_parchment(photograph, recipe.parchment)
    ink = find_ink(photograph, parchment, recipe.ink)
    reading = Reading(cut_glyphs(ink, recipe.glyphs), letter_height=ink.letter_height)
    return [without_dropped(reading, fragment.fixes)]


def note_of(reading: Reading, recipe: Recipe) -> str:
    """Return the warnings for a fragment that was described: `few letters`, `doubtful`, `turned`."""
    notes = {
        "few letters": len(reading.glyphs) < recipe.few_letters,
        DOUBTFUL: reading.legibility < recipe.min_legibility,
        "turned": reading.glyphs.turned,
    }
    return ", ".join(note for note, holds in notes.items() if holds)


_NOTHING = Reading(Glyphs(np.zeros((0, 4), np.int32), np.zeros((0, PATCH, PATCH), np.uint8), {}))
