"""What derived states put off is worked off in slices, once everything is listed."""

import asyncio

from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.refreshing import SLICE, Refreshing


class Putting(DerivedState):
    """Puts off a number of rows."""

    def __init__(self, cluster: Cluster, rows: int) -> None:
        super().__init__(cluster)
        self.left, self.slices = rows, 0

    def snapshot(self) -> Snapshot:
        return {}

    def refresh_some(self, at_most: int) -> bool:
        self.slices += self.left > 0
        self.left -= min(at_most, self.left)
        return self.left > 0


def test_the_rows_of_all_states_are_worked_off_in_slices() -> None:
    cluster = Cluster()
    states = [cluster.shared(Putting, rows) for rows in (3 * SLICE, SLICE + 1)]

    async def run() -> int:
        turns, listed = 0, asyncio.Event()
        refreshing = Refreshing(cluster.states)

        async def wait_listed() -> None:
            await listed.wait()

        task = asyncio.create_task(refreshing.run(wait_listed))
        for _ in range(5):
            await asyncio.sleep(0)
        assert refreshing.problem() is not None
        assert states[0].left == 3 * SLICE
        listed.set()
        while refreshing.problem() is not None:
            await asyncio.sleep(0)
            turns += 1
        await refreshing.wait()
        task.cancel()
        return turns

    assert asyncio.run(run()) >= 3, "others run between the slices"
    assert [state.left for state in states] == [0, 0]
    assert [state.slices for state in states] == [3, 2]


def test_a_cluster_whose_states_put_nothing_off_has_nothing_to_refresh() -> None:
    cluster = Cluster()
    _ = cluster.nodes
    assert not cluster.states.refresh_some(1)
