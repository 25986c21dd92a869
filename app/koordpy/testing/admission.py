"""Call one admission handler, without a server."""

import random
from collections.abc import Mapping
from typing import Any

from koordpy.admission.handler import CREATE, Handle, MutatingHandler, Request, ValidatingHandler
from koordpy.api.document import Document
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates


def handle(cluster: Cluster | None = None, *, seed: int = 0) -> Handle:
    """Return a handle on a cluster (an empty one by default), without gates, with repeatable chance."""
    return Handle(cluster or Cluster(), FeatureGates({}), random.Random(seed))


def admit(
    handler: MutatingHandler | ValidatingHandler,
    document: Mapping[str, Any],
    *,
    operation: str = CREATE,
    namespace: str = "default",
) -> dict[str, Any]:
    """Return the object as the handler leaves it. Raises Denied or Errored as the handler does."""
    editor = Document(dict(document))
    request = Request(operation=operation, namespace=namespace, document=editor)
    if isinstance(handler, MutatingHandler):
        handler.mutate(request, editor)
    else:
        handler.validate(request)
    return editor.raw
