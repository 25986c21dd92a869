"""Fixtures of the conformance suite: the server under test, a client of it, and a namespace of one's own."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.apiserver import custom_resources, server
from tests.integration.apiserver.objects import config_map
from tests.integration.apiserver.rest import Collection, Rest, ok
from tests.integration.apiserver.webhook_server import Install, WebhookServer

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def apiserver(request: pytest.FixtureRequest) -> Iterator[server.Server]:
    """The server under test; ``--control-plane=real`` makes it kube-apiserver."""
    start = server.real if request.config.getoption("--control-plane") == "real" else server.embedded
    with start() as running:
        yield running


@pytest.fixture(scope="session")
def rest(apiserver: server.Server) -> Iterator[Rest]:
    client = Rest(apiserver.url, token=apiserver.token, tls=apiserver.tls())
    with client.http:
        yield client


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes a name that no other test uses, for objects of the whole cluster."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:6]}-{next(_NUMBERS)}"


@pytest.fixture
def namespace(rest: Rest, unique: Callable[[str], str]) -> str:
    """The name of a fresh namespace."""
    name = unique("conformance")
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    ok(rest.collection("namespaces").create(document), 201)
    return name


@pytest.fixture
def maps(rest: Rest, namespace: str) -> Collection:
    """The test's ConfigMaps, the plainest objects there are."""
    return rest.collection("configmaps", namespace)


@pytest.fixture
def pods(rest: Rest, namespace: str) -> Collection:
    return rest.collection("pods", namespace)


@pytest.fixture
def filled(maps: Collection) -> Collection:
    """ConfigMaps ``a`` to ``e``; ``a`` and ``b`` have the label tier=web, ``c`` tier=db."""
    tiers = {"a": "web", "b": "web", "c": "db"}
    for name in "abcde":
        ok(maps.create(config_map(name, {"tier": tiers[name]} if name in tiers else {})), 201)
    return maps


@pytest.fixture(scope="session")
def defined(rest: Rest) -> None:
    """The suite's custom resources are served."""
    custom_resources.define(rest, custom_resources.WIDGETS)
    custom_resources.define(rest, custom_resources.GADGETS)


@pytest.fixture
def widgets(rest: Rest, defined: None, namespace: str) -> Collection:
    """The test's Widgets: a namespaced custom resource with a status subresource."""
    return rest.collection("widgets", namespace, custom_resources.GROUP_VERSION)


@pytest.fixture
def gadgets(rest: Rest, defined: None) -> Collection:
    """All Gadgets: a custom resource of the cluster, without subresources."""
    return rest.collection("gadgets", "", custom_resources.GROUP_VERSION)


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def mutating(rest: Rest, hooks: WebhookServer, namespace: str) -> Install:
    """``with mutating(webhook, ...)`` installs them in one configuration."""
    return lambda *webhooks, name=namespace: hooks.installed(
        rest, "Mutating", name, namespace, list(webhooks)
    )


@pytest.fixture
def validating(rest: Rest, hooks: WebhookServer, namespace: str) -> Install:
    return lambda *webhooks, name=namespace: hooks.installed(
        rest, "Validating", name, namespace, list(webhooks)
    )
