"""Objects at the edges of what an API server stores do not keep plugins from scheduling other pods.

Amounts, annotations and labels of random objects are replaced by extreme ones. Whatever becomes of a node or
pod that has them: no handler of an object fails, and pods as they usually are get an answer.
"""

import asyncio
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import Document, node, pod
from koordpy.testing.random_objects import KINDS, Kind, uid_of
from koordpy.testing.scheduling import Scheduling

PLUGINS = (
    *("LoadAwareScheduling", "Reservation", "Coscheduling", "ElasticQuota", "NodeNUMAResource"),
    *("DeviceShare", "NodeResourcesFitPlus", "ScarceResourceAvoidance", "SchedulingHint"),
)
AMOUNTS = ("0", "1n", "9223372036854775807", "8Ei", "9e15", "4611686018427388", "4611686018427388", "9e30")
NUMBERS = (0, -1, 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1.5, True, None)
TEXTS = (
    *("", "x", "0-1023", "0-100000", "1-0", "-1", "9e30", "8Ei", "{}", "[null]", "null", "é", "a" * 9000),
    *("9999-12-31T23:59:59-10:00", "2562047h47m16s", "SingleNUMANode", "9223372036854775808"),
)
IN_RESOURCES = {"requests", "limits", "resources", "min", "max"}

ORDINARY: tuple[dict[str, int], ...] = (
    {},
    {"nvidia.com/gpu": 1},
    {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50},
)
"""What ordinary pods request besides CPU and memory."""


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all values that have no values of their own."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, dict | list):
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def made_hostile(rng: Random, document: Any, *, is_text: bool = False) -> None:
    """Replace some values in place. In a text (JSON in an annotation) nothing has a type that was checked."""
    for path in list(leaves(document)):
        is_amount = not is_text and not IN_RESOURCES.isdisjoint(path)
        if rng.random() > (0.5 if is_amount else 0.15):
            continue
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        value = holder[path[-1]]
        if not is_text and "allocatable" in path:
            # Beyond 64 bits of a hundred times a capacity, kube-scheduler's NodeResourcesFit fails too.
            holder[path[-1]] = rng.choice(("0", "1n", "1500m", "9e13"))
        elif is_amount:
            holder[path[-1]] = rng.choice(AMOUNTS)
        elif isinstance(value, str) and value[:1] == "{":
            try:
                inner = json.loads(value)
            except ValueError:
                continue
            made_hostile(rng, inner, is_text=True)
            holder[path[-1]] = json.dumps(inner)
        elif isinstance(value, str):
            holder[path[-1]] = rng.choice((*TEXTS, *AMOUNTS) if is_text else TEXTS)
        elif is_text:
            holder[path[-1]] = rng.choice((*NUMBERS, *TEXTS))


def hostile(rng: Random, kind: Kind, key: str) -> Document:
    namespace, _, name = key.rpartition("/")
    document = json.loads(json.dumps(kind.make(rng, name)))
    if rng.random() < 0.7:
        made_hostile(rng, document)
    own = {"name": name, "namespace": namespace, "uid": uid_of(kind.type, name, 1)}
    document["metadata"] = document.get("metadata", {}) | own
    return document


@pytest.mark.parametrize("seed", range(8))
def test_plugins_answer_for_other_pods(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    rng, kinds = Random(seed), [*KINDS.values(), *[KINDS[Pod]] * 4]
    for _ in range(20):
        known = cluster()
        scheduling = Scheduling(known, *PLUGINS, in_tree=True)
        for step in range(60):
            kind = rng.choice(kinds)
            document = hostile(rng, kind, rng.choice(kind.keys))
            try:
                known.store(kind.type).apply(decode(kind.type, document))
            except ValueError:
                continue  # not an object of this kind any more
            if step % 6 == 0:
                ordinary = pod("new", namespace="z", resources=rng.choice(ORDINARY))
                asyncio.run(scheduling.place(ordinary))
                known.store(Pod).discard(ordinary.metadata.key)
    assert not [record.getMessage() for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "requested",
    [
        {"cpu": 2**62 // 1000 + 1},
        {"memory": 2**62},
        {"ephemeral-storage": 2**62},
        {"nvidia.com/gpu": 2**62},
        {"koordinator.sh/gpu-core": 2**62, "koordinator.sh/gpu-memory-ratio": 2**62},
        {"kubernetes.io/batch-cpu": 2**62},
    ],
    ids=lambda requested: next(iter(requested)),
)
def test_pods_that_name_their_node_and_request_more_than_64_bits_hold_stop_nobody(
    requested: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    known = cluster(node("n", cpu=8, memory="64Gi"), node("other", cpu=8, memory="64Gi"))
    scheduling = Scheduling(known, *PLUGINS, in_tree=True)
    for name in ("a", "b"):
        known.store(Pod).apply(pod(name, resources=requested, on="n", cpu=None, memory=None))
    for wanted in ORDINARY[1:]:
        asyncio.run(scheduling.place(pod("gpu", namespace="z", resources=wanted)))
        known.store(Pod).discard("z/gpu")
    assert asyncio.run(scheduling.place(pod("plain", namespace="z"))).node
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
