"""The stories themselves. Each takes a fresh cluster and asserts what an operator would check."""

import csv
import gzip
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.eventually import PATIENCE
from tests.stories.cluster import (
    ALLOCATED,
    FAILS_ONCE,
    GI,
    PRE_BIND_ANNOTATION,
    StoryCluster,
    pod,
    pods_of_deployment,
    wait_until,
)
from tests.stories.planes import documents

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES", Path(__file__).parents[3] / "shared" / "samples"))

SPARK = {"sparkoperator.k8s.io/launched-by-spark-operator": "true"}
ONLINE = {"tier": "online"}

needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"real inputs are not at {SAMPLES}; set KOORDPY_SAMPLES to their folder"
)


def _node(cpu: int = 16, memory: int = 64 * GI, batch: bool = True) -> dict[str, str]:
    amounts = {"cpu": str(cpu), "memory": str(memory), "pods": "110"}
    if batch:
        amounts |= {
            "kubernetes.io/batch-cpu": str(cpu * 500),
            "kubernetes.io/batch-memory": str(memory // 2),
        }
    return amounts


def _profiles() -> list[dict[str, Any]]:
    return [d for d in documents("demo", "objects.yaml") if d["kind"] == "ClusterColocationProfile"]


def tell_the_demo_story(cluster: StoryCluster) -> None:
    """Pods come out mutated, are bound through our extender, and avoid hot nodes."""
    names = [f"n{i:02d}" for i in range(20)]
    hot = set(names[::5])
    cluster.add_nodes((name, _node()) for name in names)
    cluster.namespace("analytics", **{"koordinator.sh/enable-colocation": "true"})
    cluster.namespace("shop")
    for name in names:
        cluster.report_usage(name, "13" if name in hot else "3", str(8 * GI))
    cluster.install(_profiles())
    cluster.create_pods(pod("analytics", f"spark-{i}", SPARK, "1", "1Gi") for i in range(20))
    cluster.create_pods(pod("shop", f"web-{i}", ONLINE, "500m", "1Gi") for i in range(20))
    sparks, webs = cluster.wait_bound(20, "analytics"), cluster.wait_bound(20, "shop")
    for found in sparks.values():
        assert found["metadata"]["labels"]["koordinator.sh/qosClass"] == "BE"
        assert found["spec"]["priority"] == 5000
        assert found["spec"]["schedulerName"] == "koord-scheduler"
        requests = found["spec"]["containers"][0]["resources"]["requests"]
        assert requests == {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"}
        assert "node.koordinator.sh/extended-resource-spec" in found["metadata"]["annotations"]
    assert {p["metadata"]["labels"]["koordinator.sh/qosClass"] for p in webs.values()} == {"LS"}
    for found in (*sparks.values(), *webs.values()):
        assert found["spec"]["nodeName"] not in hot
        assert found["metadata"]["annotations"][PRE_BIND_ANNOTATION] == found["spec"]["nodeName"]

    def decision_of_spark() -> dict[str, Any]:
        found: dict[str, Any] = cluster.koordpy.get("/apis/v1/decisions/analytics/spark-0")[0]
        return found

    # The pod is bound before koordpy has the answer that it is.
    wait_until(lambda: decision_of_spark()["outcome"] == "bound", lambda: str(decision_of_spark()))
    decision = decision_of_spark()
    assert decision["node"] == sparks["spark-0"]["spec"]["nodeName"]
    refused = {r["plugin"]: r["nodes"] for r in decision["rejections"]}
    assert refused == {"LoadAwareScheduling": len(hot)}
    cluster.assert_no_node_is_over_committed()
    cluster.assert_memory_equals_a_rebuild()


def tell_of_a_what_if(cluster: StoryCluster) -> None:
    """What a what-if foresees happens: as many pods find a node, on the same nodes; the rest is told why.

    A pod lifts the usage that is estimated of its node by 1.275 CPUs, and prod pods may lift it to 65 %.
    """
    sizes = {"n0": 8, "n1": 8, "n2": 4, "small": 1, "hot": 16, "tainted": 16}
    cluster.add_nodes((name, _node(cpu, batch=False)) for name, cpu in sizes.items())
    cluster.core.patch_node("tainted", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    for name, cpu in sizes.items():
        cluster.report_usage(name, str(cpu * 0.9 if name == "hot" else cpu * 0.1), str(GI))
    cluster.namespace("shop")
    cluster.koordpy.configure(
        extender={
            "leaderElect": False,
            "scheduleExplanations": {"enabled": True, "after": "0s", "refresh": "1s"},
        }
    )
    cluster.install([])
    web = pod("shop", "web", {"app": "web"}, "1500m", "1Gi")
    (cluster.folder / "web.yaml").write_text(yaml.safe_dump(web))

    def foreseen() -> dict[str, Any]:
        code, told = cluster.koordpy.run("whatif", "-f", "web.yaml", "--count", "10", "-o", "json")
        assert code == 3, told
        found: dict[str, Any] = json.loads(told)
        return found

    wait_until(lambda: foreseen()["nodes"] == len(sizes), lambda: "not all nodes are known")
    first = foreseen()
    assert foreseen() == first
    assert first["byNode"] == {"n0": 3, "n1": 3, "n2": 1}
    assert first["stopped"]["pods"] == 3
    refused = {item["plugin"]: item["nodes"] for item in first["stopped"]["rejections"]}
    assert refused == {"TaintToleration": 1, "NodeResourcesFit": 1, "LoadAwareScheduling": 4}
    assert cluster.pods("shop") == []
    copies = [pod("shop", f"web-{i}", {"app": "web"}, "1500m", "1Gi") for i in range(10)]
    cluster.create_pods(copies)
    bound = cluster.wait_bound(7, "shop")
    assert Counter(p["spec"]["nodeName"] for p in bound.values()) == first["byNode"]

    def waiting() -> list[str]:
        return [
            condition["message"]
            for document in cluster.pods("shop")
            for condition in document["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]

    foretold = first["stopped"]["message"].removesuffix(".")

    def told() -> bool:
        # What was full only when it came to the bind is said in other words, until the pod is tried again.
        found = waiting()
        return len(found) == 3 and all(message.startswith(foretold) for message in found)

    wait_until(told, lambda: f"expected {foretold!r}, got {waiting()}")
    unplaced = {p["metadata"]["name"] for p in cluster.pods("shop") if not p["spec"].get("nodeName")}

    def explained() -> dict[str, dict[str, Any]]:
        return {
            item["spec"]["questionObjectKey"]: item["status"]
            for item in cluster.explanations("shop")
            if item.get("status")
        }

    wait_until(lambda: set(explained()) == {f"shop/{name}" for name in unplaced}, lambda: f"{explained()}")
    for status in explained().values():
        assert (status["schedulable"], status["failedMessage"]) == (False, f"{foretold}.")
        details = status["detailedExplanation"][0]["scheduleExplanation"]["nodeFailedDetails"]
        assert {node for detail in details for node in detail["failedNodes"]} == set(sizes)
    for name in unplaced:
        cluster.core.delete_namespaced_pod(name, "shop", grace_period_seconds=0)
    wait_until(lambda: not cluster.explanations("shop"), lambda: f"{explained()}")
    assert len(cluster.pods("shop")) == 7
    cluster.assert_memory_equals_a_rebuild()


def tell_of_a_restart_in_the_middle(cluster: StoryCluster, pods: int = 300) -> None:
    """kill -9 while pods are bound: nothing is lost, nothing is bound twice, memory equals a rebuild."""
    names = [f"n{i:02d}" for i in range(20)]
    cluster.add_nodes((name, _node(cpu=32)) for name in names)
    cluster.namespace("shop")
    cluster.install(_profiles())
    seen: dict[str, set[str]] = {}
    creating = threading.Thread(
        target=cluster.create_pods,
        args=([pod("shop", f"web-{i:03d}", ONLINE, "1", "1Gi") for i in range(pods)],),
    )
    creating.start()

    def bound() -> int:
        for found in cluster.pods("shop"):
            if found["spec"].get("nodeName"):
                seen.setdefault(found["metadata"]["uid"], set()).add(found["spec"]["nodeName"])
        return len(seen)

    wait_until(
        lambda: bound() >= pods // 6, lambda: f"only {bound()} pods were bound\n{cluster.koordpy.log()}"
    )
    cluster.koordpy.kill()
    time.sleep(1.0)
    cluster.koordpy.start()
    creating.join(PATIENCE)
    wait_until(
        lambda: bound() == pods, lambda: f"{bound()} of {pods} pods are bound\n{cluster.koordpy.log()}"
    )
    assert all(len(nodes) == 1 for nodes in seen.values())
    everyone = cluster.pods("shop")
    assert len(everyone) == pods
    assert all(p["metadata"]["annotations"][PRE_BIND_ANNOTATION] == p["spec"]["nodeName"] for p in everyone)
    cluster.assert_no_node_is_over_committed()
    cluster.assert_memory_equals_a_rebuild()


def tell_of_reservations_in_a_crowd(cluster: StoryCluster) -> None:
    """Reservations, owners and other pods at once, some binds fail, kill -9 in between."""
    names = [f"n{i:02d}" for i in range(100)]
    cluster.add_nodes((name, _node(cpu=16)) for name in names)
    cluster.namespace("shop")
    cluster.install(_profiles())
    reserved = [f"team-{i:02d}" for i in range(50)]
    owners = [
        pod("shop", f"{team}-{i}", {"app": team} | ({FAILS_ONCE: "yes"} if i == 1 else {}), "4", "1Gi")
        for team in reserved
        for i in range(2)
    ]
    others = [
        pod("shop", f"other-{i:03d}", {FAILS_ONCE: "yes"} if i % 10 == 0 else {}, "3", "1Gi")
        for i in range(200)
    ]
    creating = threading.Thread(target=cluster.create_pods, args=(others,))
    creating.start()
    for name in reserved[:25]:
        cluster.reserve(name, "8")
    time.sleep(1.0)
    cluster.koordpy.kill()
    for name in reserved[25:]:
        cluster.reserve(name, "8")
    cluster.koordpy.start()
    creating.join(PATIENCE)

    def available() -> int:
        return sum(reservation.is_available for reservation in cluster.reservations())

    wait_until(
        lambda: available() == len(reserved),
        lambda: f"{available()} Reservations are available\n{cluster.koordpy.log()}",
    )
    cluster.assert_nothing_reserved_is_given_away()
    cluster.create_pods(owners)
    bound = cluster.wait_bound(len(owners) + len(others), "shop", 180)
    for name in reserved:
        for i in range(2):
            allocated = json.loads(bound[f"{name}-{i}"]["metadata"]["annotations"][ALLOCATED])
            assert allocated["name"] == name
    cluster.assert_no_node_is_over_committed()
    cluster.assert_nothing_reserved_is_given_away()
    cluster.assert_memory_equals_a_rebuild()


def tell_of_the_online_boutique(cluster: StoryCluster) -> None:
    """A real application's Deployments: every pod becomes LS and finds a node."""
    text = (SAMPLES / "online-boutique" / "kubernetes-manifests.yaml").read_text()
    deployments = [d for d in yaml.safe_load_all(text) if d and d["kind"] == "Deployment"]
    assert len(deployments) == 12
    cluster.add_nodes((f"n{i}", _node(cpu=8, memory=16 * GI)) for i in range(4))
    cluster.namespace("boutique", team="shop")
    profile = {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "boutique"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"team": "shop"}},
            "qosClass": "LS",
            "priorityClassName": "koord-prod",
            "schedulerName": "koord-scheduler",
        },
    }
    cluster.install([profile])
    pods = [p for d in deployments for p in pods_of_deployment(d, "boutique", 3)]
    cluster.create_pods(pods)
    bound = cluster.wait_bound(len(pods), "boutique")
    assert {p["metadata"]["labels"]["koordinator.sh/qosClass"] for p in bound.values()} == {"LS"}
    assert {p["spec"]["priority"] for p in bound.values()} == {9000}
    cluster.assert_no_node_is_over_committed()
    cluster.assert_memory_equals_a_rebuild()


def tell_of_a_production_cluster(cluster: StoryCluster, pods: int = 1500) -> None:
    """The first pods of a production trace on its 1,523 nodes, BE and LS through profiles."""
    with gzip.open(SAMPLES / "openb" / "nodes.csv.gz", "rt") as file:
        nodes = list(csv.DictReader(file))
    with gzip.open(SAMPLES / "openb" / "pods.csv.gz", "rt") as file:
        trace = [row for _, row in zip(range(pods), csv.DictReader(file), strict=False)]
    cluster.add_nodes(
        (row["sn"], _node(int(row["cpu_milli"]) // 1000, int(row["memory_mib"]) * 1024**2)) for row in nodes
    )
    cluster.namespace("openb")
    profiles = []
    for qos, priority_class in (("LS", "koord-prod"), ("BE", "koord-batch")):
        profiles.append(
            {
                "apiVersion": "config.koordinator.sh/v1alpha1",
                "kind": "ClusterColocationProfile",
                "metadata": {"name": f"openb-{qos.lower()}"},
                "spec": {
                    "selector": {"matchLabels": {"trace-qos": qos}},
                    "qosClass": qos,
                    "priorityClassName": priority_class,
                    "schedulerName": "koord-scheduler",
                },
            }
        )
    cluster.install(profiles)
    cluster.create_pods(
        pod("openb", row["name"], {"trace-qos": row["qos"]}, f"{row['cpu_milli']}m", f"{row['memory_mib']}Mi")
        for row in trace
    )
    bound = cluster.wait_bound(len(trace), "openb", seconds=300)
    by_name = {row["name"]: row["qos"] for row in trace}
    for name, found in bound.items():
        requests = found["spec"]["containers"][0]["resources"]["requests"]
        assert ("kubernetes.io/batch-cpu" in requests) == (by_name[name] == "BE"), name
        assert found["metadata"]["labels"].get("koordinator.sh/qosClass") == (
            by_name[name] if by_name[name] in ("LS", "BE") else None
        )
    cluster.assert_no_node_is_over_committed()
