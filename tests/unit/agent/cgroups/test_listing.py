import os

import pytest

from koordpy.agent.cgroups.listing import LONGEST_SECONDS, Listings


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def tree(tmp_path):
    for name in ("b/x", "b/y", "a/z/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    return tmp_path


def paths(listings, top, depth=2):
    return [name for name, _ in listings.below(str(top), "top", depth)]


def test_folders_are_listed_with_their_depth_in_order(tree):
    found = Listings().below(str(tree), "top", 2)
    assert found == (
        ("top", 0),
        ("top/a", 1),
        ("top/a/z", 2),
        ("top/b", 1),
        ("top/b/x", 2),
        ("top/b/y", 2),
    )
    assert paths(Listings(), tree, 0) == ["top"]
    assert Listings().below(str(tree), "", 1) == (("", 0), ("a", 1), ("b", 1))


@pytest.mark.parametrize("change", ["b/new", "a/new", "new"])
def test_a_new_folder_is_seen_at_once(tree, change):
    listings = Listings(Time())
    before = paths(listings, tree)
    (tree / change).mkdir()
    assert sorted(paths(listings, tree)) == sorted([*before, f"top/{change}"])


def test_a_folder_that_is_gone_is_left_out(tree):
    listings = Listings(Time())
    assert "top/b/x" in paths(listings, tree)
    (tree / "b" / "x").rmdir()
    assert "top/b/x" not in paths(listings, tree)


def test_a_listing_whose_folders_do_not_change_is_not_made_again(tree, monkeypatch):
    time = Time()
    listings = Listings(time)
    first = listings.below(str(tree), "top", 2)
    assert listings.below(str(tree), "top", 2) is first
    time.now += LONGEST_SECONDS
    again = listings.below(str(tree), "top", 2)
    assert again == first
    assert again is not first


def test_a_folder_replaced_by_another_one_is_seen_when_the_listing_is_too_old(tree):
    time = Time()
    listings = Listings(time)
    paths(listings, tree)
    stamp = (tree / "b").stat()
    (tree / "b" / "x").rmdir()
    (tree / "b" / "w").mkdir()
    os.utime(tree / "b", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # a cgroup has no time of change
    time.now += LONGEST_SECONDS
    assert "top/b/w" in paths(listings, tree)


def test_a_file_system_that_does_not_count_folders_is_listed_each_time(tree, monkeypatch):
    real = os.stat

    def uncounted(path, **kwargs):
        found = real(path, **kwargs)
        return os.stat_result([*found[:3], 1, *found[4:]])

    monkeypatch.setattr(os, "stat", uncounted)
    listings = Listings(Time())
    assert listings.below(str(tree), "top", 2) is not listings.below(str(tree), "top", 2)


@pytest.mark.parametrize("depth", [0, 1])
def test_no_folder_at_the_top_is_an_error(tree, depth):
    with pytest.raises(FileNotFoundError):
        Listings().below(str(tree / "none"), "none", depth)
    with pytest.raises(NotADirectoryError):
        Listings().below(str(tree / "file"), "file", depth)


def test_unused_listings_are_forgotten(tree):
    time = Time()
    listings = Listings(time)
    first = listings.below(str(tree), "top", 2)
    listings.collect()
    assert listings.below(str(tree), "top", 2) is first
    time.now += LONGEST_SECONDS
    listings.collect()
    time.now -= LONGEST_SECONDS
    assert listings.below(str(tree), "top", 2) is not first
