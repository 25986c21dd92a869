import shutil
from importlib import metadata
from pathlib import Path

import pytest

from koordpy.lib.entry_points import distribution_name, entry_points

GROUP = "koordpy.testing-entry-points"


def install(site: Path, distribution: str) -> Path:
    info = site / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{distribution} = {distribution}:Plugin\n")
    return info


def names() -> list[str]:
    return sorted(point.name for point in entry_points(GROUP))


def test_what_is_installed_or_removed_meanwhile_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names() == []
    ladder = install(tmp_path, "ladder")
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == ["ladder"]
    install(tmp_path, "stairs")
    assert names() == ["ladder", "stairs"]
    assert {distribution_name(point) for point in entry_points(GROUP)} == {"ladder", "stairs"}
    shutil.rmtree(ladder)
    assert names() == ["stairs"]


def test_they_are_read_once_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    known = entry_points("koordpy.scheduling")
    assert {"LoadAwareScheduling", "Reservation"} <= {point.name for point in known}
    assert {distribution_name(point) for point in known} == {"koordpy"}

    def read_again(**_: str) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(metadata, "entry_points", read_again)
    assert entry_points("koordpy.scheduling") is known


def test_a_point_of_no_distribution_has_no_name() -> None:
    assert distribution_name(metadata.EntryPoint("a", "b:c", GROUP)) == ""
