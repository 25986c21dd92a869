"""The choice of GPUs, or of RDMA cards by the default selection, on one node."""

from collections.abc import Mapping
from typing import Any

from koordpy.api.device import DeviceInfo, DeviceTopology, VirtualFunction, VirtualFunctionGroup
from koordpy.api.extension import LABEL_GPU_MODEL, LABEL_GPU_PARTITION_POLICY
from koordpy.api.quantity import Quantity
from koordpy.scheduling.interface.status import SUCCESS
from koordpy_plugins.scheduling.deviceshare.allocation import default, gpu, reasons
from koordpy_plugins.scheduling.deviceshare.allocation.default import Selection
from koordpy_plugins.scheduling.deviceshare.allocation.requests import GPURequirements
from koordpy_plugins.scheduling.deviceshare.allocation.view import TypeView, View
from koordpy_plugins.scheduling.deviceshare.scoring import Scorer
from koordpy_plugins.scheduling.deviceshare.state.device_amounts import left_of
from koordpy_plugins.scheduling.deviceshare.state.exact import Exact, exact
from koordpy_plugins.scheduling.deviceshare.state.gpu_topology import tree_of
from koordpy_plugins.scheduling.deviceshare.state.partitions import Partition, PartitionIndex, index_of


def run(case: dict[str, Any], tag: str | None) -> object:
    infos = [_info(device) for device in case["Devs"]]
    totals = {device["Minor"]: _exact(device["Total"]) for device in case["Devs"]}
    index = _index(case)
    of_type = _view(case, infos, totals)
    view = View({case["Type"]: of_type}, tree_of(infos, totals), index, case["HonorNode"])
    scorer = Scorer(case["Weights"], case["Score"] == "Most") if case["Score"] else None
    request = _quantities(case["Req"])
    is_gpu = case["Type"] == "gpu"  # its hint is not that of the case, and it goes after no other device
    selection = Selection(
        request,
        exact(request),
        case["Desired"],
        case["MaxDesired"],
        case["Required"],
        case["Preferred"],
        () if is_gpu else case["PrefPCIe"],
        needs_function=case["VF"] and not is_gpu,
    )
    if is_gpu:
        labels = {LABEL_GPU_MODEL: case["Model"], LABEL_GPU_PARTITION_POLICY: case["Policy"]}
        chosen, status = gpu.allocate(view, _requirements(case, request), selection, labels, scorer)
    else:
        found = default.select(of_type, selection, scorer)
        chosen, status = (found, SUCCESS) if found is not None else ((), reasons.too_few_devices("rdma"))
    if not status.is_success:
        return {"Minors": None, "VF": None, "Err": list(status.reasons), "Code": int(status.code)}
    functions = [function.bus_id for each in chosen for function in each.virtual_functions]
    return {"Minors": [each.minor for each in chosen], "VF": functions or None, "Err": None, "Code": 0}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours == expected)


def _view(case: dict[str, Any], infos: list[DeviceInfo], totals: Mapping[int, Exact]) -> TypeView:
    left = {
        device["Minor"]: left_of(totals[device["Minor"]], _exact(device["Free"]))
        for device in case["Devs"]
        if device["InView"]
    }
    return TypeView(
        {minor: totals[minor] for minor in left},
        {minor: each.free for minor, each in left.items()},
        {minor for minor, each in left.items() if each.is_used},
        {device["Minor"] for device in case["Devs"] if device["OrigUsed"]},
        infos,
        {device["Minor"]: set(device["AllocVF"]) for device in case["Devs"]},
    )


def _requirements(case: dict[str, Any], request: Mapping[str, Quantity]) -> GPURequirements:
    return GPURequirements(
        request,
        case["Count"],
        case["Shared"],
        honors_partitions=case["HonorPod"],
        restricted=case["Restricted"],
        bandwidth=Quantity.of(case["BW"]) if case["BW"] else None,
        required_scope=case["Scope"],
    )


def _index(case: dict[str, Any]) -> PartitionIndex | None:
    if not case["HasTable"]:
        return None
    return index_of(
        {
            int(count): [
                Partition.of(each["Minors"], each["Score"], Quantity.of(each["BW"]) if each["BW"] else None)
                for each in partitions
            ]
            for count, partitions in case["Table"].items()
        }
    )


def _info(device: dict[str, Any]) -> DeviceInfo:
    place = DeviceTopology(node_id=device["NUMA"], pcie_id=device["PCIE"]) if device["HasTopo"] else None
    functions = [VirtualFunction(bus_id=address) for address in device["VFs"]]
    return DeviceInfo(
        minor=device["Minor"],
        topology=place,
        vf_groups=[VirtualFunctionGroup(vfs=functions)] if functions else [],
    )


def _quantities(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    return {name: Quantity.of(amount) for name, amount in amounts.items()}


def _exact(amounts: Mapping[str, int]) -> Exact:
    return exact(_quantities(amounts))
