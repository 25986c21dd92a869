from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.config_model import ConfigError
from koordpy.descheduling.config.loading import load
from koordpy.descheduling.engine.completed import completed

BASE = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}


def of(tmp_path: Path, **fields: Any) -> dict[str, Any]:
    file = tmp_path / "descheduler.yaml"
    file.write_text(yaml.safe_dump(BASE | fields))
    return completed(file)


def test_without_a_file_it_is_koordinators_default() -> None:
    document = completed()
    (profile,) = document["profiles"]
    assert profile["name"] == "koord-descheduler"
    assert profile["plugins"] == {
        "deschedule": {},
        "balance": {},
        "evict": {"enabled": [{"name": "MigrationController"}]},
        "filter": {"enabled": [{"name": "MigrationController"}]},
    }
    (entry,) = profile["pluginConfig"]
    assert entry["args"]["kind"] == "MigrationControllerArgs"
    assert entry["args"]["objectLimiters"] == {"workload": {"duration": "5m0s"}}


def test_it_has_the_plugins_that_run_with_the_arguments_in_effect(tmp_path: Path) -> None:
    document = of(
        tmp_path,
        deschedulingInterval="1h",
        profiles=[
            {
                "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}, {"name": "RemoveDuplicates"}]}},
                "pluginConfig": [
                    {"name": "RemoveDuplicates", "args": {"excludeOwnerKinds": ["Job"]}},
                    {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 1}},
                ],
            }
        ],
    )
    (profile,) = document["profiles"]
    assert [entry["name"] for entry in profile["pluginConfig"]] == [
        "LowNodeLoad",
        "MigrationController",
        "RemoveDuplicates",
    ]
    balance, _, duplicates = (entry["args"] for entry in profile["pluginConfig"])
    assert balance["detectorCacheTimeout"] == "1h0m0s"
    assert duplicates == {"excludeOwnerKinds": ["Job"]}


def test_what_it_returns_is_a_configuration(tmp_path: Path) -> None:
    profiles = [
        {
            "plugins": {"balance": {"enabled": [{"name": "FragmentationAware"}]}},
            "proof": {"window": "30m"},
        }
    ]
    document = of(tmp_path, profiles=profiles)
    again = load(yaml.safe_dump(document)).written()
    assert again == document


def test_a_configuration_that_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r'descheduler\.yaml: creating profile .* BalancePlugin "Nobody" does not exist'
    ):
        of(tmp_path, profiles=[{"plugins": {"balance": {"enabled": [{"name": "Nobody"}]}}}])
