"""A small cluster in which jobs preempt, and an API server that can fail."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode, encode
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ConnectionFailed
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult, Refusals
from koordpy.scheduling.interface.status import Status, Verdict
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.coscheduling.preemption.findings import Findings
from koordpy_plugins.scheduling.coscheduling.preemption.job_preemption import JobPreemption, Options
from koordpy_plugins.scheduling.coscheduling.preemption.preemptor import Attempted, Preemptor
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import Binder, configuration, node, pod, world

JOINT = Options(joint_fit=True)


class ApiServer(Client):
    """Applies what is written to the stores, as a watch would. Deletes of `failing` pods are refused."""

    def __init__(self) -> None:
        self.stage: Stage
        self.failing: set[str] = set()
        self.failing_nominations: set[str] = set()
        self.shows_deletions = True
        self.deleted: list[str] = []

    async def patch_status(
        self,
        type_: type[KubeObject],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        patch_type: PatchType = PatchType.MERGE,
    ) -> Any:
        if "nominatedNodeName" in patch["status"] and name in self.failing_nominations:
            raise ConnectionFailed("DELETE", name, OSError("refused"), sent=False)
        self.stage.change(name, lambda document: document.setdefault("status", {}).update(patch["status"]))

    async def delete(self, type_: type[KubeObject], namespace: str, name: str, **_: Any) -> None:
        if name in self.failing:
            raise ConnectionFailed("DELETE", name, OSError("refused"), sent=False)
        self.deleted.append(name)
        if self.shows_deletions:
            self.stage.show_deletion(name)


class Stage:
    """Nodes `n1`... of `cpu`, with a low-priority pod `low-n1`... of `used` each."""

    def __init__(
        self,
        nodes: int,
        cpu: str = "2",
        used: str = "2",
        *,
        options: Options | None = None,
        plugins: Iterable[type[Plugin]] = (),
    ) -> None:
        names = [f"n{number}" for number in range(1, nodes + 1)]
        low = [pod(f"low-{name}", cpu=used, node_name=name, priority=1) for name in names]
        self.cluster = world([node(name, cpu=cpu) for name in names], low)
        self.api = ApiServer()
        self.api.stage = self
        classes: list[type[Plugin]] = [NodeResourcesFit, *plugins, Binder]
        profiles = build(
            configuration([each.name for each in classes]),
            lambda _: Handle(self.cluster, client=self.api),
            place=Place.EXTENDER,
            classes={each.name: each for each in classes},
        )
        self.framework = profiles.frameworks["default-scheduler"]
        self.handle = self.framework.handle
        self.members: list[str] = []
        self.preemption = JobPreemption(self.handle, options)
        self.found: Findings

    def restart(self) -> None:
        """Forget what the process knew: only the objects remain."""
        self.preemption = JobPreemption(self.handle, JOINT)
        self.handle.nominator.__init__(self.cluster)  # type: ignore[misc]

    def add(self, name: str, cpu: str = "2", *, node_name: str = "", **fields: Any) -> Pod:
        added = pod(name, cpu=cpu, node_name=node_name, **fields)
        self.cluster.store(Pod).apply(added)
        return added

    def add_gang(self, count: int, cpu: str = "2", **fields: Any) -> None:
        for number in range(1, count + 1):
            self.add(f"g{number}", cpu, **{"priority": 10, **fields})
            self.members.append(f"g{number}")

    def add_budget(self, labels: Mapping[str, str], allowed: int = 0) -> None:
        document = {
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": {"matchLabels": dict(labels)}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.cluster.store(PodDisruptionBudget).apply(decode(PodDisruptionBudget, document))

    def pod(self, name: str) -> Pod:
        found = self.cluster.store(Pod).get("default", name)
        assert found is not None
        return found

    def change(self, name: str, change: Any) -> None:
        document = json.loads(encode(self.pod(name)))
        change(document)
        self.cluster.store(Pod).apply(decode(Pod, document))

    def show_deletion(self, name: str) -> None:
        def delete(document: dict[str, Any]) -> None:
            document["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

        self.change(name, delete)

    def remove(self, name: str) -> None:
        self.cluster.store(Pod).discard(f"default/{name}")

    async def preempt(
        self, trigger: str = "g1", *, is_joint: bool = False
    ) -> tuple[PostFilterResult | None, Status]:
        """Preempt in a new round for the gang, whose trigger pod was refused by every node."""
        nodes = self.handle.nodes.all()
        refused = Refusals("", np.arange(len(nodes)), Verdict.of([Status.unschedulable("full")] * len(nodes)))
        state = self.framework.new_state()
        pending = [self.pod(name) for name in self.members]
        self.framework.run_pre_filter(state, self.pod(trigger), nodes)
        preemptor = Preemptor.group(
            "default/gang", self.pod(trigger), pending, (), Attempted(), is_joint=is_joint
        )
        self.found = Findings(preemptor)
        outcome = FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), [refused])
        return await self.preemption.preempt(state, preemptor, outcome, found=self.found)

    def nominations(self) -> dict[str, str]:
        """The nominations in the members' statuses, of those that have one."""
        pods = [self.pod(name) for name in self.members]
        return {pod.metadata.name: name for pod in pods if (name := pod.status.nominated_node_name)}
