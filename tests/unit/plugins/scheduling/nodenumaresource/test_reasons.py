"""Every reason of the plugin is explained by `koordpy why`, and in the guide."""

from pathlib import Path

import pytest

from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.explain.device_causes import device_causes
from koordpy.scheduling.toolkit.topology_manager.policy import UNALIGNED, UNSATISFIED
from koordpy.testing.objects import pod
from koordpy_plugins.scheduling.nodenumaresource import admission, filter
from koordpy_plugins.scheduling.nodenumaresource.allocation import allocate
from koordpy_plugins.scheduling.nodenumaresource.attempt import node_policies, pod_state
from koordpy_plugins.scheduling.nodenumaresource.cpus import accumulator, policies
from koordpy_plugins.scheduling.nodenumaresource.reservations.allocate import OUTSIDE_NUMA_SCOPE
from koordpy_plugins.scheduling.nodenumaresource.topology import cpu_topology

REASONS = (
    node_policies.POLICY_MISMATCH,
    pod_state.NOT_WHOLE_CPUS,
    pod_state.TOO_MANY_CPUS,
    cpu_topology.INVALID_TOPOLOGY,
    filter.NOT_ALIGNED,
    filter.POLICY_CONFLICT,
    filter.INVALID_RATIO,
    filter.INSUFFICIENT_CPU,
    filter.OUTSIDE_BEST_HINT,
    OUTSIDE_NUMA_SCOPE,
    accumulator.NOT_ENOUGH,
    policies.unsatisfied_message(policies.FULL_PCPUS),
    admission.MISSING_NUMA_RESOURCES,
    admission.INSUFFICIENT_NUMA_RESOURCES,
    allocate.NO_NUMA_NODES,
    "Insufficient NUMA cpu",
    "unknown NUMA Topology policy 'Odd'",
    f"{UNSATISFIED} cpu",
    f"{UNALIGNED} cpu prefer [01] among [01]",
)


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_has_a_cause_that_the_guide_names(reason: str) -> None:
    [cause] = device_causes(Cluster(), pod("p"), f"0/1 nodes are available: 1 {reason}.")
    guide = (Path(__file__).parents[5] / "docs" / "numa.md").read_text()
    assert f"`{cause.cause}`" in guide
