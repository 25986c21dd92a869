import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy_plugins.scheduling.nodenumaresource.cpus.policies import (
    filter_by_required,
    node_bind_policy,
    satisfies_required,
)
from koordpy_plugins.scheduling.nodenumaresource.topology.cpu_topology import CPU, CPUTopology

from ..machines import machine

FOUR_CORES = machine(1, 1, 4, 2)


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("FullPCPUs", {2, 3}),
        ("SpreadByPCPUs", {1, 2, 4}),
        ("", {1, 2, 3, 4, 99}),
        ("Default", {1, 2, 3, 4, 99}),
    ],
)
def test_a_required_policy_leaves_whole_cores_or_one_cpu_of_each_core(policy, left):
    assert filter_by_required(FOUR_CORES, {4, 3, 2, 1, 99}, policy) == left


def test_a_core_with_more_cpus_than_the_average_is_not_whole():
    irregular = CPUTopology([CPU.of(0, 0, 0, 0), CPU.of(0, 0, 0, 1), CPU.of(0, 0, 1, 2), CPU.of(0, 0, 2, 3)])
    assert irregular.cpus_per_core == 1
    assert filter_by_required(irregular, {0, 1, 2, 3}, "FullPCPUs") == {2, 3}
    assert filter_by_required(irregular, {0, 2, 3}, "FullPCPUs") == {0, 2, 3}


@pytest.mark.parametrize(
    ("policy", "cpus", "satisfied"),
    [
        ("FullPCPUs", {2, 3, 6, 7}, True),
        ("FullPCPUs", {2, 3, 6}, False),
        ("FullPCPUs", set(), True),
        ("SpreadByPCPUs", {0, 3}, True),
        ("SpreadByPCPUs", {0, 1}, False),
        ("SpreadByPCPUs", {0, 99}, False),
        ("", {0, 1, 2}, True),
    ],
)
def test_chosen_cpus_are_compared_with_the_required_policy(policy, cpus, satisfied):
    assert satisfies_required(FOUR_CORES, cpus, policy) is satisfied


@given(st.frozensets(st.integers(0, 15)), st.sampled_from(["FullPCPUs", "SpreadByPCPUs"]))
def test_all_cpus_that_a_required_policy_leaves_satisfy_it(cpus, policy):
    topology = machine(2, 2, 2, 2)
    assert satisfies_required(topology, filter_by_required(topology, cpus, policy), policy)


@pytest.mark.parametrize(
    ("label", "kubelet", "policy"),
    [
        ("", False, "None"),
        ("None", False, "None"),
        ("Other", False, "None"),
        ("SpreadByPCPUs", False, "SpreadByPCPUs"),
        ("SpreadByPCPUs", True, "FullPCPUsOnly"),
        ("FullPCPUsOnly", False, "FullPCPUsOnly"),
        ("", True, "FullPCPUsOnly"),
    ],
)
def test_kubelets_own_policy_of_a_node_comes_before_its_label(label, kubelet, policy):
    assert node_bind_policy(label, is_kubelet_full_pcpus_only=kubelet) == policy
