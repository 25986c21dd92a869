"""The embedded scheduler's leader election."""

import asyncio
from contextlib import AsyncExitStack

from koordpy.api.core import Lease, Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config as scheduling_config
from tests.eventually import PATIENCE

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-scheduler"}}


async def test_it_schedules_only_while_it_holds_the_lease_of_its_configuration() -> None:
    config = scheduling_config.read(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaseDuration": "2s", "renewDeadline": "1s", "retryPeriod": "200ms"},
        }
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer())
        client = Client(Connection.find(server=server.url))
        stack.push_async_callback(client.close)
        other = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
        await client.create_raw(resource_of(Lease), "kube-system", LEASE | {"spec": other})
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        status = {"allocatable": amounts, "capacity": amounts}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
        await client.create_raw(resource_of(Node), "", node)
        spec = {"containers": [{"name": "main", "image": "app:1"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        await client.create_raw(resource_of(Pod), "default", pod)
        scheduler = Scheduler(config, client, elects=True)
        stack.push_async_callback(scheduler.stop)
        await scheduler.start()
        await asyncio.sleep(1)
        assert not (await client.get(Pod, "default", "p")).spec.node_name
        gone = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
        await client.patch(Lease, "kube-system", "kube-scheduler", gone)
        async with asyncio.timeout(PATIENCE):
            while not (await client.get(Pod, "default", "p")).spec.node_name:
                await asyncio.sleep(0.05)
        assert (await client.get(Lease, "kube-system", "kube-scheduler")).spec.holder_identity
