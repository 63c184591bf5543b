"""Drawn logos: a stand-in for FlickrLogos-27, made of simple shapes for 27 brands. Not the brands' own logos."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from experiments.logos import Logos
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


def _star(outer: float, inner: float) -> list[float]:
    points = [(outer if k % 2 == 0 else inner, 2 * math.pi * (k / 10)) for k in range(10)]
    return [each for r, turn in points for each in (0.5 + r * math.sin(turn), 0.4 - r * math.cos(turn))]


def _slices(box: list[float], first: float, angle: float, *fills: str | None) -> list[tuple[Any, ...]]:
    edges = [(first + angle * k, first + angle * (k + 1)) for k in range(len(fills))]
    return [
        ("pieslice", box, {"start": start, "end": end} | ({"fill": fill} if fill else {}))
        for (start, end), fill in zip(edges, fills, strict=True)
    ]


_CREST = [(x, 0.36 + 0.1 * math.sin(7 * x)) for x in np.linspace(0.08, 0.92, 24)]
_WAVE = [*_CREST, *[(x, y + 0.14) for x, y in reversed(_CREST)]]
_ROUND = [0.18, 0.08, 0.82, 0.72]
_STRIPES = [(0.18 + 0.22 * k, top) for k, top in enumerate((0.44, 0.28, 0.12))]

SHAPES: dict[str, list[tuple[Any, ...]]] = {
    "disc": [("ellipse", [0.22, 0.12, 0.78, 0.68])],
    "ring": [("outline", [0.15, 0.08, 0.85, 0.72])],
    "target": [("outline", _ROUND), ("ellipse", [0.38, 0.28, 0.62, 0.52])],
    "ellipse": [("outline", [0.18, 0.18, 0.82, 0.62], {"width": 2}), ("rectangle", [0.32, 0.36, 0.68, 0.44])],
    "stripes": [("polygon", [x, 0.68, x, y + 0.08, x + 0.15, y, x + 0.15, 0.68]) for x, y in _STRIPES],
    "slashes": [("polygon", [x + 0.12, 0.14, x + 0.22, 0.14, x + 0.06, 0.66, x - 0.04, 0.66]) for x in (0.3, 0.52)],
    "bars": [("rectangle", [0.14, y, 0.86, y + 0.1]) for y in (0.16, 0.34, 0.52)],
    "quarters": [
        ("pieslice", [0.2, 0.1, 0.8, 0.7], {"start": 0, "end": 90}),
        ("pieslice", [0.2, 0.1, 0.8, 0.7], {"start": 180, "end": 270}),
        ("outline", [0.12, 0.06, 0.88, 0.74], {"fill": "#111111"}),
    ],
    "pie": [
        *_slices([0.16, 0.06, 0.84, 0.74], -45, 90, None, "#ea4335", "#fbbc05", "#34a853"),
        ("ellipse", [0.36, 0.26, 0.64, 0.54], {"fill": "#ffffff"}),
    ],
    "halves": [
        ("pieslice", _ROUND, {"start": 200, "end": 380, "fill": "#e32934"}),
        ("pieslice", _ROUND, {"start": 20, "end": 200}),
    ],
    "fan": _slices([0.08, 0.1, 0.92, 0.94], 180, 30, "#fccc12", "#f37021", "#cc004c", None, "#0089d0", "#0db14b"),
    "chevrons": [
        ("polygon", [0.5, y, 0.84, y + 0.24, 0.84, y + 0.36, 0.5, y + 0.13, 0.16, y + 0.36, 0.16, y + 0.24])
        for y in (0.1, 0.38)
    ],
    "wave": [("polygon", [each for point in _WAVE for each in point])],
    "arrow": [
        ("polygon", [0.16, 0.32, 0.5, 0.32, 0.5, 0.14, 0.86, 0.4, 0.5, 0.66, 0.5, 0.48, 0.16, 0.48]),
    ],
    "triangle": [("polygon", [0.5, 0.1, 0.82, 0.68, 0.18, 0.68])],
    "star": [("polygon", _star(0.32, 0.13))],
    "arches": [("arc", [x, 0.12, x + 0.34, 1.1], {"start": 180, "end": 360, "width": 1}) for x in (0.16, 0.5)],
    "tick": [("polygon", [0.14, 0.4, 0.3, 0.66, 0.86, 0.2, 0.34, 0.5])],
    "diamond": [("polygon", [0.5, 0.08, 0.78, 0.4, 0.5, 0.72, 0.22, 0.4])],
    "crescent": [
        ("ellipse", [0.22, 0.1, 0.78, 0.66]),
        ("ellipse", [0.36, 0.06, 0.86, 0.56], {"fill": "#c0c0c0"}),
    ],
    "pair": [("ellipse", [0.14, 0.24, 0.48, 0.58]), ("ellipse", [0.52, 0.24, 0.86, 0.58])],
    "lemon": [
        ("ellipse", [0.26, 0.2, 0.74, 0.6]),
        ("polygon", [0.2, 0.4, 0.32, 0.3, 0.32, 0.5]),
        ("polygon", [0.8, 0.4, 0.68, 0.3, 0.68, 0.5]),
    ],
    "siren": [
        ("outline", [0.14, 0.1, 0.86, 0.7], {"width": 2}),
        ("polygon", _star(0.2, 0.09)),
        ("rectangle", [0.42, 0.48, 0.58, 0.62]),
    ],
    "cross": [("rectangle", [0.42, 0.12, 0.58, 0.68]), ("rectangle", [0.22, 0.32, 0.78, 0.48])],
    "drop": [
        ("ellipse", [0.3, 0.3, 0.66, 0.66]),
        ("polygon", [0.31, 0.44, 0.62, 0.12, 0.56, 0.34, 0.64, 0.42]),
    ],
    "exclamation": [
        ("polygon", [0.42, 0.08, 0.62, 0.08, 0.54, 0.5, 0.46, 0.5]),
        ("ellipse", [0.43, 0.56, 0.57, 0.7]),
    ],
}
"""What a shape is drawn of, around (0.5, 0.4), in coordinates from 0 to 1.

Each part is a method of the pen (`outline` for the outline of an ellipse), its points, and options; lines are as wide
as the standard width over `width`.
"""


def draw_logos(per_brand: int = 30, size: int = 64, seed: int = 0) -> Logos:
    """Draw `per_brand` views of each brand's mark.

    Views differ in position, scale, rotation, light and background. An image depends only on (seed, brand, number):
    asking for more images does not change the others.
    """
    views = [(mark, [seed, which, number]) for which, mark in enumerate(MARKS) for number in range(per_brand)]
    images = [_view(mark, size, np.random.default_rng(seeds)) for mark, seeds in views]
    return Logos(np.stack(images), tuple(mark.brand for mark, _ in views))


def _view(mark: Mark, size: int, rng: np.random.Generator) -> Images:
    """Draw one view of a mark: shifted, scaled and rotated on a pale background, in uneven light."""
    side = 2 * size  # drawn large and reduced, for smooth edges
    angle, scale = rng.uniform(-8, 8), rng.uniform(0.88, 1.0)
    shift = rng.uniform(-0.04, 0.04, size=2) * side
    placed = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    small = _mark(mark, side).resize((int(side * scale),) * 2, Image.Resampling.BICUBIC)
    x, y = (int((side - small.width) / 2 + offset) for offset in shift)
    placed.paste(small, (x, y))
    placed = placed.rotate(angle, Image.Resampling.BICUBIC)
    background = Image.new("RGBA", (side, side), (*rng.integers(215, 256, 3).tolist(), 255))
    background.alpha_composite(placed)
    pixels = np.asarray(background.convert("RGB").resize((size, size), Image.Resampling.BOX), float)
    across, down = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    slope, direction = rng.uniform(0, 0.1), rng.uniform(0, 2 * math.pi)
    light = rng.uniform(0.88, 1.0) + slope * (math.cos(direction) * across + math.sin(direction) * down)
    return np.clip(pixels * light[..., None], 0, 255).round().astype(np.uint8)


def _mark(mark: Mark, side: int) -> Any:
    """Draw a mark upright on a transparent square: plate, shape, and the brand's name below."""
    image = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    pen = ImageDraw.Draw(image)
    if mark.plate is not None:
        box = _scaled([0.06, 0.04, 0.94, 0.76], side)
        if mark.shape in ("ellipse", "siren", "quarters", "lemon"):
            pen.ellipse(box, fill=mark.plate)
        else:
            pen.rounded_rectangle(box, radius=side * 0.08, fill=mark.plate)
    for kind, points, *more in SHAPES[mark.shape]:
        options: dict[str, Any] = {"fill": mark.colour} | (more[0] if more else {})
        if kind in ("outline", "arc"):
            options["width"] = round(side * 0.07) // options.get("width", 1)
        if kind == "outline":
            pen.ellipse(_scaled(points, side), outline=options["fill"], width=options["width"])
        else:
            getattr(pen, kind)(_scaled(points, side), **options)
    ink = mark.plate if mark.plate not in (None, "#ffffff", "#fff200", "#f3e5ab") else mark.colour
    _word(pen, mark.brand, ink if ink != "#ffffff" else "#222222", side)
    return image


def _word(pen: Any, brand: str, colour: str | None, side: int) -> None:
    """Write a brand's name below its shape, at the largest size that fits."""
    font_size = side * 0.22
    width = pen.textlength(brand, font=ImageFont.load_default(font_size))
    font = ImageFont.load_default(font_size * min(1.0, 0.9 * side / width))
    pen.text((side / 2, side * 0.87), brand, font=font, fill=colour, anchor="mm")


def _scaled(points: Sequence[float], side: int) -> list[float]:
    return [each * side for each in points]
