"""Drawn logos: a stand-in for FlickrLogos-27, made of simple shapes for 27 brands. Not the brands' own logos."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.experiments.copyright.logos import Logos
from fgsv.packages import optional
from fgsv.types import Images


@dataclass(frozen=True)
class Mark:
    """How a brand is drawn: a shape in one colour on a plate of another, above its name."""

    brand: str
    shape: str
    colour: str
    plate: str | None


MARKS = (
    Mark("adidas", "stripes", "#111111", None),
    Mark("apple", "disc", "#7a7a7a", None),
    Mark("bmw", "quarters", "#1c69d4", "#ffffff"),
    Mark("citroen", "chevrons", "#c8102e", None),
    Mark("cocacola", "wave", "#ffffff", "#e61a27"),
    Mark("dhl", "bars", "#d40511", "#ffcc00"),
    Mark("fedex", "arrow", "#ff6200", "#4d148c"),
    Mark("ferrari", "triangle", "#111111", "#fff200"),
    Mark("ford", "ellipse", "#ffffff", "#003399"),
    Mark("google", "pie", "#4285f4", None),
    Mark("heineken", "star", "#e2001a", "#007a33"),
    Mark("hp", "slashes", "#ffffff", "#0096d6"),
    Mark("intel", "ring", "#0068b5", None),
    Mark("mcdonalds", "arches", "#ffc72c", "#da291c"),
    Mark("mini", "target", "#222222", None),
    Mark("nbc", "fan", "#6460aa", None),
    Mark("nike", "tick", "#111111", "#f58220"),
    Mark("pepsi", "halves", "#004b93", None),
    Mark("porsche", "diamond", "#d5001c", "#f3e5ab"),
    Mark("puma", "crescent", "#111111", "#c0c0c0"),
    Mark("redbull", "pair", "#db0a40", "#ffc906"),
    Mark("sprite", "lemon", "#f8e71c", "#008b47"),
    Mark("starbucks", "siren", "#ffffff", "#00704a"),
    Mark("texaco", "star", "#ffffff", "#e4002b"),
    Mark("unicef", "cross", "#ffffff", "#1cabe2"),
    Mark("vodafone", "drop", "#ffffff", "#e60000"),
    Mark("yahoo", "exclamation", "#6001d2", None),
)


def draw_logos(per_brand: int = 30, size: int = 64, seed: int = 0, brands: Sequence[str] | None = None) -> Logos:
    """Draw `per_brand` views of each brand's mark, for all 27 brands or some of them.

    Views differ in position, scale, rotation, light and background. An image depends only on (seed, brand, number):
    asking for more images or fewer brands does not change the others.
    """
    marks = [mark for mark in MARKS if brands is None or mark.brand in brands]
    images = [
        _view(mark, size, np.random.default_rng([seed, MARKS.index(mark), number]))
        for mark in marks
        for number in range(per_brand)
    ]
    return Logos(np.stack(images), tuple(mark.brand for mark in marks for _ in range(per_brand)))


def _view(mark: Mark, size: int, rng: np.random.Generator) -> Images:
    """Draw one view of a mark: shifted, scaled and rotated on a pale background, in uneven light."""
    image_module = _pillow("Image")
    side = 2 * size  # drawn large and reduced, for smooth edges
    logo = _mark(mark, side)
    angle, scale = rng.uniform(-8, 8), rng.uniform(0.88, 1.0)
    shift = rng.uniform(-0.04, 0.04, size=2) * side
    placed = image_module.new("RGBA", (side, side), (0, 0, 0, 0))
    small = logo.resize((int(side * scale),) * 2, image_module.Resampling.BICUBIC)
    corner = tuple(int((side - small.width) / 2 + offset) for offset in shift)
    placed.paste(small, corner)
    placed = placed.rotate(angle, image_module.Resampling.BICUBIC)
    background = image_module.new("RGBA", (side, side), (*rng.integers(215, 256, 3).tolist(), 255))
    background.alpha_composite(placed)
    pixels = np.asarray(background.convert("RGB").resize((size, size), image_module.Resampling.BOX), float)
    across, down = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    slope, direction = rng.uniform(0, 0.1), rng.uniform(0, 2 * math.pi)
    light = rng.uniform(0.88, 1.0) + slope * (math.cos(direction) * across + math.sin(direction) * down)
    return np.clip(pixels * light[..., None], 0, 255).round().astype(np.uint8)


def _mark(mark: Mark, side: int) -> Any:
    """Draw a mark upright on a transparent square: plate, shape, and the brand's name below."""
    image_module, draw_module = _pillow("Image"), _pillow("ImageDraw")
    image = image_module.new("RGBA", (side, side), (0, 0, 0, 0))
    pen = draw_module.Draw(image)
    if mark.plate is not None:
        box = _box(side, 0.06, 0.04, 0.94, 0.76)
        if mark.shape in ("ellipse", "siren", "quarters", "lemon"):
            pen.ellipse(box, fill=mark.plate)
        else:
            pen.rounded_rectangle(box, radius=side * 0.08, fill=mark.plate)
    _shape(pen, mark.shape, mark.colour, side)
    ink = mark.plate if mark.plate not in (None, "#ffffff", "#fff200", "#f3e5ab") else mark.colour
    _word(pen, mark.brand, ink if ink != "#ffffff" else "#222222", side)
    return image


def _shape(pen: Any, shape: str, colour: str, side: int) -> None:
    """Draw a shape around (0.5, 0.4), in coordinates from 0 to 1."""

    def box(*corners: float) -> tuple[float, float, float, float]:
        return _box(side, *corners)

    def polygon(*points: tuple[float, float], fill: str = colour) -> None:
        pen.polygon([(x * side, y * side) for x, y in points], fill=fill)

    def around(radius: float, turn: float) -> tuple[float, float]:
        return 0.5 + radius * math.sin(2 * math.pi * turn), 0.4 - radius * math.cos(2 * math.pi * turn)

    thick = round(side * 0.07)
    match shape:
        case "disc":
            pen.ellipse(box(0.22, 0.12, 0.78, 0.68), fill=colour)
        case "ring":
            pen.ellipse(box(0.15, 0.08, 0.85, 0.72), outline=colour, width=thick)
        case "target":
            pen.ellipse(box(0.18, 0.08, 0.82, 0.72), outline=colour, width=thick)
            pen.ellipse(box(0.38, 0.28, 0.62, 0.52), fill=colour)
        case "ellipse":
            pen.ellipse(box(0.18, 0.18, 0.82, 0.62), outline=colour, width=thick // 2)
            pen.rectangle(box(0.32, 0.36, 0.68, 0.44), fill=colour)
        case "stripes":
            for k, top in enumerate((0.44, 0.28, 0.12)):
                x = 0.18 + 0.22 * k
                polygon((x, 0.68), (x, top + 0.08), (x + 0.15, top), (x + 0.15, 0.68))
        case "slashes":
            for x in (0.3, 0.52):
                polygon((x + 0.12, 0.14), (x + 0.22, 0.14), (x + 0.06, 0.66), (x - 0.04, 0.66))
        case "bars":
            for y in (0.16, 0.34, 0.52):
                pen.rectangle(box(0.14, y, 0.86, y + 0.1), fill=colour)
        case "quarters":
            pen.pieslice(box(0.2, 0.1, 0.8, 0.7), 0, 90, fill=colour)
            pen.pieslice(box(0.2, 0.1, 0.8, 0.7), 180, 270, fill=colour)
            pen.ellipse(box(0.12, 0.06, 0.88, 0.74), outline="#111111", width=thick)
        case "pie":
            colours = (colour, "#ea4335", "#fbbc05", "#34a853")
            for k, fill in enumerate(colours):
                pen.pieslice(box(0.16, 0.06, 0.84, 0.74), 90 * k - 45, 90 * k + 45, fill=fill)
            pen.ellipse(box(0.36, 0.26, 0.64, 0.54), fill="#ffffff")
        case "halves":
            pen.pieslice(box(0.18, 0.08, 0.82, 0.72), 200, 380, fill="#e32934")
            pen.pieslice(box(0.18, 0.08, 0.82, 0.72), 20, 200, fill=colour)
        case "fan":
            fills = ("#fccc12", "#f37021", "#cc004c", colour, "#0089d0", "#0db14b")
            for k, fill in enumerate(fills):
                pen.pieslice(box(0.08, 0.1, 0.92, 0.94), 180 + 30 * k, 210 + 30 * k, fill=fill)
        case "chevrons":
            for y in (0.1, 0.38):
                polygon(
                    (0.5, y),
                    (0.84, y + 0.24),
                    (0.84, y + 0.36),
                    (0.5, y + 0.13),
                    (0.16, y + 0.36),
                    (0.16, y + 0.24),
                )
        case "wave":
            crest = [(x, 0.36 + 0.1 * math.sin(7 * x)) for x in np.linspace(0.08, 0.92, 24)]
            polygon(*crest, *[(x, y + 0.14) for x, y in reversed(crest)])
        case "arrow":
            polygon((0.16, 0.32), (0.5, 0.32), (0.5, 0.14), (0.86, 0.4), (0.5, 0.66), (0.5, 0.48), (0.16, 0.48))
        case "triangle":
            polygon((0.5, 0.1), (0.82, 0.68), (0.18, 0.68))
        case "star":
            polygon(*(around(0.32 if k % 2 == 0 else 0.13, k / 10) for k in range(10)))
        case "arches":
            for x in (0.16, 0.5):
                pen.arc(box(x, 0.12, x + 0.34, 1.1), 180, 360, fill=colour, width=thick)
        case "tick":
            polygon((0.14, 0.4), (0.3, 0.66), (0.86, 0.2), (0.34, 0.5))
        case "diamond":
            polygon((0.5, 0.08), (0.78, 0.4), (0.5, 0.72), (0.22, 0.4))
        case "crescent":
            pen.ellipse(box(0.22, 0.1, 0.78, 0.66), fill=colour)
            pen.ellipse(box(0.36, 0.06, 0.86, 0.56), fill="#c0c0c0")
        case "pair":
            pen.ellipse(box(0.14, 0.24, 0.48, 0.58), fill=colour)
            pen.ellipse(box(0.52, 0.24, 0.86, 0.58), fill=colour)
        case "lemon":
            pen.ellipse(box(0.26, 0.2, 0.74, 0.6), fill=colour)
            polygon((0.2, 0.4), (0.32, 0.3), (0.32, 0.5))
            polygon((0.8, 0.4), (0.68, 0.3), (0.68, 0.5))
        case "siren":
            pen.ellipse(box(0.14, 0.1, 0.86, 0.7), outline=colour, width=thick // 2)
            polygon(*(around(0.2 if k % 2 == 0 else 0.09, k / 10) for k in range(10)))
            pen.rectangle(box(0.42, 0.48, 0.58, 0.62), fill=colour)
        case "cross":
            pen.rectangle(box(0.42, 0.12, 0.58, 0.68), fill=colour)
            pen.rectangle(box(0.22, 0.32, 0.78, 0.48), fill=colour)
        case "drop":
            pen.ellipse(box(0.3, 0.3, 0.66, 0.66), fill=colour)
            polygon((0.31, 0.44), (0.62, 0.12), (0.56, 0.34), (0.64, 0.42))
        case "exclamation":
            polygon((0.42, 0.08), (0.62, 0.08), (0.54, 0.5), (0.46, 0.5))
            pen.ellipse(box(0.43, 0.56, 0.57, 0.7), fill=colour)
        case _:
            raise ValueError(f"unknown shape {shape!r}")


def _word(pen: Any, brand: str, colour: str | None, side: int) -> None:
    """Write a brand's name below its shape, at the largest size that fits."""
    fonts = _pillow("ImageFont")
    font_size = side * 0.22
    width = pen.textlength(brand, font=fonts.load_default(font_size))
    font = fonts.load_default(font_size * min(1.0, 0.9 * side / width))
    pen.text((side / 2, side * 0.87), brand, font=font, fill=colour, anchor="mm")


def _box(side: int, *corners: float) -> tuple[float, float, float, float]:
    left, top, right, bottom = (corner * side for corner in corners)
    return left, top, right, bottom


def _pillow(module: str) -> Any:
    return optional(f"PIL.{module}", "images", "diffusion")
