"""A scenario's runs as an Indexed Job: every pod does a part of them and writes it to a ConfigMap.

`deploy/simulation/sweep.yaml` has the objects. Whoever submits needs the rights to create and delete them,
and to read Jobs and ConfigMaps; pods may create ConfigMaps and nothing else.
"""

import asyncio
import base64
import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from koordpy import data
from koordpy.api import config_document, config_file
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, Forbidden, NotFound

from .experiment import Run
from .scenario import GPUFillScenario
from .sweep import Task, part

LABEL: Final = "simulation.koordpy.dev/sweep"
"""On all objects: the sweep that they are of."""

_MOST: Final = 900_000
"""Bytes of a scenario with its tables: a ConfigMap holds a MiB, encoded in base64 on the way."""
_MOST_UNPACKED: Final = 64 << 20
"""Bytes of one pod's runs; those of a part are some hundred kilobytes."""
_EVERY: Final = 2.0
"""Seconds between two reads of the Job."""
_JOB_NAME: Final = "job-name"
_STARTING: Final = (None, "ContainerCreating", "PodInitializing")
"""Why containers wait that will run."""
_SCENARIO, _RUNS = "scenario.yaml", "runs.json.gz"

Document = dict[str, Any]


def _resource(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, True, KubeObject)


_CONFIG_MAP = _resource("", "configmaps", "ConfigMap")
_JOB = _resource("batch", "jobs", "Job")
_RBAC = "rbac.authorization.k8s.io"
_CREATED: Final = {
    resource.kind: resource
    for resource in (
        _CONFIG_MAP,
        _JOB,
        _resource("", "serviceaccounts", "ServiceAccount"),
        _resource(_RBAC, "roles", "Role"),
        _resource(_RBAC, "rolebindings", "RoleBinding"),
    )
}


class SweepFailed(RuntimeError):
    """The Job failed, or parts are missing; the message says what to look at."""


@dataclass(frozen=True)
class Sweep:
    """One submission."""

    name: str
    namespace: str
    image: str
    pods: int

    @property
    def logs(self) -> str:
        """What to look at where pods failed."""
        return f"see kubectl logs -n {self.namespace} -l job-name={self.name}"

    @property
    def removal(self) -> str:
        """The command that removes all of it."""
        kinds = ",".join(kind.lower() for kind in _CREATED)
        return f"kubectl delete {kinds} -n {self.namespace} -l {LABEL}={self.name}"


def manifests(of: Sweep, file: Path, told: GPUFillScenario, folder: Path) -> list[Document]:
    """Return the objects of a sweep, in the order of their creation. Raises ConfigError, OSError."""
    objects = data.documents("simulation", "sweep.yaml")
    for document in objects:
        document["metadata"] |= {"name": of.name, "namespace": of.namespace, "labels": {LABEL: of.name}}
    by_kind = {document["kind"]: document for document in objects}
    by_kind["RoleBinding"]["roleRef"]["name"] = of.name
    by_kind["RoleBinding"]["subjects"][0] |= {"name": of.name, "namespace": of.namespace}
    job = by_kind["Job"]["spec"]
    job |= {"completions": of.pods, "parallelism": of.pods}
    pod = job["template"]["spec"]
    pod["serviceAccountName"] = pod["volumes"][0]["configMap"]["name"] = of.name
    container = pod["containers"][0]
    container["image"] = of.image
    container["args"] += [
        f"--part=$(JOB_COMPLETION_INDEX)/{of.pods}",
        f"--sweep={of.namespace}/{of.name}",
    ]
    files = _config_map(of.namespace, of.name, _files(file, told, folder))
    files["metadata"]["labels"] = {LABEL: of.name}
    return [files, *objects]


async def submit(client: Client, of: Sweep, objects: Iterable[Document]) -> None:
    """Create the objects of a sweep."""
    for document in objects:
        await client.create_raw(_CREATED[document["kind"]], of.namespace, document)


async def follow(client: Client, of: Sweep, progress: Callable[[int, str], None]) -> None:
    """Wait for the Job's end. Raises SweepFailed.

    `progress` is told how many pods have succeeded, and why one has not started, if anything but time is
    needed for that: an image that cannot be pulled, or no node with room.
    """
    while True:
        status = (await client.get_raw(_JOB, of.namespace, of.name)).get("status") or {}
        for condition in status.get("conditions") or ():
            if condition.get("status") == "True" and condition.get("type") == "Complete":
                progress(status.get("succeeded") or 0, "")
                return
            if condition.get("status") == "True" and condition.get("type") == "Failed":
                raise SweepFailed(
                    f"Job {of.namespace}/{of.name} failed: {condition.get('message', '')}: {of.logs}"
                )
        all_run = (status.get("ready") or 0) >= (status.get("active") or 0)
        progress(status.get("succeeded") or 0, "" if all_run else await _why_not_started(client, of))
        await asyncio.sleep(_EVERY)


async def _why_not_started(client: Client, of: Sweep) -> str:
    """Return why a pod of the Job has not started; empty if it just takes time, or pods may not be listed."""
    with contextlib.suppress(Forbidden):
        async for pod in client.list_raw(resource_of(Pod), of.namespace):
            meta, status = pod["metadata"], pod.get("status") or {}
            if (meta.get("labels") or {}).get(_JOB_NAME) != of.name:
                continue
            for container in status.get("containerStatuses") or ():
                waiting = (container.get("state") or {}).get("waiting") or {}
                if waiting.get("reason") not in _STARTING:
                    told = waiting.get("message") or "no message"
                    return f"pod {of.namespace}/{meta['name']} does not start: {waiting['reason']}: {told}"
            for condition in status.get("conditions") or ():
                if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                    return f"pod {of.namespace}/{meta['name']} has no node: {condition.get('message', '')}"
    return ""


async def collect(client: Client, of: Sweep, tasks: Sequence[Task]) -> list[Run]:
    """Return the runs of all parts, in the order of the tasks. Raises SweepFailed."""
    found: dict[tuple[str, int], Run] = {}
    for index in range(min(of.pods, len(tasks))):
        name = _part_name(of.name, index)
        try:
            document = await client.get_raw(_CONFIG_MAP, of.namespace, name)
        except NotFound:
            raise SweepFailed(
                f"pod {index} of {of.namespace}/{of.name} has written no ConfigMap: {of.logs}"
            ) from None
        try:
            runs = _read_part(document)
        except (TypeError, ValueError, msgspec.MsgspecError, zlib.error) as error:
            raise SweepFailed(f"ConfigMap {of.namespace}/{name}: {error}") from None
        found |= {(run.policy, run.seed): run for run in runs}
    missing = [task for task in tasks if (task.name, task.seed) not in found]
    if missing:
        raise SweepFailed(f"the run of {missing[0].name} with seed {missing[0].seed} is missing")
    return [found[task.name, task.seed] for task in tasks]


def _read_part(document: Document) -> list[Run]:
    """Return the runs in a ConfigMap, which others can write. Raises many errors for what is no part."""
    text = (document.get("binaryData") or {}).get(_RUNS)
    if text is None:
        raise ValueError(f"expected {_RUNS} in its binaryData")
    packed = base64.b64decode(text, validate=True)
    raw = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(packed, _MOST_UNPACKED + 1)
    if len(raw) > _MOST_UNPACKED:
        raise ValueError(f"{_RUNS}: expected at most {_MOST_UNPACKED} bytes when unpacked")
    return msgspec.json.decode(raw, type=list[Run])


async def remove(client: Client, of: Sweep) -> None:
    """Delete all objects of a sweep, and the ConfigMaps of its parts; what is not there is no error."""
    for resource in (_JOB, *(known for known in _CREATED.values() if known is not _JOB)):
        await _delete(client, resource, of.namespace, of.name)
    for index in range(of.pods):
        await _delete(client, _CONFIG_MAP, of.namespace, _part_name(of.name, index))


async def write_part(client: Client, namespace: str, name: str, index: int, runs: Sequence[Run]) -> None:
    """Write what one pod has done; a part that is there already, of a pod that was retried, is the same."""
    raw = gzip.compress(msgspec.json.encode(list(runs)), mtime=0)
    document = _config_map(namespace, _part_name(name, index), {_RUNS: raw})
    document["metadata"]["labels"] = {LABEL: name}
    with contextlib.suppress(AlreadyExists):
        await client.create_raw(_CONFIG_MAP, namespace, document)


def part_of(text: str, tasks: Sequence[Task]) -> tuple[int, list[Task]]:
    """Return the index and the runs of `INDEX/PARTS`. Raises ValueError."""
    index, _, parts = text.partition("/")
    if not (index.isdecimal() and parts.isdecimal() and int(index) < int(parts)):
        raise ValueError(f"got {text!r}, expected INDEX/PARTS such as 0/8")
    return int(index), part(tasks, int(index), int(parts))


def _part_name(name: str, index: int) -> str:
    return f"{name}-{index}"


async def _delete(client: Client, resource: Resource, namespace: str, name: str) -> None:
    with contextlib.suppress(NotFound):
        await client.delete_raw(resource, namespace, name, propagation_policy="Background")


def _config_map(namespace: str, name: str, files: Mapping[str, bytes]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "binaryData": {key: base64.b64encode(content).decode() for key, content in files.items()},
    }


def _files(file: Path, told: GPUFillScenario, folder: Path) -> dict[str, bytes]:
    """Return the scenario with its tables; these are beside it then, whatever folders they are in here."""
    names = {"nodes": told.nodes, "trace": told.trace}
    files = {}
    document = dict(config_document.load(config_file.read(file))) | {"seeds": list(told.seeds)}
    for field, name in names.items():
        kept = field + "".join(Path(name).suffixes)
        document[field] = kept
        files[kept] = (folder / name).read_bytes()
    files[_SCENARIO] = msgspec.json.encode(document)
    if sum(map(len, files.values())) > _MOST * 3 // 4:
        raise ConfigError(f"{file}: with its tables it is larger than a ConfigMap; compress them (.gz)")
    return files
