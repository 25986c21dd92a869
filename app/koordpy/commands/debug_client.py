"""The commands' client of a running koordpy's debug API: at an address, or in a pod of a cluster.

The debug API listens on the loopback address of its pod; the API server forwards connections to it.
"""

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import click

from .options import Failure
from .replica import LEASES, NAMESPACE, NoPod

F = TypeVar("F", bound=Callable[..., Any])

PORT: Final = 10251

DEBUG_URL: Final = f"http://127.0.0.1:{PORT}"

WORKER_URL: Final = "http://127.0.0.1:10252"
"""Where `koordpy worker` serves it by default (`settings`, which takes long to import)."""

TOKEN: Final = "KOORDPY_TOKEN"
"""The variable with the bearer token for debug APIs that authenticate their clients."""

PLUGIN: Final = "kubectl"
"""The key in the context's `obj` of a command that kubectl runs as its plugin."""


@dataclass(frozen=True)
class DebugServer:
    """A debug API at `url`. `subject` is where it runs, `error` returns why forwarding to it failed."""

    url: str
    subject: str = ""
    verify: bool = True
    error: Callable[[], str] = str


Server = str | DebugServer


_OPTIONS = (
    click.option(
        "--debug-server",
        metavar="URL",
        help=f"Debug address of a running koordpy, instead of one in a cluster.  [default: {DEBUG_URL}; "
        f"for the worker {WORKER_URL}, if it answers]",
    ),
    click.option("--context", help="Context of the kubeconfig: use that cluster's replica that decides."),
    click.option("--kubeconfig", help="Kubeconfig file of that cluster."),
    click.option(
        "--koordpy-namespace", metavar="NAMESPACE", help=f"Where koordpy runs.  [default: {NAMESPACE}]"
    ),
    click.option("--replica", metavar="POD", help="Use this pod of koordpy's."),
)

_COMPONENT_OPTIONS = (
    click.option(
        "--component", type=click.Choice(list(LEASES)), help="Which component.  [default: scheduler]"
    ),
    click.option("--node", help="With --component qos-agent: the node."),
)


def _options(
    *options: Callable[[Any], Any], component: Callable[[Mapping[str, Any]], str] = lambda given: "scheduler"
) -> Callable[[F], F]:
    """Return a decorator that adds options; the command gets what they select as `debug_server`.

    `component` returns the one that is meant by a command's other options.
    """

    def add(command: F) -> F:
        @functools.wraps(command)
        def run(*args: Any, debug_server: str | None, **given: Any) -> Any:
            choice = {name: given.pop(name, "") for name in _CHOICES}
            choice["component"] = choice["component"] or component(given)
            return command(*args, debug_server=_resolve(debug_server, choice), **given)

        found: Any = run
        for option in reversed(options):
            found = option(found)
        return cast(F, found)

    return add


server_option: Final = _options(*_OPTIONS)
"""The options that select the scheduler's koordpy."""

worker_option: Final = _options(*_OPTIONS, component=lambda given: "worker")
"""The options that select the worker."""


def either_option(is_for_worker: Callable[[Mapping[str, Any]], bool]) -> Callable[[F], F]:
    """Return the options of a command that asks the worker if its other options say so."""
    return _options(*_OPTIONS, component=lambda given: "worker" if is_for_worker(given) else "scheduler")


component_option: Final = _options(*_OPTIONS, *_COMPONENT_OPTIONS)
"""The options that select any of koordpy's processes."""

_CHOICES: Final = ("context", "kubeconfig", "koordpy_namespace", "replica", "component", "node")

_FIRST_ANSWER: Final = 10.0
"""Seconds within which a forwarded connection must answer."""


def _resolve(url: str | None, choice: Mapping[str, str | None]) -> DebugServer:
    """Return the selected debug API; a port is forwarded until the command ends. Raises Failure."""
    this = click.get_current_context()
    given = [name for name in _CHOICES if choice[name] and _is_given(this, name)]
    if url is not None:
        explicit = [name for name in given if _is_explicit(this, name)]
        if explicit:
            raise click.UsageError(f"--debug-server and --{explicit[0].replace('_', '-')} cannot be combined")
        return DebugServer(address(url))
    if not given and not (this.find_root().obj or {}).get(PLUGIN):
        return DebugServer(_local(choice))
    return _forwarded(this, choice)


def _local(choice: Mapping[str, str | None]) -> str:
    """Return the address on this machine: the worker's may be that of a process that runs all parts."""
    return WORKER_URL if choice["component"] == "worker" and _answers(WORKER_URL) else DEBUG_URL


def _is_given(this: click.Context, name: str) -> bool:
    """Return whether an option has a value by the caller, not by the command's own default."""
    sources = (None, click.core.ParameterSource.DEFAULT)
    return this.get_parameter_source(name) not in sources


def _is_explicit(this: click.Context, name: str) -> bool:
    return this.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _forwarded(this: click.Context, choice: Mapping[str, str | None]) -> DebugServer:
    import kubernetes

    from koordpy.lib.request_origin import is_loopback

    from . import port_forward, replica

    client = port_forward.api_client(choice["kubeconfig"] or None, choice["context"] or None)
    this.call_on_close(client.close)
    namespace = choice["koordpy_namespace"] or NAMESPACE
    core = kubernetes.client.CoreV1Api(client)
    server = client.configuration.host
    try:
        if choice["replica"]:
            found = replica.Replica(namespace, choice["replica"])
        else:
            coordination = kubernetes.client.CoordinationV1Api(client)
            component = choice["component"] or "scheduler"
            found = replica.find(core, coordination, component, namespace, choice["node"] or "")
    except kubernetes.client.ApiException as error:
        raise Failure(f"{server}: {port_forward.told(error)}") from None
    except NoPod:
        # The demo: a cluster on this machine, whose koordpy is no pod.
        local = _local(choice)
        if not is_loopback(urlsplit(server).hostname or "") or not _answers(local):
            raise
        click.echo(f"no pod of koordpy's at {server}; using {local}", err=True)
        return DebugServer(local)
    except OSError as error:
        raise Failure(f"{server}: {error}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "urllib3":
            raise
        raise Failure(f"{server} does not answer: {error}") from None
    if found.note:
        click.echo(found.note, err=True)
    forward = port_forward.PortForward(core, found.namespace, found.name, PORT)
    this.call_on_close(forward.close)
    subject = f"pod {found.namespace}/{found.name}"
    return _first_answer(forward.address, subject, lambda: forward.error)


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/livez", timeout=2.0).status_code in (200, 503)
    except httpx.HTTPError:
        return False


def _first_answer(local: str, subject: str, error: Callable[[], str]) -> DebugServer:
    """Return the debug API behind a forwarded port, which may have TLS. Raises Failure."""
    import httpx

    reason = ""
    for scheme in ("http", "https"):
        # The certificate is the pod's own; who is at the other end is the API server's to know.
        found = DebugServer(f"{scheme}://{local}", subject, False, error)
        try:
            httpx.get(f"{found.url}/livez", timeout=_FIRST_ANSWER, verify=False)
        except httpx.HTTPError as failure:
            reason = reason or str(failure) or type(failure).__name__
            if error():
                break
        else:
            return found
    raise Failure(f"{subject}, port {PORT}: {error() or reason}")


_SILENCE: Final = 45.0
"""Seconds without data, heartbeats included, after which a stream is given up."""


class NotFound(Failure):
    """The requested object does not exist."""


def address(server: Server) -> str:
    """Return the URL of a debug API, given a URL or HOST:PORT."""
    if isinstance(server, DebugServer):
        return server.url
    return (server if "://" in server else f"http://{server}").rstrip("/")


def get(server: Server, path: str, query: Mapping[str, Any] | None = None) -> Any:
    """Return the response to a GET. Raises Failure."""
    return _request("GET", server, path, query, None, 10.0)


def post(server: Server, path: str, document: Any, query: Mapping[str, Any] | None = None) -> Any:
    """Return the response to a POST of a document. Raises Failure."""
    return _request("POST", server, path, query, document, 60.0)


def post_text(server: Server, path: str, text: str, query: Mapping[str, Any] | None = None) -> Any:
    """Return the response to a POST of a text. Raises Failure."""
    return _request("POST", server, path, query, None, 90.0, content=text)


def follow(server: Server, path: str, query: Sequence[tuple[str, str]]) -> Iterator[Any]:
    """Yield the lines of a stream until the server ends it. Raises Failure."""
    import httpx

    timeout = httpx.Timeout(10.0, read=_SILENCE)
    url = f"{address(server)}{path}"
    try:
        found = httpx.QueryParams(tuple(query))
        with httpx.stream("GET", url, params=found, timeout=timeout, **transport(server)) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refused(answer, url)
            for line in answer.iter_lines():
                if line:
                    yield json.loads(line)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(server, error) from None


def _request(
    method: str,
    server: Server,
    path: str,
    query: Mapping[str, Any] | None,
    document: Any,
    timeout: float,
    content: str | None = None,
) -> Any:
    import httpx

    url = f"{address(server)}{path}"
    try:
        answer = httpx.request(
            method, url, params=query, json=document, content=content, timeout=timeout, **transport(server)
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(server, error) from None
    if answer.status_code != 200:
        raise _refused(answer, url)
    try:
        return answer.json()
    except ValueError:
        raise _stranger(url, "something that is not JSON") from None


def transport(server: Server) -> dict[str, Any]:
    """Return httpx's options for a server: whether its certificate is verified, and the bearer token."""
    token = os.environ.get(TOKEN)
    return {
        "verify": server.verify if isinstance(server, DebugServer) else True,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
    }


def _unreachable(server: Server, error: Exception) -> Failure:
    reason = str(error) or type(error).__name__
    if isinstance(server, DebugServer) and server.subject:
        return Failure(f"{server.subject}: {server.error() or reason}")
    return Failure(
        f"{address(server)}: {reason}; is koordpy running there, with the part debug? --debug-server sets "
        f"its address (a worker's default is {WORKER_URL}), --context finds it in a cluster"
    )


def _refused(answer: Any, url: str) -> Failure:
    """Return what is wrong, with the server's message where the server is koordpy."""
    try:
        told = answer.json()
        message = told["message"] if "kind" not in told else ""
    except (ValueError, KeyError, TypeError):
        message = ""
    if answer.status_code in (401, 403) and not os.environ.get(TOKEN):
        return Failure(f"{url} needs a bearer token in the variable {TOKEN} (kubectl create token)")
    if not message:
        return _stranger(url, str(answer.status_code))
    return NotFound(message) if answer.status_code == 404 else Failure(str(message))


def _stranger(url: str, answered: str) -> Failure:
    return Failure(f"{url} answered {answered}: is that koordpy's debug API?")
