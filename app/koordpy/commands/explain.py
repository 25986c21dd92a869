"""`koordpy profile explain`: what admission does to a pod, profile by profile, change by change."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from koordpy.admission.chain import Chain
from koordpy.admission.explain import AdmissionExplanation, feed
from koordpy.admission.explain import explain as explain_one
from koordpy.admission.handler import UPDATE
from koordpy.api.core import Pod
from koordpy.api.output_model import OutputModel
from koordpy.api.scheme import resource_of
from koordpy.api.workloads import as_created_again, pod_of
from koordpy.cluster.cluster import Cluster

from .known import Access, NothingGiven, fill_facts, profiles_of, put_profiles
from .output import counted
from .webhooks import Webhooks

MUTATE, VALIDATE = "/mutate-pod", "/validate-pod"

_NOT_GIVEN = "in the files: add some with -f, or a cluster's with --context or --kubeconfig"

_MARKS = {"add": ("+", "green"), "remove": ("-", "red"), "replace": ("~", "yellow")}


class Validation(OutputModel):
    """The validating webhook's verdict on the pod as the mutating webhook leaves it."""

    allowed: bool
    code: int
    message: str


class Explanation(AdmissionExplanation):
    """Both webhooks' answers; `validation` is None where the mutating webhook refuses the pod."""

    validation: Validation | None = None

    @property
    def refusal(self) -> str:
        """Why the pod would be refused, empty if it would not."""
        if not self.allowed:
            return self.message
        return "" if self.validation is None or self.validation.allowed else self.validation.message


class Explainer:
    """The pod webhooks over one cluster. Every probability above 0 counts as 1, to show what may happen."""

    def __init__(self, cluster: Cluster, webhooks: Webhooks) -> None:
        chains = webhooks.chains(cluster)
        self._validating: Chain | None = chains.get(VALIDATE)
        self._mutating = chains.get(MUTATE)
        if self._mutating is None:
            raise NothingGiven(f"no admission webhook at {MUTATE}: its feature gate is off")

    def explain(self, pod: dict[str, Any], namespace: str) -> Explanation:
        """Run a pod through both webhooks as a CREATE."""
        assert self._mutating is not None
        told = explain_one(self._mutating, pod, namespace=namespace)
        validation = None
        if self._validating is not None and told.result is not None:
            judged = explain_one(self._validating, told.result, namespace=namespace)
            validation = Validation(allowed=judged.allowed, code=judged.code, message=judged.message)
        return Explanation(**dict(told), validation=validation)

    def refusal_of_update(self, old: dict[str, Any], new: dict[str, Any]) -> str:
        """Return why the validating webhook refuses a change of a pod, empty if it does not."""
        if self._validating is None:
            return ""
        judged = explain_one(self._validating, new, operation=UPDATE, old=old)
        return "" if judged.allowed else judged.message


async def explain(
    documents: Sequence[Mapping[str, Any]],
    *,
    pods: Sequence[tuple[str, str]] = (),
    namespace: str,
    webhooks: Webhooks,
    access: Access,
) -> list[Explanation]:
    """Explain every pod and workload among documents, and the cluster's pods of those names.

    Documents take precedence over objects of the cluster with the same names.
    """
    cluster = Cluster()
    existing = []
    if access.is_given or pods:
        async with access.client() as client:
            await fill_facts(cluster, client)
            put_profiles(cluster, await profiles_of(client))
            for place, name in pods:
                existing.append(as_created_again(await client.get_raw(resource_of(Pod), place, name)))
    given = [pod for document in documents if (pod := pod_of(document)) is not None]
    feed(cluster, [document for document in documents if pod_of(document) is None])
    explainer = Explainer(cluster, webhooks)
    return [explainer.explain(pod, namespace) for pod in (*given, *existing)]


def show(to: Console, found: Sequence[AdmissionExplanation], *, only_files: bool = False) -> None:
    """Print explanations as text; `only_files`: no cluster's profiles count."""
    for number, item in enumerate(found):
        if number:
            to.print()
        to.print(f"[bold]{item.kind} {item.namespace}/{escape(item.name)}[/bold]")
        if not item.rules:
            to.print(f"  no ClusterColocationProfile {_NOT_GIVEN if only_files else 'is known'}")
        for rule in item.rules:
            mark = "[green]matches[/green]" if rule.applied else "[dim]skipped[/dim]"
            reason = f": {escape(rule.reason)}" if rule.reason else ""
            to.print(f"  {mark} {escape(rule.subject)}{reason}")
        show_changes(to, item)
        if not item.allowed:
            to.print(f"  [red]refused[/red] with {item.code}: {escape(item.message)}")
            to.print("  nothing is changed: the changes above were made before the refusal")
        elif not item.patch:
            to.print("  nothing is changed")
        else:
            to.print(f"  patch, {counted(len(item.patch), 'operation')}:")
            for operation in item.patch:
                to.print(f"    {escape(json.dumps(operation, ensure_ascii=False))}")
        if isinstance(item, Explanation) and item.validation is not None and not item.validation.allowed:
            told = item.validation
            to.print(f"  [red]refused[/red] by {VALIDATE} with {told.code}: {escape(told.message)}")


def show_changes(to: Console, item: AdmissionExplanation) -> None:
    """Print the changes of one explanation as a diff, each with its cause."""
    for change in item.changes:
        before = "" if change.op == "add" else json.dumps(change.before, ensure_ascii=False)
        after = "" if change.op == "remove" else json.dumps(change.after, ensure_ascii=False)
        show_change(to, change.op, change.path, before, after, change.cause)


def show_change(to: Console, op: str, path: str, before: str, after: str, cause: str) -> None:
    """Print one change as a line of a diff."""
    mark, colour = _MARKS.get(op, ("~", "yellow"))
    arrow = " -> " if before and after else ""
    to.print(
        f"  [{colour}]{mark} {escape(path)}: {escape(before)}{arrow}{escape(after)}[/{colour}]"
        f"  [dim]{escape(cause)}[/dim]"
    )
