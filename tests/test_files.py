"""Files are written whole or not at all."""

import pytest

from fgsv.files import write_whole


def test_a_file_is_whole_or_not_there(tmp_path):
    path = write_whole(tmp_path / "a.txt", "one\n")
    assert path.read_bytes() == b"one\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", "two\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "folder"]
