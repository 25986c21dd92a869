"""Pods on nodes that koordpy knows but kube-scheduler does not, such as the reserve pods of Reservations.

To koord-scheduler they are pods like any other: affinity terms and spread constraints apply to them too.
kube-scheduler cannot count them, so all code here that counts the pods of nodes counts these in addition to
those of the node table. The state that derives such pods from objects adds and removes them.
"""

from collections.abc import Callable, Collection, Iterator

from koordpy.api.core import Pod

Handler = Callable[[int, Pod], None]


class HiddenPods:
    """Hidden pods by row of a node table; use `NodeTable.hidden`.

    Their amounts are in no column of the table: the state that adds them accounts for what they request.
    """

    def __init__(self) -> None:
        self.version = 0
        """Increases when a pod is added or removed, or changes in a way that terms or constraints match."""
        self._rows: dict[str, int] = {}
        self._pods: dict[int, dict[str, Pod]] = {}
        self._counted: dict[str, Pod] = {}
        """The pods as last reported to the handlers."""
        self._on_place: list[Handler] = []
        self._on_displace: list[Handler] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, uid: str) -> bool:
        return uid in self._rows

    def on(self, row: int) -> Collection[Pod]:
        """Return the hidden pods of a row."""
        return self._pods.get(row, {}).values()

    def rows(self) -> Collection[int]:
        """Return the rows with hidden pods."""
        return self._pods.keys()

    def put(self, row: int, pod: Pod) -> None:
        """Add or change a pod of a row, and remove it from any other. It is removed with its row."""
        uid = pod.metadata.uid
        known = self._rows.get(uid)
        if known == row and _counts_equally(self._counted[uid], pod):
            self._pods[row][uid] = pod
            return
        if known is not None:
            self.discard(uid)
        self._rows[uid] = row
        self._pods.setdefault(row, {})[uid] = self._counted[uid] = pod
        self.version += 1
        for place in self._on_place:
            place(row, pod)

    def discard(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        row = self._rows.pop(uid, None)
        if row is None:
            return
        pods = self._pods[row]
        del pods[uid]
        if not pods:
            del self._pods[row]
        pod = self._counted.pop(uid)
        self.version += 1
        for displace in self._on_displace:
            displace(row, pod)

    def on_pods(self, place: Handler, displace: Handler) -> Callable[[], None]:
        """Call handlers as `NodeTable.on_pods` does; return a function that removes them."""
        self._on_place.append(place)
        self._on_displace.append(displace)
        for uid, row in self._rows.items():
            place(row, self._counted[uid])

        def end() -> None:
            self._on_place.remove(place)
            self._on_displace.remove(displace)

        return end

    def __iter__(self) -> Iterator[Pod]:
        for pods in self._pods.values():
            yield from pods.values()

    def release(self, row: int) -> None:
        """Remove the pods of a released row."""
        for uid in list(self._pods.get(row, ())):
            self.discard(uid)


def _counts_equally(old: Pod, new: Pod) -> bool:
    """Return whether two states of a pod are equal to affinity terms and spread constraints."""
    one, other = old.metadata, new.metadata
    return (
        one.namespace == other.namespace
        and one.labels == other.labels
        and (one.deletion_timestamp is None) == (other.deletion_timestamp is None)
        and old.spec.affinity == new.spec.affinity
    )
