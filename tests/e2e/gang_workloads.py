"""Pods of gangs as the controllers of workloads make them: what they add to the template that a user wrote.

No controller runs on a control plane of a test, so a test creates the pods in their place.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tests.e2e.serving import Document

Template = Callable[[str], Document]
"""Returns a pod of the user's template by its name."""


def owned(pod: Document, api_version: str, kind: str, owner: str) -> Document:
    """Name an object as the controller of a pod."""
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner,
        "uid": f"00000000-0000-4000-8000-{sum(map(ord, kind + owner)):012d}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    pod["metadata"]["ownerReferences"] = [reference]
    return pod


def indexed_job(
    template: Template, name: str, count: int, labels: Mapping[str, str] = MappingProxyType({})
) -> list[Document]:
    """Return the pods of a Job with completion mode Indexed."""
    found = []
    for index in range(count):
        pod = owned(template(f"{name}-{index}-x{index}"), "batch/v1", "Job", name)
        mark = {"batch.kubernetes.io/job-completion-index": str(index)}
        pod["metadata"]["labels"] |= {
            "batch.kubernetes.io/job-name": name,
            "job-name": name,
            **mark,
            **labels,
        }
        pod["metadata"]["annotations"] |= mark
        pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
        pod["spec"] |= {"hostname": f"{name}-{index}", "restartPolicy": "Never"}
        found.append(pod)
    return found


def job_set(templates: Mapping[str, tuple[Template, int]], name: str) -> list[Document]:
    """Return the pods of a JobSet: a Job for each template, which is the name of a replicated job."""
    prefix = "jobset.sigs.k8s.io/"
    found = []
    for position, (role, (template, count)) in enumerate(templates.items()):
        labels = {
            f"{prefix}jobset-name": name,
            f"{prefix}replicatedjob-name": role,
            f"{prefix}replicatedjob-replicas": "1",
            f"{prefix}job-index": "0",
            f"{prefix}job-global-index": str(position),
            f"{prefix}restart-attempt": "0",
        }
        for pod in indexed_job(template, f"{name}-{role}-0", count, labels):
            pod["metadata"]["annotations"] |= labels
            pod["spec"]["subdomain"] = name
            found.append(pod)
    return found


def ray_cluster(template: Template, name: str, workers: int) -> list[Document]:
    """Return the pods of a RayCluster: the head, and a group of workers."""
    found: list[Document] = []
    for role in ("head", *["worker"] * workers):
        group = "headgroup" if role == "head" else "workers"
        pod = owned(template(f"{name}-{group}-{role}-{len(found)}"), "ray.io/v1", "RayCluster", name)
        pod["metadata"]["labels"] |= {
            "app.kubernetes.io/created-by": "kuberay-operator",
            "ray.io/cluster": name,
            "ray.io/group": group,
            "ray.io/identifier": f"{name}-{role}",
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": role,
        }
        found.append(pod)
    return found


def leader_worker_set(template: Template, name: str, size: int) -> list[Document]:
    """Return the pods of one group of a LeaderWorkerSet: the leader, and its StatefulSet of workers."""
    prefix = "leaderworkerset.sigs.k8s.io/"
    found = []
    for index in range(size):
        pod = template(f"{name}-0" if index == 0 else f"{name}-0-{index}")
        pod = owned(pod, "apps/v1", "StatefulSet", name if index == 0 else f"{name}-0")
        pod["metadata"]["labels"] |= {
            f"{prefix}name": name,
            f"{prefix}group-index": "0",
            f"{prefix}worker-index": str(index),
            f"{prefix}group-key": "0" * 40,
            "apps.kubernetes.io/pod-index": str(index),
            "statefulset.kubernetes.io/pod-name": pod["metadata"]["name"],
        }
        pod["metadata"]["annotations"] |= {f"{prefix}size": str(size)}
        found.append(pod)
    return found
