"""Kubelet's API on this node: the pods that it runs, and its configuration.

koordpy asks with the token of its service account. Kubelet's certificate is not verified, as in Koordinator:
kubelets sign theirs themselves. `--kubelet-insecure-tls` uses the read-only port, without TLS and token.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import Histogram

from koordpy.agent.interface.flags import FlagSet
from koordpy.api.core import Node, Pod
from koordpy.api.decoding import DecodeError, decode
from koordpy.api.meta import Struct
from koordpy.api.needs import Right
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import SERVICE_ACCOUNT, Access, Connection, ConnectionConfigError
from koordpy.lib.http1_response import HttpError

log = logging.getLogger(__name__)

ADDRESS_TYPES: Final = ("Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS")
RIGHTS: Final = (Right("get", "nodes"), Right("get", "nodes/pods"), Right("get", "nodes/configz"))
"""The address of the kubelet, and what the kubelet asks the API server whether the agent may read it."""
MAX_ANSWER: Final = 32 << 20
"""Bytes of an answer that are read. Kubelet has no pages, and the agent has little memory; the pods of a
node take a few MiB, unless their annotations are huge."""
_DEFAULT_TYPE: Final = "InternalIP"

DURATION = Histogram(
    "koordlet_kubelet_request_duration_seconds",
    "Time of requests to kubelet.",
    ["verb", "path", "code"],
    buckets=[0.001 * 4**power for power in range(7)],
)


class KubeletError(OSError):
    """Kubelet cannot be asked, or answered something else; the message says what was asked."""


class _PodList(Struct):
    """The answer to /pods/."""

    items: list[Pod] = []


class _Items(Struct):
    """The answer to /pods/, its pods not decoded yet."""

    items: list[Any] = []


def decode_pods(body: bytes) -> list[Pod]:
    """Return the pods of an answer to /pods/; null is nothing. Raises DecodeError.

    A pod that is malformed is left out and named in the log, as it would be in a list of the API server.
    """
    try:
        return decode(_PodList, body).items
    except DecodeError:
        items = decode(_Items, body).items
    found = []
    for item in items:
        try:
            found.append(decode(Pod, item))
        except DecodeError as error:
            log.warning("a pod that kubelet has is left out: %s", error)
    return found


class Kubelet:
    """Sends requests to the kubelet of this node. Its address is read from the Node object on first use."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        flags: FlagSet,
        monotonic: Callable[[], float],
        token_file: Path = SERVICE_ACCOUNT / "token",
    ) -> None:
        self._client, self._node_name, self._monotonic = client, node_name, monotonic
        self._token_file = token_file
        self._preferred = flags.text("kubelet-preferred-address-type")
        self._insecure = flags.boolean("kubelet-insecure-tls")
        self._read_only_port = flags.integer("kubelet-read-only-port")
        self._timeout = flags.duration("kubelet-sync-timeout").total_seconds()
        self._connection: Connection | None = None

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare koordlet's flags of the connection to kubelet."""
        flags.declare(
            "kubelet-preferred-address-type", _DEFAULT_TYPE, "the address of the node to ask kubelet at"
        )
        flags.declare("kubelet-insecure-tls", False, "ask kubelet's read-only port, without TLS")
        flags.declare("kubelet-read-only-port", 10255, "kubelet's read-only port")
        flags.declare("kubelet-sync-timeout", timedelta(seconds=3), "how long kubelet may take to answer")

    async def pods(self) -> bytes:
        """Return the pods of this node, as JSON. Raises KubeletError."""
        return await self._get("/pods/")

    async def config(self) -> dict[str, Any]:
        """Return kubelet's configuration. Raises KubeletError."""
        if self._insecure:
            raise KubeletError(
                "kubelet's read-only port does not have its configuration: set --disable-query-kubelet-config"
            )
        body = await self._get("/configz")
        try:
            found = msgspec.json.decode(body, type=dict[str, dict[str, Any]])["kubeletconfig"]
        except (msgspec.DecodeError, KeyError) as error:
            raise KubeletError(f"kubelet's /configz: {error}") from None
        return found

    async def _get(self, path: str) -> bytes:
        if self._connection is None:
            self._connection = await self._connect()
        started, code = self._monotonic(), "<error>"
        try:
            response = await self._connection.request("GET", path, timeout=self._timeout)
            code = str(response.status)
        except HttpError as error:
            connection, self._connection = self._connection, None  # the node's address may have changed
            await connection.close()
            raise KubeletError(f"kubelet's {path}: {error}") from None
        finally:
            DURATION.labels("GET", path, code).observe(self._monotonic() - started)
        if response.status != 200:
            raise KubeletError(f"kubelet's {path}: it answered {response.status}")
        return response.body

    async def _connect(self) -> Connection:
        node = await self._client.get_raw(resource_of(Node), "", self._node_name)
        host = address(node, self._preferred)
        if self._insecure:
            return Connection.to(Access(f"http://{host}:{self._read_only_port}"), max_body=MAX_ANSWER)
        status = node.get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port", 0)
        if not port:
            raise KubeletError(f"node {self._node_name} has no status.daemonEndpoints.kubeletEndpoint.Port")
        access = Access(f"https://{host}:{port}", insecure_skip_tls_verify=True)
        try:
            return Connection.to(access, max_body=MAX_ANSWER, token_file=self._token_file)
        except (ConnectionConfigError, OSError) as error:
            raise KubeletError(f"kubelet at {access.server}: {error}") from None


def address(node: Mapping[str, Any], preferred: str) -> str:
    """Return the node's address of a type, InternalIP for an unknown type. Raises KubeletError."""
    wanted = preferred if preferred in ADDRESS_TYPES else _DEFAULT_TYPE
    found = {
        each.get("type"): each.get("address") for each in (node.get("status") or {}).get("addresses") or ()
    }
    host = found.get(wanted)
    if not host:
        raise KubeletError(f"the node has no address of type {wanted}; it has {sorted(map(str, found))}")
    return f"[{host}]" if ":" in host else str(host)
