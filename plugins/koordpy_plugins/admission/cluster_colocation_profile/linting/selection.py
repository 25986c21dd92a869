"""Checks of a profile's selection: no pods, all pods, or a random share of them."""

from collections.abc import Iterator

import msgspec

from koordpy.admission.lint import Finding, Severity
from koordpy.api import extension
from koordpy.api.core import Namespace
from koordpy.api.label_selector import SelectorError, fast_of
from koordpy.api.meta import LabelSelectorRequirement
from koordpy.api.selector_overlap import contradiction
from koordpy.cluster.store import Store

from ..probability import percentage
from .subject import Subject


def check_selectors(subject: Subject) -> Iterator[Finding]:
    """Yield invalid selectors, and those that nothing can match."""
    for field, selector in (
        ("selector", subject.spec.selector),
        ("namespaceSelector", subject.spec.namespace_selector),
    ):
        if selector is None:
            continue
        value = _text(selector.match_labels, selector.match_expressions)
        try:
            read = fast_of(selector)
        except SelectorError as error:
            yield subject.finding(
                Severity.ERROR,
                "invalid-selector",
                f"spec.{field}",
                value,
                f"{error}; the webhook treats that as a match, the profile controller as an error",
            )
            continue
        if why := contradiction(read):
            yield subject.finding(
                Severity.ERROR, "never-matches", f"spec.{field}", value, f"the profile can never match: {why}"
            )
    spec = subject.spec
    if not subject.matcher.problem and not (subject.matcher.selector or subject.matcher.namespace_selector):
        yield subject.finding(
            Severity.WARNING,
            "selects-everything",
            "spec.selector",
            None if spec.selector is None else "{}",
            "the profile selects every pod of every namespace, kube-system too; expected a selector",
        )


def check_namespaces(subject: Subject, namespaces: Store[Namespace]) -> Iterator[Finding]:
    """Yield a namespaceSelector that matches none of the existing namespaces."""
    selector = subject.matcher.namespace_selector
    if selector is None or contradiction(selector):
        return
    if not any(selector.matches(namespace.metadata.labels) for namespace in namespaces):
        yield subject.finding(
            Severity.WARNING,
            "no-namespace",
            "spec.namespaceSelector",
            str(selector),
            f"it matches none of the {len(namespaces)} namespaces, so the profile selects no pod now",
        )


def check_probability(subject: Subject) -> Iterator[Finding]:
    """Yield probabilities with an effect that is not obvious."""
    probability = subject.spec.probability
    if probability is None:
        return

    def found(severity: Severity, rule: str, expectation: str) -> Finding:
        return subject.finding(severity, rule, "spec.probability", probability, expectation)

    try:
        percent = percentage(probability)
    except ValueError as error:
        yield found(
            Severity.ERROR,
            "invalid-probability",
            f"{error}: every pod that the profile selects is refused; expected an integer or N%",
        )
        return
    if percent <= 0:
        yield found(Severity.WARNING, "never-applied", "the profile is never applied; expected 1 to 100")
    elif percent > 100:
        yield found(Severity.WARNING, "odd-probability", "the profile is always applied; expected 1 to 100")
    elif percent < 100:
        share = min(percent + 1, 100)
        yield found(Severity.NOTE, "odd-probability", f"the profile is applied to {share} of 100 pods")
        if subject.is_managed:
            yield found(
                Severity.WARNING,
                "repeated-roll",
                "the profile controller draws again every interval, so in the end nearly all pending pods "
                "are changed; expected no probability together with the controller",
            )


def check_management(subject: Subject) -> Iterator[Finding]:
    """Yield labels for the profile controller with an effect that is not obvious."""
    key = extension.LABEL_CONTROLLER_MANAGED
    label = subject.profile.metadata.labels.get(key)
    if label is not None and label != "true":
        yield subject.finding(
            Severity.WARNING,
            "controller-label",
            f"metadata.labels[{key}]",
            label,
            "the profile controller handles the profile with the value true only",
        )
    if subject.is_managed and subject.spec.selector is None:
        yield subject.finding(
            Severity.WARNING,
            "controller-selects-nothing",
            "spec.selector",
            None,
            "without a selector the profile controller selects no pod, while the webhook selects all; "
            "expected a selector, {} for all pods",
        )


def _text(labels: dict[str, str], expressions: list[LabelSelectorRequirement]) -> str:
    plain = {"matchLabels": labels, "matchExpressions": expressions}
    return msgspec.json.encode({key: value for key, value in plain.items() if value}).decode()
