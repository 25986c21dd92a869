"""What a pod wants of each type of device, where arrays can decide whether a node has it."""

from dataclasses import dataclass

from koordpy.api.label_selector import Selector

from ..state.columns import MISSING, NAMES
from ..state.exact import UNIT, Exact
from .counting import counted
from .requests import GPU, Requests


@dataclass(frozen=True, slots=True)
class Demand:
    """What is wanted of each of `count` devices; None is as many as a node has.

    With a `selector`, only devices that it selects count; with `functions`, each must give a virtual function
    that it selects.
    """

    exact: Exact
    count: int | None
    selector: Selector | None = None
    functions: Selector | None = None


def demands_of(requests: Requests) -> dict[str, Demand] | None:
    """Return what is wanted by type, None if arrays cannot decide it."""
    if requests.designated_functions:
        return None
    found = {}
    for type_, amounts in requests.amounts.items():
        hint = requests.hints.get(type_)
        if type_ not in NAMES:
            return None
        selector, functions = (None, None) if hint is None else (hint.selector, hint.vf_selector)
        if type_ == GPU:
            if requests.gpu is None or functions is not None:
                return None
            found[type_] = Demand(requests.gpu.exact, requests.gpu.count, selector)
        else:
            wanted = counted(requests, type_, amounts)
            each = wanted.exact if wanted is not None else {n: a.nano_value() for n, a in amounts.items()}
            found[type_] = Demand(each, None if wanted is None else wanted.count, selector, functions)
        for name, amount in found[type_].exact.items():
            if name not in NAMES[type_] or amount % UNIT or not 0 <= amount < MISSING * UNIT:
                return None
    return found
