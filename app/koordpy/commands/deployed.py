"""koordpy as it is deployed in a cluster: the settings of its processes, from their workloads and ConfigMaps.

A process is read as it reads itself: its arguments by the options of its command, its files from the
ConfigMaps that its pods mount. Files that are on nodes cannot be read from here.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from koordpy.api.config_model import ConfigError
from koordpy.api.core import ConfigMap, DaemonSet, Deployment, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import Forbidden, NotFound
from koordpy.doctor.examination import CONFIGURATION
from koordpy.doctor.finding import Finding
from koordpy.lib.feature_gates import FeatureGateError
from koordpy.settings import SERVING, Settings, load

from . import running

Document = Mapping[str, Any]

_LABEL: Final = "app.kubernetes.io/name"
_NAME: Final = "koordpy"
_KUBE_SYSTEM: Final = "kube-system"
_KUBE_SCHEDULER: Final = "kube-scheduler"
_BY_HAND: Final = "--config FILE"
_SECTIONS: Final = {
    "admission": "admission",
    "extender": "extender",
    "descheduler": "worker",
    "controllers": "worker",
    "agent": "agent",
}
"""The fields of the settings by the part that they are for."""

_Overrides = Callable[[click.Context], dict[str, Any]]

_COMMANDS: Final[Mapping[str, tuple[click.Command, _Overrides, Sequence[str]]]] = {
    "serve": (running.serve, lambda this: running.serve_overrides(this.params), SERVING),
    "worker": (running.worker, lambda this: running.worker_overrides(this.params), ()),
    "agent": (running.agent, lambda this: running.agent_overrides(this.params, this), ("agent",)),
}
"""Commands that run a process, what their options override, and the parts that they run by default."""


@dataclass(frozen=True)
class _Workload:
    """A workload's name for people, its namespace, and the spec of its pods."""

    name: str
    namespace: str
    spec: Document


@dataclass
class Deployed:
    """What was found: the settings of all processes as those of one.

    `scheduler_file` is the configuration of the kube-scheduler beside the extender, `workloads` are the names
    of what runs koordpy, `remarks` what could not be read.
    """

    settings: Settings
    scheduler_file: Path | None = None
    workloads: list[str] = field(default_factory=list)
    remarks: list[Finding] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """Paths in pods, by where these files are on this machine."""

    def as_in_pods(self, text: str) -> str:
        """Return a text with the paths that files have in the pods."""
        for local, place in self.places.items():
            text = text.replace(local, place)
        return text


async def deployed(client: Client, namespace: str, folder: Path, own: Settings) -> Deployed:
    """Return what runs in a namespace, and beside the cluster's own kube-scheduler.

    Files are written to `folder`. Where nothing runs the settings are `own`, whose way to the API server and
    gates are kept in any case. Raises ConnectionFailed and ApiError.
    """
    found, update = Deployed(own), dict[str, Any]()
    gates: dict[str, bool] = {}
    async for workload in _workloads(client, namespace, found):
        for container in (*(workload.spec.get("initContainers") or ()), *workload.spec["containers"]):
            argv = [*(container.get("command") or ()), *(container.get("args") or ())]
            of_koordpy = next((place for place, word in enumerate(argv) if word in _COMMANDS), None)
            if of_koordpy is None and container["name"] != _KUBE_SCHEDULER:
                continue
            mounted = await _mounted(client, workload, container, folder, found)
            argv = [_on_this_machine(text, mounted) for text in argv]
            if of_koordpy is None:
                found.scheduler_file = _file_of(argv, mounted) or found.scheduler_file
                continue
            settings = _read(workload, container, argv[of_koordpy:], found)
            if settings is None:
                continue
            found.workloads.append(workload.name)
            for part in settings.parts or ():
                if section := _SECTIONS.get(part):
                    update[section] = getattr(settings, section)
                    update["parts"] = tuple(dict.fromkeys((*update.get("parts", ()), part)))
            if settings.debug.authentication:
                update["debug"] = settings.debug
            for gate, on in settings.feature_gates.items():
                if gates.setdefault(gate, on) != on:
                    told = f"sets feature gate {gate} to {str(on).lower()}, another workload does not"
                    found.remarks.append(CONFIGURATION.warning(workload.name, told, "set it alike in all"))
    if update:
        found.settings = own.model_copy(update={**update, "feature_gates": gates | own.feature_gates})
    return found


async def _workloads(client: Client, namespace: str, found: Deployed) -> AsyncIterator[_Workload]:
    """Yield the workloads of koordpy's, and the kube-scheduler of the cluster if koordpy is beside it."""
    try:
        for type_ in (Deployment, DaemonSet):
            async for document in client.list_raw(resource_of(type_), namespace):
                meta = document["metadata"]
                if (meta.get("labels") or {}).get(_LABEL) == _NAME:
                    name = f"{type_.__name__} {namespace}/{meta['name']}"
                    yield _Workload(name, namespace, document["spec"]["template"]["spec"])
    except Forbidden as error:
        found.remarks.append(
            CONFIGURATION.note("koordpy", f"what is deployed cannot be read: {error}", _BY_HAND)
        )
    try:
        pods = [pod async for pod in client.list_raw(resource_of(Pod), _KUBE_SYSTEM)]
    except Forbidden:
        return
    for document in pods:
        meta, spec = document["metadata"], document["spec"]
        containers = (*spec["containers"], *(spec.get("initContainers") or ()))
        if (meta.get("labels") or {}).get("component") == _KUBE_SCHEDULER and any(
            container["name"] == _NAME for container in containers
        ):
            yield _Workload(f"Pod {_KUBE_SYSTEM}/{meta['name']}", _KUBE_SYSTEM, spec)


async def _mounted(
    client: Client, workload: _Workload, container: Document, folder: Path, found: Deployed
) -> dict[str, str]:
    """Write the ConfigMaps that a container mounts; return where they are, by their paths in the pod."""
    volumes = {volume["name"]: volume for volume in workload.spec.get("volumes") or ()}
    mounted: dict[str, str] = {}
    written: list[Path] = []
    for mount in container.get("volumeMounts") or ():
        local = folder / str(len(found.places))
        for source in _config_maps(volumes.get(mount["name"]) or {}):
            key = f"ConfigMap {workload.namespace}/{source['name']}"
            try:
                data = (await client.get(ConfigMap, workload.namespace, source["name"])).data
            except NotFound:
                if not source.get("optional"):
                    told = f"mounts {key}, which does not exist: its pods do not start"
                    found.remarks.append(
                        CONFIGURATION.problem(workload.name, told, "apply the manifests again")
                    )
                continue
            except Forbidden:
                found.remarks.append(CONFIGURATION.note(workload.name, f"{key} may not be read", _BY_HAND))
                continue
            local.mkdir(exist_ok=True)
            for item in source.get("items") or [{"key": name, "path": name} for name in data]:
                written.append(local / Path(item["path"]).name)
                written[-1].write_text(data.get(item["key"], ""), encoding="utf-8")
        if local.exists():
            place = mount["mountPath"] if mount.get("subPath") else f"{mount['mountPath'].rstrip('/')}/"
            mounted[place] = f"{local}/{mount.get('subPath') or ''}"
            found.places[mounted[place]] = place
    for path in written:
        path.write_text(_on_this_machine(path.read_text(encoding="utf-8"), mounted), encoding="utf-8")
    return mounted


def _config_maps(volume: Document) -> Iterator[Document]:
    if "configMap" in volume:
        yield volume["configMap"]
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "configMap" in source:
            yield source["configMap"]


def _on_this_machine(text: str, mounted: Mapping[str, str]) -> str:
    for place, local in mounted.items():
        text = text.replace(place, local)
    return text


def _file_of(argv: Sequence[str], mounted: Mapping[str, str]) -> Path | None:
    """Return kube-scheduler's configuration file, if it is among the files that were read."""
    for number, word in enumerate(argv):
        name, _, value = word.partition("=")
        if name == "--config":
            path = Path(value or next(iter(argv[number + 1 :]), ""))
            return path if any(str(path).startswith(local) for local in mounted.values()) else None
    return None


def _read(workload: _Workload, container: Document, argv: Sequence[str], found: Deployed) -> Settings | None:
    """Return the settings of a process, with the parts that it runs; None if they cannot be read."""
    command, overrides_of, parts = _COMMANDS[argv[0]]
    environment = {
        entry["name"]: entry["value"] for entry in container.get("env") or () if entry.get("value")
    }
    try:
        with command.make_context(argv[0], list(argv[1:]), obj={"verbose": 0}) as this:
            file, overrides = this.params["config"], overrides_of(this)
        overrides.pop("client")
        settings = load(file, overrides, environment)
        descheduler = settings.worker.descheduler
        for other in (settings.extender.scheduler_config, descheduler.config, descheduler.scheduler_config):
            if other is not None:
                Path(other).stat()
    except FileNotFoundError as error:
        told = f"its file {error.filename} is in no ConfigMap: its configuration is not examined"
        found.remarks.append(CONFIGURATION.note(workload.name, told, f"copy the file here; {_BY_HAND}"))
        return None
    except (click.ClickException, ConfigError, FeatureGateError, OSError) as error:
        told = error.format_message() if isinstance(error, click.ClickException) else str(error)
        told = found.as_in_pods(f"does not start: {told}")
        found.remarks.append(
            CONFIGURATION.problem(workload.name, told, "correct its arguments or its ConfigMap")
        )
        return None
    return settings.model_copy(update={"parts": tuple(settings.parts or parts)})
