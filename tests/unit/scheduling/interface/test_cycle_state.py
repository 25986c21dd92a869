"""The state of a scheduling cycle."""

from dataclasses import dataclass, field, replace

from koordpy.scheduling.interface.cycle_state import SCORED, CycleState, StateKey


@dataclass
class Count:
    values: list[int] = field(default_factory=list)

    def clone(self) -> "Count":
        return replace(self, values=list(self.values))


COUNT: StateKey[Count] = StateKey("count")


def test_a_clone_has_its_own_copies() -> None:
    state = CycleState()
    state.write(COUNT, Count([1]))
    copy = state.clone()
    copied, kept = copy.read(COUNT), state.read(COUNT)
    assert copied is not None
    assert kept is not None
    copied.values.append(2)
    assert kept.values == [1]


def test_a_state_that_was_scored_itself_can_be_cloned() -> None:
    state = CycleState()
    state.write(SCORED, state)
    copy = state.clone()
    assert copy.read(SCORED) is copy
