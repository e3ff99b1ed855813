"""Synthetic manuscripts with their truth: scribes, their pages, and the cameras that photograph them.

Photographs of real manuscripts belong to libraries. These are drawn from random numbers alone, so that they can be
shipped with the program, shown in its demonstration and used in its tests.
"""

from membra.scribes.collecting import collection
from membra.scribes.damage import Damage, broken_leaf, damage
from membra.scribes.drawing import Drawn, fragment, word
from membra.scribes.photograph import Camera, camera
from membra.scribes.plates import Plate, PlatePiece, plate
from membra.scribes.scribe import Hand, hand

__all__ = [
    "Camera",
    "Damage",
    "Drawn",
    "Hand",
    "Plate",
    "PlatePiece",
    "broken_leaf",
    "camera",
    "collection",
    "damage",
    "fragment",
    "hand",
    "plate",
    "word",
]
