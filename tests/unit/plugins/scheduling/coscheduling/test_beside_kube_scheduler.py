"""Gangs through the extender: every member is planned, waits in Permit, and is bound with the others."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.gang.membership import ANNOTATION_GANG_NAME, LABEL_POD_GROUP
from koordpy.api.gang.settings import (
    ANNOTATION_GROUPS,
    ANNOTATION_MATCH_POLICY,
    ANNOTATION_MIN_AVAILABLE,
    ANNOTATION_WAITING_TIME,
    ONLY_WAITING,
)
from koordpy.api.koordinator import PodGroup
from koordpy.api.scheme import decode
from koordpy.scheduling.interface import Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.profiles.registry import installed
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling
from koordpy_plugins.scheduling.coscheduling.waiting import MEMBER_COUNT
from tests.unit.scheduling.worlds import bind_body, extender, filter_body, node, pod_document, world

FIT = installed()["NodeResourcesFit"]


class GangCluster:
    """Three nodes with room for two members each."""

    def __init__(self) -> None:
        self.names = [f"n{i}" for i in range(3)]
        self.cluster = world([node(name, cpu="2") for name in self.names])
        self.extender = extender(self.cluster, FIT, Coscheduling)
        framework = self.extender.profiles.frameworks["default-scheduler"]
        self.plugin = next(each for each in framework.plugins if isinstance(each, Coscheduling))
        self.pods = self.cluster.store(Pod)

    def create(self, gang: str, numbers: Iterable[int], minimum: int, **notes: str) -> list[str]:
        names = [f"{gang}-{number}" for number in numbers]
        for name in names:
            document = pod_document(name)
            document["metadata"]["annotations"] = {
                ANNOTATION_GANG_NAME: gang,
                ANNOTATION_MIN_AVAILABLE: str(minimum),
                **notes,
            }
            self.pods.apply(decode(Pod, document))
        return names

    def create_with_pod_group(self, gang: str, numbers: Iterable[int], minimum: int) -> list[str]:
        meta = {"namespace": "default", "name": gang}
        groups = self.cluster.store(PodGroup)
        groups.apply(decode(PodGroup, {"metadata": meta, "spec": {"minMember": minimum}}))
        names = [f"{gang}-{number}" for number in numbers]
        for name in names:
            document = pod_document(name)
            document["metadata"]["labels"] = {LABEL_POD_GROUP: gang}
            self.pods.apply(decode(Pod, document))
        return names

    def document(self, name: str) -> dict[str, Any]:
        document = pod_document(name)
        known = self.pods.get("default", name)
        assert known is not None
        document["metadata"]["annotations"] = dict(known.metadata.annotations)
        document["metadata"]["labels"] = dict(known.metadata.labels)
        return document

    def filter(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.extender.filter(filter_body(self.document(name), self.names))[0]
        )
        return answer

    def node_for(self, name: str) -> str:
        answer = self.filter(name)
        assert answer["NodeNames"], answer
        return str(answer["NodeNames"][0])

    def why_not(self, name: str) -> str:
        answer = self.filter(name)
        assert not answer["NodeNames"], answer
        (message,) = set(answer["FailedAndUnresolvableNodes"].values())
        return str(message)

    def bind(self, name: str, node_name: str) -> "asyncio.Task[str]":
        async def bind() -> str:
            body = bind_body(self.document(name), node_name)
            return str(json.loads(await self.extender.bind(body, None))["Error"])

        return asyncio.create_task(bind())

    def delete(self, name: str) -> None:
        self.pods.discard(f"default/{name}")

    async def waiting(self, count: int) -> None:
        while len(self.plugin.handle.waiting_pods) != count:
            await asyncio.sleep(0)

    def is_clean(self) -> bool:
        return (
            not len(self.extender.jobs.held)
            and not self.cluster.nodes.unconfirmed()
            and not len(self.plugin.handle.waiting_pods)
            and self.plugin.holder.current is None
            and not self.plugin.waiting._held
        )


async def test_a_gang_that_fits_is_bound_whole() -> None:
    gangs = GangCluster()
    names = gangs.create("g", range(3), 3)
    binds = [gangs.bind(name, gangs.node_for(name)) for name in names]
    assert await asyncio.gather(*binds) == ["", "", ""]
    bound = [gangs.pods.get("default", name) for name in names]
    assert all(pod is not None and pod.spec.node_name for pod in bound)
    assert {pod.metadata.annotations[MEMBER_COUNT] for pod in bound if pod is not None} == {"3"}
    assert gangs.is_clean()


async def test_no_member_is_bound_before_all_have_asked() -> None:
    gangs = GangCluster()
    names = gangs.create("g", range(3), 3)
    first = [gangs.bind(name, gangs.node_for(name)) for name in names[:2]]
    await gangs.waiting(2)
    assert not any(pod.spec.node_name for pod in gangs.pods)
    last = gangs.bind(names[2], gangs.node_for(names[2]))
    assert await asyncio.gather(*first, last) == ["", "", ""]


async def test_a_gang_that_does_not_fit_takes_nothing_and_all_are_told_the_same() -> None:
    gangs = GangCluster()
    names = gangs.create("g", range(7), 7)
    told = {gangs.why_not(name) for name in names}
    assert len(told) == 1
    assert told.pop().startswith("6 of 7 pods of default/g fit")
    assert gangs.is_clean()


async def test_an_incomplete_gang_is_refused_without_planning() -> None:
    gangs = GangCluster()
    (name,) = gangs.create("g", range(1), 2)
    assert "child pod not collect enough" in gangs.why_not(name)
    assert gangs.is_clean()


async def test_gangs_that_compete_do_not_hold_half_of_what_they_need() -> None:
    gangs = GangCluster()
    first, second = gangs.create("a", range(4), 4), gangs.create("b", range(4), 4)
    held = {first[0]: gangs.node_for(first[0])}
    assert gangs.why_not(second[0]).startswith("2 of 4 pods of default/b fit")
    held.update((name, gangs.node_for(name)) for name in first[1:])
    assert "default/b" in gangs.why_not(second[3])
    binds = [gangs.bind(name, node_name) for name, node_name in held.items()]
    assert await asyncio.gather(*binds) == [""] * 4
    assert gangs.is_clean()


async def test_what_a_gang_has_beyond_its_minimum_leaves_room_for_the_others_of_its_group() -> None:
    gangs = GangCluster()
    group = {ANNOTATION_GROUPS: json.dumps(["default/a", "default/b"])}
    gangs.create("a", range(5), 3, **group)
    gangs.create("b", range(4), 3, **group)
    found = {name: gangs.node_for(name) for name in ("b-3", "a-0", "a-1", "a-2", "b-0", "b-1")}
    assert sorted(found.values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    binds = [gangs.bind(name, node_name) for name, node_name in found.items()]
    assert await asyncio.gather(*binds) == [""] * 6
    assert gangs.is_clean()


async def test_later_members_of_a_gang_that_was_bound_are_scheduled_alone() -> None:
    gangs = GangCluster()
    names = gangs.create("g", range(2), 2)
    await asyncio.gather(*(gangs.bind(name, gangs.node_for(name)) for name in names))
    (late,) = gangs.create("g", [2], 2)
    assert gangs.filter(late)["NodeNames"]
    assert len(gangs.extender.jobs.held) == 0
    assert await gangs.bind(late, "n2") == ""
    assert gangs.is_clean()


async def test_a_member_that_is_deleted_while_others_wait_releases_them() -> None:
    gangs = GangCluster()
    names = gangs.create("g", range(3), 3)
    binds = [gangs.bind(name, gangs.node_for(name)) for name in names[:2]]
    await gangs.waiting(2)
    gangs.delete(names[2])
    errors = await asyncio.gather(*binds)
    assert all("rejected" in error for error in errors), errors
    assert gangs.is_clean()
    again = gangs.create("g", [2], 3)
    binds = [gangs.bind(name, gangs.node_for(name)) for name in (*names[:2], *again)]
    assert await asyncio.gather(*binds) == ["", "", ""]


async def test_nothing_is_held_for_a_gang_whose_pod_group_is_deleted() -> None:
    gangs = GangCluster()
    names = gangs.create_with_pod_group("g", range(3), 3)
    bind = gangs.bind(names[0], gangs.node_for(names[0]))
    await gangs.waiting(1)
    gangs.cluster.store(PodGroup).discard("default/g")
    assert "gang is nil, may be already deleted" in await bind
    assert "gang has not init" in gangs.why_not(names[1])
    assert gangs.is_clean()
    assert gangs.create_with_pod_group("g", (), 3) == []
    binds = [gangs.bind(name, gangs.node_for(name)) for name in names]
    assert await asyncio.gather(*binds) == ["", "", ""]


async def test_members_wait_no_longer_than_their_gang_allows() -> None:
    gangs = GangCluster()
    names = gangs.create("g", range(2), 2, **{ANNOTATION_WAITING_TIME: "10ms"})
    bind = gangs.bind(names[0], gangs.node_for(names[0]))
    assert "rejected due to timeout after waiting 10ms" in await bind
    gangs.delete(names[1])
    assert gangs.is_clean()


async def test_a_gang_that_counts_waiting_pods_alone_is_planned_whole_again() -> None:
    gangs = GangCluster()
    policy = {ANNOTATION_MATCH_POLICY: ONLY_WAITING}
    names = gangs.create("g", range(2), 2, **policy)
    await asyncio.gather(*(gangs.bind(name, gangs.node_for(name)) for name in names))
    late = gangs.create("g", [2], 2, **policy)
    assert gangs.why_not(late[0]).startswith("every pod of default/g that waits for a node fits (1)")
    late += gangs.create("g", [3], 2, **policy)
    binds = [gangs.bind(name, gangs.node_for(name)) for name in late]
    assert await asyncio.gather(*binds) == ["", ""]
    assert gangs.is_clean()


def test_nobody_is_evicted_for_a_pod_that_would_wait_for_a_gang_that_does_not_exist() -> None:
    """It is nominated, waits in Permit until its time is over, loses its place, and preempts again."""
    w = GangCluster()
    group = {ANNOTATION_GROUPS: json.dumps(["default/a", "default/b"])}
    w.create("a", range(1), 1, **group)
    pod = w.pods.get("default", "a-0")
    assert pod is not None
    proposal = {"n0": Victims([decode(Pod, pod_document("victim"))])}
    assert w.plugin.preempt(CycleState(), pod, proposal) == {}
    w.create("b", range(1), 1, **group)
    assert w.plugin.preempt(CycleState(), pod, proposal) == proposal
