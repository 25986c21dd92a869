"""The arithmetic of a Deployment's rollout: how many pods which ReplicaSet should have next.

Pure functions over a Deployment and the sizes of its ReplicaSets. Source: Kubernetes,
`pkg/controller/deployment/util`, `rolling.go`, `sync.go`.
"""

from collections.abc import Sequence

from .objects import Deployment, ReplicaSet, created_at

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def share(amount: int | str | None, whole: int, *, up: bool) -> int:
    """Return a number, or a percentage of a whole rounded up or down; an invalid one is 0."""
    if amount is None or isinstance(amount, int):
        return amount or 0
    try:
        percent = int(amount.rstrip("%"))
    except ValueError:
        return 0
    return -(-percent * whole // 100) if up else percent * whole // 100


def is_rolling(deployment: Deployment) -> bool:
    """Return whether old pods are replaced step by step."""
    kind: str = (deployment.spec.get("strategy") or {}).get("type", "RollingUpdate")
    return kind == "RollingUpdate"


def limits(deployment: Deployment) -> tuple[int, int]:
    """Return how many pods there may be beyond the wanted number, and how many may be unavailable."""
    rolling = (deployment.spec.get("strategy") or {}).get("rollingUpdate") or {}
    if not is_rolling(deployment):
        return 0, 0
    wanted = deployment.replicas
    surge = share(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # otherwise there would be no next step
    return surge, min(unavailable, wanted)


def total(sets: Sequence[ReplicaSet]) -> int:
    """Return the wanted pods of ReplicaSets."""
    return sum(rs.replicas for rs in sets)


def active(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets that should have pods."""
    return [rs for rs in sets if rs.replicas > 0]


def new_size(deployment: Deployment, new: ReplicaSet, sets: Sequence[ReplicaSet]) -> int:
    """Return the next size of the new ReplicaSet; `sets` are all, with it."""
    if not is_rolling(deployment):
        return deployment.replicas
    current, maximum = total(sets), deployment.replicas + limits(deployment)[0]
    if current >= maximum:
        return new.replicas
    return new.replicas + min(maximum - current, deployment.replicas - new.replicas)


def old_sizes(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> dict[str, int]:
    """Return the next sizes, by name, of the old ReplicaSets that shrink in a rolling update.

    Unhealthy pods go first, then as many as the available ones of the new ReplicaSet allow.
    """
    old = sorted(old, key=created_at)
    minimum = deployment.replicas - limits(deployment)[1]
    unavailable_new = new.replicas - new.count("availableReplicas")
    most = total(old) + new.replicas - minimum - unavailable_new
    sizes = {rs.metadata.name: rs.replicas for rs in old}
    if most <= 0:
        return {}
    spent = 0
    for rs in old:
        unhealthy = rs.replicas - rs.count("availableReplicas")
        removed = max(min(most - spent, unhealthy), 0)
        sizes[rs.metadata.name] -= removed
        spent += removed
    available = sum(rs.count("availableReplicas") for rs in (*old, new))
    surplus = max(available - minimum, 0)
    for rs in old:
        removed = min(sizes[rs.metadata.name], surplus)
        sizes[rs.metadata.name] -= removed
        surplus -= removed
    return {rs.metadata.name: sizes[rs.metadata.name] for rs in old if sizes[rs.metadata.name] != rs.replicas}


def scaled_sizes(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, int]:
    """Return the sizes, by name, after the Deployment was scaled: a rollout keeps its proportions."""
    every = [rs for rs in (*old, new) if rs is not None]
    running = active(every)
    if len(running) <= 1:
        only = running[0] if running else new or (max(every, key=created_at) if every else None)
        return {} if only is None else {only.metadata.name: deployment.replicas}
    if new is not None and _is_saturated(deployment, new):
        return {rs.metadata.name: 0 for rs in active(old)}
    if not is_rolling(deployment):
        return {}
    allowed = deployment.replicas + limits(deployment)[0] if deployment.replicas > 0 else 0
    to_add = allowed - total(running)
    running.sort(key=created_at, reverse=to_add > 0)
    running.sort(key=lambda rs: -rs.replicas)
    sizes, added = {}, 0
    for rs in running:
        part = _proportion(deployment, rs, to_add, added)
        sizes[rs.metadata.name] = rs.replicas + part
        added += part
    first = running[0].metadata.name
    sizes[first] = max(sizes[first] + to_add - added, 0)
    return sizes


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = new.metadata.annotations.get(DESIRED, "")
    wanted = deployment.replicas
    return new.replicas == wanted and desired == str(wanted) and new.count("availableReplicas") == wanted


def _proportion(deployment: Deployment, rs: ReplicaSet, to_add: int, added: int) -> int:
    if rs.replicas == 0 or to_add == 0 or to_add == added:
        return 0
    if deployment.replicas == 0:
        part = -rs.replicas
    else:
        text = rs.metadata.annotations.get(MAXIMUM, "")
        before = int(text) if text.isdigit() and int(text) else deployment.count("replicas") or 1
        allowed = deployment.replicas + limits(deployment)[0]
        part = round(rs.replicas * allowed / before) - rs.replicas
    left = to_add - added
    return min(part, left) if to_add > 0 else max(part, left)


def is_complete(deployment: Deployment, status: dict[str, int]) -> bool:
    """Return whether all wanted pods, and only these, are new and available."""
    wanted = deployment.replicas
    return (
        status.get("updatedReplicas", 0) == status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
        and status.get("observedGeneration", 0) >= deployment.metadata.generation
    )


def has_progressed(deployment: Deployment, status: dict[str, int]) -> bool:
    """Return whether more pods are new, ready or available, or fewer are old, than the stored status has."""

    def grew(name: str) -> bool:
        return status.get(name, 0) > deployment.count(name)

    old_before = deployment.count("replicas") - deployment.count("updatedReplicas")
    old_now = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    return (
        grew("updatedReplicas") or old_now < old_before or grew("readyReplicas") or grew("availableReplicas")
    )


def revision_of(obj: ReplicaSet | Deployment) -> int:
    """Return the revision in an object's annotations, 0 without one."""
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0
