"""Jobs that compete for the places of less important pods: it ends, and no pod is evicted twice."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.coscheduling.preemption.job_preemption import Options

from .stage import Stage

JOINT = Options(joint_fit=True, considers_pdbs=True)


class Contest:
    """Several gangs of two priorities on full nodes, whose victims take their time to end."""

    def __init__(self, rng: Random, nodes: int, gangs: int, size: int) -> None:
        self.rng = rng
        self.stage = Stage(nodes, cpu="2", used="2", options=JOINT)
        self.gangs: dict[str, list[str]] = {}
        for number in range(gangs):
            priority = rng.choice((5, 10))
            names = [f"gang{number}-{member}" for member in range(size)]
            for name in names:
                self.stage.add(name, "2", priority=priority)
            self.gangs[f"gang{number}"] = names
        self.evicted: Counter[str] = Counter()

    def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in self.stage.cluster.store(Pod)}

    def is_whole(self, gang: str) -> bool:
        pods = self.pods()
        return all(name in pods and pods[name].spec.node_name for name in self.gangs[gang])

    def exists(self, gang: str) -> bool:
        pods = self.pods()
        return all(name in pods and not pods[name].metadata.deletion_timestamp for name in self.gangs[gang])

    async def step(self) -> bool:
        """Let one gang preempt, a victim end, or a gang be bound to its nodes; return whether it could."""
        choices = list(self.gangs)
        self.rng.shuffle(choices)
        return any([await self._try(gang) for gang in choices])

    async def _try(self, gang: str) -> bool:
        if self.is_whole(gang) or not self.exists(gang):
            return False
        if self._bind(gang):
            return True
        before = list(self.stage.api.deleted)
        self.stage.members = self.gangs[gang]
        _, status = await self.stage.preempt(self.gangs[gang][0])
        self.evicted.update(self.stage.api.deleted[len(before) :])
        assert status.code in (Code.SUCCESS, Code.UNSCHEDULABLE)
        return len(self.stage.api.deleted) > len(before)

    def end_one(self) -> bool:
        """Let a victim end; with it its gang is gone, as its controller would have it."""
        ending = sorted(name for name, pod in self.pods().items() if pod.metadata.deletion_timestamp)
        if not ending:
            return False
        self.stage.remove(self.rng.choice(ending))
        return True

    def _bind(self, gang: str) -> bool:
        """Bind a whole gang to the nodes that it is nominated to, if these are free by now."""
        pods = self.pods()
        members = [pods[name] for name in self.gangs[gang]]
        nodes = [pod.status.nominated_node_name for pod in members]
        taken = {pod.spec.node_name for pod in pods.values() if pod.spec.node_name}
        if not all(nodes) or len(set(nodes)) < len(nodes) or taken & set(nodes):
            return False
        for pod, node_name in zip(members, nodes, strict=True):
            self.stage.change(
                pod.metadata.name, lambda document, to=node_name: document["spec"].update(nodeName=to)
            )
        return True


@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
async def test_a_contest_ends_and_evicts_no_pod_twice(rng: Random, nodes: int, gangs: int, size: int) -> None:
    contest = Contest(rng, nodes, gangs, size)
    for _ in range(20 * (nodes + gangs * size)):
        moved = await contest.step()
        if rng.random() < 0.5 or not moved:
            moved = contest.end_one() or moved
        if not moved:
            break
    else:
        raise AssertionError("the contest does not end")
    assert set(contest.evicted.values()) <= {1}
    assert nodes < size or any(map(contest.is_whole, contest.gangs))
