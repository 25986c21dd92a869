"""What is logged of attempts on request."""

import asyncio
import json
import logging
from typing import Any

import pytest

from koordpy.scheduling.explain.attempt_log import AttemptLog
from koordpy.scheduling.explain.decisions import Decision
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import Filter, Plugin, Score
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.scheduling.interface.diagnosis import Diagnosis
from koordpy.scheduling.interface.status import SUCCESS, Status
from tests.unit.scheduling.worlds import extender, filter_body, node, pod_document, world

LOG = "koordpy.scheduling.explain.attempt_log"


class Fit(Plugin, Filter):
    """Rejects nodes whose name begins with full."""

    name = "Fit"

    def filter(self, state: Any, pod: Any, node: Any) -> Status:
        return Status.unschedulable("it is full") if node.name.startswith("full") else SUCCESS


class Taste(Plugin, Score):
    """Scores nodes by the number at the end of their names."""

    name = "Taste"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return int(node.name[-1])


def logging_extender(**flags: Any) -> tuple[Extender, AttemptLog]:
    made = extender(world([node("a1"), node("a2"), node("full3")]), Fit, Taste)
    listener = AttemptLog(DebugFlags(**flags))
    made.decisions.listen(listener)
    return made, listener


def attempt(made: Extender, *names: str) -> None:
    _, found = made.filter(filter_body(pod_document("p"), names))
    if found is not None:
        made.work_ahead(found)


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG)


def test_nothing_is_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    made, _ = logging_extender()
    attempt(made, "a1", "a2", "full3")
    attempt(made, "full3")
    assert caplog.messages == []


def test_the_best_nodes_are_shown_as_a_table(caplog: pytest.LogCaptureFixture) -> None:
    made, listener = logging_extender(top_scores=1)
    attempt(made, "a1", "a2", "full3")
    assert caplog.messages == [
        "Top1 scores for Pod: default/p, feasibleNodes: 2, plugins:[Taste]\n"
        "| # | Pod | Node | Score | Taste |\n"
        "| --- | --- | --- | ---:| ---:|\n"
        "| 0 | default/p | a2 | 2 | 2 |"
    ]
    caplog.clear()
    listener.flags.setters()["s"]("5")
    attempt(made, "a1", "a2", "full3")
    assert len(caplog.messages[0].splitlines()) == 5


async def test_rejections_are_shown_by_plugin_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    made, _ = logging_extender(filter_failures=True)
    attempt(made, "a1", "full3")
    assert caplog.messages == [
        "Failed to filter for Pod 'default/p' on 1 Nodes, failedPlugin: Fit, reason: it is full: full3"
    ]


def test_a_diagnosis_is_written_immediately_in_blocking_mode(caplog: pytest.LogCaptureFixture) -> None:
    made, listener = logging_extender(diagnosis=True, diagnosis_blocking=True)
    seen: list[Diagnosis] = []
    listener.processors["seen"] = seen.append
    attempt(made, "full3")
    [line] = caplog.messages
    begin, _, text = line.partition("$")
    assert begin == "dump diagnosis for default/p, targetPod: default/p/uid-p: "
    told = json.loads(text)
    assert told["questionedKey"] == "default/p"
    assert told["scheduleDiagnosis"]["nodeFailedDetails"] == [
        {"failedPlugin": "Fit", "reason": "it is full", "preemptMightHelp": True, "failedNodes": ["full3"]}
    ]
    assert [one.document() for one in seen] == [told]


async def test_diagnoses_are_written_by_workers_and_dropped_beyond_the_queue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = AttemptLog(DebugFlags(diagnosis=True), queue_size=2, workers=1)
    for number in range(3):
        assert listener.dump(Diagnosis(questioned_key=f"default/{number}")) == ""
    assert caplog.messages == ["Diagnosis queue is full, dropping diagnosis for default/2"]
    caplog.clear()
    for _ in range(10):
        await asyncio.sleep(0)
    assert [line.split(",")[0] for line in caplog.messages] == [
        "dump diagnosis for default/0",
        "dump diagnosis for default/1",
    ]
    await listener.close()


def test_a_listener_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    made, _ = logging_extender()

    def broken(decision: Decision, step: str) -> None:
        raise ValueError(step)

    made.decisions.listen(broken)
    attempt(made, "a1", "a2")
    assert made.decisions.recent()[0].outcome == "filtered"
