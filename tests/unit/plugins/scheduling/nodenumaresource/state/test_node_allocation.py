from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.quantity import parse
from koordpy_plugins.scheduling.nodenumaresource.cpus.accumulator import AllocatedCPU
from koordpy_plugins.scheduling.nodenumaresource.state.node_allocation import MOST_TRACES, NodeAllocation
from koordpy_plugins.scheduling.nodenumaresource.state.pod_allocation import PodAllocation
from koordpy_plugins.scheduling.nodenumaresource.topology.options import TopologyOptions

from ..machines import machine

TOPOLOGY = machine(1, 2, 2, 2)
"""CPUs 0-3 on NUMA node 0 and 4-7 on NUMA node 1."""


def amounts(**texts):
    return {name: parse(text) for name, text in texts.items()}


def allocation(uid, cpus=(), exclusive="", **zones):
    numa = {int(zone[1:]): amounts(**texts) for zone, texts in zones.items()}
    return PodAllocation(uid, "x", uid, frozenset(cpus), exclusive, numa)


def node(*allocations):
    made = NodeAllocation(TOPOLOGY)
    for each in allocations:
        made.update(each)
    return made


def options(**fields):
    zones = {0: amounts(cpu="4", memory="8Gi"), 1: amounts(cpu="4")}
    return TopologyOptions(**{"cpu_topology": TOPOLOGY, "numa_resources": zones, **fields})


def test_an_update_replaces_what_a_pod_has():
    state = node(allocation("a", {0, 1}, n0={"cpu": "2"}), allocation("a", {4}, n1={"cpu": "1"}))
    assert state.allocated_cpus == {4: AllocatedCPU(1, "")}
    assert state.allocated_resources == {0: amounts(cpu="0"), 1: amounts(cpu="1")}
    assert (state.allocated_count(), state.allocated_count(0), state.allocated_count(1)) == (1, 0, 1)


def test_adding_a_pod_again_changes_nothing():
    state = node(allocation("a", {0}))
    state.add(allocation("a", {1}))
    assert state.allocated_cpus.keys() == {0}


def test_the_exclusive_policy_of_a_cpu_is_that_of_its_last_pod_and_stays():
    state = node(allocation("a", {0}, "PCPULevel"), allocation("b", {0}, "NUMANodeLevel"))
    assert state.allocated_cpus[0] == AllocatedCPU(2, "NUMANodeLevel")
    state.release("b")
    assert state.allocated_cpus[0] == AllocatedCPU(1, "NUMANodeLevel")
    assert state.allocated_count() == 1
    state.release("a")
    assert state.allocated_cpus == {}
    assert state.allocated_count(0) == 0


def test_releasing_an_unknown_pod_changes_nothing():
    state = node(allocation("a", {0}))
    assert state.release("b") is None
    assert state.release("a").cpus == {0}
    assert state.is_empty


def test_numa_nodes_are_idle_or_have_pods_of_their_own_or_shared_ones():
    state = node(allocation("a", {0}), allocation("only amounts", n1={"cpu": "1"}))
    assert state.numa_status(3) == ("single", "idle", "idle")
    state.update(allocation("b", {1, 4}))
    assert state.numa_status(2) == ("shared", "shared")
    state.release("b")
    assert state.numa_status(2) == ("single", "idle")


def test_cpus_that_the_topology_does_not_have_count_on_numa_node_0():
    state = node(allocation("a", {4, 99}))
    assert state.numa_status(2) == ("shared", "shared")
    assert state.allocated_count(0) == 1
    available, allocated = state.available_cpus(options())
    assert available == TOPOLOGY.cpu_ids - {4}
    assert allocated.keys() == {4, 99}


def test_reserved_cpus_are_never_available():
    state = node(allocation("a", {0}))
    available, _ = state.available_cpus(options(reserved_cpus=frozenset({1, 2, 99})), {1, 2})
    assert available == {3, 4, 5, 6, 7}


def test_a_cpu_is_given_back_once_for_each_set_that_has_it():
    state = node(allocation("a", {0, 1}), allocation("b", {0}, "PCPULevel"))
    assert state.available_cpus(options(), {0, 1})[0] == TOPOLOGY.cpu_ids - {0}
    available, allocated = state.available_cpus(options(), {0, 1}, frozenset(), {0, 5})
    assert available == TOPOLOGY.cpu_ids
    assert allocated == {}
    assert state.allocated_cpus[0] == AllocatedCPU(2, "PCPULevel")
    assert state.available_cpus(options(), {0})[1] == {0: (1, "PCPULevel"), 1: (1, "")}


def test_cpus_may_be_shared_by_several_pods():
    state = node(allocation("a", {0, 1}), allocation("b", {0}))
    assert state.available_cpus(options(max_ref_count=2))[0] == TOPOLOGY.cpu_ids - {0}


def test_without_a_topology_no_cpu_is_available():
    assert node().available_cpus(TopologyOptions())[0] == frozenset()


def test_what_is_left_of_numa_nodes_is_not_negative():
    state = node(allocation("a", n0={"cpu": "5", "gpu": "1"}, n7={"cpu": "1"}))
    available, allocated = state.available_numa_resources(options(), {})
    assert available == {0: amounts(cpu="0", memory="8Gi", gpu="0"), 1: amounts(cpu="4")}
    assert allocated == {0: amounts(cpu="5", gpu="1")}


def test_reusable_amounts_do_not_count_as_allocated():
    state = node(allocation("a", n0={"cpu": "3"}))
    reusable = {0: amounts(cpu="2", memory="1Gi"), 1: amounts(cpu="9")}
    available, allocated = state.available_numa_resources(options(), reusable)
    assert available == {0: amounts(cpu="3", memory="8Gi"), 1: amounts(cpu="4")}
    assert allocated == {0: amounts(cpu="1", memory="0")}


def test_cpus_of_pods_are_charged_amplified():
    state = node(allocation("a", {0, 1, 2}, n0={"cpu": "3"}), allocation("b", {2}, n0={"cpu": "1"}))
    available, allocated = state.available_numa_resources(options(amplification_ratios={"cpu": 1.5}), {})
    assert allocated == {0: amounts(cpu="5500m")}
    assert available[0]["cpu"].is_zero
    available, _ = state.available_numa_resources(options(amplification_ratios={"cpu": 1.0}), {})
    assert available[0]["cpu"].is_zero


def test_cpus_without_amounts_are_charged_only_once_amounts_were_allocated_there():
    state, ratios = node(allocation("a", {0, 1})), {"cpu": 2.0}
    assert state.available_numa_resources(options(amplification_ratios=ratios), {})[0][0]["cpu"] == parse("4")
    state.update(allocation("b", n0={"memory": "1Gi"}))
    state.release("b")
    available, allocated = state.available_numa_resources(options(amplification_ratios=ratios), {})
    assert available[0] == amounts(cpu="2", memory="8Gi")
    assert allocated == {0: amounts(cpu="2", memory="0")}


def test_allocations_move_to_another_topology_with_the_traces_of_former_ones():
    state = node(allocation("a", {4}), allocation("b", n1={"cpu": "1"}), allocation("c", n0={"cpu": "1"}))
    state.release("c")
    other = machine(1, 1, 4, 2)
    moved = state.moved_to(other)
    assert moved.numa_status(2) == ("single", "idle")
    assert moved.allocated_resources == {0: amounts(cpu="0"), 1: amounts(cpu="1")}
    assert state.moved_to(other, with_traces=False).allocated_resources == {1: amounts(cpu="1")}
    assert state.moved_to(TOPOLOGY) is state


def test_traces_are_bounded():
    state = node()
    for number in range(5 * MOST_TRACES):
        state.update(allocation("a", **{f"n{number}": {"cpu": "1"}, "n0": {f"x{number}": "1"}}))
        state.release("a")
    assert len(state.allocated_resources) <= MOST_TRACES + 1
    assert len(state.allocated_resources[0]) <= MOST_TRACES


CHANGES = st.tuples(st.sampled_from("abc"), st.none() | st.integers(-3, 3), st.integers(0, 1))


@given(st.lists(CHANGES, max_size=12))
def test_amounts_are_the_sums_of_the_pods_that_are_there_also_of_negative_ones(changes):
    state = node()
    there: dict[str, PodAllocation] = {}
    for uid, amount, zone in changes:
        if amount is None:
            state.release(uid)
            there.pop(uid, None)
        else:
            there[uid] = allocation(uid, **{f"n{zone}": {"cpu": str(amount)}})
            state.update(there[uid])
    rebuilt = node(*there.values()).allocated_resources
    shown = [
        {zone: found["cpu"].value() for zone, found in each.items() if not found["cpu"].is_zero}
        for each in (state.allocated_resources, rebuilt)
    ]
    assert shown[0] == shown[1]
