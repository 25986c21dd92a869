"""Readiness checks of informers."""

from koordpy.api.scheme import RESOURCES
from koordpy.lib.health import Check, Reason

from .informer import Health, State
from .informers import Informers


def all_listed(informers: Informers) -> Check:
    """Return the check that every informer has listed once; a type that is followed late does not count."""

    def check() -> str | None:
        """Return that a list is missing, because of the first informer that lacks one."""
        if informers.synced:
            return None
        reasons = [reason for found in informers.health if (reason := _problem(found)) is not None]
        cause = reasons[0].cause if reasons else ""
        return Reason("not all informers have listed yet", cause, follows=bool(reasons))

    return check


def informer_checks(informers: Informers) -> dict[str, Check]:
    """Return a check for every started informer, which fails with the reason until it has listed once."""

    def check_of(kind: str) -> Check:
        def check() -> str | None:
            return next((_problem(found) for found in informers.health if found.kind == kind), None)

        return check

    return {f"informer-{informer.kind}": check_of(informer.kind) for informer in informers.health}


def _problem(informer: Health) -> Reason | None:
    if informer.synced:
        return None
    if informer.state is State.ABSENT:
        # A feature needs the type, so the process is not ready without it. The informer retries, and recovers
        # once the type is served.
        resource = next(found for type_, found in RESOURCES.items() if type_.__name__ == informer.kind)
        served = f"the API server does not serve {resource.plural} of {resource.api_version}"
        name = f"{resource.plural}.{resource.group}"
        return Reason(f"{served}: CRD not installed ({name})" if "." in resource.group else served)
    return Reason(f"{informer.state}{': ' + informer.error if informer.error else ''}", informer.cause)
