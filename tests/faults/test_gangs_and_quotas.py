"""Gangs and quotas, whatever kube-scheduler, users and failures do, in any order.

After every step no node and no quota holds more than it may, planned or bound, and everything that is held
has a reason. In the end, without faults, everything comes to rest, what fits is bound, and nothing is left.

`KOORDPY_STATE_EXAMPLES=500` tries more examples than `make test`.
"""

import asyncio
import os
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota, PodGroup
from koordpy.embedded.apiserver import Fault
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota as ElasticQuotaPlugin
from tests.audited import assert_clean
from tests.faults.competing import pod_document
from tests.faults.contended_cluster import (
    GANG,
    NAMESPACE,
    NODE_CPUS,
    POD_GROUP,
    QUOTA,
    WAIT,
    ContendedCluster,
)
from tests.faults.served_extender import Document

GANGS = ("a", "b", "c", "d", "e")
GROUPS = {"a": ("a", "b"), "b": ("a", "b"), "c": ("c", "d"), "d": ("c", "d")}
"""Gangs that belong together; each of them may also be without the other."""
MOST_PODS = 30

FAULTS = (
    Fault(status=409),
    Fault(status=500),
    Fault(status=500, after=True),
    Fault(cut=True),
    Fault(cut=True, after=True),
    Fault(delay=3.0),
)
numbers = st.integers(0, MOST_PODS)


class GangsAndQuotas(ContendedCluster, RuleBasedStateMachine):
    """kube-scheduler's calls, and everything that happens to pods, gangs, quotas and nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.has_begun = False

    @initialize(
        members=st.lists(st.integers(1, 4), min_size=2, max_size=4),
        grouped=st.booleans(),
        quota=st.sampled_from(["", "", "qa"]),
        important=st.integers(0, 3),
    )
    def begin(self, members: list[int], grouped: bool, quota: str, important: int) -> None:
        """Start with some gangs, which want more than there is."""
        self.do(self.start())
        self.has_begun = True
        for number, (name, size) in enumerate(zip(GANGS, members, strict=False)):
            self.create_gang(name, size, size, "1", grouped, quota, "", number == important, 0)

    def teardown(self) -> None:
        try:
            if self.has_begun:
                self.do(self.come_to_rest())
        finally:
            for _, _, gone in self.binds.values():
                gone.set()
            self.do(self.end())
            self.stop()

    async def come_to_rest(self) -> None:
        self.weather.let_go("pods")
        await self.settle()
        waiting = await self.waiting_that_fit()
        assert not waiting, waiting
        self.check()
        assert_clean(self.server, self.crowded, self.lowered)
        await self.nothing_is_left()

    # --- users -----------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(GANGS),
        members=st.integers(1, 4),
        less=st.integers(0, 1),
        cpu=st.sampled_from(["1", "1", "2"]),
        grouped=st.booleans(),
        quota=st.sampled_from(["", "qa", "qb"]),
        kind=st.sampled_from(["", "", "pod group", "policy", "NonStrict"]),
        important=st.booleans(),
        late=st.integers(0, 1),
    )
    def add_gang(
        self,
        name: str,
        members: int,
        less: int,
        cpu: str,
        grouped: bool,
        quota: str,
        kind: str,
        important: bool,
        late: int,
    ) -> None:
        """Create a gang, perhaps without its last pod, unless there is one of that name."""
        minimum = max(members - less, 1)
        if name not in self.minimum:
            self.create_gang(name, members, minimum, cpu, grouped, quota, kind, important, late)

    def create_gang(
        self,
        name: str,
        members: int,
        minimum: int,
        cpu: str,
        grouped: bool,
        quota: str,
        kind: str,
        important: bool,
        late: int,
    ) -> None:
        """Create the objects of a gang."""
        self.partly_since.pop(name, None)
        self.minimum[name] = minimum
        self.grouped[name] = GROUPS.get(name, ()) if grouped and kind != "pod group" else ()
        labels = {f"{QUOTA}name": quota} if quota else {}
        documents = [self.member(name, number, cpu, labels, important=important) for number in range(members)]

        async def create() -> None:
            for document in documents[: len(documents) - late]:
                annotations = document["metadata"]["annotations"]
                if kind == "pod group":
                    annotations.clear()
                    document["metadata"]["labels"][POD_GROUP] = name
                elif kind == "policy":
                    annotations[f"{GANG}match-policy"] = "waiting-and-running"
                elif kind:
                    annotations[f"{GANG}mode"] = kind
                await self.add_pod(document)
            if kind == "pod group":
                spec = {"minMember": self.minimum[name], "scheduleTimeoutSeconds": int(WAIT)}
                await self.create(PodGroup, name, spec)

        self.do(create())

    @rule(
        cpu=st.sampled_from(["500m", "1", "2", "3"]),
        quota=st.sampled_from(["", "qa", "qb"]),
        kind=st.sampled_from(["", "important", "not preemptible"]),
    )
    def add_pod_alone(self, cpu: str, quota: str, kind: str) -> None:
        """Create a pod of no gang."""
        self.made += 1
        labels = {f"{QUOTA}name": quota} if quota else {}
        if kind == "not preemptible" and not quota:
            labels[f"{QUOTA}preemptible"] = "false"
        priority = kind if kind == "important" else ""
        self.do(self.add_pod(pod_document(f"p{self.made}", cpu, labels=labels, priority_class=priority)))

    @rule(number=numbers)
    def delete_pod(self, number: int) -> None:
        self.is_disturbed = True
        self.do(self.remove_pod(self.picked(number)["metadata"]["name"]))

    @rule(name=st.sampled_from(GANGS), all_of_it=st.booleans())
    def delete_gang(self, name: str, all_of_it: bool) -> None:
        """Delete the pods of a gang, and its PodGroup, or only that."""
        self.is_disturbed = True
        if name not in self.minimum:
            return

        async def delete() -> None:
            await self.missing_is_fine(self.client.delete(PodGroup, NAMESPACE, name))
            for pod in await self.pods():
                if pod.metadata.name.startswith(f"{name}-"):
                    await self.remove_pod(pod.metadata.name)

        if all_of_it:
            self.do(delete())
            del self.minimum[name], self.grouped[name]
        else:
            self.do(self.missing_is_fine(self.client.delete(PodGroup, NAMESPACE, name)))

    @rule(name=st.sampled_from(["qa", "qb", "team"]), cpu=st.integers(1, 8))
    def change_quota(self, name: str, cpu: int) -> None:
        """Change what a quota may use; what has room in it by now keeps that."""
        self.is_disturbed = True
        trees = self.extender
        if 1000 * cpu < self.limits[name]:
            self.lowered.add(name)
            self.allowed_before |= {uid for plan in trees.jobs.held for uid in plan.placements}
            self.allowed_before |= self.binds.keys()
        self.limits[name] = 1000 * cpu
        patch = {"spec": {"max": {"cpu": str(cpu)}}}
        self.do(self.client.patch(ElasticQuota, NAMESPACE, name, patch))

    @rule(
        name=st.sampled_from(ContendedCluster.nodes), what=st.sampled_from(["remove", "put", "put", "shrink"])
    )
    def change_node(self, name: str, what: str) -> None:
        self.is_disturbed = True
        if what == "put":
            self.do(self.put_node(name, NODE_CPUS))
            return
        self.crowded.add(name)
        if what == "shrink":
            self.do(self.missing_is_fine(self.change_allocatable(name)))
            return

        async def remove() -> None:
            await self.missing_is_fine(self.client.delete(Node, "", name))
            await asyncio.sleep(0.05)
            for pod in await self.pods():
                if pod.spec.node_name == name:
                    await self.remove_pod(pod.metadata.name)

        self.do(remove())

    async def change_allocatable(self, name: str) -> None:
        await self.client.patch_status(Node, "", name, {"status": {"allocatable": {"cpu": "2"}}})

    @rule(node=st.sampled_from(ContendedCluster.nodes), quota=st.sampled_from(["", "qa"]))
    def another_scheduler_places(self, node: str, quota: str) -> None:
        self.is_disturbed = True
        self.made += 1
        document = pod_document(f"o{self.made}", "1", labels={f"{QUOTA}name": quota} if quota else {})
        document["spec"]["schedulerName"] = "another"
        self.crowded.add(node)
        for name in (quota, self.parent.get(quota, "")):
            self.lowered.add(name)

        async def place() -> None:
            await self.add_pod(document)
            pod = await self.client.get(Pod, NAMESPACE, document["metadata"]["name"])
            await self.missing_is_fine(self.client.bind(pod, node))

        self.do(place())

    # --- kube-scheduler --------------------------------------------------------------------------

    @rule(
        chosen=st.lists(numbers, min_size=1, max_size=6),
        offer=st.sampled_from(["fitting", "fitting", "fitting", "all", "one"]),
        then=st.sampled_from(["", "bind", "bind", "bind", "preempt"]),
    )
    def try_pods(self, chosen: list[int], offer: str, then: str) -> None:
        """Filter some pods one after the other, and bind those that found a node, or preempt."""

        async def attempts() -> None:
            for number in chosen:
                document = self.picked(number)
                if document["metadata"]["uid"] in self.binds:
                    continue
                names = self.fitting(document)
                if offer == "one":
                    names = names[:1]
                kept = await self.filter(document, list(self.nodes) if offer == "all" else names)
                if kept and then == "bind":
                    self.bind(document, kept[number % len(kept)])
                elif not kept and then == "preempt":
                    await self.preempt(document)

        self.do(attempts())

    @rule()
    def try_all_pods(self) -> None:
        self.do(self.schedule())

    @rule(number=numbers)
    def bind_late(self, number: int) -> None:
        """Bind a pod that was filtered some time ago, perhaps again; it may be gone or bound by now."""
        document = self.picked(number)
        kept = self.answers.get(document["metadata"]["uid"])
        if kept and self.free().get(kept[0], 0) >= 1000 * NODE_CPUS // 2:
            self.bind(document, kept[0])
            self.do(asyncio.sleep(0.0))

    @rule(number=numbers)
    def hang_up(self, number: int) -> None:
        """End a bind call from kube-scheduler's side."""
        self.is_disturbed = True
        if self.binds:
            _, _, gone = list(self.binds.values())[number % len(self.binds)]
            gone.set()
            self.do(asyncio.sleep(0.05))

    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def fail_binds(self, faults: list[Fault]) -> None:
        self.is_disturbed = True
        self.weather.troubles += [("POST", "/binding", fault) for fault in faults]

    @rule(number=numbers)
    def report_pod(self, number: int) -> None:
        """Write that kube-scheduler has found no node for a pod."""
        document = self.picked(number)
        pod = self.witness.cluster.store(Pod).get(NAMESPACE, document["metadata"]["name"])
        if pod is not None and not pod.spec.node_name:
            self.do(self.report(pod))

    # --- what goes wrong -------------------------------------------------------------------------

    @rule(late=st.booleans())
    def delay_events_of_pods(self, late: bool) -> None:
        self.is_disturbed = True
        self.lags = late
        if late:
            self.weather.hold("pods")
        else:
            self.weather.let_go("pods")
            self.do(asyncio.sleep(0.1))

    @rule(what=st.sampled_from(["restart", "lose the Lease", "fail over"]))
    def change_leader(self, what: str) -> None:
        self.is_disturbed = True
        self.lags = False
        self.weather.let_go("pods")
        if what == "restart":
            self.do(self.restart())
        else:
            self.do(self.lose_lease())
            self.do(asyncio.sleep(20.0 if what == "fail over" else 1.0))

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, WAIT + 1, 70.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))
        self.do(self.end_pods())

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def everything_held_has_a_reason(self) -> None:
        self.check()


class SharedByNeed(GangsAndQuotas):
    """Quotas share by runtime; pods of over-used ones are evicted, and Koordinator's defaults preempt."""

    coscheduling: ClassVar[Document] = {"enablePreemption": True}
    quotas: ClassVar[Document] = {
        "monitorAllQuotas": True,
        "delayEvictTime": "20s",
        "revokePodInterval": "5s",
        "preemptionFitsQuota": True,
        "revokeExactly": True,
    }
    enforced: ClassVar[frozenset[str]] = frozenset({"qa", "qb"})

    def limit_of(self, name: str) -> int:
        """Return the runtime of a quota for pods; that of its parent is not compared with anything."""
        trees = self.plugin(ElasticQuotaPlugin).trees
        trees.refresh_all()
        info = trees.quota(name)
        assert info is not None
        return info.runtime["cpu"].milli_value() if name in self.enforced else 1 << 30


EXAMPLES = int(os.environ.get("KOORDPY_STATE_EXAMPLES", "0"))

for machine in (GangsAndQuotas, SharedByNeed):
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES or 8,
        stateful_step_count=30,
        deadline=None,
        derandomize=not EXAMPLES,
        phases=list(Phase) if EXAMPLES else [Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

TestLimitedByMaximum = GangsAndQuotas.TestCase
TestLimitedByRuntime = SharedByNeed.TestCase
