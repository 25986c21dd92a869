import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from koordpy.lib.published_folder import publish, read

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
OLD = {"a": b"1", "b": b"2"}
NEW = {"a": b"3", "b": b"4"}


def data_folders(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir() and not path.is_symlink())


def test_names_are_links_through_one_link_to_a_folder_with_a_time_in_its_name(tmp_path: Path) -> None:
    assert publish(tmp_path / "new" / "folder", OLD, NOW)
    folder = tmp_path / "new" / "folder"
    assert {name: (folder / name).readlink() for name in OLD} == {name: Path("..data", name) for name in OLD}
    assert data_folders(folder) == [str((folder / "..data").readlink())]
    assert data_folders(folder)[0].startswith("..2026_11_21_14_00_00.")
    assert stat.S_IMODE((folder / data_folders(folder)[0]).stat().st_mode) == 0o755
    assert read(folder, OLD) == OLD


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    assert publish(tmp_path, OLD, NOW)
    before = (tmp_path / "..data").readlink()
    assert not publish(tmp_path, OLD, NOW)
    assert (tmp_path / "..data").readlink() == before


def test_contents_are_swapped_and_the_old_ones_go(tmp_path: Path) -> None:
    publish(tmp_path, OLD, NOW)
    assert publish(tmp_path, NEW, NOW)
    assert read(tmp_path, NEW) == NEW
    assert len(data_folders(tmp_path)) == 1


@pytest.mark.parametrize("same", [True, False])
def test_files_that_have_the_names_are_replaced_and_others_stay(tmp_path: Path, same: bool) -> None:
    (tmp_path / "a").write_bytes(OLD["a"])
    (tmp_path / "b").write_bytes(OLD["b"] if same else b"x")
    (tmp_path / "mine").write_bytes(b"y")
    assert publish(tmp_path, OLD, NOW)
    assert (tmp_path / "a").is_symlink()
    assert read(tmp_path, (*OLD, "mine")) == {**OLD, "mine": b"y"}


def test_leftovers_of_a_process_that_died_are_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "..2020_01_01_00_00_00.x").mkdir()
    (tmp_path / "..data.tmp").symlink_to("nowhere")
    (tmp_path / "..2020_notes").write_bytes(b"no folder")
    publish(tmp_path, OLD, NOW)
    assert len(data_folders(tmp_path)) == 1
    assert (tmp_path / "..2020_notes").exists()
    assert not (tmp_path / "..data.tmp").is_symlink()


def test_private_files_are_their_owners_alone(tmp_path: Path) -> None:
    publish(tmp_path, OLD, NOW, private={"b"})
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in OLD}
    assert modes["b"] == 0o600
    assert modes["a"] & 0o400


def test_names_that_are_missing_are_left_out(tmp_path: Path) -> None:
    publish(tmp_path, {"a": b"1"}, NOW)
    assert read(tmp_path, ("z", "a")) == {"a": b"1"}
