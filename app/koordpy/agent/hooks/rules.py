"""The rules of hooks, updated by the states of the node (`pkg/koordlet/runtimehooks/rule`)."""

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from koordpy.agent.interface.hook import HookError, Rule
from koordpy.agent.interface.states import CallbackTarget, StateType

log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """What a new state did to a rule."""

    UPDATED = "updated"
    SAME = "same"
    ERROR = "error"
    """The state is invalid for the rule, which stays as it was."""


class Rules:
    """All rules. Those that this node cannot use are dropped, and the reason is logged once."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Raise HookError for two rules of the same name."""
        self._rules: list[Rule] = []
        names: set[str] = set()
        for rule in rules:
            if rule.name in names:
                raise HookError(f"rule {rule.name!r} of runtime hooks exists already")
            names.add(rule.name)
            reason = rule.unsupported() if rule.unsupported is not None else None
            if reason is not None:
                log.info("rule %s of runtime hooks is not used on this node: %s", rule.name, reason)
            else:
                self._rules.append(rule)

    def parse(self, type_: StateType, state: Any) -> dict[str, tuple[Rule, Outcome]]:
        """Give a state to the rules that follow it; return what that did, by name."""
        return {rule.name: (rule, _parse(rule, state)) for rule in self._rules if rule.state == type_}

    def update(self, type_: StateType, state: Any, target: CallbackTarget) -> bool:
        """Give a state to the rules that follow it, and run the updates of those that changed.

        Returns whether any changed. An update that fails is logged; the others still run.
        """
        changed = False
        for rule, outcome in self.parse(type_, state).values():
            if outcome is Outcome.UPDATED:
                changed = True
                run_update(rule, target)
        return changed

    def update_all(self, states: Mapping[StateType, Any], target: CallbackTarget) -> None:
        """Give several states to the rules, and only then run the updates of those that changed.

        No update so acts on a part of what is known.
        """
        changed = [
            rule
            for type_, state in states.items()
            for rule, outcome in self.parse(type_, state).values()
            if outcome is Outcome.UPDATED
        ]
        for rule in changed:
            run_update(rule, target)


def run_update(rule: Rule, target: CallbackTarget) -> None:
    """Run the update of a rule that changed."""
    if rule.update is None:
        return
    try:
        rule.update(target)
    except Exception:
        log.exception("update of rule %s of runtime hooks failed", rule.name)


def _parse(rule: Rule, state: Any) -> Outcome:
    try:
        return Outcome.UPDATED if rule.parse(state) else Outcome.SAME
    except ValueError as error:
        log.warning("rule %s of runtime hooks keeps its old values: %s", rule.name, error)
    except Exception:
        log.exception("rule %s of runtime hooks failed", rule.name)
    return Outcome.ERROR
