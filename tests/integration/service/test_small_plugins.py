"""SchedulingHint, ScarceResourceAvoidance and NodeResourcesFitPlus, asked by a scheduler over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Node
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import Stage, serving, until

HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: SchedulingHint}]}
    preScore: {enabled: [{name: ScarceResourceAvoidance}, {name: NodeResourcesFitPlus}]}
    score:
      enabled: [{name: ScarceResourceAvoidance, weight: 100}, {name: NodeResourcesFitPlus, weight: 10}]
  pluginConfig:
  - name: ScarceResourceAvoidance
    args: {kind: ScarceResourceAvoidanceArgs, resources: [example.com/gpu]}
  - name: NodeResourcesFitPlus
    args:
      kind: NodeResourcesFitPlusArgs
      resources: {cpu: {type: MostAllocated, weight: 1}}
"""


async def three_nodes(stage: Stage) -> None:
    for name in ("gpu", "small", "large"):
        await stage.add_node(name, cpu="8" if name == "large" else "4")
    status = {"status": {"allocatable": {"example.com/gpu": "8"}, "capacity": {"example.com/gpu": "8"}}}
    await stage.client.patch_status(Node, "", "gpu", status)
    nodes = stage.process.cluster.nodes
    await until(lambda: len(nodes) == 3 and nodes.resources.get("example.com/gpu") is not None)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (None, "small"),
        ({"nodeNames": ["gpu"]}, "gpu"),
        ({"preferredNodeNames": ["unknown", "large"]}, "large"),
        ({"nodeNames": ["gpu", "large"], "preferredNodeNames": ["small"]}, "large"),
    ],
)
async def test_a_pod_goes_where_hints_and_scores_send_it(
    tmp_path: Path, hint: dict[str, Any] | None, expected: str
) -> None:
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(PROFILES)
    async with serving(tmp_path, extender={"schedulerConfig": str(profiles)}) as stage:
        await three_nodes(stage)
        async with scheduling(stage, shipped(stage)):
            annotations = {} if hint is None else {HINT: json.dumps(hint)}
            await stage.add_pod("p", annotations=annotations)
            await until(lambda: node_of(stage, "p") != "")
        assert node_of(stage, "p") == expected
        await stage.assert_memory_equals_a_rebuild()
