"""Pods by namespace and label, so that a selector is matched with few of them."""

from collections.abc import Iterable

from koordpy.api.core import Pod
from koordpy.api.label_selector import Selector


class LabelIndex:
    """An index of some pods, in their order."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_namespace: dict[str, list[Pod]] = {}
        for pod in pods:
            self._by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
        self._by_label: dict[tuple[str, str], dict[str, list[Pod]]] = {}

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces of the pods, in the order of their first pods."""
        return self._by_namespace

    def of_namespace(self, namespace: str) -> list[Pod]:
        """Return the pods of a namespace."""
        return self._by_namespace.get(namespace, [])

    def selected(self, namespace: str, selector: Selector) -> list[Pod]:
        """Return the pods of a namespace that a selector matches."""
        return [pod for pod in self._possible(namespace, selector) if selector.matches(pod.metadata.labels)]

    def _possible(self, namespace: str, selector: Selector) -> list[Pod]:
        """The pods with the one value that the selector requires of some label, else all."""
        for requirement in selector.requirements:
            value = selector.exact_value(requirement.key)
            if value is not None:
                return self._values(namespace, requirement.key).get(value, [])
        return self.of_namespace(namespace)

    def _values(self, namespace: str, label: str) -> dict[str, list[Pod]]:
        known = self._by_label.get((namespace, label))
        if known is None:
            known = self._by_label[namespace, label] = {}
            for pod in self.of_namespace(namespace):
                value = pod.metadata.labels.get(label)
                if value is not None:
                    known.setdefault(value, []).append(pod)
        return known
