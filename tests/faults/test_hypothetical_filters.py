"""Filters without a bind leave nothing behind and allocate nothing.

From 1.36 on kube-scheduler tries the pods of a group on hypothetical states: the same pods are filtered
repeatedly, with other candidates, in any order, scored or not, and not necessarily followed by a bind. Here
no bind succeeds at all. After any calls, with every plugin of koordpy:

- what is known of the cluster equals a rebuild from API objects, at any moment;
- a pod that was never filtered gets the answers of a newly started extender;
- nothing is left of deleted pods, and at most one attempt of each other pod.

`KOORDPY_STATE_EXAMPLES=500` tries more examples than `make test`.
"""

import asyncio
import gc
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koordpy.api.core import Node, Pod, PriorityClass
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import AlreadyExists, ApiError
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import Fault
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.extender.node_choice import MOST_PRESUMED, PRESUMED_SECONDS
from koordpy.scheduling.interface import PlacementPlan, PlannedPod
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import config, registry
from koordpy.scheduling.profiles.registry import Place, build, installed
from koordpy.testing.rebuild import differences
from koordpy_plugins.scheduling.reservation.state.cache import ReservationCache
from tests.audited import Crowded, assert_clean
from tests.eventually import PATIENCE
from tests.faults.rebuilt import leftovers, memory
from tests.faults.served_extender import CPUS, Document, ServedExtender, pod, shipped_profiles
from tests.unit.scheduling.planner import Planner

NODES = ("n0", "n1", "n2", "n3", "n4")
PODS = tuple(f"p{number}" for number in range(8))
APPS = ("a", "b")
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
ALLOCATING = {"Coscheduling", "DeviceShare", "ElasticQuota", "NodeNUMAResource", "Reservation"}
"""Plugins that light mode refuses: it does not call what they allocate with."""
NEVER = {"DefaultBinder", "DefaultPreBind", "PrioritySort", "SchedulingGates"}
"""Plugins that do not take part in finding a node; every profile has two of them anyway."""


def every_plugin(*, light: bool) -> Document:
    """Return a profile with every installed plugin; in light mode with those that allocate nothing."""
    document = shipped_profiles(light=light)
    profile = document["profiles"][0]
    left_out = NEVER | (ALLOCATING if light else set())
    names = [name for name in installed() if name not in left_out]
    profile["plugins"] = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    return document


class HypotheticalFilters(ServedExtender, RuleBasedStateMachine):
    """kube-scheduler filters pods, and binds none."""

    extender_settings: ClassVar[Document] = {"decisions": 20}
    nodes: ClassVar[tuple[str, ...]] = NODES

    def configured(self) -> Document:
        return every_plugin(light=self.light)

    @initialize()
    def begin(self) -> None:
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
        self.others = 0
        self.crowded = Crowded()
        self.do(self.start())
        self.do(self.client.create_raw(resource_of(PriorityClass), "", high))
        if not self.light:
            for number, app in enumerate(APPS):
                self.do(self.create_reservation(f"r{number}", 3, app))
            self.do(asyncio.sleep(2.0))

    def teardown(self) -> None:
        try:
            self.do(self.settle())
            assert_clean(self.server, self.crowded)
        finally:
            self.stop()

    # --- the cluster -----------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(PODS),
        cpu=st.integers(1, 6),
        app=st.sampled_from(["", "", *APPS]),
        what=st.sampled_from(["", "", "", "must", "hint", "port", "spread", "apart", "high"]),
        node=st.sampled_from(NODES),
    )
    def add_pod(self, name: str, cpu: int, app: str, what: str, node: str) -> None:
        """Create a pod, replacing one of the same name."""
        document = pod(name, cpu, labels={"app": app} if app else {}, annotations={})
        annotations, spec = document["metadata"]["annotations"], document["spec"]
        selector = {"matchLabels": {"app": app}}
        if what == "must":
            annotations[AFFINITY] = "{}"
        elif what == "hint":
            annotations[HINT] = json.dumps({"preferredNodeNames": [node]})
        elif what == "port":
            spec["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80}]
        elif what == "high":
            spec["priorityClassName"] = "high"
        elif what == "spread":
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                }
            ]
        elif what == "apart":
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

        async def create() -> None:
            await self.missing_is_fine(self.client.delete(Pod, "default", name, grace_period_seconds=0))
            self.documents.append(await self.client.create_raw(resource_of(Pod), "default", document))

        self.do(create())

    @rule(
        name=st.sampled_from(PODS),
        what=st.sampled_from(["delete", "delete", "nominate", "forget"]),
        node=st.sampled_from(NODES),
    )
    def change_pod(self, name: str, what: str, node: str) -> None:
        async def change() -> None:
            if what == "delete":
                await self.client.delete(Pod, "default", name, grace_period_seconds=0)
            else:
                status = {"nominatedNodeName": node if what == "nominate" else None}
                await self.client.patch_status(Pod, "default", name, {"status": status})

        with suppress(ApiError):
            self.do(change())

    @rule(number=st.integers(0, 3), node=st.sampled_from(NODES), cpu=st.integers(1, 6))
    def another_scheduler_places(self, number: int, node: str, cpu: int) -> None:
        async def place() -> None:
            name = f"other{number}"
            await self.missing_is_fine(self.client.delete(Pod, "default", name, grace_period_seconds=0))
            document = pod(name, cpu, labels={"app": APPS[number % 2]})
            document["spec"]["schedulerName"] = "another"
            await self.client.create_raw(resource_of(Pod), "default", document)
            await self.client.bind(await self.client.get(Pod, "default", name), node)

        self.others += 1
        self.crowded.add(node)
        self.do(place())

    @rule(
        name=st.sampled_from(NODES), what=st.sampled_from(["hot", "cool", "cordon", "open", "remove", "put"])
    )
    def change_node(self, name: str, what: str) -> None:
        if what in ("hot", "cool"):
            self.do(self.put_metric(name, CPUS - 1 if what == "hot" else 1))
        elif what in ("cordon", "open"):
            patch = {"spec": {"unschedulable": what == "cordon"}}
            self.do(self.missing_is_fine(self.client.patch(Node, "", name, patch)))
        elif what == "remove":
            self.do(self.missing_is_fine(self.client.delete(Node, "", name)))
        else:
            self.do(self.put_node(name, CPUS))

    @precondition(lambda self: not self.light)
    @rule(number=st.integers(0, 1), what=st.sampled_from(["delete", "create", "close", "open"]))
    def change_reservation(self, number: int, what: str) -> None:
        name = f"r{number}"
        if what == "delete":
            self.do(self.missing_is_fine(self.client.delete(Reservation, "", name)))
        elif what == "create":
            with suppress(AlreadyExists):
                self.do(self.create_reservation(name, 3, APPS[number]))
        else:
            patch = {"spec": {"unschedulable": what == "close"}}
            self.do(self.missing_is_fine(self.client.patch(Reservation, "", name, patch)))
        self.do(asyncio.sleep(1.0))

    # --- kube-scheduler --------------------------------------------------------------------------

    @rule(
        numbers=st.lists(st.integers(0, 12), min_size=1, max_size=6),
        names=st.lists(st.sampled_from([*NODES, "n9"]), min_size=1, max_size=6, unique=True),
        times=st.integers(1, 3),
        verbs=st.lists(st.sampled_from(["prioritize", "preempt", "others"]), max_size=2),
    )
    def try_a_group(
        self, numbers: Sequence[int], names: Sequence[str], times: int, verbs: Sequence[str]
    ) -> None:
        """Filter some pods one after the other, then all of them again."""
        for _ in range(times):
            for number in numbers:
                left = self.do(self.filter(number, names))
                for verb in verbs:
                    self.do(self.ask_more(number, verb, left))

    async def filter(self, number: int, names: Sequence[str]) -> list[str]:
        answer = await self.ask("filter", {"Pod": self.picked(number), "NodeNames": list(names)})
        return list(answer.get("NodeNames") or [])

    async def ask_more(self, number: int, verb: str, names: Sequence[str]) -> None:
        document = self.picked(number)
        if verb == "preempt":
            victims = {
                name: {"Pods": [{"UID": str(pod.metadata.uid)} for pod in self.pods_on(name)[:1]]}
                for name in NODES
            }
            await self.ask("preempt", {"Pod": document, "NodeNameToMetaVictims": victims})
        else:
            asked = list(names) if verb == "prioritize" else list(NODES[1:])
            await self.ask("prioritize", {"Pod": document, "NodeNames": asked})

    def pods_on(self, name: str) -> list[Pod]:
        table = self.extender.nodes
        row = table.row_of(name)
        return [] if row is None else list(table.pods_on(row))

    @precondition(lambda self: not self.light)
    @rule(
        number=st.integers(0, 12),
        node=st.sampled_from([*NODES, "n9"]),
        status=st.sampled_from([403, 409, 500]),
        meanwhile=st.lists(st.integers(0, 12), max_size=3),
    )
    def fail_to_bind(self, number: int, node: str, status: int, meanwhile: Sequence[int]) -> None:
        """Run a bind that fails; other pods, and the same one, are filtered meanwhile."""
        self.weather.troubles += [("POST", "/binding", Fault(delay=0.5, status=status))] * 8
        task = self.runner.get_loop().create_task(self.bind_call(self.picked(number), node))
        for each in (number, *meanwhile):
            self.do(self.filter(each, NODES))
        assert self.do(asyncio.wait_for(task, 120.0)) != ""
        self.weather.clear_up()

    @rule(seconds=st.sampled_from([0.1, 0.4, 5.0, 60.0]), report=st.booleans())
    def wait(self, seconds: float, report: bool) -> None:
        self.do(asyncio.sleep(seconds))
        if report:
            for name in NODES:
                self.do(self.put_metric(name, 1))

    # --- invariants ------------------------------------------------------------------------------

    @invariant()
    def memory_equals_a_rebuild(self) -> None:
        self.do(self.compare())

    async def compare(self) -> None:
        await asyncio.sleep(0.1)  # the watches deliver the latest changes
        self.extender.tentative.clear()  # pods count from filter on, for a while
        fresh = await self.started_now()
        assert differences(memory(self.extender), memory(fresh)) == []
        live = {found.metadata.uid for found in await self.client.list_all(Pod)}
        for kept, most in self.kept().items():
            assert kept[1] <= most, kept
        self.assert_nothing_of(live)

    def kept(self) -> dict[tuple[str, int], int]:
        """Return the sizes of all state that grows with pods, and their limits."""
        extender, pods = self.extender, len(self.documents)
        lives = list(extender.histories)
        return {
            ("attempts", len(extender.attempts)): pods,
            ("lives", len(lives)): pods + self.others,
            ("steps of a life", max((len(life.steps) for life in lives), default=0)): 48,
            ("decisions", len(extender.decisions._in_full)): 2 * (extender.decisions._decisions.maxlen or 0),
            ("waiting pods", len(extender.handle.waiting_pods)): 0,
            ("planned pods", len(extender.plans)): pods,
        }

    def assert_nothing_of(self, live: set[str]) -> None:
        """No state that affects other pods is kept of a deleted pod, nor of any pod without a bind."""
        extender = self.extender
        if extender._chooser is not None:
            presumed = set(extender._chooser._presumed)
            assert len(presumed) <= MOST_PRESUMED
        for framework in extender.profiles.frameworks.values():
            for plugin in framework.plugins:
                if plugin.name == "Reservation":
                    assert not plugin.nominations._of  # type: ignore[attr-defined]
        assert extender.plans._of.keys() <= live
        table = extender.nodes
        assumed = [uid for uid, placement in table._placements.items() if placement.assumed]
        assert not assumed
        assert Counter(pod.metadata.uid for name in NODES for pod in self.pods_on(name)).keys() <= live

    async def settle(self) -> None:
        """A new pod gets the answers of a newly started process; in the end nothing is left."""
        self.extender.tentative.clear()
        await asyncio.sleep(PRESUMED_SECONDS + 0.1)
        fresh = await self.started_now()
        for number, cpu in enumerate((1, 4, 7)):
            for app in ("", *APPS):
                probe = pod(f"probe{number}", cpu, uid=f"uid-of-probe-{number}-{app}", labels={"app": app})
                self.use_reservations_of(fresh, decode(Pod, probe))
                ours, theirs = (answers(each, probe, self.nodes) for each in (self.extender, fresh))
                assert ours[:-1] == theirs[:-1]
                if ours[-1] and theirs[-1]:  # a single node need not be scored
                    assert ours[-1] == theirs[-1]
                self.extender.tentative.clear()  # as if the probe was bound nowhere for a while
                await asyncio.sleep(PRESUMED_SECONDS + 0.1)
                fresh = await self.started_now()
        await asyncio.sleep(1500.0)
        await self.filter(0, ["n9"])
        assert leftovers(self.extender) == []

    def use_reservations_of(self, fresh: Extender, owner: Pod) -> None:
        """Let an owner come and go in the Reservations that had owners: it leaves a 0, as in Koordinator."""
        if self.light:
            return
        ours, theirs = (each.handle.cluster.shared(ReservationCache) for each in (self.extender, fresh))
        for uid, info in ours.infos.items():
            if info.allocated is not None:
                theirs.assume_pod(uid, owner)
                theirs.forget_pod(uid, owner.metadata.uid)

    async def started_now(self) -> Extender:
        """Return an extender of the same configuration with the API server's objects and no earlier calls."""
        cluster = Cluster(self.clock)
        base = Handle(cluster)
        profiles = build(config.read(self.profiles), lambda _: base.sibling(), place=Place.EXTENDER)
        choice = self.extender_settings.get("nodeChoice", "kube-scheduler")
        fresh = Extender(profiles, base, is_light=self.light, node_choice=choice)
        async with Informers(cluster, self.client) as informers:
            await informers.wait_synced(PATIENCE)
        return fresh


def answers(extender: Extender, document: Document, names: Sequence[str]) -> Any:
    """Return an extender's answer for a pod: where it fits, why not elsewhere, and the scores.

    If koordpy chooses the node, any of the best may be returned, and results of another pod need not be
    repeated.
    """
    body = json.dumps({"Pod": document, "NodeNames": list(names)}, separators=(",", ":")).encode()
    answer, attempt = extender.filter(body)
    if attempt is not None:
        extender.work_ahead(attempt)
    told = json.loads(answer)
    kept = extender.attempts.get(document["metadata"]["uid"])
    scores = None if kept is None else kept.decision.scores
    worth = {} if scores is None else dict(zip(scores.nodes.names, scores.total.tolist(), strict=True))
    if extender._chooser is None:
        return told, worth
    chosen = told["NodeNames"] or []
    if worth:
        assert [worth[name] for name in chosen] == [max(worth.values())]
    return bool(chosen), told["Error"], worth


class KoordpyChooses(HypotheticalFilters):
    """koordpy chooses the node, and keeps results for identical pods."""

    extender_settings: ClassVar[Document] = {"decisions": 20, "nodeChoice": "koordpy"}


class Together(Planner):
    """Plans the pods of an application together, on the nodes that there are, in turn."""

    name = "Together"

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str | PlacementPlan, Status]:
        app = pod.metadata.labels.get("app")
        if not app:
            return "", Status.skip()
        known = {each.metadata.uid: each for each in (*self.handle.cluster.store(Pod), pod)}
        pods = [
            each
            for each in sorted(known.values(), key=lambda each: each.metadata.name)
            if each.metadata.labels.get("app") == app and not each.spec.node_name
        ]
        names = sorted(self.handle.nodes.all().names)
        if not names:
            return "", Status.skip()
        return PlacementPlan(list(map(PlannedPod, pods, cycle(names)))), SUCCESS


class Planned(HypotheticalFilters):
    """A plugin answers with plans for several pods, which are kept for the attempts of the others."""

    def configured(self) -> Document:
        document = super().configured()
        document["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": Together.name})
        return document


class Light(HypotheticalFilters):
    """kube-scheduler binds pods itself."""

    extender_settings: ClassVar[Document] = {"decisions": 20, "mode": "light", "nodeChoice": "koordpy"}
    light = True


EXAMPLES = int(os.environ.get("KOORDPY_STATE_EXAMPLES", "0"))

for machine in (HypotheticalFilters, KoordpyChooses, Planned, Light):
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES or 10,
        stateful_step_count=25,
        deadline=None,
        derandomize=not EXAMPLES,
        phases=list(Phase) if EXAMPLES else [Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

TestKubeSchedulerChooses = HypotheticalFilters.TestCase
TestKoordpyChooses = KoordpyChooses.TestCase
TestPlannedPods = Planned.TestCase
TestLightMode = Light.TestCase


@pytest.fixture(autouse=True)
def _together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the plugin that plans, for the machine that is about it."""
    if request.cls is TestPlannedPods:
        known = registry.installed().including(Together)
        monkeypatch.setattr(registry, "installed", lambda: known)


# --- memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [HypotheticalFilters, KoordpyChooses, Light])
def test_a_thousand_filters_of_the_same_pods_keep_as_much_as_a_few(
    machine: type[HypotheticalFilters],
) -> None:
    cluster = machine()
    cluster.begin()
    try:
        for number in range(6):
            cluster.add_pod(f"p{number}", 1 + number % 2, APPS[number % 2] if number > 3 else "", "", "n0")
        sizes = []
        for times in range(1800):
            left = cluster.do(cluster.filter(times % 6, NODES[times % 2 :]))
            if times % 3 == 0:
                cluster.do(cluster.ask_more(times % 6, "prioritize", left))
                cluster.do(cluster.ask_more(times % 6, "others", left))
            if times % 60 == 0:
                sizes.append(reachable(cluster.extender))
        # Records of the latest calls grow, and are dropped at once: peaks are compared.
        assert max(sizes[20:]) <= max(sizes[:20]) * 1.02, sizes
    finally:
        cluster.stop()


_NOT_KEPT = (type, ModuleType, FunctionType, Client, asyncio.AbstractEventLoop)


def reachable(root: object) -> int:
    """Return the number of objects kept alive by one, without code and the client's."""
    gc.collect()
    seen = {id(root)}
    stack = [root]
    while stack:
        for each in gc.get_referents(stack.pop()):
            if id(each) not in seen and not isinstance(each, _NOT_KEPT):
                seen.add(id(each))
                stack.append(each)
    return len(seen)
