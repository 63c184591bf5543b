"""Logos with their brands: those of FlickrLogos-27, read from its folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from fgsv.types import Images
from fgsv.words import some

VALUED = ("google", "sprite", "starbucks", "vodafone")
"""The four brands that the paper values; its model starts from the other 23."""

LINE = "image.jpg Brand subset x1 y1 x2 y2"
"""A line of the annotation file of FlickrLogos-27."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Logos:
    """Images with their brands: the players of the copyright game, or the images its model starts from."""

    images: Images
    """(n, height, width, 3) bytes."""
    brands: tuple[str, ...]
    """The brand of each image, in lower case."""

    def only(self, brands: Iterable[str], per_brand: int | None = None) -> Logos:
        """Return the images of these brands, in the order given, the first `per_brand` of each or all."""
        chosen: list[int] = []
        for brand in brands:
            own = [i for i, other in enumerate(self.brands) if other == brand]
            if len(own) < (per_brand or 1):
                raise ValueError(f"brand {brand!r} has {len(own)} images, expected at least {per_brand or 1}")
            chosen += own[:per_brand]
        return Logos(self.images[chosen], tuple(self.brands[i] for i in chosen))


def prompt(brand: str) -> str:
    """Return the paper's prompt for a brand.

    >>> prompt("google")
    'A logo by Google'
    """
    return f"A logo by {brand.title()}"


def read_flickr_logos(folder: Path, size: int = 512) -> Logos:
    """Read FlickrLogos-27: the largest box of each annotated image, cropped and resized to size x size."""
    found = sorted(folder.rglob("*training_set_annotation.txt"))
    if len(found) != 1:
        raise FileNotFoundError(f"{folder} has {len(found)} files *training_set_annotation.txt, expected one")
    boxes = _largest_boxes(found[0])
    places = {file.name: file for file in sorted(folder.rglob("*"))}
    missing = [name for name, _ in boxes if name not in places]
    if missing:
        raise ValueError(f"{len(missing)} of {len(boxes)} images are not in {folder}: {some(missing)}")
    images = []
    for (name, _), box in boxes.items():
        with Image.open(places[name]) as image:
            images.append(np.asarray(image.convert("RGB").crop(box).resize((size, size), Image.Resampling.BICUBIC)))
    return Logos(np.stack(images), tuple(brand for _, brand in boxes))


def _largest_boxes(path: Path) -> dict[tuple[str, str], Box]:
    """Return the largest box of each image and brand, ignoring boxes without area."""

    def area(box: Box) -> int:
        return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)

    boxes: dict[tuple[str, str], Box] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            name, brand, _subset, *corners = line.split()
            x1, y1, x2, y2 = map(int, corners)
        except ValueError:
            raise ValueError(f"{path}, line {number}: {line[:80]!r}; expected {LINE!r}") from None
        key = (name, brand.lower())
        boxes[key] = max(boxes.get(key, (0, 0, 0, 0)), (x1, y1, x2, y2), key=area)
    return {key: box for key, box in boxes.items() if area(box)}
