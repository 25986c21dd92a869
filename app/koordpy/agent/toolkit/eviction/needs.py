"""What every strategy that evicts needs, unless pods are evicted through the API server."""

from typing import Final

from koordpy.api.needs import Privilege, PrivilegeNeed

KILLING: Final = (
    PrivilegeNeed(
        privilege=Privilege.HOST_PID,
        purpose="finding the processes of containers",
        without="no container is killed, each attempt is an error in the log and counted as failed",
        cgroup_v1=True,
    ),
    PrivilegeNeed(
        privilege=Privilege.KILL,
        purpose="killing containers of users other than root",
        without="they are not killed, each attempt is an error in the log and counted as failed",
        cgroup_v1=True,
    ),
)
"""Cgroup v2 kills a group by its file `cgroup.kill`, which takes nothing but the group."""
