"""Reservations that are placed together."""

from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.scheduling.interface import Job, PlansJobs, PreFilter
from koordpy.scheduling.interface.status import SUCCESS, Status

from .stage import OneANode, staged


class Together(OneANode, PreFilter, PlansJobs):
    """Places all Reservations without a node together."""

    refused = ""
    planned: Mapping[str, str] = {}

    def pre_filter(self, state, pod, nodes):
        return None, SUCCESS

    def job_of(self, pod: Pod) -> Job | None:
        store = self.handle.cluster.store(Reservation)
        unassigned = sorted(
            (each for each in store if each.is_unassigned), key=lambda each: each.metadata.name
        )
        pods = tuple(new_reserve_pod(each) for each in unassigned)
        return Job("all", pods, lambda placed: len(placed) == len(pods), 600) if len(pods) > 1 else None

    def job_planned(self, job: Job, nodes: Mapping[str, str]) -> None:
        self.planned = dict(nodes)

    def job_refused(self, job: Job, status: Status) -> None:
        self.refused = status.message


async def test_reservations_of_a_job_are_bound_together_or_none_of_them() -> None:
    async with staged("a", plugin=Together) as stage:
        plugin = stage.plugin
        assert isinstance(plugin, Together)
        await stage.stop()
        await stage.add("x")
        await stage.add("y")
        await stage.until(lambda: stage.known("x") and stage.known("y"))
        await stage.start()
        assert "1 of 2 pods of all fit" in await stage.message_of("x")
        assert "1 of 2 pods of all fit" in await stage.message_of("y")
        assert plugin.held == {}
        assert not stage.cluster.nodes.requested.any()
        await stage.add_node("b")
        assert {await stage.node_of("x"), await stage.node_of("y")} == {"a", "b"}
        assert len(plugin.planned) == 2


async def test_a_deleted_reservation_releases_what_its_job_holds() -> None:
    async with staged("a", "b", plugin=Together) as stage:
        plugin = stage.plugin
        assert isinstance(plugin, Together)
        plugin.waits = 60.0
        await stage.stop()
        await stage.add("x")
        await stage.add("y")
        await stage.until(lambda: stage.known("x") and stage.known("y"))
        await stage.start()
        await stage.until(lambda: len(plugin.held) == 2)
        await stage.client.delete(Reservation, "", "x")
        plugin.waits = 0.0
        await stage.until(lambda: stage.known("x") is None)
        await stage.until(lambda: len(plugin.held) <= 1)
