"""State that cannot go wrong, on etcd, kube-apiserver and kube-scheduler, with everything failing between.

koordpy reaches the API server, and kube-scheduler reaches koordpy, through proxies that refuse requests, lose
answers and cut watches; in the middle koordpy is killed. In the end every pod is bound once, nothing is given
twice, and the process that went through all this knows what one knows that has just been started.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml

from koordpy.api.resources import quantities, vector
from koordpy.testing.rebuild import differences
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.proxy import Judge, Proxy, Trouble
from tests.eventually import PATIENCE
from tests.stories.cluster import ALLOCATED, GI, KoordpyProcess, StoryCluster, pod, wait_until

pytestmark = pytest.mark.timeout(900)

NODES = [f"n{number:02d}" for number in range(100)]
HOT = frozenset(NODES[::7])
TEAMS = [f"team-{number:02d}" for number in range(40)]
OTHERS = 160
NAMESPACE = "shop"

AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "verbs": ["create"], "resources": [{"resources": ["pods/binding"]}]},
        {"level": "None"},
    ],
}


class FailingPlane:
    """A real control plane that koordpy reaches, and that reaches koordpy, through proxies."""

    def __init__(self, folder: Path) -> None:
        policy, self.audit = folder / "audit-policy.yaml", folder / "audit.log"
        policy.write_text(yaml.safe_dump(AUDIT))
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={self.audit}")
        self._plane = ControlPlane(api_server_flags=flags)
        self._plane.start()
        self._plane.install_crds()
        context = self._plane.ssl_context()
        self.to_api_server = Proxy(self._plane.url, none, context=context, token=self._plane.token)
        self.to_api_server.__enter__()
        self.to_koordpy: Proxy | None = None
        self.client_settings = {"server": self.to_api_server.url}

    def api(self) -> kubernetes.client.ApiClient:
        return kubernetes.config.new_client_from_config(str(self._plane.kubeconfig))

    def start_scheduler(self, config: dict[str, Any]) -> None:
        origin, path = config["extenders"][0]["urlPrefix"].rsplit("/", 1)
        self.to_koordpy = Proxy(origin, none)
        self.to_koordpy.__enter__()
        for extender in config["extenders"]:
            extender["urlPrefix"] = f"{self.to_koordpy.url}/{path}"
        self._plane.start_scheduler(config)

    def stop_scheduler(self) -> None:
        self._plane.stop_scheduler()

    def begin_to_fail(self) -> None:
        assert self.to_koordpy is not None
        self.to_api_server.judge = between_koordpy_and_api_server(random.Random(5))
        self.to_koordpy.judge = between_kube_scheduler_and_koordpy(random.Random(6))

    def calm_down(self) -> None:
        assert self.to_koordpy is not None
        self.to_api_server.judge = self.to_koordpy.judge = none

    def stop(self) -> None:
        self._plane.stop()
        for proxy in (self.to_koordpy, self.to_api_server):
            if proxy is not None:
                proxy.__exit__()


def none(method: str, path: str) -> Trouble | None:
    return None


def between_koordpy_and_api_server(rng: random.Random) -> Judge:
    bindings = [
        *(Trouble(status) for status in (409, 429, 500)),
        Trouble(500, after=True),
        *[Trouble(after=True)] * 2,
        Trouble(),
        *[None] * 13,
    ]
    statuses = [Trouble(409), Trouble(500), Trouble(after=True), *[None] * 12]

    def judge(method: str, path: str) -> Trouble | None:
        path = path.partition("?")[0]
        if method == "POST" and path.endswith("/binding"):
            return rng.choice(bindings)
        if method == "PATCH" and "/reservations/" in path:
            return rng.choice(statuses)
        return None

    return judge


def between_kube_scheduler_and_koordpy(rng: random.Random) -> Judge:
    # Without scores, which kube-scheduler does without, owners would miss their reservations.
    chances = {"bind": 0.15, "filter": 0.02}

    def judge(method: str, path: str) -> Trouble | None:
        chance = chances.get(path.rpartition("/")[2], 0.0)
        return Trouble(after=True) if rng.random() < chance else None

    return judge


@pytest.fixture
def plane(tmp_path: Path) -> FailingPlane:
    return FailingPlane(tmp_path)


@pytest.fixture
def cluster(plane: FailingPlane, tmp_path: Path) -> Iterator[StoryCluster]:
    found = StoryCluster(plane, tmp_path)
    raise_thresholds(tmp_path)
    yield found
    found.close()


def raise_thresholds(folder: Path) -> None:
    """Let nodes be filled to the last CPU, unless they are hot."""
    file = folder / "profiles.yaml"
    document = yaml.safe_load(file.read_text())
    for profile in document["profiles"]:
        for config in profile["pluginConfig"]:
            if config["name"] == "LoadAwareScheduling":
                config["args"]["usageThresholds"] = {"cpu": 95}
    file.write_text(yaml.safe_dump(document))


def test_nothing_is_lost_or_given_twice_whatever_fails(
    cluster: StoryCluster, plane: FailingPlane, tmp_path: Path
) -> None:
    amounts = {"cpu": "16", "memory": str(64 * GI), "pods": "110"}
    cluster.add_nodes((name, amounts) for name in NODES)
    for name in NODES:
        cluster.report_usage(name, "15500m" if name in HOT else "500m", str(GI))
    cluster.namespace(NAMESPACE)
    cluster.install([])
    plane.begin_to_fail()
    others = [pod(NAMESPACE, f"other-{number:03d}", {}, "4", "1Gi") for number in range(OTHERS)]
    owners = [
        pod(NAMESPACE, f"{team}-{number}", {"app": team}, "4", "1Gi") for team in TEAMS for number in range(2)
    ]
    creating = threading.Thread(target=cluster.create_pods, args=(others,))
    for team in TEAMS[:20]:
        cluster.reserve(team, "8")
    creating.start()
    cut_watches_until(cluster, plane, lambda: bound(cluster) > OTHERS // 3)
    cluster.koordpy.kill()
    for team in TEAMS[20:]:
        cluster.reserve(team, "8")
    cluster.koordpy.configure(extender={"nodeChoice": "koordpy"})  # so that both choices are made
    cluster.koordpy.start()
    creating.join(PATIENCE)
    cut_watches_until(cluster, plane, lambda: available(cluster) == len(TEAMS))
    wait_until(lambda: offered(cluster) == len(TEAMS), lambda: f"{offered(cluster)} are offered")
    cluster.create_pods(owners)
    cut_watches_until(cluster, plane, lambda: bound(cluster) > OTHERS + len(owners) - 10)
    plane.calm_down()
    found = cluster.wait_bound(OTHERS + len(owners), NAMESPACE, 60)

    assert_everything_failed(plane)
    assert_bound_once(plane, found)
    assert not {document["spec"]["nodeName"] for document in found.values()} & HOT
    cluster.assert_no_node_is_over_committed()
    cluster.assert_nothing_reserved_is_given_away()
    plane.stop_scheduler()
    play_kubelet(cluster)
    wait_until(lambda: owners_disagree(cluster, found) == [], lambda: str(owners_disagree(cluster, found)))
    cluster.assert_memory_equals_a_rebuild()
    assert_equals_a_new_process(cluster, plane, tmp_path / "second")


def bound(cluster: StoryCluster) -> int:
    return sum("nodeName" in document["spec"] for document in cluster.pods(NAMESPACE))


def available(cluster: StoryCluster) -> int:
    return sum(reservation.is_available for reservation in cluster.reservations())


def offered(cluster: StoryCluster) -> int:
    """Count the Reservations that koordpy has seen to be available; of others owners take no notice."""
    path = "/apis/v1/plugins/Reservation/nodeReservations/"
    held = [cluster.koordpy.get(path + name).get("items", ()) for name in NODES]
    return sum(item.get("available", False) for items in held for item in items)


def waiting(cluster: StoryCluster) -> str:
    """Say what still waits, and why."""
    reservations = [
        f"{found.metadata.name}: {[condition.message for condition in found.status.conditions]}"
        for found in cluster.reservations()
        if not found.is_available
    ]
    pods = [
        f"{found['metadata']['name']}: {found['status'].get('conditions')}"
        for found in cluster.pods(NAMESPACE)
        if "nodeName" not in found["spec"]
    ]
    return "\n".join([*reservations, *pods, cluster.koordpy.log()])


def cut_watches_until(
    cluster: StoryCluster, plane: FailingPlane, holds: Callable[[], bool], seconds: float = PATIENCE
) -> None:
    """Break all watches again and again, not so fast that koordpy waits long until it opens the next ones."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, waiting(cluster)
        plane.to_api_server.cut_watches()
        for _ in range(10):
            if holds():
                return
            time.sleep(0.2)


def play_kubelet(cluster: StoryCluster) -> None:
    """Say that pods are scheduled where kube-scheduler says of a bound pod that it is not.

    That it does when the answer to a bind call was lost; the kubelet puts it right.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": now,
        "reason": None,
        "message": None,
    }
    for document in cluster.pods(NAMESPACE):
        name, conditions = document["metadata"]["name"], document["status"].get("conditions", ())
        if not any((each["type"], each["status"]) == ("PodScheduled", "True") for each in conditions):
            patch = {"status": {"conditions": [scheduled]}}
            cluster.core.patch_namespaced_pod_status(name, NAMESPACE, patch)


# --- what must hold -----------------------------------------------------------------------------------


def assert_everything_failed(plane: FailingPlane) -> None:
    """Every kind of failure has occurred."""
    assert plane.to_koordpy is not None
    assert set(plane.to_api_server.troubles) == {
        Trouble(409),
        Trouble(429),
        Trouble(500),
        Trouble(500, after=True),
        Trouble(after=True),
        Trouble(),
    }
    assert plane.to_koordpy.troubles[Trouble(after=True)] > 5


def assert_bound_once(plane: FailingPlane, pods: dict[str, dict[str, Any]]) -> None:
    """The API server's own audit knows of one successful binding for each pod."""
    events = [json.loads(line) for line in plane.audit.read_text().splitlines()]
    successes = [event for event in events if event["responseStatus"]["code"] < 300]
    refused = Counter(event["responseStatus"]["code"] for event in events)
    uids = Counter(event["requestObject"]["metadata"]["uid"] for event in successes)
    assert uids == dict.fromkeys((document["metadata"]["uid"] for document in pods.values()), 1), refused
    targets = {event["objectRef"]["name"]: event["requestObject"]["target"]["name"] for event in successes}
    assert targets == {name: document["spec"]["nodeName"] for name, document in pods.items()}


def owners_disagree(cluster: StoryCluster, pods: dict[str, dict[str, Any]]) -> list[str]:
    """Return which Reservations and pods do not say the same of each other."""
    problems, inside = [], 0
    for reservation in cluster.reservations():
        team, uid = reservation.metadata.name, reservation.metadata.uid
        users = {}
        for name, document in pods.items():
            allocated = json.loads(document["metadata"].get("annotations", {}).get(ALLOCATED, "{}"))
            if allocated.get("uid") == uid:
                users[document["metadata"]["uid"]] = name
                if document["spec"]["nodeName"] != reservation.node_name:
                    problems.append(f"{name} is not where {team} is")
        if not set(users.values()) <= {f"{team}-0", f"{team}-1"}:
            problems.append(f"{team} is used by {sorted(users.values())}")
        inside += len(users)
        if {owner.uid for owner in reservation.status.current_owners} != set(users):
            problems.append(f"{team} says it is used by {reservation.status.current_owners}")
        if vector(quantities(reservation.status.allocated)).get("cpu", 0) != 4000 * len(users):
            problems.append(f"{team} says that {reservation.status.allocated} of it are used")
    # kube-scheduler does not ask about a node which it takes for full: it counts a pod there that koordpy has
    # just refused to bind, until it has heard of it. Owners that may go elsewhere do so in that moment.
    if inside < 0.85 * 2 * len(TEAMS):
        problems.append(f"only {inside} owners use their reservations")
    return problems


def assert_equals_a_new_process(cluster: StoryCluster, plane: FailingPlane, folder: Path) -> None:
    """The debug API says the same as that of a process that has just been started."""
    folder.mkdir()
    second = KoordpyProcess(plane, folder)
    raise_thresholds(folder)
    try:
        second.start()
        theirs = {name: known(second, name) for name in NODES}

        def differs() -> str:
            ours = {name: known(cluster.koordpy, name) for name in NODES}
            return "\n".join(differences(ours, theirs))

        wait_until(lambda: not differs(), differs)
    finally:
        second.stop()


def known(process: KoordpyProcess, node: str) -> dict[str, Any]:
    """Return what a process says of a node, without what depends on the order in which it was told."""
    table = process.get(f"/apis/v1/nodes/{node}")
    table.pop("generation")
    for each in table.get("pods", []):
        for field in ("apiVersion", "kind"):  # a watch tells them of each object, a list does not
            each["Pod"].pop(field, None)
    table.get("pods", []).sort(key=lambda each: each["Pod"]["metadata"]["uid"])
    load = process.get(f"/apis/v1/plugins/LoadAwareScheduling/node/{node}")
    reserved = process.get(f"/apis/v1/plugins/Reservation/nodeReservations/{node}")
    load["pods"] = sorted(
        (each["pod"]["metadata"]["uid"], each["timestamp"]) for each in load.get("pods", ())
    )
    for item in reserved.get("items", ()):
        item.get("assignedPods", []).sort(key=lambda each: each["UID"])
    return {"table": table, "load": load, "reserved": reserved}
