"""Variables with the devices of a pod: which containers get them, and their values before the bind."""

from typing import Any

import pytest

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.api.config_model import ConfigError

from .pods import container, handle, mutated, pod, respond

GPU = "koordinator.sh/gpu-core"
RDMA = "koordinator.sh/rdma"
MINORS = "scheduling.koordinator.sh/gpu-minors"
ADDRESSES = "scheduling.koordpy.dev/rdma-addresses"
GPU_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
RDMA_VARIABLE = "PCIDEVICE_KOORDINATOR_SH_RDMA"


def requesting(name: str, *resources: str, limits: bool = False, **more: Any) -> dict[str, Any]:
    amounts = dict.fromkeys(resources, "50")
    lists = {"limits": amounts} if limits else {"requests": amounts}
    return {**container(name, **lists), **more}


def admitted(submitted: dict[str, Any]) -> dict[str, Any]:
    return mutated(submitted, PodDeviceEnvironment=True, DisableDeviceResourceSpec=True)


def read_from(annotation: str) -> dict[str, Any]:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}}


def variables(found: dict[str, Any], field: str = "containers") -> list[dict[str, Any]]:
    """Return what the variables of each container are read from, or their value, by name."""
    return [
        {each["name"]: each.get("valueFrom", each.get("value")) for each in container.get("env", ())}
        for container in found["spec"].get(field, ())
    ]


def test_containers_that_request_devices_read_them_from_annotations_that_name_none_yet() -> None:
    found = admitted(
        pod(
            requesting("gpu", GPU),
            requesting("both", GPU, RDMA, limits=True),
            requesting("neither", "cpu"),
            initContainers=[requesting("download", "cpu"), requesting("warm-up", RDMA)],
        )
    )
    gpu = {GPU_VARIABLE: read_from(MINORS)}
    rdma = {RDMA_VARIABLE: read_from(ADDRESSES)}
    assert variables(found) == [gpu, gpu | rdma, {}]
    assert variables(found, "initContainers") == [{}, rdma]
    assert found["metadata"]["annotations"] == {MINORS: "void", ADDRESSES: ""}


@pytest.mark.parametrize(
    "resource",
    ["koordinator.sh/gpu", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio",
     "koordinator.sh/gpu.shared"],
)  # fmt: skip
def test_each_resource_of_gpus_counts(resource: str) -> None:
    assert variables(admitted(pod(requesting("c", resource)))) == [{GPU_VARIABLE: read_from(MINORS)}]


@pytest.mark.parametrize("resource", ["cpu", "nvidia.com/gpu", "example.com/gpu"])
def test_other_pods_stay_as_they_are(resource: str) -> None:
    submitted = pod(requesting("c", resource))
    assert admitted(submitted) == submitted


def test_without_the_gate_nothing_is_added() -> None:
    submitted = pod(requesting("c", GPU))
    assert mutated(submitted, DisableDeviceResourceSpec=True) == submitted


def test_a_pod_that_names_gpus_itself_gets_those_that_are_allocated() -> None:
    env = [{"name": "A", "value": "1"}, {"name": GPU_VARIABLE, "value": "all"}, {"name": "B", "value": "2"}]
    found = admitted(pod(requesting("c", GPU, env=env), annotations={MINORS: "0,1,2", "mine": "1"}))
    assert variables(found) == [{"A": "1", GPU_VARIABLE: read_from(MINORS), "B": "2"}]
    assert len(found["spec"]["containers"][0]["env"]) == 3
    assert found["metadata"]["annotations"] == {MINORS: "void", "mine": "1"}


def test_of_several_variables_of_the_name_the_last_one_counts() -> None:
    env = [{"name": GPU_VARIABLE, "value": "0"}, {"name": GPU_VARIABLE, "value": "all"}]
    assert variables(admitted(pod(requesting("c", GPU, env=env)))) == [{GPU_VARIABLE: read_from(MINORS)}]


def test_a_pod_that_exists_is_not_changed() -> None:
    submitted = pod(requesting("c", GPU))
    to = handle(PodDeviceEnvironment=True, DisableDeviceResourceSpec=True)
    response = respond(submitted, to, operation="UPDATE", oldObject=submitted)
    assert response["object"] == submitted


def configured(**args: str) -> AdmissionConfig:
    return AdmissionConfig(enabled=[HandlerEntry(name="mutate-pod.DeviceEnvironment", args=args)])


def test_variables_have_other_names_or_are_left_out() -> None:
    to = handle(PodDeviceEnvironment=True)
    chain = build_chains(configured(gpuVariable="ASCEND_VISIBLE_DEVICES", rdmaVariable=""), to)["/mutate-pod"]
    submitted = pod(requesting("c", GPU, RDMA))
    found = respond(submitted, to, chain=chain)["object"]
    assert variables(found) == [{"ASCEND_VISIBLE_DEVICES": read_from(MINORS)}]
    assert found["metadata"]["annotations"] == {MINORS: "void"}


@pytest.mark.parametrize(
    "args", [{"gpuVariable": "A B"}, {"rdmaVariable": "1A"}, {"gpuVariable": "A", "rdmaVariable": "A"}]
)
def test_names_that_no_variable_may_have_are_refused(args: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"must (be a name of an environment variable|differ)"):
        build_chains(configured(**args), handle(PodDeviceEnvironment=True))
