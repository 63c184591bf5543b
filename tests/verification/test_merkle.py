"""Merkle trees against the definition in RFC 6962 and the vectors of Certificate Transparency."""

from hashlib import sha256

import pytest

from fgsv.verification.merkle import Tree, root_of_path

LEAVES = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
LEAVES.append(bytes.fromhex("606162636465666768696a6b6c6d6e6f"))
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def by_definition(leaves):
    """Return the root as RFC 6962 writes it: split at the largest power of two below n."""
    n = len(leaves)
    if n < 2:
        return sha256(b"\0" + leaves[0]).digest() if n else sha256().digest()
    k = 1 << (n - 1).bit_length() - 1
    return sha256(b"\1" + by_definition(leaves[:k]) + by_definition(leaves[k:])).digest()


@pytest.mark.parametrize(("n", "root"), ROOTS.items())
def test_the_known_roots_of_small_trees(n, root):
    assert Tree(LEAVES[:n]).root.hex() == root == by_definition(LEAVES[:n]).hex()


def test_known_inclusion_proofs():
    path = [each.hex()[:8] for each in Tree(LEAVES).path(5)]
    assert path == ["bc1a0643", "ca854ea1", "d37ee418"]
    assert [each.hex()[:8] for each in Tree(LEAVES[:3]).path(2)] == ["fac54203"]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 31, 32, 33, 100])
def test_every_leaf_is_proved_and_nothing_else(n):
    leaves = [number.to_bytes(2, "big") for number in range(n)]
    tree = Tree(leaves)
    assert tree.root == by_definition(leaves)
    for number, leaf in enumerate(leaves):
        path = tree.path(number)
        assert root_of_path(leaf, number, n, path) == tree.root
        assert root_of_path(b"other", number, n, path) != tree.root
        assert root_of_path(leaf, (number + 1) % n, n, path) != tree.root or n == 1
        assert root_of_path(leaf, number, n, [*path, tree.root]) is None
        assert not path or root_of_path(leaf, number, n, path[:-1]) is None
        assert root_of_path(leaf, n, n, path) is None
    with pytest.raises(IndexError, match=f"{n} leaves"):
        tree.path(n)
