"""Before PreFilter: what reservations there are for a pod, and where.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Node, Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import RESTRICTED, Reservation, validate
from koordpy.api.reservation_affinity import affinity_of
from koordpy.api.reserve_pod import reservation_name_of
from koordpy.api.scheme import DecodeError
from koordpy.cluster.store import Store
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.node_memo import MemoCache
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT

from .args import ReservationArgs
from .book import Int64
from .cache import ReservationCache
from .candidates import Candidates, is_free
from .imagined import Imagined
from .matches import Matches, NodeMatch
from .matching import USABLE, Decision, Diagnosis, Wish, decide, decide_for_owner
from .places import ConflictingTerms, Places, specific_nodes
from .prepared import Prepared
from .selector_index import SelectorIndex
from .withheld import Withheld

PLUGIN = "Reservation"

CONFLICT = "pod affinity terms conflict"
UNSUPPORTED = "node(s) reservation pre allocation is unsupported with current attributes"
NO_CLUSTER_MODE = "reservation requires cluster mode pre-allocation which is disabled"


class Preparation:
    """Prepares attempts of one profile."""

    def __init__(
        self,
        args: ReservationArgs,
        handle: Handle,
        cache: ReservationCache,
        withheld: Withheld,
        selectors: SelectorIndex,
        candidates: Candidates,
    ) -> None:
        self._args, self._handle, self._table = args, handle, handle.nodes
        self._cache, self._withheld = cache, withheld
        self._selectors, self._candidates = selectors, candidates
        self._reservations: Store[Reservation] = handle.cluster.store(Reservation)
        self._pods: Store[Pod] = handle.cluster.store(Pod)
        self._node_answers = MemoCache(handle.nodes, np.bool_)

    # --- pods ------------------------------------------------------------------------------------

    def of_pod(
        self, state: CycleState, pod: Pod, *, omit_node_labels: bool
    ) -> tuple[Prepared | None, Status]:
        """Find the reservations that a pod may use; None with the reason to stop."""
        try:
            affinity_of(pod.metadata.annotations)  # unreadable, it goes before terms that conflict
            specific = specific_nodes(pod)
            wish = Wish.of(pod)
        except (DecodeError, QuantityError) as error:
            return None, Status.failed(error)
        except ConflictingTerms:
            return None, Status.unresolvable(CONFLICT)
        places = Places(pod, self._candidate_nodes(state, wish), specific)
        imagined = self._imagine(state, omit_node_labels=omit_node_labels)
        matches = self._match(wish, places, imagined, omit_node_labels=omit_node_labels)
        restored = None
        if wish.affinity is not None:
            restored = matches.mask(self._table.capacity)
        elif not places.everywhere:
            restored = places.rows(self._table, self._node_answers)
        prepared = Prepared(wish, matches, restored, places)
        prepared.has_nodes = bool(matches) or (
            wish.affinity is None and self._any(self._withheld.used, restored)
        )
        return prepared, SUCCESS

    def _imagine(self, state: CycleState, *, omit_node_labels: bool) -> Imagined:
        """Put the pods that a what-if has placed before into reservations."""
        imagined = Imagined(omit_node_labels=omit_node_labels)
        for node_name, pods in (state.read(PLACED) or {}).items():
            offered, row = self._cache.offered.get(node_name), self._table.row_of(node_name)
            node = None if row is None else self._table.node(row)
            if offered and row is not None and node is not None:
                imagined.place(row, node, pods, offered)
        return imagined

    def _match(self, wish: Wish, places: Places, imagined: Imagined, *, omit_node_labels: bool) -> Matches:
        """Find the offered reservations that the pod may use, on the nodes that it can go to."""
        book = self._withheld.book
        slots = self._owned(wish)
        if len(slots):
            rows = book.row[slots]
            known = (rows >= 0) & self._table.present[rows]
            if not places.everywhere:
                known &= places.rows(self._table, self._node_answers)[rows]
            slots = slots[known]
        if len(slots) and not wish.ignores_reservations:
            if wish.affinity is None and not wish.exact:
                slots = slots[book.open[slots]]
            else:
                usable = [self._usable(wish, slot, omit=omit_node_labels) for slot in slots.tolist()]
                slots = slots[np.array(usable, np.bool_)]
        for row in imagined.rows:
            for info, _ in imagined.changed(row):
                if info.is_used_up:
                    slots = slots[slots != book.slot_of(info.uid)]
        return Matches(book, slots, imagined=imagined)

    def _owned(self, wish: Wish) -> Int64:
        """Return the slots of the offered reservations that are for the pod."""
        book = self._withheld.book
        if wish.ignores_reservations:
            uids = [info.uid for info in self._owned_infos(wish)]
            return np.array([slot for uid in uids if (slot := book.slot_of(uid)) is not None], np.int64)
        if wish.name:
            uids = [info.uid for info in self._cache.named(wish.name) if info.has_owner(wish.pod)]
            return np.array([slot for uid in uids if (slot := book.slot_of(uid)) is not None], np.int64)
        parts = [group.slots(book) for group in self._cache.owners.groups_of(wish.pod)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _usable(self, wish: Wish, slot: int, *, omit: bool) -> bool:
        """Return whether an owner may use a reservation; answers for an affinity are remembered."""
        book, affinity = self._withheld.book, wish.affinity
        row = int(book.row[slot])
        generation = int(self._table.generation[row])
        key = 2 * id(affinity) + omit
        if affinity is not None and not wish.exact:
            known = book.decisions[slot].get(key)
            if known is not None and known[0] is affinity and known[1] == generation:
                return known[2] in USABLE
        node = self._table.node(row)
        if node is None:
            return False
        decision = decide_for_owner(wish, book.info(slot), node, omit_node_labels=omit)
        if affinity is not None and not wish.exact:
            book.remember(slot, key, (affinity, generation, decision))
        return decision in USABLE

    def _candidate_nodes(self, state: CycleState, wish: Wish) -> frozenset[str] | None:
        """The only nodes on which reservations are looked for, None for all."""
        hint = state.read(SCHEDULING_HINT)
        if hint is not None and PLUGIN in hint.extensions:
            return frozenset(hint.pre_filter_nodes)
        affinity = wish.affinity
        if affinity is None:
            return None
        if affinity.name:
            wanted = self._reservations.get("", affinity.name)
            node_name = wanted.node_name if wanted is not None else ""
            return frozenset((node_name,)) if node_name else None
        if self._selectors.enabled:
            names = self._selectors.query(affinity.selector)
            return None if names is None else frozenset(names)
        return None

    def _any(self, column: NDArray[np.bool_], within: NDArray[np.bool_] | None) -> bool:
        wanted = column & self._table.present
        return bool((wanted if within is None else wanted & within).any())

    def diagnose(
        self, wish: Wish, places: Places, *, omit_node_labels: bool
    ) -> Iterator[tuple[str, Diagnosis]]:
        """Yield the nodes with reservations that had something to say about a pod, and what."""
        diagnoses: dict[str, Diagnosis] = {}
        for info in self._owned_infos(wish):
            row = self._table.row_of(info.node_name)
            node = None if row is None else self._table.node(row)
            if node is not None and places.include(node):
                decision = decide(wish, info, node, omit_node_labels=omit_node_labels)
                diagnoses.setdefault(info.node_name, Diagnosis()).count(decision, wish, info)
        yield from diagnoses.items()

    def _owned_infos(self, wish: Wish) -> Iterator[ReservationInfo]:
        """Yield the offered reservations that are for the pod, by whatever name."""
        if wish.ignores_reservations:
            for infos in self._cache.offered.values():
                yield from infos.values()
        else:
            for group in self._cache.owners.groups_of(wish.pod):
                yield from group.members.values()

    # --- reserve pods ----------------------------------------------------------------------------

    def of_reserve_pod(self, pod: Pod, *, omit_node_labels: bool) -> tuple[Prepared | None, Status]:
        """Find what a Reservation's attempt has to look at; None with the reason to stop."""
        name = reservation_name_of(pod)
        reservation = self._reservations.get("", name)
        try:
            wish = Wish(pod, *Wish.amounts(pod))
            info = None if reservation is None else ReservationInfo(reservation)
        except QuantityError as error:
            return None, Status.failed(error)
        try:
            places = Places(pod, None, specific_nodes(pod))
        except ConflictingTerms:
            return None, Status.unresolvable(CONFLICT)
        prepared = Prepared(wish, Matches(self._withheld.book), reservation=info)
        if reservation is None or info is None:
            prepared.problem = f'cannot get reservation, err: reservation "{name}" not found'
        else:
            prepared.problem = validate(reservation)
        if info is not None and prepared.is_pre_allocation:
            status = self._check_pre_allocation(info)
            if not status.is_success:
                return None, status
            self._take_over(prepared, info, places, omit_node_labels=omit_node_labels)
        self._choose_restored(prepared, places)
        return prepared, SUCCESS

    def _choose_restored(self, prepared: Prepared, places: Places) -> None:
        """Say on which nodes a Reservation's attempt has anything to do with other reservations or pods."""
        candidates = prepared.matches.mask(self._table.capacity)
        if prepared.required:
            prepared.restored = candidates
        else:
            restored = self._withheld.allocated.copy()
            if not places.everywhere:
                restored &= places.rows(self._table, self._node_answers)
            if prepared.restored is not None:
                restored |= prepared.restored & self._withheld.offering
            prepared.restored = restored | candidates
        prepared.has_nodes = self._any(prepared.restored, None)

    # --- reserve pods: taking over ---------------------------------------------------------------

    def _check_pre_allocation(self, info: ReservationInfo) -> Status:
        reservation = info.reservation
        assert reservation is not None
        if info.policy != RESTRICTED:
            return Status.unresolvable(UNSUPPORTED)
        if info.parse_error:
            return Status.unresolvable(info.parse_error)
        if reservation.uses_cluster_mode and not self._args.pre_allocation_config.enable_cluster_mode:
            return Status.unresolvable(NO_CLUSTER_MODE)
        return SUCCESS

    def _take_over(
        self, prepared: Prepared, info: ReservationInfo, places: Places, *, omit_node_labels: bool
    ) -> None:
        """Find the pods that a Reservation may take over, by node; marked ones in their order."""
        assert info.reservation is not None
        found: dict[str, list[Pod]] = {}
        if info.reservation.uses_cluster_mode:
            for node_name in self._candidates.node_names:
                found[node_name] = list(self._candidates.on(node_name))
        else:
            selected = [pod for pod in self._pods if is_free(pod) and info.owners.selects(pod)]
            for pod in sorted(selected, key=lambda pod: (pod.metadata.name, pod.metadata.uid)):
                found.setdefault(pod.spec.node_name, []).append(pod)
        matches: dict[int, NodeMatch] = {}
        listed = prepared.restored = np.zeros(self._table.capacity, np.bool_)
        for node_name, pods in found.items():
            row = self._table.row_of(node_name)
            node = None if row is None else self._table.node(row)
            if row is None or node is None or not pods or not places.include(node):
                continue
            listed[row] = True
            diagnosis = prepared.diagnoses[node_name] = Diagnosis()
            accepted = []
            for pod in pods:
                if not info.reservation.uses_cluster_mode and not info.has_owner(pod):
                    continue
                decision = _decide_taking_over(pod, info, node, diagnosis, omit_node_labels=omit_node_labels)
                if decision in USABLE:
                    accepted.append(pod)
            if accepted:
                matches[row] = NodeMatch(node_name, candidates=accepted)
        prepared.matches = Matches(self._withheld.book, candidates=matches)


def _decide_taking_over(
    pod: Pod, info: ReservationInfo, node: Node, diagnosis: Diagnosis, *, omit_node_labels: bool
) -> Decision:
    """Return whether a running pod would be in a Reservation by its own will, and count it."""
    try:
        wish = Wish.of(pod)
    except (DecodeError, QuantityError):
        diagnosis.count_error()
        return Decision.ERROR
    decision = decide_for_owner(
        wish, info, node, omit_node_labels=omit_node_labels, minds_unschedulable=False
    )
    if decision is Decision.NAME_MATCHED:
        decision = Decision.MATCHED  # of running pods, nobody is told
    diagnosis.count(decision, wish, info)
    return decision
