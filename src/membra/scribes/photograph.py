"""The camera: its set-up and its effect on the picture."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

BACKGROUNDS = ("blue", "black", "white", "grey")


@dataclass(frozen=True)
class Camera:
    """One photographic set-up. Its effects are the same for all its pictures, of any manuscript."""

    letter_height: float  # pixels from roof to base line: combines distance and resolution
    turn: float  # degrees counter-clockwise rotation of fragments, a few at most
    light_direction: float  # degrees, towards the lamp, counter-clockwise from the right
    light_strength: float  # share of brightness lost from the lit to the far side
    exposure: float  # factor on all brightness
    tint: tuple[float, float, float]  # factor on red, green and blue: the white balance
    blur: float  # pixels, standard deviation of the lens blur
    sharpening: float  # share of the unsharp mask that is added, as cameras and archives do
    noise: float  # grey levels, standard deviation per pixel
    quality: int  # of the JPEG, 1 to 95
    background: str  # the ground under fragments: one of BACKGROUNDS, or of grounds.TEXTURED


def camera(seed: int) -> Camera:
    """Draw a camera from ``seed``."""
    generator = np.random.default_rng((301, seed))

    def between(low: float, high: float) -> float:
        return float(generator.uniform(low, high))

    return Camera(
        letter_height=between(34.0, 50.0),
        turn=between(-4.0, 4.0),
        light_direction=between(0.0, 360.0),
        light_strength=between(0.02, 0.22),
        exposure=between(0.86, 1.0),
        tint=(between(0.95, 1.05), 1.0, between(0.90, 1.06)),
        blur=between(0.45, 1.1),
        sharpening=between(0.0, 0.6),
        noise=between(0.8, 4.0),
        quality=int(generator.integers(72, 95)),
        background=str(generator.choice(BACKGROUNDS)),
    )


def photograph(camera: Camera, scene: NDArray[np.float32], generator: np.random.Generator) -> bytes:
    """Return the JPEG of a scene (height, width, 3) of red, green and blue between 0 and 1."""
    height, width = scene.shape[:2]
    angle = np.deg2rad(camera.light_direction)
    # distance along the light, -1 to 1 over the picture, as the sum of a row and a column
    column = np.linspace(-1.0, 1.0, width, dtype=np.float32) * np.float32(np.cos(angle))
    row = np.linspace(1.0, -1.0, height, dtype=np.float32)[:, None] * np.float32(np.sin(angle))
    light = camera.exposure * (1.0 + camera.light_strength / 2 * ((column + row) / np.float32(1.2) - 1.0))
    picture = np.asarray(scene * light[..., None], np.float32)
    picture *= np.array(camera.tint, np.float32)
    sharp = np.asarray(cv2.GaussianBlur(picture, (0, 0), camera.blur), np.float32)
    if camera.sharpening > 0.0:
        soft = cv2.GaussianBlur(sharp, (0, 0), 1.5)
        cv2.addWeighted(sharp, 1.0 + camera.sharpening, soft, -camera.sharpening, 0.0, dst=sharp)
    # the same grain in all colours: JPEG would discard most coloured grain
    grain = generator.standard_normal((height, width, 1), np.float32)
    sharp *= np.float32(255.0)
    sharp += grain * np.float32(camera.noise)
    levels = np.clip(sharp, 0.0, 255.0, out=sharp)
    # OpenCV takes blue first
    swapped = np.ascontiguousarray(np.rint(levels).astype(np.uint8)[..., ::-1])
    done, encoded = cv2.imencode(".jpg", swapped, [cv2.IMWRITE_JPEG_QUALITY, camera.quality])
    if not done:
        raise RuntimeError(f"cannot encode a picture of {width} by {height} pixels as JPEG")
    return bytes(encoded.tobytes())


def develop(jpeg: bytes) -> NDArray[np.uint8]:
    """Decode a photograph to (height, width, 3) RGB."""
    decoded = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)
