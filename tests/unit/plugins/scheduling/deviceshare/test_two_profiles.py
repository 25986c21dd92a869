"""Whatever two profiles reserve, give back and bind, no device is given away twice."""

from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode
from koordpy.audit.auditing import audit
from koordpy.audit.objects import Objects
from koordpy.scheduling.interface.cycle_state import CycleState

from .clusters import NODE, PERCENT, Profile, cluster_of, pod

CORE, RATIO, SHARED = (f"koordinator.sh/gpu{name}" for name in ("-core", "-memory-ratio", ".shared"))
REQUESTS: Final = (
    {PERCENT: "100"},
    {PERCENT: "200"},
    {PERCENT: "30"},
    {PERCENT: "70"},
    {SHARED: "2", CORE: "100", RATIO: "100"},
    {CORE: "10", "koordinator.sh/gpu-memory": "10Gi"},
)


class Play:
    """Attempts of two profiles on one node, in any order of their steps."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.cluster = rng, cluster_of(gpus=3)
        self.profiles = [Profile(self.cluster), Profile(self.cluster)]
        self.prepared: list[tuple[Profile, Pod, CycleState]] = []
        self.reserved: list[tuple[Profile, Pod, CycleState]] = []
        self.number = 0

    def prepare(self) -> None:
        self.number += 1
        profile, incoming = self.rng.choice(self.profiles), pod(f"p{self.number}", self.rng.choice(REQUESTS))
        state, status = profile.prepared(incoming)
        if status.is_success and profile.plugin.filter(state, incoming, profile.node()).is_success:
            self.prepared.append((profile, incoming, state))

    def reserve(self) -> None:
        if self.prepared:
            attempt = self.prepared.pop(self.rng.randrange(len(self.prepared)))
            profile, incoming, state = attempt
            if profile.plugin.reserve(state, incoming, NODE).is_success:
                self.reserved.append(attempt)

    def unreserve(self) -> None:
        if self.reserved:
            profile, incoming, state = self.reserved.pop(self.rng.randrange(len(self.reserved)))
            profile.plugin.unreserve(state, incoming, NODE)

    def bind(self) -> None:
        if self.reserved:
            profile, incoming, state = self.reserved.pop(self.rng.randrange(len(self.reserved)))
            self.show(profile, incoming, state)

    def show(self, profile: Profile, incoming: Pod, state: CycleState) -> None:
        document = {
            "metadata": {
                "name": incoming.metadata.name,
                "namespace": "x",
                "uid": incoming.metadata.uid,
                "annotations": dict(profile.written(state, incoming).annotations),
            },
            "spec": {"nodeName": NODE, "containers": [{"name": "c"}]},
        }
        self.cluster.store(Pod).apply(decode(Pod, document))

    def delete(self) -> None:
        bound = list(self.cluster.store(Pod))
        if bound:
            self.cluster.store(Pod).discard(self.rng.choice(bound).metadata.key)

    def step(self) -> None:
        steps = (self.prepare, self.prepare, self.prepare, self.reserve, self.reserve, self.bind)
        self.rng.choice((*steps, self.unreserve, self.delete))()

    def found_twice(self) -> list[str]:
        """What an audit finds, once all that is reserved has been bound."""
        for attempt in self.reserved:
            self.show(*attempt)
        types: tuple[type[KubeObject], ...] = (Node, Pod, Device)
        found = {type_: list(self.cluster.store(type_)) for type_ in types}
        report = audit(Objects.of(found))
        return [str(finding) for finding in report.findings]


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_no_device_is_given_away_twice(seed: int) -> None:
    play = Play(Random(seed))
    for _ in range(40):
        play.step()
    assert play.found_twice() == []


def test_an_audit_finds_a_device_that_is_given_away_twice() -> None:
    play = Play(Random(0))
    first, second = pod("a", {PERCENT: "100"}), pod("b", {PERCENT: "100"})
    profile, other = Profile(cluster_of(gpus=1)), Profile(cluster_of(gpus=1))
    play.show(profile, first, profile.reserve(first)[0])
    play.show(other, second, other.reserve(second)[0])
    assert any(NODE in finding for finding in play.found_twice())
