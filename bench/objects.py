"""The objects of the clusters that are measured: a colocation cluster as a koord-manager user has it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]

SPARK_NAMESPACE = "spark-demo"
COLOCATION = {"koordinator.sh/enable-colocation": "true"}
SPARK = {"sparkoperator.k8s.io/launched-by-spark-operator": "true"}


def namespaces() -> Iterator[Document]:
    """The namespaces of the cluster; spark-demo takes part in colocation."""
    for name in ("default", "kube-system"):
        yield {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}
    labels = {"kubernetes.io/metadata.name": SPARK_NAMESPACE, **COLOCATION}
    yield {"metadata": {"name": SPARK_NAMESPACE, "labels": labels}}


def priority_classes() -> Iterator[Document]:
    """Koordinator's priority classes, with their shipped values."""
    for name, value in (
        ("koord-prod", 9000),
        ("koord-mid", 7000),
        ("koord-batch", 5000),
        ("koord-free", 3000),
    ):
        yield {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}


def profiles(count: int) -> Iterator[Document]:
    """Profiles of as many teams, each for the pods of one application; the first is for spark's."""
    for i in range(count):
        yield {
            "apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile",
            "metadata": {"name": "spark" if i == 0 else f"team-{i:04d}"},
            "spec": {
                "namespaceSelector": {"matchLabels": COLOCATION},
                "selector": {"matchLabels": SPARK if i == 0 else {"app.kubernetes.io/name": f"app-{i:04d}"}},
                "labels": {"koordinator.sh/mutated": "true"},
                "qosClass": "BE",
                "priorityClassName": "koord-batch",
                "koordinatorPriority": 1000,
                "schedulerName": "koord-scheduler",
            },
        }


def spark_executor(i: int) -> Document:
    """The i-th executor pod of a spark application, with a sidecar, as kube-apiserver sends it on CREATE."""
    mounts = [
        {"name": "spark-local-dir-1", "mountPath": "/var/data/spark"},
        {"name": "spark-conf-volume-exec", "mountPath": "/opt/spark/conf"},
        {"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/sa"},
    ]

    def container(name: str, cpu: str, memory: str, arguments: list[str]) -> Document:
        return {
            "name": name,
            "image": f"registry.example.com/spark/{name}:v3.2.1",
            "args": arguments,
            "ports": [{"name": "blockmanager", "containerPort": 7079, "protocol": "TCP"}],
            "env": [
                {"name": "SPARK_DRIVER_URL", "value": "spark://CoarseGrainedScheduler@driver-svc:7078"},
                {"name": "SPARK_EXECUTOR_CORES", "value": "1"},
                {"name": "SPARK_EXECUTOR_MEMORY", "value": "3g"},
                {"name": "SPARK_EXECUTOR_ID", "value": str(i)},
                {"name": "SPARK_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "SPARK_CONF_DIR", "value": "/opt/spark/conf"},
            ],
            "resources": {
                "limits": {"cpu": cpu, "memory": memory},
                "requests": {"cpu": cpu, "memory": memory},
            },
            "volumeMounts": mounts,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }

    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"spark-pi-exec-{i}",
            "namespace": SPARK_NAMESPACE,
            "creationTimestamp": None,
            "labels": {
                "spark-app-name": "spark-pi",
                "spark-app-selector": "spark-5f4ba921c85ff3f1cb04bef324f9154c",
                "spark-exec-id": str(i),
                "spark-role": "executor",
                "sparkoperator.k8s.io/app-name": "spark-pi",
                **SPARK,
                "version": "3.2.1",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "spark-pi-driver",
                    "uid": "9a1d2a6e-58fb-4f8a-8d7a-5d6ad6f0cafe",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "volumes": [
                {"name": "spark-local-dir-1", "emptyDir": {}},
                {"name": "spark-conf-volume-exec", "configMap": {"name": "spark-exec", "defaultMode": 420}},
                {"name": "kube-api-access", "projected": {"sources": [], "defaultMode": 420}},
            ],
            "containers": [
                container("executor", "1", "3456Mi", ["executor"]),
                container("metrics", "100m", "128Mi", ["--listen", ":8090"]),
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "spark",
            "hostname": f"spark-pi-exec-{i}",
            "securityContext": {"fsGroup": 185},
            "schedulerName": "default-scheduler",
            "tolerations": _default_tolerations(),
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


def review(i: int) -> Document:
    """The i-th AdmissionReview: the creation of an executor pod."""
    pod = spark_executor(i)
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": f"{i:08x}-34bb-48a0-9d07-1de1a0f9b9d2",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": pod["metadata"]["name"],
            "namespace": SPARK_NAMESPACE,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:spark-demo:spark",
                "uid": "d2b5b1a5-7f63-4c39-a0f5-c2b2d6a5a4f1",
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:spark-demo",
                    "system:authenticated",
                ],
            },
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def node_name(i: int) -> str:
    """The name of the i-th node."""
    return f"node-{i:05d}"


def nodes(count: int) -> Iterator[Document]:
    """The nodes of a cluster."""
    return (node(i) for i in range(count))


def node(i: int) -> Document:
    """A ready node of 32 cores and 128 GiB."""
    amounts = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(i),
            "labels": {
                "kubernetes.io/hostname": node_name(i),
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{i % 3}",
            },
        },
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "",
                    "lastHeartbeatTime": _now(),
                    "lastTransitionTime": _now(),
                }
            ],
        },
    }


def node_metric_status(i: int) -> Document:
    """What the i-th node's NodeMetric reports now: 10 to 60 percent used."""
    busy = 10 + i * 7 % 50
    usage = {"cpu": f"{320 * busy}m", "memory": f"{(128 << 30) // 100 * busy}"}
    return {
        "updateTime": _now(),
        "nodeMetric": {"nodeUsage": {"resources": usage}, "systemUsage": {"resources": {"cpu": "500m"}}},
        "podsMetric": [],
    }


def node_metrics(count: int) -> Iterator[Document]:
    """A fresh NodeMetric for every node."""
    for i in range(count):
        yield {**node_metric(i), "status": node_metric_status(i)}


def node_metric(i: int) -> Document:
    """The i-th node's NodeMetric without its status, as it is created."""
    policy = {"aggregateDurationSeconds": 300, "reportIntervalSeconds": 60}
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": node_name(i)},
        "spec": {"metricCollectPolicy": policy},
    }


RESERVING_APP = "reserving"
"""The label `app` of pods that a tenth of the reservations are for."""


def reservation(i: int, nodes: int) -> Document:
    """The i-th Reservation: 2 cores and 4 GiB of one of so many nodes."""
    amounts = {"cpu": "2", "memory": "4Gi"}
    app = f"app-{i % 10}" if i % 10 else RESERVING_APP
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": f"reservation-{i:05d}"},
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": amounts}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            "ttl": "0s",
            "allocateOnce": False,
        },
        "status": {"phase": "Available", "nodeName": node_name(i % nodes), "allocatable": amounts},
    }


def waiting_pod(i: int, namespace: str = "default") -> Document:
    """A small pod that waits for a node: 100m and 200Mi."""
    amounts = {"cpu": "100m", "memory": "200Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{i:05d}", "namespace": namespace, "labels": {"app": "bench"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/pause:3.10",
                    "resources": {"requests": amounts},
                }
            ],
            "schedulerName": "default-scheduler",
            "tolerations": _default_tolerations(),
            "terminationGracePeriodSeconds": 0,
        },
    }


def _default_tolerations() -> list[Document]:
    return [
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for condition in ("not-ready", "unreachable")
    ]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
