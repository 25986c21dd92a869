"""Koordinator's PriorityClasses: profiles name them, and their values determine a pod's priority class."""

from collections.abc import AsyncIterator

from koordpy import data
from koordpy.api.core import PriorityClass

from .finding import Area, Finding
from .installation import Installation

AREA = Area("priority classes")

_FIX = "kubectl apply -f deploy/priorityclasses/koordinator.yaml"


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Compare the shipped priority classes with the cluster's."""
    known = {found.metadata.name: found.value for found in await installation.client.list_all(PriorityClass)}
    wrong = False
    for shipped in data.documents("priorityclasses", "koordinator.yaml"):
        name, value = shipped["metadata"]["name"], shipped["value"]
        if name not in known:
            wrong = True
            yield AREA.problem(name, "does not exist: pods of profiles that name it are refused", _FIX)
        elif known[name] != value:
            wrong = True
            yield AREA.problem(
                name,
                f"has value {known[name]}, expected {value}: pods get another class than its name says",
                f"delete it, then {_FIX}",
            )
    if not wrong:
        yield AREA.ok("koord-*", "exist with Koordinator's values")
