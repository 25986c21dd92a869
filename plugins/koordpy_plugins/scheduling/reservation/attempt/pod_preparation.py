"""Before PreFilter of a pod: which reservations it may use, and on which nodes.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

from collections.abc import Iterator

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_affinity import affinity_of
from koordpy.api.scheme import DecodeError
from koordpy.cluster.columns import Bool, Int64
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.gates import OMIT_NODE_LABELS_FOR_RESERVATION
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.node_memo import MemoCache
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT

from ..state.cache import ReservationCache
from ..state.selector_index import SelectorIndex
from ..state.withheld import Withheld
from .candidate_nodes import CandidateNodes, ConflictingTerms, specific_nodes
from .diagnosis import Diagnosis
from .hypothetical import HypotheticalReservations
from .matches import Matches
from .matching import USABLE, decide, decide_for_owner
from .prepared import Prepared
from .requirements import PodRequirements

PLUGIN = "Reservation"

CONFLICT = "pod affinity terms conflict"


class PodPreparation:
    """Prepares the attempts of pods for one profile."""

    def __init__(
        self, handle: Handle, cache: ReservationCache, withheld: Withheld, selectors: SelectorIndex
    ) -> None:
        self._handle, self._table = handle, handle.nodes
        self._cache, self._withheld, self._selectors = cache, withheld, selectors
        self._reservations = handle.cluster.store(Reservation)
        self._selected = MemoCache(handle.nodes, np.bool_)

    @property
    def _omit(self) -> bool:
        return self._handle.gates.enabled(OMIT_NODE_LABELS_FOR_RESERVATION)

    def prepare(self, state: CycleState, pod: Pod) -> tuple[Prepared | None, Status]:
        """Find the reservations that a pod may use; None with the reason to stop."""
        try:
            affinity_of(pod.metadata.annotations)  # unreadable, it goes before terms that conflict
            specific = specific_nodes(pod)
            requirements = PodRequirements.of(pod)
        except (DecodeError, QuantityError) as error:
            return None, Status.failed(error)
        except ConflictingTerms:
            return None, Status.unresolvable(CONFLICT)
        candidate_nodes = CandidateNodes(pod, self._node_names(state, requirements), specific)
        matches = self._match(requirements, candidate_nodes, self._hypothetical(state))
        restored = None
        if requirements.affinity is not None:
            restored = matches.mask(self._table.capacity)
        elif not candidate_nodes.everywhere:
            restored = candidate_nodes.rows(self._table, self._selected)
        prepared = Prepared(requirements, matches, restored, candidate_nodes)
        prepared.has_nodes = bool(matches) or (requirements.affinity is None and self._is_any_used(restored))
        return prepared, SUCCESS

    def _is_any_used(self, among: Bool | None) -> bool:
        """Return whether any reservation of present nodes (rows,), or some of them, has pods."""
        used = self._withheld.used & self._table.present
        return bool(np.count_nonzero(used if among is None else used & among))

    def _node_names(self, state: CycleState, requirements: PodRequirements) -> frozenset[str] | None:
        """Return the only nodes on which the pod may use reservations, None for all."""
        hint = state.read(SCHEDULING_HINT)
        if hint is not None and PLUGIN in hint.extensions:
            return frozenset(hint.pre_filter_nodes)
        affinity = requirements.affinity
        if affinity is None:
            return None
        if affinity.name:
            required = self._reservations.get("", affinity.name)
            node_name = required.node_name if required is not None else ""
            return frozenset((node_name,)) if node_name else None
        if self._selectors.enabled:
            names = self._selectors.query(affinity.selector)
            return None if names is None else frozenset(names)
        return None

    def _hypothetical(self, state: CycleState) -> HypotheticalReservations:
        """Put the pods that a what-if has placed before into reservations."""
        hypothetical = HypotheticalReservations(omit_node_labels=self._omit)
        for node_name, pods in (state.read(PLACED) or {}).items():
            matchable, row = self._cache.matchable.get(node_name), self._table.row_of(node_name)
            node = None if row is None else self._table.node(row)
            if matchable and row is not None and node is not None:
                hypothetical.place(row, node, pods, matchable)
        return hypothetical

    # --- matching --------------------------------------------------------------------------------

    def _match(
        self,
        requirements: PodRequirements,
        candidate_nodes: CandidateNodes,
        hypothetical: HypotheticalReservations,
    ) -> Matches:
        """Find the matchable reservations that the pod may use, on the nodes that it can go to."""
        matchable = self._withheld.matchable
        slots = self._owned(requirements)
        if len(slots):
            rows = matchable.row[slots]
            known = (rows >= 0) & self._table.present[rows]
            if not candidate_nodes.everywhere:
                known &= candidate_nodes.rows(self._table, self._selected)[rows]
            slots = slots[known]
        if len(slots) and not requirements.ignores_reservations:
            if requirements.affinity is None and not requirements.exact:
                slots = slots[matchable.schedulable[slots]]
            else:
                omit = self._omit
                usable = [self._is_usable(requirements, slot, omit=omit) for slot in slots.tolist()]
                slots = slots[np.array(usable, np.bool_)]
        for row in hypothetical.rows:
            for info, _ in hypothetical.changed(row):
                if info.is_used_up:
                    slots = slots[slots != matchable.slot_of(info.uid)]
        return Matches(matchable, slots, hypothetical=hypothetical)

    def _owned(self, requirements: PodRequirements) -> Int64:
        """(k,) the slots of the matchable reservations that have the pod among their owners."""
        matchable, pod = self._withheld.matchable, requirements.pod
        if requirements.ignores_reservations or requirements.name:
            infos = (
                self._owned_infos(requirements)
                if requirements.ignores_reservations
                else (info for info in self._cache.named(requirements.name) if info.has_owner(pod))
            )
            found = (matchable.slot_of(info.uid) for info in infos)
            return np.array([slot for slot in found if slot is not None], np.int64)
        parts = [group.slots(matchable) for group in self._cache.owners.groups_of(pod)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _is_usable(self, requirements: PodRequirements, slot: int, *, omit: bool) -> bool:
        """Return whether an owner may use a reservation; answers for an affinity are remembered."""
        matchable, affinity = self._withheld.matchable, requirements.affinity
        row = int(matchable.row[slot])
        generation = int(self._table.generation[row])
        key = 2 * id(affinity) + omit
        if affinity is not None and not requirements.exact:
            known = matchable.decisions[slot].get(key)
            if known is not None and known[0] is affinity and known[1] == generation:
                return known[2]
        node = self._table.node(row)
        if node is None:
            return False
        decision = decide_for_owner(requirements, matchable.info(slot), node, omit_node_labels=omit)
        usable = decision in USABLE
        if affinity is not None and not requirements.exact:
            matchable.remember(slot, key, (affinity, generation, usable))
        return usable

    # --- explaining ------------------------------------------------------------------------------

    def diagnose(self, prepared: Prepared) -> Iterator[tuple[str, Diagnosis]]:
        """Yield the nodes with reservations that have the pod among their owners, and the decisions there."""
        candidate_nodes, omit = prepared.candidate_nodes, self._omit
        assert candidate_nodes is not None
        diagnoses: dict[str, Diagnosis] = {}
        for info in self._owned_infos(prepared.requirements):
            row = self._table.row_of(info.node_name)
            node = None if row is None else self._table.node(row)
            if node is not None and candidate_nodes.include(node):
                decision = decide(prepared.requirements, info, node, omit_node_labels=omit)
                diagnosis = diagnoses.setdefault(info.node_name, Diagnosis())
                diagnosis.count(decision, prepared.requirements, info)
        yield from diagnoses.items()

    def _owned_infos(self, requirements: PodRequirements) -> Iterator[ReservationInfo]:
        """Yield the matchable reservations that have the pod among their owners, whatever name it requires.

        Those are all for a pod that ignores reservations.
        """
        if requirements.ignores_reservations:
            for infos in self._cache.matchable.values():
                yield from infos.values()
        else:
            for group in self._cache.owners.groups_of(requirements.pod):
                yield from group.members.values()
