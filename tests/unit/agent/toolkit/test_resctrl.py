from pathlib import Path

import pytest

from koordpy.agent.toolkit import resctrl


@pytest.mark.parametrize(
    ("cbm", "start", "end", "mask"),
    [(0x3FF, 10, 80, 0xFE), (0x7FF, 10, 50, 0x3C), (0x7FF, 0, 30, 0xF), (0xFFFFFFFF, 0, 100, 0xFFFFFFFF)],
)
def test_masks_cover_whole_ways(cbm: int, start: int, end: int, mask: int) -> None:
    assert resctrl.cache_mask(cbm, start, end) == mask


@pytest.mark.parametrize(
    ("cbm", "start", "end", "message"),
    [(0b1011, 0, 100, "low ones"), (0xFF, 50, 50, "start < end"), (0xFF, 0, 101, "end <= 100")],
)
def test_impossible_ranges_and_masks_are_refused(cbm: int, start: int, end: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resctrl.cache_mask(cbm, start, end)


@pytest.mark.parametrize(
    ("percent", "vendor", "value"),
    [
        (100, resctrl.AMD, 2048),
        (42, resctrl.AMD, 67),
        (42, resctrl.INTEL, 50),
        (40, "HygonGenuine", 40),
        (0, resctrl.INTEL, None),
        (101, resctrl.INTEL, None),
        (None, resctrl.INTEL, None),
    ],
)
def test_bandwidth_is_in_the_vendors_unit(percent: int | None, vendor: str, value: int | None) -> None:
    assert resctrl.class_bandwidth(percent, vendor) == value


def test_a_pods_annotation_has_exceptions_for_single_caches() -> None:
    wanted = resctrl.read_annotation(
        '{"llc": {"schemata": {"range": [0, 50]}, "schemataPerCache": [{"cacheID": 1, "range": [0, 100]}]},'
        ' "mb": {"schemata": {"percent": 30}}}'
    )
    text = resctrl.pod_schemata(wanted, 0xFF, resctrl.INTEL, (0, 1))
    assert text == "L3:0=f;1=ff;\nMB:0=30;1=30;\n"


def test_an_annotation_that_is_no_object_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.read_annotation('{"llc": 3}')


def test_the_files_of_the_kernel_are_read(tmp_path: Path) -> None:
    files = resctrl.ResctrlFiles(tmp_path)
    assert not files.is_mounted
    (tmp_path / "info" / "L3").mkdir(parents=True)
    files.cbm_file.write_text("7ff\n")
    (tmp_path / "schemata").write_text("    MB:0=100;8=100\n    L3:0=7ff;8=7ff\nL3CODE:x\n")
    (tmp_path / "BE").mkdir()
    (tmp_path / "BE" / "tasks").write_text("12\n7\n")
    assert files.is_mounted
    assert (files.cbm(), files.cache_ids(), files.tasks("BE")) == (0x7FF, (0, 8), {7, 12})


def test_processors_are_read_up_to_the_first_ones_flags(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: cat_l3 mba\nprocessor\t: 1\nflags\t: none\n"
    )
    found = resctrl.processors(tmp_path)
    assert (found.vendor, found.can_allocate, found.can_monitor) == (resctrl.AMD, True, False)
