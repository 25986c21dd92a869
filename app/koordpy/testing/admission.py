"""Calls one admission handler, without a server."""

import random
from collections.abc import Mapping
from typing import Any

from koordpy.admission.handler import (
    CREATE,
    AsyncMutatingHandler,
    AsyncValidatingHandler,
    Handle,
    MutatingHandler,
    Request,
    ValidatingHandler,
)
from koordpy.api.document import Document
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates


def handle(cluster: Cluster | None = None, *, seed: int = 0, client: Client | None = None) -> Handle:
    """Return a handle on a cluster (an empty one by default), without gates, with seeded randomness."""
    return Handle(cluster or Cluster(), FeatureGates({}), random.Random(seed), client=client)


def admit(
    handler: MutatingHandler | ValidatingHandler,
    document: Mapping[str, Any],
    *,
    operation: str = CREATE,
    namespace: str = "default",
) -> dict[str, Any]:
    """Return the object as changed by the handler. Raises Denied or Errored as the handler does."""
    editor = Document(dict(document))
    request = Request(operation=operation, namespace=namespace, document=editor)
    if isinstance(handler, MutatingHandler):
        handler.mutate(request, editor)
    else:
        handler.validate(request)
    return editor.raw


async def admit_waiting(
    handler: AsyncMutatingHandler | AsyncValidatingHandler,
    document: Mapping[str, Any],
    *,
    operation: str = CREATE,
    namespace: str = "default",
    dry_run: bool = False,
) -> dict[str, Any]:
    """Do the same as `admit` with an asynchronous handler."""
    editor = Document(dict(document))
    request = Request(operation=operation, namespace=namespace, dry_run=dry_run, document=editor)
    if isinstance(handler, AsyncMutatingHandler):
        await handler.mutate(request, editor)
    else:
        await handler.validate(request)
    return editor.raw
