import os
from pathlib import Path

import pytest

from koordpy.agent.interface import NODE_CPU_INFO, CollectError
from koordpy.agent.interface.facts import NODE_NUMA_INFO, HugePages
from koordpy_plugins.collectors.nodeinfo import cpu_basic_info
from koordpy_plugins.collectors.nodeinfo.cpu_topology import CPUTopologyReader
from koordpy_plugins.collectors.nodeinfo.plugin import NodeInfo
from tests.unit.plugins.collectors.node_files import NodeFiles


def machine(node, sockets=2, cores=2, threads=2):
    """Lay out a machine whose hardware gives cores of two sockets the same ids, 0 and 8."""
    cpus, count = node.sys / "devices/system/cpu", sockets * cores * threads
    node.write(cpus / "online", f"0-{count - 1}\n")
    for cpu in range(count):
        core, socket = cpu // threads % cores, cpu // (threads * cores)
        siblings = f"{cpu - cpu % threads}-{cpu - cpu % threads + threads - 1}"
        first = socket * cores * threads
        node.write(cpus / f"cpu{cpu}/topology/core_id", f"{8 * core}\n")
        node.write(cpus / f"cpu{cpu}/topology/physical_package_id", f"{socket}\n")
        caches = [("1", "Data", siblings), ("1", "Instruction", siblings), ("2", "Unified", siblings)]
        caches.append(("3", "Unified", f"{first}-{first + cores * threads - 1}"))
        for index, (level, kind, shared) in enumerate(caches):
            for name, text in (("level", level), ("type", kind), ("shared_cpu_list", shared)):
                node.write(cpus / f"cpu{cpu}/cache/index{index}/{name}", f"{text}\n")
    for socket in range(sockets):
        folder = node.sys / f"devices/system/node/node{socket}"
        first = socket * cores * threads
        node.write(folder / "cpulist", f"{first}-{first + cores * threads - 1}\n")
        fields = {
            "MemTotal": 500,
            "MemFree": 100,
            "Active(file)": 10,
            "Inactive(file)": 20,
            "SReclaimable": 5,
        }
        text = "".join(f"Node {socket} {name}: {value} kB\n" for name, value in fields.items())
        node.write(folder / "meminfo", text)
        node.write(folder / "hugepages/hugepages-2048kB/nr_hugepages", f"{socket + 3}\n")
    node.write(node.proc / "cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon 5\n\n")


def test_cores_sockets_and_caches_are_counted_as_lscpu_does(tmp_path):
    node = NodeFiles(tmp_path, NodeInfo)
    machine(node)
    node.collect()
    info = node.fact(NODE_CPU_INFO)
    rows = [(p.cpu, p.core, p.socket, p.node, p.l1d_l1i_l2, p.l3) for p in info.processors]
    assert rows == [(cpu, cpu // 2, cpu // 4, cpu // 4, str(cpu // 2), cpu // 4) for cpu in range(8)]
    assert (info.basic.cpu_model, info.basic.vendor_id) == ("Xeon 5", "GenuineIntel")
    assert (info.basic.hyper_thread_enabled, info.basic.turbo_enabled) == (False, False)


def test_features_of_the_processors(tmp_path):
    node = NodeFiles(tmp_path, NodeInfo)
    machine(node)
    node.write(node.sys / "devices/system/cpu/smt/active", "1\n")
    node.write(node.sys / "devices/system/cpu/intel_pstate/no_turbo", "0\n")
    node.write(node.sys / "fs/resctrl/info/L3/cbm_mask", "fffff\n")
    node.collect()
    basic = node.fact(NODE_CPU_INFO).basic
    assert (basic.hyper_thread_enabled, basic.turbo_enabled, basic.cat_l3_cbm_mask) == (True, True, "fffff")


def test_a_cpu_that_goes_offline_is_left_out(tmp_path):
    node = NodeFiles(tmp_path, NodeInfo)
    machine(node)
    node.collect()
    node.write(node.sys / "devices/system/cpu/online", "0-6\n")
    node.collect()
    assert [p.cpu for p in node.fact(NODE_CPU_INFO).processors] == list(range(7))


@pytest.mark.parametrize("gate", [False, True])
def test_memory_of_numa_nodes_with_huge_pages_behind_a_gate(tmp_path, gate):
    node = NodeFiles(tmp_path, NodeInfo, gates={"HugePageReport": gate})
    machine(node)
    node.collect()
    first, second = node.fact(NODE_NUMA_INFO).nodes
    assert (first.node, first.total, first.used) == (0, 500 * 1024, 365 * 1024)
    assert second.huge_pages == ((HugePages(2048, 4), HugePages(1048576, 0)) if gate else ())


def test_nodes_of_generic_initiators_are_skipped(tmp_path):
    node = NodeFiles(tmp_path, NodeInfo)
    machine(node)
    node.write(node.sys / "devices/system/node/node2/cpulist", "\n")
    node.write(node.sys / "devices/system/node/has_generic_initiator", "2-3\n")
    node.collect()
    assert [numa.node for numa in node.fact(NODE_NUMA_INFO).nodes] == [0, 1]


def test_ids_that_are_not_contiguous_are_an_error(tmp_path):
    node = NodeFiles(tmp_path, NodeInfo)
    machine(node)
    os.rename(node.sys / "devices/system/node/node1", node.sys / "devices/system/node/node4")
    with pytest.raises(CollectError, match=r"got ids \[0, 4\], expected 0 to 1"):
        node.collect()
    assert node.fact(NODE_CPU_INFO) is not None


def test_a_machine_without_topology_is_an_error(tmp_path):
    with pytest.raises(CollectError, match="cannot read the CPU topology below"):
        NodeFiles(tmp_path, NodeInfo).collect()


def test_this_machine_is_understood():
    processors = CPUTopologyReader(Path("/sys")).read()
    assert len(processors) == os.cpu_count()
    assert cpu_basic_info.read(Path("/proc"), Path("/sys"), Path("/sys/fs/resctrl")).cpu_model
