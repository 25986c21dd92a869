"""`koordpy profile preview`: which pods a new or changed profile would touch, and how.

The creation of each pod is simulated twice: with the present profiles and with the new ones. The difference
is the effect of the profiles.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from koordpy.cluster.cluster import Cluster

from .explain import show_change
from .known import PROFILE, Access, NothingGiven, fill_facts, pods_of, profiles_of
from .output import counted
from .previewer import Group, Preview, Previewer
from .webhooks import Webhooks

_LONGEST_VALUE = 100
_SHOWN_EVERY = 100


async def preview(
    documents: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]] | None,
    *,
    webhooks: Webhooks | None = None,
    reconcile_by_default: bool = False,
    access: Access,
) -> Preview:
    """Preview the profiles among documents on the pods of a cluster, or on `pods` from files.

    Other documents, and other objects in the files of pods (profiles as they are, namespaces, priority
    classes), describe the cluster. Raises NothingGiven where there is no profile among documents.
    """
    new = [dict(document) for document in documents if document.get("kind") == PROFILE]
    if not new:
        raise NothingGiven(f"no {PROFILE}: nothing to preview")
    others = [document for document in documents if document.get("kind") != PROFILE]
    webhooks = webhooks or Webhooks.of()
    if pods is not None:
        old = [dict(item) for item in pods if item.get("kind") == PROFILE]
        others += [item for item in pods if item.get("kind") not in (PROFILE, "Pod")]
        previewer = Previewer(old, new, others, Cluster(), Cluster(), webhooks, reconcile_by_default)
        for item in pods:
            if item.get("kind") == "Pod":
                previewer.take(item)
        return previewer.result()
    async with access.client() as client:
        before, after = Cluster(), Cluster()
        for cluster in (before, after):
            await fill_facts(cluster, client)
        old = await profiles_of(client)
        previewer = Previewer(old, new, others, before, after, webhooks, reconcile_by_default)
        await _take_all(previewer, pods_of(client))
    return previewer.result()


async def _take_all(previewer: Previewer, pods: AsyncIterator[dict[str, Any]]) -> None:
    """Preview the pods, with their number so far on standard error if that is a terminal."""
    to, taken = Console(stderr=True), 0
    with to.status("previewing pods") as status:
        async for pod in pods:
            previewer.take(pod)
            taken += 1
            if to.is_terminal and taken % _SHOWN_EVERY == 0:
                status.update(f"previewing pods: {taken:,} so far")


def show(to: Console, found: Preview, *, limit: int) -> None:
    """Print a preview; of each group at most `limit` workloads, and as many patches of the controller."""
    for profile in found.profiles:
        applies = f"applies to {counted(profile.pods, 'pod')}"
        to.print(f"[bold]{escape(profile.name)}[/bold] ({profile.status}): {applies}")
    these = "this profile" if len(found.profiles) == 1 else "these profiles"
    to.print(
        f"{found.touched:,} of {counted(found.pods, 'pod')} would be different if created again with "
        f"{these}; {found.refused:,} would be refused."
    )
    pending = counted(found.pending, "pending pod")
    to.print(f"The profile controller would patch {found.patched:,} of {pending} now.")
    for group in found.groups:
        _show_group(to, group, limit)


def _show_group(to: Console, group: Group, limit: int) -> None:
    workloads = counted(len(group.workloads), "workload")
    if group.refused:
        what = f"[red]refused[/red]: {escape(group.refused)}"
    elif group.changes:
        what = "changed" if group.profiles else "changed, as the profile no longer applies"
    else:
        what = "matched, and already as the profile sets them"
    to.print(f"\n[bold]{counted(group.pods, 'pod')} in {workloads}[/bold] {what}")
    for workload in group.workloads[:limit]:
        name = f"{workload.namespace}/{workload.name}"
        example = "" if workload.kind == "Pod" else f"  [dim]e.g. {escape(workload.example)}[/dim]"
        to.print(f"  {workload.pods:>7,}  {workload.kind} {escape(name)}{example}")
    if len(group.workloads) > limit:
        rest = sum(workload.pods for workload in group.workloads[limit:])
        more = counted(len(group.workloads) - limit, "more workload")
        to.print(f"  {rest:>7,}  in {more}")
    for change in group.changes:
        before = "" if change.op == "add" else _cut(change.before)
        after = "" if change.op == "remove" else _cut(change.after)
        varies = f"; {change.values:,} different values" if change.values > 1 else ""
        show_change(to, change.op, change.path, before, after, f"{change.cause}{varies}")
    for action in group.controller[:limit]:
        done = f"would patch {counted(action.pods, 'pending pod')} now: {_cut(action.patch)}"
        if action.problem:
            done = f"cannot patch {counted(action.pods, 'pending pod')}: {action.problem}"
        to.print(f"  [cyan]controller[/cyan] ({escape(action.profile)}) {escape(done)}")
    if len(group.controller) > limit:
        to.print(f"  [cyan]controller[/cyan] and {len(group.controller) - limit:,} other patches")


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
