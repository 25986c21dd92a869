"""A package of a third party: resources of nodes, a section of NodeSLOs, a field of colocation-config."""

import json
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import ConfigMap, Namespace, Node
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.controllers.slo import extensions
from koordpy.embedded.apiserver import ApiServer
from tests.eventually import becomes_true
from tests.integration.worker.stage import create, worker_settings, working
from tests.processes import worker_process

PACKAGE = '''
import json

from koordpy.api.quantity import Quantity
from koordpy.controllers.noderesource.interface import (
    NodePrepare, NodeStatusCheck, ResourceCalculate, ResourceItem,
)
from koordpy.controllers.noderesource.toolkit import changed, enter
from koordpy.controllers.slo.extensions import (
    NodeSLOExtension, register_colocation_default, register_node_slo_extension,
)

NAME = "example.com/tokens"


class Tokens(ResourceCalculate, NodePrepare, NodeStatusCheck):
    """Offers as many tokens as colocation-config says."""

    name = "Tokens"

    def calculate(self, strategy, node, inputs):
        tokens = strategy.extensions["tokens"]["perNode"]
        return [ResourceItem(name=NAME, quantity=Quantity.of(tokens), message=lambda: f"{tokens} tokens")]

    def reset(self, node, message):
        return [ResourceItem(name=NAME, reset=True, message=message)]

    def prepare(self, strategy, node, result):
        enter(node, result, NAME)

    def need_sync(self, strategy, old, new):
        return "tokens changed" if changed(strategy, old, new, (NAME,)) else ""


class TokenLimits(NodeSLOExtension):
    """How fast agents may use tokens."""

    def merge(self, config, data):
        return {**config, "tokens": json.loads(data.get("token-config", "{}"))}

    def section(self, node, config):
        return "tokens", config["tokens"].get(node.metadata.labels.get("pool", ""))


register_colocation_default("tokens", {"perNode": 5})
register_node_slo_extension("tokens", TokenLimits())
'''
TOKENS = "example.com/tokens"
CONFIG = {"name": "slo-controller-config", "namespace": "koordinator-system"}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lay out the package as pip would."""
    site = tmp_path / "site"
    info = site / "third_party_tokens-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "third_party_tokens.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-tokens\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[koordpy.noderesources]\nTokens = third_party_tokens:Tokens\n")
    monkeypatch.syspath_prepend(site)
    yield
    extensions.unregister_colocation_default("tokens")
    extensions.unregister_node_slo_extension("tokens")


async def test_resources_and_sections_of_third_parties_follow_the_configuration(
    server: ApiServer, client: Client
) -> None:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": amounts, "allocatable": amounts}
    await create(client, resource_of(Node), {"metadata": {"name": "n", "labels": {"pool": "a"}}}, status)
    await create(client, resource_of(Namespace), {"metadata": {"name": CONFIG["namespace"]}})
    data = {"colocation-config": '{"enable":true}', "token-config": json.dumps({"a": {"perSecond": 2}})}
    await create(client, resource_of(ConfigMap), {"metadata": CONFIG, "data": data})

    async def offers(amount: str | None) -> bool:
        found = await client.get_raw(resource_of(Node), "", "n")
        return bool(found["status"]["allocatable"].get(TOKENS) == amount)

    async def has(section: dict[str, Any]) -> bool:
        try:
            found = await client.get_raw(resource_of(NodeSLO), "", "n")
        except NotFound:
            return False
        return bool(found["spec"]["extensions"]["Object"] == section)

    async def configure(**changes: str) -> None:
        patch = {"data": {name.replace("_", "-"): text for name, text in changes.items()}}
        await client.patch(ConfigMap, CONFIG["namespace"], CONFIG["name"], patch)

    async with working(worker_process(worker_settings(server.url), "controllers")):
        await becomes_true(lambda: offers("5"))
        await becomes_true(lambda: has({"tokens": {"perSecond": 2}}))
        more = {"enable": True, "extensions": {"tokens": {"perNode": 8}}}
        await configure(colocation_config=json.dumps(more), token_config="{}")
        await becomes_true(lambda: offers("8"))
        await becomes_true(lambda: has({}))
        await configure(colocation_config='{"enable":false}')
        await becomes_true(lambda: offers(None))
