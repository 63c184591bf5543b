"""Logos, drawn and read: brands, views, crops, and files that cannot be read."""

import numpy as np
import pytest

image_module = pytest.importorskip("PIL.Image")

from experiments.drawn_logos import MARKS, draw_logos  # noqa: E402
from experiments.logos import read_flickr_logos  # noqa: E402


def test_drawn_brands_differ_more_than_their_views():
    logos = draw_logos(per_brand=3, size=16)
    assert len(set(logos.brands)) == 27
    assert len({(mark.shape, mark.colour, mark.plate) for mark in MARKS}) == 27
    pixels = logos.images.reshape(27, 3, -1).astype(float)
    within = pixels.std(axis=1).mean()
    assert 1 < within < pixels.mean(axis=1).std(axis=0).mean()
    again = draw_logos(per_brand=2, size=16).only(["sprite"])
    assert np.array_equal(again.images, logos.only(["sprite"]).images[:2])
    assert not np.array_equal(draw_logos(2, 16, seed=1).only(["sprite"]).images, again.images)


BOXES = """0.png Google 1 5 5 15 15
0.png Google 1 0 0 3 3
1.png Google 2 5 5 15 15
2.png Sprite 1 5 5 15 15
2.png Sprite 1 9 9 9 9
"""
"""The last box has no area, as some have none."""


@pytest.fixture
def flickr(tmp_path):
    """Write a folder of the layout of FlickrLogos-27: three images of two brands."""
    folder = tmp_path / "flickr_logos_27_dataset"
    (folder / "images").mkdir(parents=True)
    for k, colour in enumerate(("red", "green", "blue")):
        image = image_module.new("RGB", (40, 30), "white")
        image.paste(image_module.new("RGB", (10, 10), colour), (5, 5))
        image.save(folder / "images" / f"{k}.png")
    (folder / "flickr_logos_27_dataset_training_set_annotation.txt").write_text(BOXES)
    return folder


def test_flickr_logos_are_cropped_to_their_largest_box(flickr):
    logos = read_flickr_logos(flickr, size=8)
    assert logos.brands == ("google", "google", "sprite")
    assert logos.images.shape == (3, 8, 8, 3)
    np.testing.assert_array_equal(logos.images[:, 4, 4], [[255, 0, 0], [0, 128, 0], [0, 0, 255]])


def test_images_that_are_not_there_and_other_annotations_are_named(flickr, tmp_path):
    (flickr / "images" / "0.png").unlink()
    with pytest.raises(ValueError, match=r"1 of 3 images are not in .*: 0\.png"):
        read_flickr_logos(flickr)
    (flickr / "flickr_logos_27_dataset_training_set_annotation.txt").write_text("file,brand\n0.png,Google\n")
    with pytest.raises(ValueError, match=r"line 1: 'file,brand'; expected 'image\.jpg Brand subset x1 y1 x2 y2'"):
        read_flickr_logos(flickr)
    with pytest.raises(FileNotFoundError, match="expected one"):
        read_flickr_logos(tmp_path / "elsewhere")
