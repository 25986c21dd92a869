"""`koordpy colocate explain`: the resources of a node with the terms of their formulas."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from koordpy.api.core import ConfigMap, Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from tests.integration.doctor.clinic import Clinic, ago, clinic
from tests.integration.worker.stage import create

CONFIG = '{"enable":true,"cpuReclaimThresholdPercent":60,"memoryReclaimThresholdPercent":65}'


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Clinic]:
    async with clinic(tmp_path) as made:
        yield made


async def explained(it: Clinic, *arguments: str) -> Result:
    command = ["colocate", "explain", *arguments, "--server", it.server.url]
    return await asyncio.to_thread(CliRunner().invoke, cli, command)


async def test_formulas_are_shown_with_what_the_node_has(it: Clinic) -> None:
    config = {"metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"}}
    await create(it.client, resource_of(ConfigMap), {**config, "data": {"colocation-config": CONFIG}})
    amounts = {"cpu": "10", "memory": "20Gi", "pods": "110", "kubernetes.io/batch-cpu": "4000"}
    node = {"capacity": amounts, "allocatable": amounts}
    await create(it.client, resource_of(Node), {"metadata": {"name": "n9"}}, node)
    system = {"resources": {"cpu": "1", "memory": "2Gi"}}
    report = {"updateTime": ago(5), "nodeMetric": {"nodeUsage": system, "systemUsage": system}}
    await create(it.client, resource_of(NodeMetric), {"metadata": {"name": "n9"}}, report)
    shown = await explained(it, "n9")
    assert shown.exit_code == 0, shown.output
    assert "node n9: colocation on, last report" in shown.output
    assert "kubernetes.io/batch-cpu: 5k (the node has 4k)" in shown.output
    assert "batchAllocatable[CPU(Milli-Core)]:5000 = nodeCapacity:10000 - nodeSafetyMargin:4000" in "".join(
        shown.output.split("\n")
    )
    assert "status would be written: " in shown.output


async def test_a_node_that_is_as_it_should_be_is_not_due(it: Clinic) -> None:
    amounts = {"cpu": "10", "memory": "20Gi", "pods": "110"}
    await create(
        it.client,
        resource_of(Node),
        {"metadata": {"name": "n9"}},
        {"capacity": amounts, "allocatable": amounts},
    )
    config = {"metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"}}
    await create(it.client, resource_of(ConfigMap), {**config, "data": {"colocation-config": CONFIG}})
    shown = await explained(it, "n9")
    assert shown.exit_code == 0, shown.output
    assert "node n9: colocation on" in shown.output
    assert "status would be written" not in shown.output


async def test_a_node_that_does_not_exist_is_an_error(it: Clinic) -> None:
    shown = await explained(it, "nowhere")
    assert shown.exit_code != 0
    assert "node nowhere does not exist" in shown.output
