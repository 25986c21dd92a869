"""Pods between filter and Reserve, beside kube-scheduler: what they will use counts already.

It is kept apart from what quotas use, which is written to their status and decides about revocation.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.resource_list import Quantities

from .amounts import Amounts, masked, minus, plus
from .managers import Managers
from .pod_accounts import PodAccounts, is_non_preemptible

_NOTHING: Quantities = {}


@dataclass(frozen=True, slots=True)
class _Charge:
    pod: Pod
    manager: PodAccounts
    name: str
    amounts: Quantities
    non_preemptible: Quantities


class TentativeCharges:
    """Charges by the UID of the pod, each in its quota and all ancestors."""

    def __init__(self) -> None:
        self._charges: dict[str, _Charge] = {}

    @property
    def uids(self) -> Collection[str]:
        """The pods that are charged."""
        return self._charges.keys()

    def of(self, uid: str) -> tuple[Amounts, Amounts]:
        """Return what is charged for a pod, in all and of what is not preemptible."""
        charge = self._charges.get(uid)
        return (_NOTHING, _NOTHING) if charge is None else (charge.amounts, charge.non_preemptible)

    def add(self, manager: PodAccounts, name: str, pod: Pod) -> None:
        """Charge a pod to a quota; again replaces what was charged. A pod that has a node is not charged."""
        self.discard(pod.metadata.uid)
        info = manager.get(name)
        if info is None or info.is_assigned(pod):
            return
        amounts = _without_zeros(masked(manager.requests(pod), info.max))
        kept = amounts if is_non_preemptible(pod) else _NOTHING
        charge = self._charges[pod.metadata.uid] = _Charge(pod, manager, name, amounts, kept)
        _count(charge, plus)
        manager.tell_hooks(name, None, pod)

    def discard(self, uid: str) -> bool:
        """Take back what is charged for a pod; return whether anything was."""
        charge = self._charges.pop(uid, None)
        if charge is not None:
            _count(charge, minus)
            charge.manager.tell_hooks(charge.name, charge.pod, None)
        return charge is not None

    def refusal_of_hooks(self, manager: PodAccounts, name: str, pod: Pod) -> str:
        """Return why a hook plugin refuses a pod, or nothing; a charge of the pod itself does not count."""
        charge = self._charges.get(pod.metadata.uid) if manager.hooks else None
        if charge is None:
            return manager.refusal_of_hooks(name, pod)
        charge.manager.tell_hooks(charge.name, charge.pod, None)
        try:
            return manager.refusal_of_hooks(name, pod)
        finally:
            charge.manager.tell_hooks(charge.name, None, charge.pod)

    def rebuild(self, managers: Managers) -> None:
        """Charge all pods again, in new trees."""
        charges, self._charges = self._charges, {}
        self.restore((charge.pod for charge in charges.values()), managers)

    def lift(self, name: str) -> list[Pod]:
        """Take back what is charged to a quota and its descendants, which are about to change.

        Returns the pods, for `restore`.
        """
        lifted = [
            charge.pod
            for charge in self._charges.values()
            if any(info.name == name for info in charge.manager.chain(charge.name))
        ]
        for pod in lifted:
            self.discard(pod.metadata.uid)
        return lifted

    def restore(self, pods: Iterable[Pod], managers: Managers) -> None:
        """Charge pods to the quotas that they belong to."""
        for pod in pods:
            name, tree = managers.quota_of(pod)
            manager = managers.tree(tree)
            if name and manager is not None:
                self.add(manager, name, pod)

    def follow(self, managers: Managers) -> None:
        """Charge pods whose quota is another one by now to that one."""
        moved = [
            charge.pod
            for charge in self._charges.values()
            if managers.quota_of(charge.pod) != (charge.name, charge.manager.tree)
        ]
        for pod in moved:
            self.discard(pod.metadata.uid)
        self.restore(moved, managers)

    def shown(self) -> dict[str, Any]:
        """Return what is charged, by pod."""
        return {
            uid: {"quota": charge.name, "amounts": {name: str(each) for name, each in charge.amounts.items()}}
            for uid, charge in self._charges.items()
        }


def _count(charge: _Charge, operation: Callable[[Amounts, Amounts], Quantities]) -> None:
    for info in charge.manager.chain(charge.name):
        info.tentative = _without_zeros(operation(info.tentative, charge.amounts))
        if charge.non_preemptible:
            info.non_preemptible_tentative = _without_zeros(
                operation(info.non_preemptible_tentative, charge.non_preemptible)
            )


def _without_zeros(amounts: Amounts) -> Quantities:
    return {name: amount for name, amount in amounts.items() if not amount.is_zero}
