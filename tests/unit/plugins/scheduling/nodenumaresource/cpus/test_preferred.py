import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import cpuset
from koordpy_plugins.scheduling.nodenumaresource.cpus.preferred import (
    AllocatedCPU,
    NotEnoughCPUs,
    take_preferred,
)

from ..machines import machine

FULL, SPREAD, MOST, LEAST = "FullPCPUs", "SpreadByPCPUs", "MostAllocated", "LeastAllocated"


def take(shape, allocated, need, bind, strategy=MOST, exclusive="", *, held="", preferred="", max_ref=1):
    """The CPUs that a pod gets, as a list; `held` is the exclusive policy of the allocated ones."""
    topology = machine(*shape)
    taken = {cpu: AllocatedCPU(1, held) for cpu in cpuset.parse(allocated)}
    found = take_preferred(
        topology,
        max_ref,
        topology.cpu_ids - taken.keys(),
        taken,
        cpuset.parse(preferred),
        need,
        bind,
        exclusive,
        strategy,
    )
    return cpuset.render(found)


@pytest.mark.parametrize(
    ("shape", "allocated", "need", "bind", "strategy", "cpus"),
    [
        ((2, 2, 4, 2), "0-5,16-23", 6, FULL, MOST, "24-29"),
        ((2, 2, 4, 2), "0-5,16-23", 6, FULL, LEAST, "8-13"),
        ((2, 2, 4, 2), "0-5,16-23", 12, FULL, MOST, "6-15,24-25"),
        ((2, 2, 4, 2), "0-5,16-23", 12, FULL, LEAST, "6-15,24-25"),
        ((2, 2, 2, 2), "0,2,4,8,10,12", 6, FULL, MOST, "5-7,13-15"),
        ((2, 2, 2, 2), "0,2,4,8,10,12", 6, FULL, LEAST, "1,3,6-7,14-15"),
        ((2, 1, 4, 2), "0,2", 6, SPREAD, MOST, "1,3-7"),
        ((2, 1, 4, 2), "0,2", 6, SPREAD, LEAST, "8-12,14"),
        ((2, 1, 4, 2), "7,13-15", 7, FULL, LEAST, "0-6"),
        ((1, 1, 8, 2), "", 9, SPREAD, MOST, "0-2,4,6,8,10,12,14"),
        ((1, 1, 4, 2), "", 3, FULL, MOST, "0-2"),
        ((2, 1, 4, 1), "0", 3, SPREAD, MOST, "1-3"),
    ],
)
def test_cpus_are_of_few_numa_nodes_and_whole_cores_or_many(shape, allocated, need, bind, strategy, cpus):
    assert take(shape, allocated, need, bind, strategy) == cpus


@pytest.mark.parametrize(
    ("allocated", "held", "need", "bind", "exclusive", "cpus"),
    [
        ("0,2", "PCPULevel", 4, SPREAD, "PCPULevel", "8,10,12,14"),
        ("", "", 10, SPREAD, "PCPULevel", "0-4,6,8,10,12,14"),
        ("0,2", "NUMANodeLevel", 4, FULL, "NUMANodeLevel", "8-11"),
        ("0,2", "NUMANodeLevel", 4, FULL, "None", "4-7"),
        ("0,2,8", "NUMANodeLevel", 4, FULL, "NUMANodeLevel", "4-7"),
    ],
)
def test_pods_with_the_same_exclusive_policy_avoid_each_other(allocated, held, need, bind, exclusive, cpus):
    assert take((2, 1, 4, 2), allocated, need, bind, MOST, exclusive, held=held) == cpus


def test_shared_cpus_are_those_of_the_fewest_pods():
    topology, found = machine(1, 1, 4, 2), []
    allocated: dict[int, AllocatedCPU] = {}
    for need in (4, 5, 4):
        available = frozenset(
            cpu for cpu in topology.cpu_ids if cpu not in allocated or allocated[cpu][0] < 2
        )
        cpus = take_preferred(topology, 2, available, allocated, frozenset(), need, FULL, "", MOST)
        found.append(cpuset.render(cpus))
        for cpu in cpus:
            allocated[cpu] = AllocatedCPU(allocated.get(cpu, AllocatedCPU(0))[0] + 1)
    assert found == ["0-3", "0,4-7", "2-5"]


@pytest.mark.parametrize("sockets", [3, 4])
def test_whole_cores_of_several_sockets_may_be_more_cpus_than_needed(sockets):
    assert take((sockets, 1, 4, 2), "", 11, FULL) == "0-9,16-17"


def test_preferred_cpus_come_first_and_reserved_ones_only_if_available():
    assert take((1, 1, 4, 2), "6", 3, FULL, preferred="5-7") == "0,5,7"
    assert take((1, 1, 4, 2), "", 2, FULL, preferred="4-7") == "4-5"


@pytest.mark.parametrize("need", [0, -1])
def test_no_cpus_are_needed(need):
    assert take((1, 1, 4, 2), "", need, FULL) == ""


def test_there_are_not_enough_cpus():
    with pytest.raises(NotEnoughCPUs, match=r"^not enough cpus available to satisfy request$"):
        take((1, 1, 4, 2), "0", 8, SPREAD)


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 2)),
    st.data(),
    st.sampled_from([FULL, SPREAD, ""]),
    st.sampled_from([MOST, LEAST]),
    st.sampled_from(["", "None", "PCPULevel", "NUMANodeLevel"]),
)
def test_exactly_what_is_needed_is_taken_of_what_is_available(shape, data, bind, strategy, exclusive):
    topology = machine(*shape)
    available = data.draw(st.frozensets(st.sampled_from(sorted(topology.cpu_ids)), min_size=1))
    preferred = data.draw(st.frozensets(st.sampled_from(sorted(topology.cpu_ids))))
    policies = st.sampled_from(["", "PCPULevel", "NUMANodeLevel"])
    allocated = {cpu: AllocatedCPU(1, data.draw(policies)) for cpu in sorted(topology.cpu_ids - available)}
    need = data.draw(st.integers(1, len(available)))
    found = take_preferred(topology, 1, available, allocated, preferred, need, bind, exclusive, strategy)
    assert len(found) == need
    assert found <= available
    assert len(found & preferred) == min(need, len(available & preferred))
