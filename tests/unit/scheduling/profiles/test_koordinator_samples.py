"""Koordinator's shipped scheduler configuration loads unchanged.

The samples are not part of the project; KOORDPY_SAMPLES names their folder.
"""

import os
from pathlib import Path

import pytest

from koordpy.api.config_model import ConfigError, without_effect
from koordpy.scheduling.interface import Bind, Filter
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build

from ..worlds import world

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES") or Path(__file__).parents[5] / "shared" / "samples")
SHIPPED = SAMPLES / "koordinator" / "scheduler-config.yaml"

pytestmark = pytest.mark.skipif(
    not SHIPPED.is_file(), reason=f"{SHIPPED} is not there; KOORDPY_SAMPLES names its folder"
)


def built(*, skip_missing: bool) -> Profiles:
    cluster = world([])
    return build(
        config.load(SHIPPED),
        lambda _: Handle(cluster),
        place=Place.EXTENDER,
        skip_missing=skip_missing,
    )


@pytest.mark.parametrize("skip_missing", [True, False])
def test_the_shipped_file_runs_the_installed_plugins_in_its_order(skip_missing: bool) -> None:
    profiles = built(skip_missing=skip_missing)
    assert not profiles.missing
    enabled = profiles.frameworks["koord-scheduler"].enabled
    filters = [name for name, _ in enabled.at("filter", Filter)]
    plugins = ["LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Reservation"]
    assert [name for name in filters if name in plugins] == plugins
    assert [name for name, _ in enabled.at("bind", Bind)][-1] == "DefaultBinder"
    weights = profiles.frameworks["koord-scheduler"].weights
    assert weights == {
        "LoadAwareScheduling": 1,
        "NodeNUMAResource": 1,
        "DeviceShare": 1,
        "Reservation": 5000,
        "Coscheduling": 1,
    }


def test_fields_of_the_shipped_file_without_effect_are_named() -> None:
    assert list(without_effect(config.load(SHIPPED), config.EXTENDER)) == [
        "leaderElection has no effect: the settings extender.leaderElect and extender.lease decide"
    ]
    assert list(without_effect(config.load(SHIPPED))) == []


def test_an_unknown_plugin_makes_the_file_invalid(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(SHIPPED.read_text().replace("name: DeviceShare", "name: DeviceShares"))
    with pytest.raises(ConfigError) as caught:
        build(config.load(file), lambda _: Handle(world([])), place=Place.EXTENDER)
    assert 'got "DeviceShares"' in caught.value.problems[0]
