"""Compare the results of admission with and without some profiles, pod by pod.

Each difference is attributed to its cause. Pods with the same outcome are grouped by workload, so memory
grows with the number of different outcomes, not with the number of pods.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from koordpy.admission.explain import ExplainedChange, feed
from koordpy.api import json_diff, json_merge
from koordpy.api.output_model import OutputModel
from koordpy.api.patch import equal
from koordpy.api.scheme import DecodeError
from koordpy.api.workloads import as_created_again, members, name_of
from koordpy.cluster.cluster import Cluster
from koordpy.controllers import host as controller_host
from koordpy.controllers.interface import Controller
from koordpy.controllers.interface import Handle as ControllerHandle

from .explain import VALIDATE, Explainer, Explanation
from .known import put_profiles
from .webhooks import Webhooks

_CONTROLLER = "colocationprofile"
_GENERATED = re.compile(rb"kube-api-access-[a-z0-9]{5}\b")


class ProfileStatus(OutputModel):
    """A previewed profile: `new`, `changed` or `unchanged`; `pods` is the number of pods it applies to."""

    name: str
    status: str
    pods: int = 0


class PreviewedChange(OutputModel):
    """A difference that the profiles make; where pods differ, the most frequent value is shown."""

    op: str
    path: str
    before: Any = None
    after: Any = None
    values: int
    """The number of different pairs of before and after."""
    cause: str


class Workload(OutputModel):
    """The owner of some pods of a group, and one of them."""

    namespace: str
    kind: str
    name: str
    pods: int
    example: str


class ControllerAction(OutputModel):
    """What the profile controller would do to pending pods; a patch, or why it cannot."""

    profile: str
    pods: int
    patch: dict[str, Any]
    problem: str = ""


class Group(OutputModel):
    """Pods with the same outcome. `refused` is why admission would refuse them, empty if it would not."""

    pods: int
    profiles: list[str]
    changes: list[PreviewedChange]
    refused: str
    controller: list[ControllerAction]
    workloads: list[Workload]


class Preview(OutputModel):
    """The effect of the profiles, in numbers of pods; the controller would patch `patched` pending ones."""

    profiles: list[ProfileStatus]
    pods: int
    touched: int
    refused: int
    pending: int
    patched: int
    groups: list[Group]


class _Outcome(NamedTuple):
    """The outcome for one pod; `applied` are the previewed profiles that apply."""

    applied: tuple[str, ...]
    changes: tuple[ExplainedChange, ...]
    refused: str


@dataclass
class _Gathered:
    """Pods whose outcomes have the same form."""

    pods: int = 0
    values: list[Counter[str]] = field(default_factory=list)
    changes: tuple[ExplainedChange, ...] = ()
    workloads: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)
    controller: Counter[tuple[str, str, str]] = field(default_factory=Counter)


class Previewer:
    """Takes pods one by one, so that at most one page of pods is in memory."""

    def __init__(
        self,
        old: Sequence[dict[str, Any]],
        new: Sequence[dict[str, Any]],
        others: Sequence[Mapping[str, Any]],
        before: Cluster,
        after: Cluster,
        webhooks: Webhooks,
        reconcile_by_default: bool,
    ) -> None:
        for cluster in (before, after):
            put_profiles(cluster, old)
            feed(cluster, others)
        put_profiles(after, new)
        self._before, self._after = Explainer(before, webhooks), Explainer(after, webhooks)
        self._controller = _controller(after, reconcile_by_default)
        specs = {name_of(document): document.get("spec") for document in old}
        self._profiles = {
            name: ProfileStatus(name=name, status=_status(specs, name, document))
            for document in new
            if (name := name_of(document))
        }
        self._known = set(specs) & set(self._profiles)
        self._outcomes: dict[bytes, _Outcome | None] = {}
        self._groups: dict[tuple[Any, ...], _Gathered] = {}
        self._pods = self._refused = self._pending = self._patched = 0

    def take(self, pod: Mapping[str, Any]) -> None:
        """Add one pod."""
        self._pods += 1
        outcome = self._outcome(as_created_again(pod))
        actions = self._actions(pod)
        if outcome is None and not actions:
            return
        outcome = outcome or _Outcome((), (), "")
        for name in outcome.applied:
            self._profiles[name].pods += 1
        self._refused += bool(outcome.refused)
        self._patched += any(patch and not problem for _, patch, problem in actions)
        form = tuple((change.op, change.path, change.cause) for change in outcome.changes)
        gathered = self._groups.setdefault((outcome.applied, form, outcome.refused), _Gathered())
        if not gathered.pods:
            gathered.changes = outcome.changes
            gathered.values = [Counter() for _ in outcome.changes]
        gathered.pods += 1
        for counter, change in zip(gathered.values, outcome.changes, strict=True):
            counter[json.dumps([change.before, change.after])] += 1
        gathered.controller.update(actions)
        workload = workload_of(pod)
        gathered.workloads[workload] += 1
        gathered.examples.setdefault(workload, name_of(pod))

    def result(self) -> Preview:
        """Return the preview, the largest groups first."""
        groups = [_group(key, gathered) for key, gathered in self._groups.items()]
        groups.sort(key=lambda group: (not group.refused, -group.pods))
        return Preview(
            profiles=list(self._profiles.values()),
            pods=self._pods,
            touched=sum(group.pods for group in groups if group.changes or group.refused),
            refused=self._refused,
            pending=self._pending,
            patched=self._patched,
            groups=groups,
        )

    def _outcome(self, pod: dict[str, Any]) -> _Outcome | None:
        """Return a pod's outcome, None if the profiles make no difference. Equal pods are evaluated once."""
        metadata = pod["metadata"]
        for name in (
            "labels",
            "annotations",
        ):  # so that adding the first label is the same operation as adding another
            metadata[name] = metadata.get(name) or {}
        nameless = pod | {"metadata": metadata | {"name": "", "generateName": ""}}
        key = _GENERATED.sub(b"kube-api-access", msgspec.json.encode(nameless))
        if key not in self._outcomes:
            self._outcomes[key] = self._compare(pod)
        return self._outcomes[key]

    def _compare(self, pod: dict[str, Any]) -> _Outcome | None:
        after = self._after.explain(pod, "default")
        applied = self._applied(after)
        if not applied and after.allowed and not self._known:
            return None
        before = self._before.explain(pod, "default")
        changes = tuple(_differences(before, after))
        refused = "" if after.refusal == before.refusal else after.refusal
        if not applied and not changes and not refused:
            return None
        return _Outcome(applied, changes, refused)

    def _applied(self, told: Explanation) -> tuple[str, ...]:
        return tuple(rule.subject for rule in told.rules if rule.applied and rule.subject in self._profiles)

    def _actions(self, pod: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """Return what the controller would do to a pod: profile, patch as JSON (empty for none), problem."""
        if members(pod, "spec").get("nodeName") or members(pod, "status").get("phase") != "Pending":
            return []
        self._pending += 1
        try:
            plans = list(self._controller.plan(dict(pod)))
        except DecodeError:
            return []
        return [
            (
                plan.subject,
                json.dumps(plan.patch, sort_keys=True) if plan.patch else "",
                plan.problem or self._refusal(dict(pod), plan.patch),
            )
            for plan in plans
            if plan.subject in self._profiles and (plan.patch or plan.problem)
        ]

    def _refusal(self, pod: dict[str, Any], patch: dict[str, Any]) -> str:
        """Return why admission would refuse a patch, empty if it would not."""
        refusal = self._after.refusal_of_update(pod, json_merge.apply(pod, patch))
        return f"{VALIDATE} refuses the change: {refusal}" if refusal else ""


def _controller(cluster: Cluster, reconcile_by_default: bool) -> Controller:
    installed = controller_host.installed()
    handle = ControllerHandle(cluster, controller_host.feature_gates(installed))
    args = installed[_CONTROLLER].read_args({"reconcileByDefault": reconcile_by_default}, "args")
    return installed.make(_CONTROLLER, args, handle)


def _status(specs: Mapping[str, Any], name: str, document: Mapping[str, Any]) -> str:
    if name not in specs:
        return "new"
    return "unchanged" if equal(specs[name], document.get("spec")) else "changed"


def _differences(before: Explanation, after: Explanation) -> Iterable[ExplainedChange]:
    """Yield the differences between two results, each with its cause."""
    if before.result is None or after.result is None:
        return
    for op, path, value in json_diff.changes(before.result, after.result):
        pointer = json_diff.pointer(path)
        made_by = _last(after, pointer)
        lost = _last(before, pointer)
        cause = made_by.cause if made_by is not None else f"no longer {lost.cause if lost else 'set'}"
        yield ExplainedChange(
            handler="",
            cause=cause,
            op=op,
            path=pointer,
            before=None if op == "add" else _at(before.result, path),
            after=value,
        )


def _last(told: Explanation, pointer: str) -> ExplainedChange | None:
    """Return the last change of a path, or of one that contains it or that it contains."""
    for change in reversed(told.changes):
        if f"{pointer}/".startswith(f"{change.path}/") or f"{change.path}/".startswith(f"{pointer}/"):
            return change
    return None


def _at(document: Any, path: Sequence[str | int]) -> Any:
    for segment in path:
        document = document[segment]
    return document


def workload_of(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return namespace, kind and name of a pod's owner; of the pod itself where it has none.

    For a Deployment's pods it is the Deployment, recognised by the hash in its ReplicaSet's name.
    """
    metadata = members(pod, "metadata")
    namespace = str(metadata.get("namespace") or "default")
    owners = metadata.get("ownerReferences")
    owner = next(
        (
            item
            for item in (owners if isinstance(owners, list) else ())
            if isinstance(item, dict) and item.get("controller")
        ),
        None,
    )
    if owner is None:
        return namespace, "Pod", name_of(pod)
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    template = members(metadata, "labels").get("pod-template-hash")
    if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
        return namespace, "Deployment", name.removesuffix(f"-{template}")
    return namespace, kind, name


def _group(key: tuple[Any, ...], gathered: _Gathered) -> Group:
    applied, _, refused = key
    changes = []
    for change, values in zip(gathered.changes, gathered.values, strict=True):
        before, after = json.loads(values.most_common(1)[0][0])
        changes.append(
            PreviewedChange(
                op=change.op,
                path=change.path,
                before=before,
                after=after,
                values=len(values),
                cause=change.cause,
            )
        )
    return Group(
        pods=gathered.pods,
        profiles=list(applied),
        changes=changes,
        refused=refused,
        controller=[
            ControllerAction(
                profile=profile, pods=pods, patch=json.loads(patch) if patch else {}, problem=problem
            )
            for (profile, patch, problem), pods in gathered.controller.most_common()
        ],
        workloads=[
            Workload(
                namespace=found[0], kind=found[1], name=found[2], pods=pods, example=gathered.examples[found]
            )
            for found, pods in gathered.workloads.most_common()
        ],
    )
