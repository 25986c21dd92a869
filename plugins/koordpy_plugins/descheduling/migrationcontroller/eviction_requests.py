"""EvictionRequests of Kubernetes: pods are asked to leave, and take part in their own eviction.

A job creates one EvictionRequest for its pod. Kubernetes' evictionrequest-controller makes an Eviction of
it, to which the responders in the pod's `spec.evictionResponders` react; the last one is Kubernetes' own and
calls the eviction subresource, which respects PodDisruptionBudgets. Deleting a request withdraws it. Source:
Kubernetes 1.37, `k8s.io/api/lifecycle/v1alpha1`; KEP-4563.
"""

import logging

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, NotFound

log = logging.getLogger(__name__)

GATE = "MigrationEvictionRequest"

REQUESTER = "koordpy.dev/descheduler"

RESOURCE = Resource("lifecycle.k8s.io", "v1alpha1", "evictionrequests", "EvictionRequest", True, KubeObject)


class EvictionRequests:
    """The EvictionRequests of jobs, which have the jobs' UIDs as names."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, job: PodMigrationJob, pod: Pod) -> bool:
        """Request the eviction of a pod; return False if the API server does not serve EvictionRequests.

        A job has one request, however often this is called. It ends with the job, which owns it.
        """
        meta, owner = pod.metadata, resource_of(PodMigrationJob)
        document = {
            "apiVersion": RESOURCE.api_version,
            "kind": RESOURCE.kind,
            "metadata": {
                "name": job.metadata.uid,
                "namespace": meta.namespace,
                "ownerReferences": [
                    {
                        "apiVersion": owner.api_version,
                        "kind": owner.kind,
                        "name": job.metadata.name,
                        "uid": job.metadata.uid,
                    }
                ],
            },
            "spec": {
                "target": {"pod": {"name": meta.name, "uid": meta.uid}},
                "requester": REQUESTER,
                "intent": "Eviction",
            },
        }
        try:
            await self._client.create_raw(RESOURCE, meta.namespace, document)
        except AlreadyExists:
            pass
        except NotFound as error:
            if error.details.get("kind") == "namespaces":
                raise
            log.warning(
                "the API server does not serve %s %s: pod %s is evicted by the eviction API",
                RESOURCE.api_version,
                RESOURCE.kind,
                meta.key,
            )
            return False
        return True

    async def failure(self, job: PodMigrationJob, pod: Pod) -> str | None:
        """Return why a job's request is not processed any more although the pod runs, None if it is."""
        try:
            document = await self._client.get_raw(RESOURCE, pod.metadata.namespace, job.metadata.uid)
        except NotFound:
            return None
        for item in (document.get("status") or {}).get("conditions") or ():
            if item.get("type") == "Failed" and item.get("status") == "True":
                return str(item.get("message") or item.get("reason") or "the EvictionRequest has failed")
        return None

    async def withdraw(self, job: PodMigrationJob) -> None:
        """Withdraw the request of a job, if it has one."""
        reference = job.spec.pod_ref
        if reference is None or not reference.namespace:
            return
        try:
            await self._client.delete_raw(RESOURCE, reference.namespace, job.metadata.uid)
        except NotFound:
            return
