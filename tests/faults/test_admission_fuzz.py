"""Ten thousand wrong, damaged and hostile requests over HTTPS to every webhook, with every gate on.

They are derived from the requests of the parity vectors with a fixed seed, so that failures are reproducible.
"""

import asyncio
import base64
import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koordpy.admission import gates
from koordpy.admission.metrics import PANICS
from koordpy.admission.paths import PATHS
from koordpy.api import json_patch
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.scheme import RESOURCES, decode
from koordpy.embedded.apiserver import ApiServer
from tests.integration.service.stage import CRDS, Stage, pod_document, review_of, serving
from tests.servers import fuzz
from tests.servers.caller import Answer, Caller

VECTORS = Path(__file__).parents[1] / "parity" / "data"
TYPES = {resource.kind: type_ for type_, resource in RESOURCES.items()}
REQUESTS = 10_000
CONNECTIONS = 8
JSON = "content-type: application/json\r\n"
ALL_GATES = {
    name: True
    for name in gates.SPECS
    if not name.startswith(("Disable", "ColocationProfileSkip", "ReplaceResources"))
}
VERDICTS = {200, 400, 403, 413, 422, 500}

PROFILES: list[dict[str, Any]] = [
    {"selector": {"matchLabels": {"fuzz": "good"}}, "labels": {"by": "us"}, "qosClass": "BE"},
    {"selector": {"matchLabels": {"app": "a"}}, "patch": {"spec": {"containers": "no list"}}},
    {"selector": {"matchLabels": {"app": "b"}}, "patch": [1, None]},
    {"selector": {"matchLabels": {"tier": "x"}}, "probability": "fifty"},
    {"selector": {"matchLabels": {"tier": "y"}}, "priorityClassName": "missing"},
    {"selector": {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["c"]}]}},
    {"selector": {"matchExpressions": [{"key": "-", "operator": "Exists"}]}, "labelSuffixes": {"app": "-s"}},
    {
        "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "annotationKeysMapping": {"a": "b"},
        "patch": {
            "metadata": {"annotations": {"x": None, "$patch": "merge"}},
            "spec": {
                "containers": [{"name": "a", "env": [{"name": "E", "value": "v"}]}],
                "tolerations": [{}],
            },
        },
    },
]


def vectors() -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return the requests of the vectors by path, and the objects of their clusters."""
    paths = {"binding": "/validate-pod-binding", "mutating": "/mutate-pod", "validating": "/validate-pod"}
    found: dict[str, list[dict[str, Any]]] = {path: [] for path in PATHS}
    objects: list[dict[str, Any]] = []
    for file in sorted(VECTORS.glob("admission_*.jsonl.gz")):
        kind = file.name.removeprefix("admission_").split(".")[0]
        for line in gzip.decompress(file.read_bytes()).splitlines():
            case = json.loads(line)["in"]
            objects += case.get("objects", ())
            for item in case.get("requests", [case]):
                named = item.get("path") or paths.get(kind)
                for path in [named] if named else [path for path in PATHS if kind in path]:
                    found[path].append(item["request"])
    assert all(found.values())
    return found, objects


class Fuzzing:
    """Requests and their results."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        requests, self.objects = vectors()
        self.bodies = {
            path: fuzz.texts(
                self.rng,
                [{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": r} for r in own],
                REQUESTS,
            )
            for path, own in requests.items()
        }
        self.verdicts: Counter[tuple[str, int]] = Counter()
        self.statuses: Counter[int] = Counter()
        self.closed = 0

    def requests(self, count: int) -> Iterator[tuple[str, bytes, bytes, bool]]:
        """Yield path, body, the request's bytes, and whether it is a well-formed webhook call."""
        for _ in range(count):
            path = self.rng.choice(list(self.bodies))
            body = next(self.bodies[path])
            sent, is_call = framed(self.rng, path, body)
            yield path, body, sent, is_call

    def judge(self, path: str, body: bytes, answer: Answer) -> None:
        """Check the answer to a webhook call."""
        assert answer.status == 200, (path, body[:3000])
        review = json.loads(answer.body)
        response = review["response"]
        status = response["status"]
        self.verdicts[path, status["code"]] += 1
        assert status["code"] in VERDICTS, (path, response, body[:3000])
        assert response["allowed"] is (status["code"] == 200)
        if status["code"] != 200:
            assert status["message"], (path, body[:3000])
            assert not status["message"].startswith("panic"), (path, status, body[:3000])
            assert "patch" not in response
        if "patch" in response:
            operations = json.loads(base64.b64decode(response["patch"]))
            changed = json_patch.apply(json.loads(body)["request"]["object"], operations)
            assert changed != json.loads(body)["request"]["object"]


def framed(rng: random.Random, path: str, body: bytes) -> tuple[bytes, bool]:
    """Wrap a body into a request: mostly a plain call, sometimes one in an unusual or in a wrong frame."""
    how = rng.random()
    target, headers = path, JSON
    if how < 0.6:
        target = f"{path}?timeout=10s"
    elif how < 0.7:
        headers += "transfer-encoding: chunked\r\n"
        return f"POST {path} HTTP/1.1\r\nhost: t\r\n{headers}\r\n".encode() + chunked(rng, body), True
    elif how < 0.74:
        wrong = rng.choice(("text/plain", "application/json; charset=utf-8", "\xff", "x" * 3000, ""))
        headers = f"content-type: {wrong}\r\n"
    elif how < 0.78:
        headers += rng.choice(
            ("content-encoding: gzip\r\n", "x: y\r\n" * 150, "accept: */*\r\nte: trailers\r\n")
        )
    elif how < 0.8:
        headers += "expect: 100-continue\r\n"
    elif how < 0.82:
        method = rng.choice(("GET", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "BREW"))
        return f"{method} {path} HTTP/1.1\r\nhost: t\r\n{headers}\r\n".encode(), False
    elif how < 0.83:
        headers += "x: y\r\n" * 300
        return head("POST", path, headers, len(body)) + body, False
    elif how < 0.84:
        target = rng.choice(
            ("/", "//", "/mutate-pod/../x", "/%", "/%ff%00", "*", "http://x/mutate-pod", "/\xe9")
        )
        return head("POST", target, headers, len(body)) + body, False
    elif how < 0.86:
        lie = rng.choice((str(len(body) + 10), "-1", "1e3", "18446744073709551616", "0x10"))
        start = f"POST {path} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {lie}\r\n\r\n"
        return start.encode("latin-1") + body, False
    elif how < 0.88:
        return head("POST", path, headers, len(body)) + body[: len(body) // 2], False
    elif how < 0.9:
        return rng.choice(
            (rng.randbytes(200), b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n" * 50)
        ), False
    return head("POST", target, headers, len(body)) + body, True


def head(method: str, target: str, headers: str, length: int) -> bytes:
    start = f"{method} {target} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n"
    return start.encode("latin-1")


def chunked(rng: random.Random, body: bytes) -> bytes:
    """Return a body in chunks, with extensions and trailers now and then."""
    parts, at = [], 0
    while at < len(body):
        piece = body[at : at + rng.choice((1, 7, 500, 1 << 16))]
        extension = b";a=b" if rng.random() < 0.1 else b""
        parts.append(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece))
        at += len(piece)
    return b"".join([*parts, b"0\r\n", b"x-checksum: 1\r\n" if rng.random() < 0.2 else b"", b"\r\n"])


@pytest.fixture
def fuzzing() -> Fuzzing:
    return Fuzzing("admission")


async def test_no_request_breaks_a_webhook(tmp_path: Path, fuzzing: Fuzzing) -> None:
    """No status of 500 or above, no panic, no hang; patches apply; and a usual pod is mutated afterwards."""
    server = ApiServer(crds=CRDS)
    async with serving(tmp_path, server=server, parts=["admission"], featureGates=ALL_GATES) as stage:
        assert set(stage.chains) == set(PATHS)
        fill(stage, fuzzing)
        panics = PANICS._value.get()
        await asyncio.gather(*(call(stage, fuzzing, REQUESTS // CONNECTIONS) for _ in range(CONNECTIONS)))
        assert PANICS._value.get() == panics
        assert max(fuzzing.statuses) < 500, fuzzing.statuses
        assert sum(fuzzing.verdicts.values()) > REQUESTS * 0.8
        for path in PATHS:
            assert fuzzing.verdicts[path, 200] > 20, fuzzing.verdicts
            assert fuzzing.verdicts[path, 400] > 20, fuzzing.verdicts
        await works_as_ever(stage)
    await server.stop()


def fill(stage: Stage, fuzzing: Fuzzing) -> None:
    """Create profiles, including invalid ones, and some objects of the vectors."""
    cluster = stage.process.cluster
    for number, spec in enumerate(PROFILES):
        profile = {"metadata": {"name": f"p{number}"}, "spec": spec}
        text = json.dumps(profile).encode()
        cluster.store(ClusterColocationProfile).apply(decode(ClusterColocationProfile, text))
    others = [o for o in fuzzing.objects if o["kind"] in TYPES and o["kind"] != "ClusterColocationProfile"]
    for document in fuzzing.rng.sample(others, 100):
        type_ = TYPES[document["kind"]]
        cluster.store(type_).apply(decode(type_, json.dumps(document).encode()))


async def call(stage: Stage, fuzzing: Fuzzing, count: int) -> None:
    """Send requests on one connection after the other, each for as long as it lasts."""
    tls = stage.trust()
    url = stage.url("admission")
    requests = fuzzing.requests(count)
    request = next(requests, None)
    while request is not None:
        async with Caller(url, tls) as caller:
            while request is not None:
                path, body, sent, is_call = request
                request = next(requests, None)
                await caller.send(sent)
                if not is_call:
                    await see_out(caller, fuzzing)
                    break
                answer = await caller.answer()
                if answer.status == 100:
                    answer = await caller.answer()
                fuzzing.judge(path, body, answer)
                if answer.headers.get("connection") == "close":
                    break


async def see_out(caller: Caller, fuzzing: Fuzzing) -> None:
    """Read the answer to an invalid call, if there is one at once; then disconnect."""
    try:
        fuzzing.statuses[(await caller.answer(0.02)).status] += 1
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        fuzzing.closed += 1


async def works_as_ever(stage: Stage) -> None:
    review = review_of(pod_document("p", labels={"fuzz": "good"}))
    response = (await stage.review(review)).json()["response"]
    assert response["allowed"] is True
    pod = json_patch.apply(review["request"]["object"], json.loads(base64.b64decode(response["patch"])))
    assert pod["metadata"]["labels"] == {"fuzz": "good", "by": "us", "koordinator.sh/qosClass": "BE"}
