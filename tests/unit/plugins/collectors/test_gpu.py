"""The collector of GPUs, on a folder that looks like sysfs and a vendor's library in memory."""

import threading

import pytest

from koordpy.agent.interface import CollectError
from koordpy.agent.interface.facts import GPU_DEVICES, GPU_DRIVER, DeviceStatus, GPUDevice, GPUDriver
from koordpy_plugins.collectors.gpu import plugin as gpu_plugin
from koordpy_plugins.collectors.gpu.health import HealthWatch
from koordpy_plugins.collectors.gpu.library import Identity, ProcessUsage, XidEvent
from koordpy_plugins.collectors.gpu.plugin import GPU
from tests.eventually import eventually
from tests.unit.plugins.collectors.gpu_library import Driver
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, NodeFiles, pod
from tests.unit.plugins.collectors.pci_devices import PCIDevices

FIRST, SECOND = "0000:3b:00.0", "0000:af:00.0"
GIB = 1 << 30
POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"


@pytest.fixture
def driver():
    identities = {
        FIRST: Identity(1, 1, "GPU-b", "NVIDIA A100-SXM4 80GB", 80 * GIB),
        SECOND: Identity(0, 0, "GPU-a", "NVIDIA A100-SXM4 80GB", 80 * GIB),
    }
    return Driver(identities)


@pytest.fixture
def node(tmp_path, driver, monkeypatch):
    monkeypatch.setattr(GPU, "library", staticmethod(driver.library))
    node = NodeFiles(tmp_path, GPU, pod("u", "c1", "c2"))
    devices = PCIDevices(node.sys)
    devices.add_gpu(FIRST, numa_node=1)
    devices.add_gpu(SECOND)
    yield node
    node.collector.close()


def processes(node, container, *pids):
    node.cgroup(f"{POD}/cri-containerd-{container}.scope", cgroup__procs="".join(f"{pid}\n" for pid in pids))


def of(minor, uuid, **properties):
    return {"gpu_minor": str(minor), "gpu_device_uuid": uuid, **properties}


def test_devices_in_the_order_of_the_library(node):
    node.collect()
    assert node.fact(GPU_DEVICES) == (
        GPUDevice("GPU-a", 0, 80 * GIB, 0, "pci0000:3a", SECOND),
        GPUDevice("GPU-b", 1, 80 * GIB, 1, "pci0000:3a", FIRST),
    )
    assert node.fact(GPU_DRIVER) == GPUDriver("A100-SXM4-80GB", "550.54")


def test_usage_of_the_node_its_pods_and_containers(node, driver):
    processes(node, "c1", 10, 11)
    processes(node, "c2", 20)
    driver.usage = {
        SECOND: {10: ProcessUsage(30, GIB), 20: ProcessUsage(20, 2 * GIB), 99: ProcessUsage(5, 4 * GIB)},
        FIRST: {11: ProcessUsage(7, 8 * GIB)},
    }
    node.collect()
    first, second = of(0, "GPU-a"), of(1, "GPU-b")
    assert node.values("node_gpu_core_usage", **first) == 55
    assert node.values("node_gpu_memory_usage", **first) == 7 * GIB
    assert node.values("pod_gpu_core_usage", pod_uid="u", **first) == 50
    assert node.values("pod_gpu_memory_usage", pod_uid="u", **second) == 8 * GIB
    container = {"container_id": "containerd://c1"}
    assert node.values("container_gpu_core_usage", **container, **first) == 30
    assert node.values("container_gpu_memory_usage", **container, **second) == 8 * GIB
    assert node.missing("container_gpu_core_usage", container_id="containerd://c2", **second)


def test_an_unused_device_is_reported_as_such_and_its_pods_are_not(node):
    node.collect()
    assert node.values("node_gpu_core_usage", **of(1, "GPU-b")) == 0
    assert node.missing("pod_gpu_core_usage", pod_uid="u", **of(1, "GPU-b"))


def test_a_device_that_does_not_answer_has_no_sample_and_is_named_once(node, driver, caplog):
    node.collect()
    driver.lost = {FIRST}
    node.collect(1)
    node.collect(1)
    assert node.count("node_gpu_core_usage", **of(1, "GPU-b")) == 1
    assert node.count("node_gpu_core_usage", **of(0, "GPU-a")) == 3
    assert caplog.text.count(f"usage of GPU {FIRST} is not measured") == 1


def test_processes_that_start_later_are_attributed(node, driver):
    driver.usage = {FIRST: {10: ProcessUsage(30, GIB)}}
    node.collect()
    assert node.missing("pod_gpu_core_usage", pod_uid="u", **of(1, "GPU-b"))
    processes(node, "c1", 10)
    node.collect(5)  # foreign processes are looked for again after ten seconds
    assert node.missing("pod_gpu_core_usage", pod_uid="u", **of(1, "GPU-b"))
    node.collect(6)
    assert node.values("pod_gpu_core_usage", pod_uid="u", **of(1, "GPU-b")) == 30
    driver.usage[FIRST] = {10: ProcessUsage(30, GIB), 12: ProcessUsage(1, GIB)}
    processes(node, "c1", 10, 12)
    node.collect(1)
    assert node.values("pod_gpu_core_usage", pod_uid="u", **of(1, "GPU-b")) == 31


def test_usage_of_a_pod_that_is_gone_is_dropped(node, driver):
    processes(node, "c1", 10)
    driver.usage = {FIRST: {10: ProcessUsage(30, GIB)}}
    node.collect()
    node.remove(pod("u", "c1", "c2"))
    node.collect(1)
    assert node.missing("pod_gpu_core_usage", pod_uid="u", **of(1, "GPU-b"))
    assert node.values("node_gpu_core_usage", **of(1, "GPU-b")) == 30


@pytest.mark.parametrize("missing", ["model", "version"])
def test_different_models_or_an_unknown_driver_have_no_labels(node, driver, missing):
    if missing == "model":
        driver.devices[FIRST] = Identity(1, 1, "GPU-b", "Tesla T4", 16 * GIB)
    else:
        driver.version = ""
    node.collect()
    assert node.fact(GPU_DRIVER) == GPUDriver()


def test_without_the_library_the_collector_is_idle_and_the_node_has_no_gpus(node, driver):
    driver.installed = False
    assert "libnvidia-ml.so.1 cannot be loaded" in node.collector.idle_reason()
    assert node.fact(GPU_DEVICES) == ()


def test_devices_are_looked_for_again_after_a_minute(node, driver, caplog):
    assert node.collector.idle_reason() is None
    driver.failure = "nvmlInit_v2: Driver Not Loaded"
    node.collect()
    assert node.fact(GPU_DEVICES) == ()
    driver.failure = ""
    node.collect(30)
    assert node.fact(GPU_DEVICES) == ()
    node.collect(31)
    assert len(node.fact(GPU_DEVICES)) == 2
    assert caplog.text.count("no GPUs are measured: nvmlInit_v2: Driver Not Loaded") == 1


def test_a_node_without_devices_opens_no_driver(tmp_path, driver, monkeypatch, caplog):
    monkeypatch.setattr(GPU, "library", staticmethod(driver.library))
    node = NodeFiles(tmp_path, GPU)
    node.collect()
    assert node.fact(GPU_DEVICES) == ()
    assert driver.opened == 0
    assert "bus/pci/drivers/nvidia has no devices" in caplog.text


def test_a_driver_that_hangs_is_an_error_until_it_answers(node, driver, monkeypatch):
    node.collect()
    driver.hangs = threading.Event()
    monkeypatch.setattr(gpu_plugin, "READ_SECONDS", 0.01)
    with pytest.raises(CollectError, match="has not answered for"):
        node.collect()
    with pytest.raises(CollectError, match="has not answered yet"):
        node.collect()
    monkeypatch.setattr(gpu_plugin, "READ_SECONDS", 60.0)
    driver.hangs.set()
    assert eventually(lambda: not node.collector._thread.busy)
    node.collect()


def test_the_driver_is_given_up_at_the_end(node, driver):
    node.collect()
    assert eventually(lambda: driver.opened == 2)  # of the measuring and of the watching thread
    node.collector.close()
    assert eventually(lambda: driver.opened == 0)


# --- health ----------------------------------------------------------------------------------------


def watched(driver, *events):
    """What is found unhealthy after some events."""
    driver.events = list(events)
    watch = HealthWatch(driver.library, [FIRST, SECOND])
    watch.start()
    assert eventually(driver.waiting.is_set)
    watch.stop()
    return watch.unhealthy


def test_an_error_makes_the_device_unhealthy(driver):
    expected = DeviceStatus(False, "Xid48", "Xid error detected on device, error code: 48")
    assert watched(driver, XidEvent(48, FIRST, "GPU-b")) == {FIRST: expected}
    assert driver.subscribed == [FIRST, SECOND]


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_errors_of_applications_do_not(driver, xid):
    assert watched(driver, XidEvent(xid, FIRST, "GPU-b")) == {}


def test_an_error_of_no_device_concerns_all(driver):
    found = watched(driver, XidEvent(79, "", ""))
    assert {bus_id: status.error_code for bus_id, status in found.items()} == {
        FIRST: "Xid79",
        SECOND: "Xid79",
    }


def test_a_device_that_disappeared_is_found_at_the_next_error(driver):
    driver.lost = {SECOND}
    found = watched(driver, XidEvent(79, FIRST, "GPU-b"))
    assert found[SECOND].error_message.startswith("failed to get device, error: ")


def test_a_device_without_health_checks_is_unhealthy(driver):
    driver.too_old = {SECOND}
    found = watched(driver)
    message = "device does not support health checking"
    assert found == {SECOND: DeviceStatus(False, "DeviceHealthCheckNotSupported", message)}


def test_the_health_is_part_of_the_devices(node, driver):
    driver.events = [XidEvent(48, FIRST, "GPU-b")]
    node.collect()
    assert eventually(driver.waiting.is_set)
    node.collect(1)
    healthy, unhealthy = node.fact(GPU_DEVICES)
    assert (healthy.status, unhealthy.status.error_code) == (None, "Xid48")
