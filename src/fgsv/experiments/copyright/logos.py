"""Logos with their brands: those of FlickrLogos-27, read from its folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.packages import optional
from fgsv.types import Images
from fgsv.words import option, some

VALUED = ("google", "sprite", "starbucks", "vodafone")
"""The four brands that the paper values; its model starts from the other 23."""

LINE = "image.jpg Brand subset x1 y1 x2 y2"
"""A line of the annotation file of FlickrLogos-27."""


@dataclass(frozen=True, eq=False)
class Logos:
    """Images with their brands: the players of the copyright game, or the images its model starts from."""

    images: Images
    """(n, height, width, 3) bytes."""
    brands: tuple[str, ...]
    """The brand of each image, in lower case."""

    def __len__(self) -> int:
        return len(self.images)

    def only(self, brands: Iterable[str], per_brand: int | None = None) -> Logos:
        """Return the images of these brands, in the order given, the first `per_brand` of each or all."""
        chosen: list[int] = []
        for brand in brands:
            own = [i for i, other in enumerate(self.brands) if other == brand]
            if not own:
                raise ValueError(
                    f"brand {brand!r} has no images; there are images of {', '.join(sorted(set(self.brands)))}"
                )
            if per_brand is not None and len(own) < per_brand:
                raise ValueError(f"brand {brand!r} has {len(own)} images, expected at least {per_brand}")
            chosen += own[:per_brand]
        return Logos(self.images[chosen], tuple(self.brands[i] for i in chosen))


def prompt(brand: str) -> str:
    """Return the paper's prompt for a brand.

    >>> prompt("google")
    'A logo by Google'
    """
    return f"A logo by {brand.title()}"


def read_flickr_logos(folder: str | Path, annotation: str | Path | None = None, size: int = 512) -> Logos:
    """Read FlickrLogos-27: the largest box of each annotated image, cropped and resized to size x size.

    `annotation` is the file of the training set, by default the one in `folder`; its lines are
    `image.jpg Brand subset x1 y1 x2 y2`. Images that cannot be read raise an error that counts and names them.
    """
    image_module: Any = optional("PIL.Image", "images", "diffusion")
    folder = Path(folder)
    path = _annotation_file(folder) if annotation is None else Path(annotation)
    boxes = _largest_boxes(path)
    places = {file.name: file for file in sorted(folder.rglob("*")) if file.is_file()}
    images, brands, unreadable = [], [], []
    for (name, brand), box in boxes.items():
        try:
            with image_module.open(places[name]) as image:
                crop = image.convert("RGB").crop(box).resize((size, size), image_module.Resampling.BICUBIC)
        except KeyError:
            unreadable.append(f"{name} (not in {folder})")
        except (OSError, ValueError) as error:
            unreadable.append(f"{name} ({error})")
        else:
            images.append(np.asarray(crop))
            brands.append(brand)
    if unreadable:
        raise ValueError(f"{len(unreadable)} of {len(boxes)} images cannot be read: {some(unreadable)}")
    return Logos(np.stack(images), tuple(brands))


def _annotation_file(folder: Path) -> Path:
    found = sorted(folder.rglob("*training_set_annotation.txt"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"{folder} has {len(found)} files named *training_set_annotation.txt, expected one; "
            f"name the file with {option('annotation', 'FILE')}"
        )
    return found[0]


def _largest_boxes(path: Path) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """Return the largest box of each image and brand, ignoring boxes without area."""
    boxes: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    areas: dict[tuple[str, str], int] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file; expected {LINE!r} in each line") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        words = line.split()
        try:
            name, brand, _subset, *corners = words
            x1, y1, x2, y2 = (int(corner) for corner in corners)
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: {line[:80]!r}; expected {LINE!r}, "
                "the annotation file of the FlickrLogos-27 training set"
            ) from None
        area = max(x2 - x1, 0) * max(y2 - y1, 0)
        key = (name, brand.lower())
        if area > areas.get(key, 0):
            areas[key] = area
            boxes[key] = (x1, y1, x2, y2)
    if not boxes:
        raise ValueError(f"{path} has no box with an area: nothing can be cropped")
    return boxes
