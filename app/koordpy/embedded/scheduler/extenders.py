"""The calls that kube-scheduler makes to an HTTP extender, in its words and with its arithmetic.

JSON names are those of `k8s.io/kube-scheduler/extender/v1`, whose Go structs have no tags.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import Int64, NodeSet
from koordpy.lib.http1 import HttpClient, HttpError
from koordpy.scheduling.config import ExtenderConfig, ExtenderTLSConfig

SCALE = 10
"""What an extender's score is multiplied with: MaxNodeScore (100) / MaxExtenderPriority (10)."""


class ExtenderError(Exception):
    """An extender did not answer, answered something else than expected, or reported an error."""


class FilterResult(msgspec.Struct):
    """Which nodes an extender keeps, and why not the others."""

    kept: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


class _FilterAnswer(msgspec.Struct):
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")
    nodes: Any = msgspec.field(default=None, name="Nodes")
    failed: dict[str, str] | None = msgspec.field(default=None, name="FailedNodes")
    unresolvable: dict[str, str] | None = msgspec.field(default=None, name="FailedAndUnresolvableNodes")
    error: str | None = msgspec.field(default=None, name="Error")


class _HostPriority(msgspec.Struct):
    host: str = msgspec.field(name="Host")
    score: int = msgspec.field(name="Score")


class _BindAnswer(msgspec.Struct):
    error: str | None = msgspec.field(default=None, name="Error")


class Extender:
    """One entry of `extenders` in a KubeSchedulerConfiguration."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        parts = urlsplit(config.url_prefix)
        self._prefix = parts.path.rstrip("/")
        secure = config.enable_https or parts.scheme == "https"
        given = config.tls_config
        self._client = HttpClient(
            f"{'https' if secure else 'http'}://{parts.netloc}",
            tls=_tls(given) if secure else None,
            server_hostname=given.server_name or None if secure and given else None,
            limit=4096,
        )
        self._managed = {resource.name for resource in config.managed_resources}

    @property
    def name(self) -> str:
        """The extender's address, which is its name in messages."""
        return self.config.url_prefix

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def is_interested(self, pod: Pod) -> bool:
        """Tell whether a pod asks for one of the managed resources; with none listed, every pod counts."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(amounts)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    async def filter(self, pod: Pod, nodes: NodeSet) -> FilterResult:
        """Ask which of the nodes can take a pod. Raises ExtenderError."""
        answer = await self._call(self.config.filter_verb, self._args(pod, nodes), _FilterAnswer)
        if answer.error:
            raise ExtenderError(f"extender {self.name}: {answer.error}")
        if answer.node_names is not None:
            kept = answer.node_names
        else:
            items = (answer.nodes or {}).get("items") or []
            kept = [node["metadata"]["name"] for node in items]
        strange = set(kept) - set(nodes.names)
        if strange:
            raise ExtenderError(
                f"extender {self.name} claims a filtered node {sorted(strange)[0]!r} that was not asked about"
            )
        return FilterResult(kept, answer.failed or {}, answer.unresolvable or {})

    async def prioritize(self, pod: Pod, nodes: NodeSet) -> Int64:
        """Return (n,) what is added to each node's total: score * weight * 10. Raises ExtenderError."""
        answer = await self._call(
            self.config.prioritize_verb, self._args(pod, nodes), list[_HostPriority] | None
        )
        scores = {item.host: item.score for item in answer or ()}
        raw = np.fromiter((scores.get(name, 0) for name in nodes.names), np.int64, len(nodes))
        return raw * self.config.weight * SCALE

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Have a pod bound. Raises ExtenderError."""
        args = {
            "PodName": pod.metadata.name,
            "PodNamespace": pod.metadata.namespace,
            "PodUID": pod.metadata.uid,
            "Node": node_name,
        }
        answer = await self._call(self.config.bind_verb, args, _BindAnswer)
        if answer.error:
            raise ExtenderError(answer.error)

    def _args(self, pod: Pod, nodes: NodeSet) -> dict[str, Any]:
        if self.config.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes.names)}
        objects = [nodes.table.node(row) for row in nodes.rows.tolist()]
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": objects}, "NodeNames": None}

    async def _call(self, verb: str, args: Mapping[str, Any], expected: Any) -> Any:
        path = f"{self._prefix}/{verb}"
        try:
            response = await self._client.request(
                "POST",
                path,
                headers={"Content-Type": "application/json"},
                body=msgspec.json.encode(args),
                timeout=self.config.http_timeout,
            )
            if response.status != 200:
                raise ExtenderError(
                    f"extender {self.name}: POST {path} answered {response.status}: {response.body[:200]!r}"
                )
            return msgspec.json.decode(response.body, type=expected)
        except (HttpError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise ExtenderError(f"extender {self.name}: POST {path}: {error}") from error
        except msgspec.DecodeError as error:
            raise ExtenderError(f"extender {self.name}: POST {path} answered nonsense: {error}") from error


def interested(extenders: Sequence[Extender], pod: Pod) -> list[Extender]:
    """Return the extenders that want to hear of a pod, in the order of the configuration."""
    return [extender for extender in extenders if extender.is_interested(pod)]


def _tls(given: ExtenderTLSConfig | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if given is None:
        return context
    if given.ca_file:
        context.load_verify_locations(cafile=given.ca_file)
    if given.ca_data:
        context.load_verify_locations(cadata=base64.b64decode(given.ca_data).decode())
    if given.cert_data:  # wins over files; the ssl module reads certificates from files only
        with tempfile.NamedTemporaryFile() as cert, tempfile.NamedTemporaryFile() as key:
            cert.write(base64.b64decode(given.cert_data))
            key.write(base64.b64decode(given.key_data))
            cert.flush()
            key.flush()
            context.load_cert_chain(cert.name, key.name)
    elif given.cert_file:
        context.load_cert_chain(given.cert_file, given.key_file or None)
    if given.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
