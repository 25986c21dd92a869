"""Koordinator's shipped descheduler configuration loads unchanged.

The samples are not part of the project; KOORDPY_SAMPLES names their folder.
"""

import os
from pathlib import Path

import pytest

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.catalogue import installed
from koordpy.descheduling.config.loading import load
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.engine.framework import GROUP
from koordpy.descheduling.interface import Plugin
from koordpy.lib import duration
from koordpy_plugins.descheduling.defaultevictor.plugin import DefaultEvictor
from koordpy_plugins.descheduling.lownodeload.plugin import LowNodeLoad
from koordpy_plugins.descheduling.migrationcontroller.plugin import MigrationController

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")
SHIPPED = SAMPLES / "koordinator" / "descheduler-config.yaml"


@pytest.mark.skipif(not SHIPPED.is_file(), reason=f"{SHIPPED} is not there; KOORDPY_SAMPLES names its folder")
def test_the_shipped_file_runs_unchanged() -> None:
    config = load(SHIPPED.read_text())
    assert config.descheduling_interval == 10 * duration.SECOND
    assert [line.partition(" ")[0] for line in config.without_effect] == [
        "enableProfiling",
        "enableContentionProfiling",
        "healthzBindAddress",
        "metricsBindAddress",
    ]
    (framework,) = Descheduler(config, installed(), Cluster()).frameworks
    assert isinstance(framework.evict_plugin, MigrationController)
    assert framework.evict_plugin.args.evictions_per_second == 10
    assert framework.deschedule_plugins == []
    assert framework.balance_plugins == []


def test_a_plugin_that_koordinator_does_not_have_either_is_refused() -> None:
    text = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
profiles:
  - name: p
    plugins:
      balance: {enabled: [{name: LowNodeLoads}]}
"""
    catalogue = Catalogue.of(GROUP, Plugin, [LowNodeLoad, DefaultEvictor])
    with pytest.raises(
        ConfigError, match=r'BalancePlugin "LowNodeLoads" does not exist; .* did you mean LowNodeLoad'
    ):
        Descheduler(load(text), catalogue, Cluster())
