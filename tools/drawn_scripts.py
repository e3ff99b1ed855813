"""Draw lines of writing as ink in every script of a folder of fonts, to train networks for many scripts.

DATA has handwriting in too few scripts. Letters of a font have the orientation of their script; the variation of
handwriting is simulated: slant, wavering lines, varying stroke width and letter position.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import cv2
import numpy as np
from fontTools.ttLib import TTFont, TTLibError
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from membra.scribes import wear
from membra.scribes.surfaces import noise, parchment

# Book scripts by their Unicode names: NEAR are those of the regions whose torn manuscripts are in libraries, FAR the
# others. Excluded are scripts written from top to bottom, and scripts only carved or invented for print: the letters of
# some of these are rotated letters of another script.
NEAR = """
    ARABIC ARMENIAN COPTIC CYRILLIC ETHIOPIC GEORGIAN GLAGOLITIC GREEK HEBREW LATIN SAMARITAN SYRIAC
"""
FAR = """
    AHOM AVESTAN BALINESE BATAK BENGALI BHAIKSUKI BRAHMI BUGINESE CAUCASIAN CHAM CJK DEVANAGARI DOGRA GOTHIC GRANTHA
    GUJARATI GURMUKHI HANGUL HENTAIGANA HIRAGANA IMPERIAL JAVANESE KAITHI KANNADA KATAKANA KHAROSHTHI KHMER KHOJKI
    KHUDAWADI LAO LEPCHA MALAYALAM MANDAIC MANICHAEAN MEETEI MODI MULTANI MYANMAR NABATAEAN NEWA ORIYA PALMYRENE
    PHOENICIAN PSALTER RUNIC SAURASHTRA SHARADA SIDDHAM SINHALA SOGDIAN TAI TAKRI TAMIL TANGUT TELUGU THAANA THAI
    TIBETAN TIRHUTA YI
"""
# Last code point of the historical letters; later ones are modern, or of other languages with many diacritics.
LAST = {"LATIN": 0x7A, "CYRILLIC": 0x48B, "GREEK": 0x3FF, "ARABIC": 0x6D3}
MIN_LETTERS = 15  # minimum for a font to count as having a script
MAX_LETTERS = 600  # of a script, evenly sampled from the font: Chinese has thousands
LINES, WIDTH = 4, 440  # of a page, px
MIN_INK = 0.01  # share of a page; with less it counts as empty
INK = (0.22, 0.16, 0.12)
SMALL, CAPITAL = "small", "capitals"


@dataclass(frozen=True)
class Script:
    """A script as one font writes it."""

    name: str  # the Unicode name, with `small` or `capitals` for scripts with case
    font: Path
    letters: tuple[str, ...]
    signs: tuple[str, ...]  # combining marks

    @property
    def family(self) -> str:
        """The name of the font family: the file name without weight and width."""
        return self.font.stem.split("-")[0].rstrip("0123456789")


def scripts(folder: Path) -> Iterator[Script]:
    """Yield the scripts of every font below `folder`, ordered by path."""
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".ttf", ".otf")):
        try:
            with path.open("rb") as file, TTFont(file, lazy=True) as font:
                codes = sorted(font.getBestCmap() or {})
        except (TTLibError, OSError, AssertionError):
            continue  # not a font
        found: dict[str, tuple[list[str], list[str]]] = {}
        for code in codes:
            name, kind = _script_of(code)
            if name:
                found.setdefault(name, ([], []))[kind].append(chr(code))
        for name, (letters, signs) in found.items():
            if len(letters) >= MIN_LETTERS:
                step = max(1, len(letters) // MAX_LETTERS)
                yield Script(name, path, tuple(letters[::step]), tuple(signs))


@cache
def _script_of(code: int) -> tuple[str, int]:
    """Return the script of a character, and 0 for a letter, 1 for a combining mark; an empty script for all others."""
    category = unicodedata.category(chr(code))
    name = unicodedata.name(chr(code), "")
    script = name.split(" ")[0]
    if category not in ("Ll", "Lu", "Lo", "Mn", "Mc") or script not in (NEAR + FAR).split() or "PRESENTATION" in name:
        return "", 0
    if 0xF900 <= code <= 0xFDFF or 0xFE70 <= code <= 0xFEFF or code >= 0x20000:
        return "", 0  # compatibility forms, and rare Chinese
    if any(name.startswith(first) and code > last for first, last in LAST.items()):
        return "", 0
    if category in ("Ll", "Lu"):
        return f"{script} {SMALL if category == 'Ll' else CAPITAL}", 0
    return script, int(category in ("Mn", "Mc"))


def written(script: Script, height: float, lines: int, width: int, seed: int) -> NDArray[np.float32] | None:
    """Draw `lines` lines as ink (h, width) in 0..1 with letters about `height` px high; None if the font is unusable.

    Words are random; slant, wavering and boldness are drawn once for the page.
    """
    generator = np.random.default_rng((207, seed, crc32(f"{script.name} {script.font.name}".encode())))
    font = _sized(script, height)
    if font is None:
        return None
    gap = round(height * generator.uniform(1.6, 2.6))
    rows = [_line(script, font, width - 2 * round(height), generator) for _ in range(lines)]
    needed = sum(max(gap, row.shape[0] - round(0.6 * height)) for row in rows) + 4 * round(height)
    page = np.zeros((needed, width), np.float32)
    top = round(height)
    for row in rows:
        at = page[top : top + row.shape[0], round(height) : round(height) + row.shape[1]]
        np.maximum(at, row[: at.shape[0]], out=at)
        top += max(gap, row.shape[0] - round(0.6 * height))
    return _by_hand(page, height, generator)


def page(script: Script, height: float, seed: int) -> NDArray[np.uint8] | None:
    """Draw a sheet (h, w, 3) RGB with lines of dark writing; None if the font draws nothing or too little."""
    ink = written(script, height, LINES, WIDTH, seed)
    if ink is None or (ink > 0.5).mean() < MIN_INK:
        return None
    generator = np.random.default_rng((209, seed))
    sheet = parchment(np.ones(ink.shape, bool), height, generator)
    colour = np.array(INK, np.float32) * np.float32(generator.uniform(0.6, 1.3))
    share = (ink * np.float32(generator.uniform(0.7, 1.0)))[..., None]
    return np.asarray(np.clip((sheet * (1 - share) + share * colour) * 255, 0, 255), np.uint8)


def unwritten(height: float, seed: int) -> NDArray[np.bool_]:
    """Draw a mask (h, w) of marks that may be mistaken for ink: cracks, creases, fibres, mould, grain."""
    generator = np.random.default_rng((211, seed))
    shape = (round(8 * height), round(12 * height))
    dark = np.zeros(shape, np.float32)
    for kind in generator.permutation(5)[: int(generator.integers(1, 4))].tolist():
        layer = _damage(kind, shape, height * float(np.exp(generator.normal(0.0, 0.5))), generator)
        dark += layer / max(float(layer.std()), 1e-3)
    share = float(np.exp(generator.uniform(np.log(0.02), np.log(0.15))))
    return np.asarray(dark > np.quantile(dark, 1 - share))


def _damage(kind: int, shape: tuple[int, int], scale: float, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return how much one kind of damage darkens a sheet, (h, w)."""
    strength = float(generator.uniform(0.3, 1.0))
    if kind == 0:
        return wear.cracks(shape, scale, generator, strength)
    if kind == 1:
        return -wear.creases(shape, scale, generator, strength)
    if kind == 2:
        return -wear.fibres(shape, scale, generator, strength, float(generator.uniform(0, 180)))
    if kind == 3:
        return wear.mould(shape, scale, generator, strength)
    return noise(shape, 0.15 * scale, generator)


def _sized(script: Script, height: float) -> ImageFont.FreeTypeFont | None:
    """Return the font at the size at which the median letter is `height` px high; None if it cannot be used."""
    try:
        trial = ImageFont.truetype(str(script.font), 64)
        boxes = [trial.getbbox(letter) for letter in script.letters[:80]]
        high = float(np.median([box[3] - box[1] for box in boxes if box[3] > box[1]] or [0]))
        return trial.font_variant(size=max(6, round(64 * height / high))) if high else None
    except (OSError, ValueError):
        return None


def _line(
    script: Script, font: ImageFont.FreeTypeFont, width: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Draw one line of random words as ink (h, width)."""
    text, signs = "", generator.uniform(0.0, 0.6) if script.signs else 0.0
    while len(text) < 200:
        word = ""
        for letter in generator.choice(script.letters, int(generator.integers(1, 8))):
            word += str(letter)
            if generator.random() < signs:
                word += str(generator.choice(script.signs))
        if text and font.getlength(f"{text} {word}") > width:
            break
        text = f"{text} {word}".strip()
    left, top, _, bottom = (round(edge) for edge in font.getbbox(text))
    picture = Image.new("L", (width, max(1, bottom - top)), 0)
    ImageDraw.Draw(picture).text((-left, -top), text, font=font, fill=255)
    return np.asarray(picture, np.float32) / np.float32(255)


def _by_hand(ink: NDArray[np.float32], height: float, generator: np.random.Generator) -> NDArray[np.float32]:
    """Make ink look handwritten: slant, stretch, wavering, uneven strokes, another pen width."""
    rows, columns = ink.shape
    down, across = np.mgrid[:rows, :columns].astype(np.float32)
    lean, wide = generator.normal(0.0, 0.12), np.exp(generator.normal(0.0, 0.12))
    middle = columns / 2
    across = (across - middle) / np.float32(wide) + middle + np.float32(lean) * (down - np.float32(rows / 2))
    for size, reach in ((0.02, 0.3), (0.05, 1.0), (0.15, 4.0)):
        strength = np.float32(size * height * generator.uniform(0.2, 1.0))
        across = across + strength * noise(ink.shape, reach * height, generator)
        down = down + strength * noise(ink.shape, reach * height, generator)
    moved = cv2.remap(ink, across.astype(np.float32), down.astype(np.float32), cv2.INTER_LINEAR)
    soft = cv2.GaussianBlur(moved, (0, 0), 0.03 * height)
    uneven = 1 + np.float32(generator.uniform(0.0, 0.3)) * noise(ink.shape, 0.4 * height, generator)
    # a thin or a broad pen: the area of ink is scaled by 0.75 to 1.4
    dark = float(np.quantile(soft, 1 - (soft > 0.5).mean() * generator.uniform(0.75, 1.4) - 1e-3))
    return np.asarray(np.clip((soft * uneven / max(dark, 0.1) - 1) * 4 + 0.5, 0, 1), np.float32)
