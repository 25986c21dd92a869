"""Following decisions, switching what is logged, and what is written about pods that stay unschedulable."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from koordpy.api.core import Pod
from koordpy.api.schedule_explanation import ScheduleExplanation
from koordpy.api.scheme import resource_of
from koordpy.cluster.errors import NotFound
from koordpy.compose.parts.extender import ExtenderPart
from koordpy.scheduling.explain.decision_stream import MOST_STREAMS
from tests.eventually import PATIENCE
from tests.integration.service.stage import Document, Stage, serving, until


async def lines(stage: Stage, query: str = "", **headers: str) -> AsyncIterator[str]:
    """Yield what a watch says, as soon as it is followed."""
    url = f"{stage.url('debug')}/apis/v1/decisions?watch=true&{query}"
    async with stage.http.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if line:
                yield line


class Following:
    """A watch that is read in the background."""

    def __init__(self, stage: Stage, query: str = "", **headers: str) -> None:
        self.lines: list[str] = []
        self._stage = stage
        self._task = asyncio.create_task(self._read(lines(stage, query, **headers)))

    async def _read(self, stream: AsyncIterator[str]) -> None:
        async for line in stream:
            self.lines.append(line)

    async def begun(self, count: int = 1) -> None:
        observers = self._stage.observers
        assert observers is not None
        await until(lambda: len(observers.streams) >= count)

    @property
    def decisions(self) -> list[Document]:
        return [json.loads(line) for line in self.lines]

    async def end(self) -> None:
        """Wait for the server to end the stream."""
        await asyncio.wait_for(self._task, PATIENCE)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_a_watch_reports_attempts_as_they_proceed(stage: Stage) -> None:
    watch = Following(stage)
    await watch.begun()
    pod = await stage.add_pod("p")
    await stage.filter(pod, "n0", "n1")
    await until(lambda: len(watch.lines) == 1)
    assert await stage.bind(pod, "n0") == ""
    await until(lambda: len(watch.lines) >= 2)
    first, *_, last = watch.decisions
    assert (first["pod"], first["outcome"], first["node"]) == ("p", "filtered", "")
    assert (last["pod"], last["outcome"], last["node"]) == ("p", "bound", "n0")
    assert (first["uid"], first["evaluatedNodes"]) == (last["uid"], 2)
    await watch.stop()
    observers = stage.observers
    assert observers is not None
    await until(lambda: len(observers.streams) == 0)


async def test_a_watch_reports_only_selected_attempts(stage: Stage) -> None:
    big = Following(stage, "outcome=unschedulable&outcome=failed")
    named = Following(stage, "namespace=default&pod=small")
    other = Following(stage, "namespace=shop")
    await other.begun(3)
    for name, cpu in (("small", "1"), ("huge", "100")):
        await stage.filter(await stage.add_pod(name, cpu=cpu), "n0", "n1")
    await until(lambda: bool(big.lines and named.lines))
    assert [(item["pod"], item["outcome"]) for item in big.decisions] == [("huge", "unschedulable")]
    assert big.decisions[0]["rejections"][0]["reason"] == "Insufficient cpu"
    assert {item["pod"] for item in named.decisions} == {"small"}
    assert other.lines == []
    for watch in (big, named, other):
        await watch.stop()


async def test_a_watch_begins_with_earlier_attempts_if_requested(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        await stage.filter(await stage.add_pod(name), "n0")
    watch = Following(stage, "limit=2")
    await until(lambda: len(watch.lines) == 2)
    assert [item["pod"] for item in watch.decisions] == ["b", "c"]
    await watch.stop()


async def test_server_sent_events_for_those_who_accept_them(stage: Stage) -> None:
    watch = Following(stage, accept="text/event-stream")
    await watch.begun()
    await stage.filter(await stage.add_pod("p"), "n0")
    await until(lambda: len(watch.lines) == 2)
    event, data = watch.lines
    assert event == "event: decision"
    assert json.loads(data.removeprefix("data: "))["pod"] == "p"
    await watch.stop()


async def test_a_list_can_be_narrowed_too(stage: Stage) -> None:
    for name, cpu in (("small", "1"), ("huge", "100")):
        await stage.filter(await stage.add_pod(name, cpu=cpu), "n0", "n1")
    found = (await stage.get("/apis/v1/decisions?outcome=unschedulable")).json()
    assert [item["pod"] for item in found] == ["huge"]
    found = (await stage.get("/apis/v1/decisions?pod=small&namespace=default&limit=5")).json()
    assert [item["pod"] for item in found] == ["small"]
    assert (await stage.get("/apis/v1/decisions?outcome=nonsense")).status_code == 400


async def test_only_so_many_may_watch(stage: Stage) -> None:
    watches = [Following(stage) for _ in range(MOST_STREAMS)]
    await watches[0].begun(MOST_STREAMS)
    answer = await stage.get("/apis/v1/decisions?watch=true")
    assert (answer.status_code, "open already" in answer.json()["message"]) == (429, True)
    for watch in watches:
        await watch.stop()


async def test_a_reader_that_does_not_read_holds_nothing_up(stage: Stage) -> None:
    host, port = stage.url("debug").removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(b"GET /apis/v1/decisions?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await writer.drain()
    observers = stage.observers
    assert observers is not None
    await until(lambda: len(observers.streams) == 1)
    pod = await stage.add_pod("p")
    for _ in range(300):
        assert (await stage.filter(pod, "n0", "n1"))["NodeNames"]
    assert await stage.bind(pod, "n0") == ""
    writer.close()
    await until(lambda: len(observers.streams) == 0)
    assert reader is not None


async def test_watches_end_when_the_service_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as stage:
        watch = Following(stage)
        await watch.begun()
        stopping = asyncio.create_task(stage.process.stop())
        await watch.end()  # raises for a stream that is cut because it outlasts the grace period
        await stopping


async def test_there_is_nothing_to_watch_without_the_extender_part(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["admission", "debug"]) as stage:
        answer = await stage.get("/apis/v1/decisions?watch=true")
        assert answer.status_code == 404
        assert (await stage.get("/apis/v1/decisions")).json() == []


# --- flags -----------------------------------------------------------------------------------------


async def put(stage: Stage, flag: str, value: str, method: str = "PUT") -> httpx.Response:
    return await stage.http.request(method, f"{stage.url('debug')}/debug/flags/{flag}", content=value)


async def test_flags_are_switched_by_put_and_answered_as_koordinator_does(stage: Stage) -> None:
    answer = await put(stage, "s", "3")
    assert (answer.status_code, answer.text) == (200, "successfully set debugTopNScores to 3\n")
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert stage.process.part(ExtenderPart).debug_flags.top_scores == 3
    answer = await put(stage, "f", "perhaps")
    assert answer.status_code == 400
    assert answer.text == (
        'failed set debugFilterFailure perhaps: strconv.ParseBool: parsing "perhaps": invalid syntax\n'
    )
    for method in ("GET", "POST", "DELETE"):
        answer = await put(stage, "s", "1", method)
        assert (answer.status_code, answer.text) == (406, "unsupported http method\n")
    for path in ("/debug/flags", "/debug/flags/", "/debug/flags/other"):
        page = await stage.get(path)
        assert page.status_code == 200
        assert all(f"<tr>{flag}<br>" in page.text for flag in ("v", "s", "f", "d", "db"))
    assert (await put(stage, "s", "1" * 5000)).status_code == 400
    assert (await stage.http.put(f"{stage.url('debug')}/debug/flags/f", content=b"\xff")).status_code == 400


async def test_flags_switch_what_is_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "koordpy.scheduling.explain.attempt_log")
    for flag, value in (("s", "1"), ("f", "true"), ("d", "true"), ("db", "true")):
        assert (await put(stage, flag, value)).status_code == 200
    small, huge = await stage.add_pod("small"), await stage.add_pod("huge", cpu="100")
    await stage.filter(small, "n0", "n1")
    await stage.prioritize(small, "n0", "n1")
    await stage.filter(huge, "n0", "n1")
    told = [message.split(" ")[0] for message in caplog.messages]
    assert told == ["Top1", "Failed", "dump"]
    assert '"failedPlugin":"NodeResourcesFit"' in caplog.messages[-1]


async def test_settings_say_what_is_logged_from_the_start(tmp_path: Path) -> None:
    log = {"scores": 5, "filters": True, "diagnosis": True, "diagnosisQueueSize": 7}
    async with serving(tmp_path, extender={"debugLog": log}) as stage:
        flags = stage.process.part(ExtenderPart).debug_flags
        assert (flags.top_scores, flags.filter_failures, flags.diagnosis) == (5, True, True)


async def test_a_workload_auditor_follows_pods_where_it_is_switched_on(tmp_path: Path) -> None:
    async with serving(tmp_path, extender={"workloadAuditor": {"enabled": True}}) as stage:
        await stage.add_node("n0")
        pod = await stage.add_pod("p")
        auditor = stage.observers.auditor
        assert auditor is not None
        await until(lambda: len(auditor) == 1)
        await stage.filter(pod, "n0")
        assert await stage.bind(pod, "n0") == ""
        await until(lambda: len(auditor) == 0)
        text = (await stage.get("/metrics")).text
        assert 'workload_auditor_scheduling_events_before_outcome_count{event_type="scheduled"' in text


# --- ScheduleExplanations --------------------------------------------------------------------------

EXPLAINING = {
    "scheduleExplanations": {"enabled": True, "after": "0s", "refresh": "100ms", "writesPerSecond": 50},
    "leaderElect": False,
}


async def explained(stage: Stage, name: str, wanted: Callable[[Document], bool]) -> Document:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                found = await stage.client.get_raw(resource_of(ScheduleExplanation), "default", name)
                if wanted(found):
                    return found
            except NotFound:
                pass
            await asyncio.sleep(0.05)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.05)


async def unschedulable(stage: Stage, name: str, cpu: str) -> Document:
    pod = await stage.add_pod(name, cpu=cpu)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"phase": "Pending", "conditions": [condition]}}
    await stage.client.patch_status(Pod, "default", name, status)
    return pod


async def is_gone(stage: Stage, name: str) -> bool:
    found = await stage.client.list_all(ScheduleExplanation, "default")
    return name not in {item.metadata.name for item in found}


async def test_a_pod_that_stays_unschedulable_is_explained_until_it_is_bound(tmp_path: Path) -> None:
    async with serving(tmp_path, extender=EXPLAINING) as stage:
        await stage.add_node("n0")
        pod = await unschedulable(stage, "p", "6")
        found = await explained(stage, "p", lambda one: bool(one.get("status")))
        assert found["spec"]["questionObjectKey"] == "default/p"
        assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "koordpy"}
        [owner] = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", pod["metadata"]["uid"])
        status = found["status"]
        message = "0/1 nodes are available: 1 Insufficient cpu."
        assert (status["schedulable"], status["failedMessage"]) == (False, message)
        [domain] = status["detailedExplanation"]
        assert domain["scheduleExplanation"]["nodeFailedDetails"] == [
            {
                "failedPlugin": "NodeResourcesFit",
                "reason": "Insufficient cpu",
                "failedNodes": ["n0"],
            }
        ]
        await stage.add_node("n1", cpu="8")
        found = await explained(stage, "p", lambda one: bool(one["status"].get("schedulable")))
        assert "failedMessage" not in found["status"]
        [placed] = found["status"]["detailedExplanation"][0]["scheduleExplanation"][
            "feasibleSchedulingResult"
        ]
        assert (placed["name"], placed["nodeName"]) == ("p", "n1")
        await stage.filter(pod, "n0", "n1")
        assert await stage.bind(pod, "n1") == ""
        await eventually(lambda: is_gone(stage, "p"))


async def test_an_explanation_goes_with_its_pod_and_others_are_left_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, extender=EXPLAINING) as stage:
        await stage.add_node("n0")
        resource = resource_of(ScheduleExplanation)
        question = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "why", "namespace": "default"},
            "spec": {"questionObjectKey": "default/asked"},
        }
        await stage.client.create_raw(resource, "default", question)
        await unschedulable(stage, "p", "6")
        await unschedulable(stage, "asked", "7")
        await explained(stage, "p", lambda one: bool(one.get("status")))
        answered = await explained(stage, "why", lambda one: bool(one.get("status")))
        assert answered["status"]["schedulable"] is False
        assert await is_gone(stage, "asked")
        await stage.delete_pod("p")
        await stage.delete_pod("asked")
        await eventually(lambda: is_gone(stage, "p"))
        assert not await is_gone(stage, "why")


async def test_nothing_is_explained_unless_it_is_switched_on(stage: Stage) -> None:
    observers = stage.observers
    assert observers is not None
    assert observers.explanations is None
    assert ScheduleExplanation not in {store.type for store in stage.process.cluster.stores}
