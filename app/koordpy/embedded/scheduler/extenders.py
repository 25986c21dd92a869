"""The calls that kube-scheduler makes to an HTTP extender, with its format and arithmetic.

JSON names are those of `k8s.io/kube-scheduler/extender/v1`, whose Go structs have no tags; like Go's decoder,
this one ignores the case of names. Pods and nodes are sent with only the fields that koordpy reads.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

from koordpy.api.core import Node, Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.http1 import Caller, Connect, HttpClient, HttpError
from koordpy.scheduling.interface import ExtenderError, Victims
from koordpy.scheduling.profiles.config import (
    ExtenderConfig,
    Profile,
    SchedulerConfiguration,
)

from .extender_tls import ExtenderTLS

SCALE = 10
"""The factor of an extender's score: MaxNodeScore (100) / MaxExtenderPriority (10)."""


class FilterResult(msgspec.Struct):
    """The nodes that an extender keeps, and the reasons for the others."""

    kept: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


class _Args(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    nodes: Any
    node_names: Sequence[str] | None


class _NodeList(msgspec.Struct):
    items: list[Node | None]
    metadata: dict[str, str] = {}


class _NodeMeta(msgspec.Struct):
    name: str


class _NamedNode(msgspec.Struct):
    metadata: _NodeMeta


class _NamedNodes(msgspec.Struct):
    items: list[_NamedNode] | None = None


class _FilterAnswer(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    node_names: list[str] | None = None
    nodes: _NamedNodes | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None


class _HostPriority(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    host: str
    score: int


class _BindingArgs(msgspec.Struct, rename="pascal"):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = ""


class _Victims(msgspec.Struct, rename="pascal"):
    pods: list[Any]
    violations: int = msgspec.field(name="NumPDBViolations")


class _PreemptionArgs(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _Victims] | None = None


class _PreemptAnswer(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    node_name_to_meta_victims: dict[str, dict[str, Any]] | None = None


class _MetaPod(msgspec.Struct, forbid_unknown_fields=True):
    uid: str = msgspec.field(default="", name="UID")


class _MetaVictims(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    pods: list[dict[str, Any]] | None = None
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _BindAnswer(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    error: str | None = None


_NAMES = {
    name.lower(): name
    for struct in (_FilterAnswer, _HostPriority, _PreemptAnswer, _MetaVictims, _MetaPod, _BindAnswer)
    for name in struct.__struct_encode_fields__
}


class Extender:
    """One entry of `extenders` in a KubeSchedulerConfiguration; `connect` replaces the network."""

    def __init__(self, config: ExtenderConfig, connect: Connect | None = None) -> None:
        self.config = config
        parts = urlsplit(config.url_prefix)
        self._prefix = parts.path.rstrip("/")
        secure = config.enable_https or parts.scheme == "https"
        given = config.tls_config
        origin = f"{'https' if secure else 'http'}://{parts.netloc}"
        self._tls = None if connect is not None or not secure else ExtenderTLS(given, config.enable_https)
        self._client: Caller = (
            connect(origin)
            if connect is not None
            else HttpClient(
                origin,
                tls=None if self._tls is None else self._tls.context,
                server_hostname=given.server_name or None if secure and given else None,
                limit=4096,
            )
        )
        self._managed = {resource.name for resource in config.managed_resources}

    @property
    def ignorable(self) -> bool:
        """Whether scheduling continues without the extender if it fails."""
        return self.config.ignorable

    @property
    def supports_preemption(self) -> bool:
        """Whether the extender supports preemption."""
        return bool(self.config.preempt_verb)

    @property
    def name(self) -> str:
        """The extender's address, which is its name in messages."""
        return self.config.url_prefix

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def is_interested(self, pod: Pod) -> bool:
        """Return whether a pod requests one of the managed resources; if none is listed, every pod counts."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(amounts)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    async def filter(self, pod: msgspec.Raw, nodes: NodeSet) -> FilterResult:
        """Call filter for a pod (`encoded`) and nodes. Raises ExtenderError."""
        answer = await self._call(self.config.filter_verb, self._args(pod, nodes), _FilterAnswer)
        if answer.error:
            raise ExtenderError(answer.error)
        kept: list[str] = []
        if self.config.node_cache_capable and answer.node_names is not None:
            kept = answer.node_names
        elif answer.nodes is not None:
            kept = [node.metadata.name for node in answer.nodes.items or ()]
        strange = set(kept).difference(nodes.names)
        if strange:
            raise ExtenderError(
                f'extender "{self.name}" claims a filtered node "{min(strange)}" which is not found in the '
                "input node list"
            )
        return FilterResult(kept, answer.failed_nodes or {}, answer.failed_and_unresolvable_nodes or {})

    async def prioritize(self, pod: msgspec.Raw, nodes: NodeSet) -> Int64:
        """Return (n,) what is added to each node's total: score * weight * 10. Raises ExtenderError."""
        answer = await self._call(
            self.config.prioritize_verb, self._args(pod, nodes), list[_HostPriority] | None
        )
        scores: dict[str, int] = {}
        for item in answer or ():
            scores[item.host] = scores.get(item.host, 0) + item.score
        raw = np.fromiter((scores.get(name, 0) for name in nodes.names), np.int64, len(nodes))
        return raw * self.config.weight * SCALE

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], nodes: NodeTable) -> dict[str, Victims]:
        """Call preempt with proposed victims, by node name. Raises ExtenderError."""
        args = _PreemptionArgs(encoded(pod))
        if self.config.node_cache_capable:
            args.node_name_to_meta_victims = {
                name: _Victims(
                    [{"UID": victim.metadata.uid} for victim in proposed.pods], proposed.pdb_violations
                )
                for name, proposed in victims.items()
            }
        else:
            args.node_name_to_victims = {
                name: _Victims(proposed.pods, proposed.pdb_violations) for name, proposed in victims.items()
            }
        answer = await self._call(self.config.preempt_verb, args, _PreemptAnswer)
        return {
            name: self._victims(name, document, nodes)
            for name, document in (answer.node_name_to_meta_victims or {}).items()
        }

    def _victims(self, node_name: str, document: dict[str, Any], nodes: NodeTable) -> Victims:
        """Look up the victims that an answer names on one node."""
        try:
            meta = msgspec.convert(_spelled(document), _MetaVictims)
            uids = [msgspec.convert(_spelled(pod), _MetaPod).uid for pod in meta.pods or ()]
        except msgspec.ValidationError as error:
            raise ExtenderError(
                f'extender "{self.name}" answered what are no victims on node "{node_name}": {error}'
            ) from error
        row = nodes.row_of(node_name)
        if row is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node_name}"')
        pods = {pod.metadata.uid: pod for pod in nodes.pods_on(row)}
        for uid in uids:
            if uid not in pods:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {node_name}, but the "
                    "pod is not found on that node"
                )
        return Victims([pods[uid] for uid in uids], meta.violations)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Call bind. Raises ExtenderError."""
        meta = pod.metadata
        args = _BindingArgs(meta.name, meta.namespace, meta.uid, node_name)
        answer = await self._call(self.config.bind_verb, args, _BindAnswer)
        if answer.error:
            raise ExtenderError(answer.error)

    def _args(self, pod: msgspec.Raw, nodes: NodeSet) -> _Args:
        if self.config.node_cache_capable:
            return _Args(pod, None, nodes.names)
        return _Args(pod, _NodeList([nodes.table.node(row) for row in nodes.rows.tolist()]), None)

    async def _call(self, verb: str, args: _Args | _PreemptionArgs | _BindingArgs, expected: Any) -> Any:
        path = f"{self._prefix}/{verb}"
        try:
            if self._tls is not None:
                self._tls.reload()
            response = await self._client.request(
                "POST",
                path,
                headers=_JSON,
                body=msgspec.json.encode(args),
                timeout=self.config.http_timeout,
            )
        except (HttpError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            raise ExtenderError(f'Post "{self.name.rstrip("/")}/{verb}": {error}') from error
        if response.status != 200:
            raise ExtenderError(
                f"failed {verb} with extender at URL {self.name.rstrip('/')}/{verb}, code {response.status}"
            )
        try:
            return _decode(response.body, expected)
        except msgspec.DecodeError as error:
            raise ExtenderError(
                f"extender at URL {self.name.rstrip('/')}/{verb} answered what is no {verb} result: {error}"
            ) from error


_JSON = {"Content-Type": "application/json"}


def _decode(body: bytes, expected: Any) -> Any:
    """Decode an answer, in the extender package's own spelling or in any other case of it."""
    try:
        return msgspec.json.decode(body, type=expected)
    except msgspec.ValidationError:
        answer = msgspec.json.decode(body)
    if isinstance(answer, dict):
        answer = _spelled(answer)
    elif isinstance(answer, list):
        answer = [_spelled(item) if isinstance(item, dict) else item for item in answer]
    return msgspec.convert(answer, expected)


def _spelled(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that Go would decode, under their exact names; unknown ones are omitted."""
    return {_NAMES[key.lower()]: value for key, value in answer.items() if key.lower() in _NAMES}


def encoded(pod: Pod) -> msgspec.Raw:
    """Return a pod as sent in the calls of one attempt."""
    return msgspec.Raw(msgspec.json.encode(pod))


def in_order(configs: Sequence[ExtenderConfig], connect: Connect | None = None) -> list["Extender"]:
    """Return the extenders in kube-scheduler's order: ignorable ones come last."""
    return [Extender(config, connect) for config in sorted(configs, key=lambda config: config.ignorable)]


def without_ignored_resources(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Make NodeResourcesFit ignore the resources that extenders manage themselves."""
    ignored = sorted(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    profiles = []
    for profile in config.profiles:
        entries = {entry.name: dict(entry.args) for entry in profile.plugin_config}
        args = entries.setdefault("NodeResourcesFit", {})
        args["ignoredResources"] = sorted({*args.get("ignoredResources", []), *ignored})
        plugin_config = tuple({"name": name, "args": args} for name, args in entries.items())
        profiles.append(
            Profile.model_validate(
                {
                    **profile.model_dump(by_alias=True, exclude={"plugin_config"}),
                    "pluginConfig": plugin_config,
                }
            )
        )
    return config.model_copy(update={"profiles": tuple(profiles)})
