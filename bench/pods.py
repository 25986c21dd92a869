"""Pods as a busy cluster's API server sends them: two containers, status, managedFields."""

import json
from typing import Any

_MANAGED = {
    "f:metadata": {
        "f:annotations": {".": {}, "f:koordinator.sh/spec": {}, "f:prometheus.io/scrape": {}},
        "f:generateName": {},
        "f:labels": {".": {}, **{f"f:label-{i}": {} for i in range(6)}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"2f2b5a0e-6d0b-4d43-a2f7-0d5a7b0d2a11"}': {}},
    },
    "f:spec": {
        f"f:containers-{c}": {
            f'k:{{"name":"c{i}"}}': {
                ".": {},
                **{
                    f"f:{name}": {}
                    for name in (
                        "image",
                        "imagePullPolicy",
                        "name",
                        "resources",
                        "terminationMessagePath",
                        "terminationMessagePolicy",
                        "env",
                        "ports",
                        "volumeMounts",
                        "livenessProbe",
                        "readinessProbe",
                    )
                },
            }
            for i in range(2)
        }
        for c in range(2)
    },
}


def pod(i: int, nodes: int = 5000, version: int = 1) -> dict[str, Any]:
    """Return the i-th pod, some 8 kB of JSON, bound to one of `nodes` nodes."""
    workload = i // 20
    uid = f"{i:08x}-6d0b-4d43-a2f7-0d5a7b0d2a11"
    resources = {
        "requests": {"cpu": f"{100 + workload % 7 * 50}m", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    containers = [
        {
            "name": name,
            "image": f"registry.example.com/team-{workload % 50}/{name}:v1.{workload % 30}.0",
            "imagePullPolicy": "IfNotPresent",
            "args": ["--config=/etc/app/config.yaml", "--log-level=info"],
            "env": [{"name": f"VAR_{e}", "value": f"some value number {e}"} for e in range(12)],
            "resources": resources,
            "ports": [{"containerPort": 8080, "protocol": "TCP", "name": "http"}],
            "volumeMounts": [
                {"mountPath": "/etc/app", "name": "config"},
                {
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "name": "kube-api-access",
                    "readOnly": True,
                },
            ],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for name in ("app", "sidecar")
    ]
    conditions = [
        {"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T10:00:00Z"}
        for t in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "metadata": {
            "name": f"app-{workload}-7d9f8b6c5-{i:05x}",
            "generateName": f"app-{workload}-7d9f8b6c5-",
            "namespace": f"team-{workload % 50}",
            "uid": uid,
            "resourceVersion": str(1000 + i + version * 1_000_000),
            "creationTimestamp": "2026-01-01T10:00:00Z",
            "labels": {
                "app.kubernetes.io/name": f"app-{workload}",
                "app.kubernetes.io/part-of": f"team-{workload % 50}",
                "pod-template-hash": "7d9f8b6c5",
                "koordinator.sh/qosClass": "LS" if workload % 3 else "BE",
                "tier": "backend",
                "region": "eu-central-1",
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"app-{workload}-7d9f8b6c5",
                    "uid": f"{workload:08x}-aaaa-4d43-a2f7-0d5a7b0d2a11",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-01T10:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": _MANAGED,
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": "app-config", "defaultMode": 420}},
                {
                    "name": "kube-api-access",
                    "projected": {
                        "defaultMode": 420,
                        "sources": [{"serviceAccountToken": {"path": "token"}}],
                    },
                },
            ],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"node-{i % nodes:05d}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{c}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for c in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}",
            "podIPs": [{"ip": f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"}],
            "startTime": "2026-01-01T10:00:00Z",
            "containerStatuses": [
                {
                    "name": c["name"],
                    "state": {"running": {"startedAt": "2026-01-01T10:00:05Z"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": c["image"],
                    "imageID": f"registry.example.com/{c['name']}@sha256:{'ab' * 32}",
                    "containerID": f"containerd://{i:064x}",
                    "started": True,
                }
                for c in containers
            ],
            "qosClass": "Burstable",
        },
    }


def pod_json(i: int, nodes: int = 5000, version: int = 1) -> bytes:
    """Return the i-th pod as the wire has it."""
    return json.dumps(pod(i, nodes, version), separators=(",", ":")).encode()
