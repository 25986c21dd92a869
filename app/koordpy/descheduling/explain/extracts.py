"""What the recorded rounds say about one node, one pod or one plugin."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from koordpy.api.output_model import OutputModel
from koordpy.descheduling.report import Report

from .decisions import PluginRun, Round


class Verdict(OutputModel):
    """What the filter plugins of one profile say about a pod at the moment."""

    profile: str
    evictable: bool
    by: str = ""
    """The plugin that does not allow the eviction."""
    reason: str = ""


def extract(
    rounds: Iterable[Round],
    *,
    node: str = "",
    pod: str = "",
    plugin: str = "",
    pods_node: str = "",
    details: bool = True,
) -> list[Round]:
    """Return copies of rounds with what concerns a node, a pod (NAMESPACE/NAME) or a plugin; empty means all.

    Rounds in which nothing does are left out. Reports are reduced to the node, and left out without
    `details`. With a pod's node in `pods_node` what they say about that node is included.
    """
    found = []
    for each in rounds:
        runs = [
            part
            for run in each.runs
            if not plugin or run.plugin == plugin
            if (part := _part(run, node, pod, pods_node, details)) is not None
        ]
        if runs or not (node or pod or plugin):
            found.append(each.model_copy(update={"runs": runs}))
    return found


def eventful(found: Sequence[Round], limit: int) -> tuple[list[Round], int]:
    """Return the newest of extracted rounds and others with attempts, newest first, and how many had none.

    Rounds that tried nothing are much the same one after the other: a node that was relieved would show only
    such ones.
    """
    newest_first = found[::-1]
    chosen = [each for number, each in enumerate(newest_first) if number == 0 or each.has_attempts]
    return chosen[:limit], len(found) - len(chosen)


def _part(run: PluginRun, node: str, pod: str, pods_node: str, details: bool) -> PluginRun | None:
    """Return what a run says about a node or pod, None if nothing; the counts are those of the whole run."""
    if not (node or pod):
        return run if details else run.model_copy(update={"details": []})
    evictions = [each for each in run.evictions if _concerns(each.pod, each.node, pod, node)]
    others = [each for each in run.not_evicted if _concerns(each.pod, each.node, pod, node)]
    about = _about(run, node or pods_node) if details else []
    if not (evictions or others or about):
        return None
    return run.model_copy(update={"evictions": evictions, "not_evicted": others, "details": about})


def _concerns(its_pod: str, its_node: str, pod: str, node: str) -> bool:
    return (not pod or its_pod == pod) and (not node or its_node == node)


def _about(run: PluginRun, node: str) -> list[BaseModel]:
    if not node:
        return []
    reports = (each for each in run.details if isinstance(each, Report))
    return [about for each in reports if (about := each.about_node(node)) is not None]
