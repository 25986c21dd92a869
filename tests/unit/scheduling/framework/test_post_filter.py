"""How the answers of several PostFilter plugins combine, and further reasons of an unschedulable pod."""

from collections.abc import Sequence

import pytest

from koordpy.api.core import Pod
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import ExplainsFailure, Plugin, PostFilter
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from tests.unit.scheduling.worlds import framework, node, pod, world

Answer = tuple[PostFilterResult | None, Status]

TO_A = PostFilterResult("a", override=True)
TO_B = PostFilterResult("b", override=True)
AS_IT_IS = PostFilterResult()
NO = Status.unschedulable("no")


def answering(*answers: Answer | Exception) -> Framework:
    """A profile with a plugin for each answer, named P0, P1..."""

    def plugin(index: int, answer: Answer | Exception) -> type[Plugin]:
        class Answers(Plugin, PostFilter):
            name = f"P{index}"

            async def post_filter(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> Answer:
                if isinstance(answer, Exception):
                    raise answer
                return answer

        return Answers

    return framework(world([node("a")]), *(plugin(index, answer) for index, answer in enumerate(answers)))


async def combined(fw: Framework) -> Answer:
    state = fw.new_state()
    return await fw.run_post_filter(state, pod("p"), fw.find_feasible(state, pod("p"), fw.handle.nodes.all()))


@pytest.mark.parametrize(
    ("answers", "nomination", "status"),
    [
        ([(None, NO), (None, Status.unschedulable("nor I"))], None, (Code.UNSCHEDULABLE, "no, nor I", "P0")),
        ([(TO_A, NO), (AS_IT_IS, NO)], TO_A, (Code.UNSCHEDULABLE, "no, no", "P0")),
        ([(TO_A, NO), (TO_B, NO)], TO_B, (Code.UNSCHEDULABLE, "no, no", "P0")),
        ([(TO_A, NO), (TO_B, SUCCESS), (TO_A, SUCCESS)], TO_B, (Code.SUCCESS, "", "P1")),
        ([(TO_A, NO), (None, SUCCESS)], None, (Code.SUCCESS, "", "P1")),
        (
            [(TO_A, NO), (TO_B, Status.unresolvable("never")), (TO_A, SUCCESS)],
            TO_B,
            (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "never", "P1"),
        ),
        ([(TO_A, NO), (TO_B, Status.failed("broken")), (TO_A, SUCCESS)], None, (Code.ERROR, "broken", "P1")),
        (
            [(TO_A, NO), RuntimeError("boom"), (TO_A, SUCCESS)],
            None,
            (Code.ERROR, 'running PostFilter plugin "P1": RuntimeError: boom', "P1"),
        ),
    ],
    ids=[
        "reasons add up", "leaving as it is changes nothing", "the last counts", "success ends it",
        "success without a node", "unresolvable ends it", "an error ends it", "what raises is an error",
    ],
)  # fmt: skip
async def test_answers_combine(
    answers: list[Answer | Exception], nomination: PostFilterResult | None, status: tuple[Code, str, str]
) -> None:
    result, final = await combined(answering(*answers))
    assert result == nomination
    assert (final.code, final.message, final.plugin) == status


async def test_whether_a_profile_preempts() -> None:
    assert answering((None, NO)).has_post_filter
    assert not answering().has_post_filter


def test_plugins_explain_a_failure_and_one_that_raises_is_skipped() -> None:
    class Explains(Plugin, PostFilter, ExplainsFailure):
        name = "Explains"

        def reasons(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> Sequence[str]:
            return [f"of {len(outcome.nodes)} nodes none is for {pod.metadata.name}"]

    class Cannot(Explains):
        name = "Cannot"

        def reasons(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> Sequence[str]:
            raise RuntimeError("no idea")

    fw = framework(world([node("a")]), Cannot, Explains)
    state = fw.new_state()
    outcome = fw.find_feasible(state, pod("p"), fw.handle.nodes.all())
    assert fw.explain_failure(state, pod("p"), outcome) == ["of 1 nodes none is for p"]
