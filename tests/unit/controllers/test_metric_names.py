"""Names of the SLO controllers' metrics, as koord-manager has them: without `_total`."""

import pytest

from koordpy.controllers.slo import metrics
from koordpy.lib.exposition import exposition


@pytest.mark.parametrize(
    "name",
    [
        "node_resource_reconcile_count",
        "nodemetric_reconcile_count",
        "nodemetric_spec_parse_count",
        "nodeslo_reconcile_count",
        "nodeslo_spec_parse_count",
        "node_resource_run_plugin_status",
        "node_extended_resource_allocatable_internal",
    ],
)
def test_a_metric_has_koord_managers_name(name):
    assert metrics.PLUGIN_RUNS is not None  # all are registered
    lines = exposition(("slo_controller_",)).decode().splitlines()
    assert f"# TYPE slo_controller_{name} gauge" in lines
