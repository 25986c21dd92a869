"""What the doctor says of slo-controller-config, and of what the SLO controllers work with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import resource_of
from koordpy.doctor.finding import Finding, State
from koordpy.features.feature import Part
from tests.integration.doctor.clinic import Clinic, ago, clinic, metric
from tests.integration.worker.stage import create

NAME = "slo-controller-config"


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Clinic]:
    async with clinic(tmp_path) as made:
        made.parts = (Part.CONTROLLERS,)
        yield made


async def configure(it: Clinic, **data: str) -> None:
    sections = {name.replace("_", "-"): text for name, text in data.items()}
    document = {"metadata": {"name": NAME, "namespace": "koordinator-system"}, "data": sections}
    await it.client.create_raw(resource_of(ConfigMap), "koordinator-system", document)


async def findings(it: Clinic) -> list[Finding]:
    report = await it.examine()
    return [found for found in report.findings if found.area == "colocation" and found.state is not State.OK]


async def test_sections_that_cannot_be_read_are_problems(it: Clinic) -> None:
    await configure(it, cpu_burst_config="{", colocation_config='{"cpuReclaimThresholdPercent":-1}')
    burst, colocation = await findings(it)
    assert (burst.state, colocation.state) == (State.PROBLEM, State.PROBLEM)
    assert burst.message.startswith("cpu-burst-config: ")
    assert "cpu_reclaim_threshold_percent: got -1" in colocation.message


async def test_nodes_without_a_fresh_report_are_named(it: Clinic) -> None:
    await configure(it, colocation_config='{"enable":true}')
    for name in ("colocated-new", "colocated-old"):
        await it.client.create_raw(resource_of(Node), "", {"metadata": {"name": name}})
    for name, age in (("colocated-new", 10), ("colocated-old", 3600)):
        document = metric(name, ago(age))
        await create(it.client, resource_of(NodeMetric), document, document.pop("status"))
    [found] = await findings(it)
    assert found.state is State.PROBLEM
    assert "colocated-old" in found.message
    assert "colocated-new" not in found.message


async def test_best_effort_pods_without_colocation_are_a_warning(it: Clinic) -> None:
    await configure(it, colocation_config='{"enable":false}')
    assert await findings(it) == []
    labels = {"koordinator.sh/qosClass": "BE"}
    document = {
        "metadata": {"name": "batch", "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await it.client.create_raw(resource_of(Pod), "default", document)
    [found] = await findings(it)
    assert found.state is State.WARNING
    assert "default/batch" in found.message
