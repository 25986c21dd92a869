"""The endpoints of the node agent: parts of the metrics, and profiles that `go tool pprof` reads."""

import asyncio
import json

import pytest

from koordpy.agent.reporting import node_metric_gauges
from koordpy.agent.states import resource_gauges
from koordpy.http.routes.node_agent import endpoints
from koordpy.http.server.endpoints import Endpoints
from koordpy.lib.health import Health
from tests.pprof import decode

[ABOUT_WORKLOADS] = (metric.name for metric in resource_gauges.REQUESTS.describe())
[ABOUT_ITSELF] = (metric.name for metric in node_metric_gauges.NODE_USAGE.describe())


async def get(served: Endpoints, path: str, query: str = "") -> tuple[int, bytes]:
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [],
    }
    await served(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.fixture
def served() -> Endpoints:
    return Endpoints(endpoints(Health(), dict, {}))


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/metrics", {ABOUT_WORKLOADS, ABOUT_ITSELF}),
        ("/all-metrics", {ABOUT_WORKLOADS, ABOUT_ITSELF}),
        ("/internal-metrics", {ABOUT_ITSELF}),
        ("/external-metrics", {ABOUT_WORKLOADS}),
    ],
)
async def test_paths_have_koordlets_parts_of_the_metrics(served, path, names):
    text = (await get(served, path))[1].decode()
    assert {name for name in (ABOUT_WORKLOADS, ABOUT_ITSELF) if f"# HELP {name}" in text} == names


async def test_a_profile_shows_what_threads_do_and_only_one_is_taken_at_a_time(served):
    both = (get(served, "/debug/pprof/profile", "seconds=0.2") for _ in range(2))
    found = dict(await asyncio.gather(*both))
    assert sorted(found) == [200, 409]
    samples, _ = decode(found[200])
    assert any(
        name.endswith("test_node_agent") or "asyncio" in name for stack in samples for name, _ in stack
    )
    assert json.loads(found[409])["message"] == "a profile is being taken already"


@pytest.mark.parametrize("seconds", ["0", "-1", "121", "soon", "nan"])
async def test_times_of_profiles_have_bounds(served, seconds):
    status, body = await get(served, "/debug/pprof/profile", f"seconds={seconds}")
    assert (status, json.loads(body)["message"]) == (
        400,
        f"seconds: got '{seconds}', expected a number up to 120",
    )


async def test_other_profiles_do_not_exist(served):
    assert (await get(served, "/debug/pprof/heap"))[0] == 404
    assert b"profile?seconds=30" in (await get(served, "/debug/pprof"))[1]
    assert b"thread MainThread" in (await get(served, "/debug/pprof/stacks"))[1]
