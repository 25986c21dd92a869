"""The newest kubectl does on the embedded API server what it does on kube-apiserver.

`KUBECTL` in the environment names another kubectl to try.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from pathlib import Path

import pytest
import yaml

from koordpy.embedded.apiserver import ApiServer
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.kubectl import build
from tests.e2e.kubectl.compare import Client, Outcome
from tests.e2e.kubectl.stories import STORIES


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Client]]:
    """kubectl on kube-apiserver, and on the embedded API server."""
    given = os.environ.get("KUBECTL")
    binary = Path(given) if given else build.ensure()
    folder = tmp_path_factory.mktemp("kubectl")
    with ControlPlane() as plane, ApiServer.in_thread() as server:
        kubeconfig = folder / "kubeconfig"
        cluster = {"name": "test", "cluster": {"server": server.url}}
        context = {"name": "test", "context": {"cluster": "test", "user": "admin"}}
        document = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        kubeconfig.write_text(yaml.safe_dump({**document, "current-context": "test"}))
        yield (
            Client(binary, plane.kubeconfig, folder / "real"),
            Client(binary, kubeconfig, folder / "embedded"),
        )


@pytest.mark.parametrize("name", STORIES)
def test_commands_end_and_print_as_on_the_real_one(clients: tuple[Client, Client], name: str) -> None:
    with ThreadPoolExecutor(2) as both:
        real, embedded = both.map(lambda client: client.tell(name, STORIES[name]), clients)
    differing = []
    for (line, wanted), (_, found) in zip(real, embedded, strict=True):
        if _differ(line, wanted, found):
            forms = (wanted.form.splitlines(), found.form.splitlines())
            changes = unified_diff(*forms, "kube-apiserver", "embedded", lineterm="", n=1)
            differing.append(f"kubectl {line}: exit codes {wanted.code} and {found.code}")
            differing += [f"    {change}" for change in changes]
    assert not differing, "\n".join(differing)


def _differ(line: str, wanted: Outcome, found: Outcome) -> bool:
    if line.startswith("~"):
        return wanted.gist != found.gist
    return (wanted.code, wanted.form) != (found.code, found.form)


def test_kinds_of_the_embedded_server_are_those_of_the_real_one(clients: tuple[Client, Client]) -> None:
    wide = ("api-resources", "-o", "wide")
    real, embedded = (client.run(*wide).form.splitlines() for client in clients)
    assert [line for line in embedded if line not in real] == []
