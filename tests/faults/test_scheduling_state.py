"""After any sequence of calls, changes and failures, the extender's state equals a rebuild from objects.

The production wiring with the full chain of plugins, and Reservations scheduled beside it, on simulated time.
The test acts as kube-scheduler, the users, a second scheduler and the network between koordpy and its API
server; Hypothesis chooses the actions. `KOORDPY_STATE_EXAMPLES=500` tries more examples than `make test`.
"""

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.columns import CPU, MEMORY
from koordpy.cluster.columns import PODS as POD_COUNT
from koordpy.cluster.errors import ApiError
from koordpy.cluster.nodes import NodeTable
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import Fault
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.framework.framework import Framework
from koordpy.testing.rebuild import differences, settle
from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling
from tests.audited import Crowded, assert_clean
from tests.faults.rebuilt import leftovers, memory, rebuilt
from tests.faults.served_extender import CPUS, Document, ServedExtender, pod
from tests.processes import extender_of

NODES = ("n0", "n1", "n2")
PODS = tuple(f"p{number}" for number in range(10))
RESERVATIONS = ("r0", "r1", "r2")
APPS = ("a", "b")
KINDS = ("pods", "nodes", "reservations", "nodemetrics")
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
HINT = "internal.scheduling.koordinator.sh/scheduling-hint"

SETTLED_SECONDS = 1500.0
"""Longer than attempts and unconfirmed binds are kept."""

BINDING, STATUS, POD = ("POST", "/binding"), ("PATCH", "/status"), ("GET", "/namespaces/default/pods/")
FAULTS = (
    (BINDING, Fault(status=409)),
    (BINDING, Fault(status=409, after=True)),
    (BINDING, Fault(status=429)),
    (BINDING, Fault(status=403)),
    (BINDING, Fault(status=500)),
    (BINDING, Fault(status=500, after=True)),
    (BINDING, Fault(cut=True)),
    (BINDING, Fault(cut=True, after=True)),
    (BINDING, Fault(delay=2.0)),
    (BINDING, Fault(delay=2.0, cut=True, after=True)),
    (STATUS, Fault(status=409)),
    (STATUS, Fault(status=500)),
    (STATUS, Fault(cut=True, after=True)),
    (STATUS, Fault(delay=2.0)),
    (POD, Fault(status=500)),
    (POD, Fault(cut=True)),
)

INCIDENTS = (
    *("shrink", "remove", "hot", "cordon", "delete", "bind", "fill", "usurp", "promise", "reserve"),
    *("ask again", "dawdle"),
)
"""Events that may occur between the filter call and the bind call of a pod."""


def cpus(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])


class SchedulingMachine(ServedExtender, RuleBasedStateMachine):
    """One cluster, and all its actors."""

    nodes: ClassVar[tuple[str, ...]] = NODES

    def __init__(self) -> None:
        super().__init__()
        self.calls: set[asyncio.Task[None]] = set()
        self.bound: dict[str, set[str]] = defaultdict(set)
        """The node on which koordpy reported a pod as bound, by UID."""
        self.posting: set[tuple[str, str]] = set()
        self.problems: list[str] = []
        self.strict = False
        """Whether koordpy alone has placed everything, so that nothing may be allocated twice."""
        self.crowded = Crowded()
        """Nodes that others may crowd, or that may shrink below what is on them: all, unless it is strict."""

    def new_service(self) -> Process:
        made = super().new_service()
        self.watch_over(extender_of(made), made.cluster.nodes)
        return made

    def watch_over(self, extender: Extender, table: NodeTable) -> None:
        """Check each node at the moment when koordpy allocates from it: the resources must be free.

        And the pod must pass the filters there, even if they ran for another pod.
        """
        assume = table.assume

        def checked(pod: Pod, node_name: str) -> None:
            attempt = extender.attempts.get(pod.metadata.uid)
            if attempt is not None and attempt.decision.evaluated_for:
                self.expect_to_fit(attempt.framework, pod, node_name, "is bound")
            assume(pod, node_name)
            row = table.row_of(node_name)
            assert row is not None
            if (table.requested[row] > table.allocatable[row])[[CPU, MEMORY, POD_COUNT]].any():
                names = [other.metadata.name for other in table.pods_on(row)]
                self.problems.append(f"{pod.metadata.name} is reserved on {node_name}, beside {names}")

        table.assume = checked  # type: ignore[method-assign]

    def expect_to_fit(self, framework: Framework, pod: Pod, node_name: str, what: str) -> None:
        """Run all filters on a node now, as if they had never run on it.

        Loads may have changed since filter was called, and other pods may have been nominated to the node.
        """
        if framework.handle.nominator.pods_on(node_name):
            return
        nodes, _ = framework.handle.nodes.select([node_name])
        outcome = framework.find_feasible(framework.new_state(), pod, nodes)
        status = outcome.prefilter if outcome.error is None else outcome.error
        refusals = [refusal for refusal, _ in outcome.failed()] if status.is_success else [status]
        for refusal in refusals:
            if refusal.plugin != LoadAwareScheduling.name:
                self.problems.append(f"{pod.metadata.name} {what} to {node_name}: {refusal.message}")
        if not len(nodes):
            self.problems.append(f"{pod.metadata.name} {what} to {node_name}, which is not there")

    # --- the cluster -----------------------------------------------------------------------------

    @initialize(strict=st.booleans())
    def begin(self, strict: bool) -> None:
        self.strict = strict and not self.light
        for name in () if self.strict else self.nodes:
            self.crowded.add(name)
        self.do(self.start())

    @rule(
        name=st.sampled_from(NODES),
        what=st.sampled_from(["shrink", "grow", "remove", "hot", "cool", "silent", "cordon", "uncordon"]),
    )
    def change_node(self, name: str, what: str) -> None:
        if what == "hot":
            self.do(self.put_metric(name, CPUS - 1))
        elif what == "cool":
            self.do(self.put_metric(name, 1))
        elif what == "silent":
            self.do(self.missing_is_fine(self.client.delete(NodeMetric, "", name)))
        elif what.endswith("cordon"):
            patch = {"spec": {"unschedulable": what == "cordon"}}
            self.do(self.missing_is_fine(self.client.patch(Node, "", name, patch)))
        elif self.strict:
            return
        elif what == "remove":
            self.do(self.missing_is_fine(self.client.delete(Node, "", name)))
        else:
            self.do(self.put_node(name, 4 if what == "shrink" else CPUS))

    # --- pods ------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(PODS),
        cpu=st.integers(1, 4),
        app=st.sampled_from(["", *APPS]),
        must=st.booleans(),
        hint=st.sampled_from(["", "", *NODES]),
    )
    def add_pod(self, name: str, cpu: int, app: str, must: bool, hint: str) -> None:
        """Create a pod, replacing one of the same name."""
        annotations = {AFFINITY: "{}"} if app and must else {}
        if hint:
            annotations[HINT] = json.dumps({"preferredNodeNames": [hint]})
        document = pod(name, cpu, labels={"app": app} if app else {}, annotations=annotations)

        async def create() -> None:
            await self.missing_is_fine(self.client.delete(Pod, "default", name, grace_period_seconds=0))
            self.documents.append(await self.client.create_raw(resource_of(Pod), "default", document))

        self.do(create())

    @rule(
        name=st.sampled_from(PODS),
        what=st.sampled_from(["delete", "Running", "Succeeded", "nominate", "forget", "bind"]),
        node=st.sampled_from(NODES),
    )
    def change_pod(self, name: str, what: str, node: str) -> None:
        """Delete, continue or nominate a pod, or place it by a second scheduler."""

        async def change() -> None:
            live = await self.client.get(Pod, "default", name)
            if what == "delete":
                await self.client.delete(Pod, "default", name, grace_period_seconds=0)
            elif live.spec.node_name:
                if what in ("Running", "Succeeded"):
                    await self.client.patch_status(Pod, "default", name, {"status": {"phase": what}})
            elif what in ("nominate", "forget"):
                status = {"nominatedNodeName": node if what == "nominate" else None}
                await self.client.patch_status(Pod, "default", name, {"status": status})
            elif what == "bind" and not self.strict:
                await self.client.bind(live, node)

        with suppress(ApiError):
            self.do(change())

    # --- Reservations ----------------------------------------------------------------------------

    @precondition(lambda self: not self.light)
    @rule(
        name=st.sampled_from(RESERVATIONS),
        cpu=st.integers(1, 6),
        app=st.sampled_from(APPS),
        ttl=st.sampled_from(["0s", "0s", "20s"]),
        once=st.booleans(),
        policy=st.sampled_from(["Restricted", "Restricted", "Aligned", ""]),
    )
    def reserve(self, name: str, cpu: int, app: str, ttl: str, once: bool, policy: str) -> None:
        self.do(self.create_reservation(name, cpu, app, ttl, once=once, policy=self.allowed(policy)))
        self.do(asyncio.sleep(1.0))

    def allowed(self, policy: str) -> str:
        """Return a policy under which no pod gets more of a Reservation than it holds, if that matters."""
        return "Restricted" if self.strict and policy else policy

    @precondition(lambda self: not self.light)
    @rule(
        name=st.sampled_from(RESERVATIONS),
        what=st.sampled_from(["delete", "close", "open", *APPS]),
    )
    def change_reservation(self, name: str, what: str) -> None:
        patch: Document = {"unschedulable": what == "close"}
        if what in APPS:
            patch = {"owners": [{"labelSelector": {"matchLabels": {"app": what}}}]}
        if what == "delete":
            self.do(self.missing_is_fine(self.client.delete(Reservation, "", name)))
        else:
            self.do(self.missing_is_fine(self.client.patch(Reservation, "", name, {"spec": patch})))

    # --- kube-scheduler --------------------------------------------------------------------------

    @rule(
        number=st.integers(0, 40),
        verb=st.sampled_from(["filter", "prioritize"]),
        names=st.lists(st.sampled_from([*NODES, "n9"]), max_size=4, unique=True),
    )
    def look(self, number: int, verb: str, names: Sequence[str]) -> None:
        """Filter without a bind, or prioritize any nodes."""
        self.do(self.ask(verb, {"Pod": self.picked(number), "NodeNames": list(names)}))

    @rule(number=st.integers(0, 40), node=st.sampled_from([*NODES, "n9"]), times=st.integers(1, 2))
    def bind(self, number: int, node: str, times: int) -> None:
        """Bind regardless of filter's answer, possibly twice."""
        if not self.light:
            for _ in range(times):
                self.begin_bind(self.picked(number), node)
            self.do(asyncio.sleep(0))

    @rule(
        name=st.sampled_from(PODS),
        cpu=st.integers(1, 4),
        app=st.sampled_from(["", *APPS]),
        which=st.integers(0, 5),
    )
    def add_and_schedule(self, name: str, cpu: int, app: str, which: int) -> None:
        self.add_pod(name, cpu, app, False, "")
        self.schedule(0, which, True)

    @rule(cpu=st.integers(1, 3), app=st.sampled_from(["", *APPS]), pods=st.integers(2, 5))
    def schedule_a_crowd(self, cpu: int, app: str, pods: int) -> None:
        for name in PODS[:pods]:
            self.add_pod(name, cpu, app, False, "")
        for number in range(pods):
            self.schedule(number, number, True)

    @rule(
        cpu=st.integers(1, 2),
        app=st.sampled_from(["", "", *APPS]),
        incidents=st.lists(
            st.tuples(st.sampled_from([*["nothing"] * 4, *INCIDENTS]), st.integers(0, 5)),
            min_size=4,
            max_size=len(PODS) - 1,
        ),
        fault=st.sampled_from([None, *FAULTS]),
    )
    def run_a_job(
        self,
        cpu: int,
        app: str,
        incidents: Sequence[tuple[str, int]],
        fault: tuple[tuple[str, str], Fault] | None,
    ) -> None:
        """Schedule identical pods one after another, with changes of their nodes or of others in between."""
        for name in PODS:
            self.change_pod(name, "forget", "")
        self.weather.let_go("pods")
        for name in PODS[: len(incidents)]:
            self.add_pod(name, cpu, app, False, "")
        if fault is not None:
            self.trouble(fault, 1)
        for document, (incident, further) in zip(self.documents[-len(incidents) :], incidents, strict=True):
            answer = self.do(self.ask("filter", {"Pod": document, "NodeNames": list(self.nodes)}))
            for node in (answer.get("NodeNames") or [])[:1]:
                struck = self.nodes[(self.nodes.index(node) + further) % len(self.nodes)]
                self.happen(incident, document, struck)
                with suppress(ApiError):
                    self.do(self.bind_to(document, node))

    def happen(self, incident: str, document: Document, node: str) -> None:
        """Let an event occur between the filter call and the bind call of a pod."""
        name, app = document["metadata"]["name"], document["metadata"].get("labels", {}).get("app", "")
        if incident in ("shrink", "remove", "hot", "cordon"):
            self.change_node(node, incident)
        elif incident in ("delete", "bind"):
            self.change_pod(name, incident, NODES[0])
        elif incident == "fill":
            self.add_pod(PODS[-1], CPUS - 1, "", False, "")
            with suppress(ApiError):
                self.do(self.bind_to(self.documents[-1], node))
        elif incident == "usurp":
            self.add_pod(PODS[-1], CPUS, "", False, "")
            self.change_pod(PODS[-1], "bind", node)
        elif incident == "promise":
            self.add_pod(PODS[-1], CPUS // 2, "", False, "")
            self.change_pod(PODS[-1], "nominate", node)
        elif incident == "reserve" and not self.light:
            for reservation in RESERVATIONS:
                self.do(self.create_reservation(reservation, 4, app or APPS[0], "20s", policy="Restricted"))
            self.do(asyncio.sleep(0.05))
        elif incident == "ask again":
            self.do(self.ask("filter", {"Pod": document, "NodeNames": list(self.nodes)}))
        elif incident == "dawdle":
            self.do(asyncio.sleep(0.3))

    @precondition(lambda self: not self.light)
    @rule(
        cpu=st.integers(2, 4),
        app=st.sampled_from(["", *APPS]),
        node=st.sampled_from(NODES),
        fault=st.sampled_from([None, *FAULTS]),
        promised=st.booleans(),
    )
    def race(
        self, cpu: int, app: str, node: str, fault: tuple[tuple[str, str], Fault] | None, promised: bool
    ) -> None:
        """Filter several pods before any is bound, and bind them all to one node."""
        for name in PODS[:4]:
            self.add_pod(name, cpu, app, False, "")
            if promised:
                self.change_pod(name, "nominate", node)
        for number in range(4):
            self.look(number, "filter", NODES)
        if fault is not None:
            self.trouble(fault, 8)
        for number in range(4):
            self.begin_bind(self.picked(number), node)
        self.do(asyncio.sleep(0))

    @precondition(lambda self: not self.light)
    @rule(
        name=st.sampled_from(RESERVATIONS),
        app=st.sampled_from(APPS),
        once=st.booleans(),
        policy=st.sampled_from(["Restricted", "Aligned", ""]),
        pods=st.integers(1, 3),
    )
    def reserve_and_use(self, name: str, app: str, once: bool, policy: str, pods: int) -> None:
        self.reserve(name, 4, app, "0s", once, policy)
        self.do(asyncio.sleep(5.0))
        for number in range(pods):
            self.add_pod(PODS[-1 - number], 2, app, number == 0, "")
            self.schedule(0, 0, True)

    @rule(number=st.integers(0, 10), which=st.integers(0, 5), scored=st.booleans())
    def schedule(self, number: int, which: int, scored: bool) -> None:
        """Schedule one pod as kube-scheduler does; the bind call runs concurrently with the next steps."""
        document = self.picked(number)

        async def cycle() -> None:
            answer = await self.ask("filter", {"Pod": document, "NodeNames": list(self.nodes)})
            left = answer.get("NodeNames") or []
            if scored and len(left) > 1:
                await self.ask("prioritize", {"Pod": document, "NodeNames": left})
            if left:
                await self.bind_to(document, left[which % len(left)])

        with suppress(ApiError):
            self.do(cycle())

    async def bind_to(self, document: Document, node: str) -> None:
        """Start to bind a pod, or bind it as kube-scheduler does in light mode."""
        if self.light:
            live = await self.client.get(Pod, "default", document["metadata"]["name"])
            await self.client.bind(live, node)
        else:
            self.begin_bind(document, node)

    async def ask(self, verb: str, body: Document) -> Any:
        answer = await super().ask(verb, body)
        if verb == "filter":
            self.expect_to_be_right(body["Pod"]["metadata"]["uid"])
        return answer

    def expect_to_be_right(self, uid: str) -> None:
        """Check the node that was chosen for a pod because other nodes were chosen for other pods."""
        attempt = self.extender.attempts.get(uid)
        if attempt is None or attempt.kept is None or not attempt.decision.evaluated_for:
            return
        whole = self.extender.profiles.whole_of(attempt.pod.spec.scheduler_name)
        assert whole is not None
        self.expect_to_fit(whole, attempt.pod, attempt.kept.names[0], "is sent")

    def begin_bind(self, document: Document, node: str) -> None:
        async def call() -> None:
            uid = document["metadata"]["uid"]
            error = await self.bind_call(document, node)
            self.posting.discard((uid, node))
            if not error:
                self.bound[uid].add(node)

        task = self.runner.get_loop().create_task(call())
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)

    # --- network faults --------------------------------------------------------------------------

    @rule(fault=st.sampled_from(FAULTS), times=st.integers(1, 6))
    def trouble(self, fault: tuple[tuple[str, str], Fault], times: int) -> None:
        (method, part), what = fault
        self.weather.troubles += [(method, part, what)] * times

    @rule(
        plural=st.sampled_from(KINDS),
        what=st.sampled_from(["hold", "let go", "say again", "cut", "compact"]),
    )
    def disturb_watches(self, plural: str, what: str) -> None:
        if what == "hold":
            self.weather.hold(plural)
        elif what == "let go":
            self.weather.let_go(plural)
        elif what == "say again":
            self.weather.say_again(plural)
        else:
            self.server.cut_watches()
            if what == "compact":
                self.server.compact()
        self.do(asyncio.sleep(0.1))

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 30.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @rule(really=st.sampled_from([False, False, False, True]))
    def restart(self, really: bool) -> None:
        if not really:
            return

        async def again() -> None:
            self.weather.clear_up()
            await self.service.stop()
            while self.calls:  # a listener would wait for that
                await asyncio.sleep(0.1)
            self.service = self.new_service()
            await self.service.start()

        self.do(again())

    # --- invariants ------------------------------------------------------------------------------

    def sent(self, method: str, path: str, body: bytes) -> None:
        """Check a binding that koordpy writes: its node must exist, as far as koordpy knows."""
        if method != "POST" or not path.endswith("/binding"):
            return
        binding = json.loads(body)
        uid, node = binding["metadata"]["uid"], binding["target"]["name"]
        if (uid, node) in self.posting:
            return
        self.posting.add((uid, node))
        table = self.extender.nodes
        row = table.row_of(node)
        if row is None or not table.present[row]:
            self.problems.append(f"{uid} is bound to {node}, which is not there")

    def teardown(self) -> None:
        try:
            self.do(self.settle())
        finally:
            self.stop()

    async def settle(self) -> None:
        """Remove all faults, and compare."""
        self.weather.clear_up()
        await asyncio.sleep(SETTLED_SECONDS)
        probe = pod("probe", uid="uid-of-probe")
        await self.ask("filter", {"Pod": probe, "NodeNames": ["n9"]})
        assert not self.problems, self.problems
        await self.assert_bound_once()
        if self.strict:
            await self.assert_nothing_is_booked_twice()
        assert_clean(self.server, self.crowded)
        expected = await rebuilt(self.profiles, self.client, self.clock)
        settle(self.extender.handle.cluster)
        assert differences(memory(self.extender), expected) == []
        assert leftovers(self.extender) == []

    async def assert_bound_once(self) -> None:
        """A pod reported as bound is bound there, unless it is gone."""
        assert not self.calls
        live = {found.metadata.uid: found.spec.node_name for found in await self.client.list_all(Pod)}
        for uid, nodes in self.bound.items():
            assert len(nodes) == 1, (uid, nodes)
            assert live.get(uid, *nodes) in nodes

    async def assert_nothing_is_booked_twice(self) -> None:
        """No node has less than its pods and Reservations request."""
        pods = [found for found in await self.client.list_all(Pod) if not found.is_terminal]
        left = {node.metadata.name: CPUS for node in await self.client.list_all(Node)}
        for found in pods:
            if found.spec.node_name:
                left[found.spec.node_name] -= cpus(found)
        for reservation in await self.client.list_all(Reservation):
            if reservation.is_available:
                users = [
                    found
                    for found in pods
                    if found.spec.node_name
                    and reservation.metadata.uid in found.metadata.annotations.get(ALLOCATED, "")
                ]
                held = int(reservation.status.allocatable["cpu"])
                left[reservation.node_name] -= held - sum(map(cpus, users))
        assert all(cpu >= 0 for cpu in left.values()), left


class ChoosingMachine(SchedulingMachine):
    """koordpy chooses the nodes."""

    extender_settings: ClassVar[Document] = {"nodeChoice": "koordpy"}
    nodes = (*NODES, "n3", "n4", "n5")


class LightMachine(SchedulingMachine):
    """kube-scheduler binds pods itself."""

    extender_settings: ClassVar[Document] = {"mode": "light", "nodeChoice": "koordpy"}
    light = True
    nodes = ChoosingMachine.nodes


EXAMPLES = int(os.environ.get("KOORDPY_STATE_EXAMPLES", "0"))

for machine in (SchedulingMachine, ChoosingMachine, LightMachine):
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES or 25,
        stateful_step_count=60,
        deadline=None,
        derandomize=not EXAMPLES,
        phases=list(Phase) if EXAMPLES else [Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

TestKubeSchedulerChooses = SchedulingMachine.TestCase
TestKoordpyChooses = ChoosingMachine.TestCase
TestLightMode = LightMachine.TestCase
