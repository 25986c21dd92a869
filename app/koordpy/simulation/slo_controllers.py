"""Which controllers run in a simulation, and what a reader of its report has to know about that."""

from collections.abc import Iterable
from typing import Any, Final

from koordpy.api.extension import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY

from .planned import Document, Plan
from .setup import SchedulerSetup

CONFIG: Final = "slo-controller-config"
CONTROLLERS: Final = ("nodemetric", "noderesource", "nodeslo")

_OFFERED: Final = (BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY)


def selection(setup: SchedulerSetup, objects: Iterable[Document]) -> list[str]:
    """Return Koordinator's `--controllers` for a setup; `objects` are all of its and the scenario's."""
    if setup.controllers is not None:
        return list(setup.controllers)
    return ["*"] if _is_configured(objects) else ["*", *(f"-{name}" for name in CONTROLLERS)]


def notes(setup: SchedulerSetup, objects: Iterable[Document], plan: Plan) -> list[str]:
    """Return what the report says where nodes are given batch or mid resources without a configuration."""
    given = sorted({name for node in plan.nodes for name in _offered(node.document)})
    if not given or _is_configured(objects):
        return []
    named = ", ".join(given)
    if setup.controllers is None:
        return [
            f"nodes keep the {named} that the scenario gives them: the SLO controllers run only with a "
            f"ConfigMap {CONFIG}, or where `controllers` selects them"
        ]
    if _selects(setup.controllers, "noderesource"):
        return [f"the noderesource controller removes {named} from nodes: there is no ConfigMap {CONFIG}"]
    return []


def _is_configured(objects: Iterable[Document]) -> bool:
    return any(
        document.get("kind") == "ConfigMap" and (document.get("metadata") or {}).get("name") == CONFIG
        for document in objects
    )


def _offered(node: Document) -> list[str]:
    amounts: dict[str, Any] = (node.get("status") or {}).get("allocatable") or {}
    return [name for name in _OFFERED if name in amounts]


def _selects(controllers: Iterable[str], name: str) -> bool:
    chosen = list(controllers)
    return f"-{name}" not in chosen and (name in chosen or "*" in chosen)
