"""Keep the pods of a quota tree on the nodes of the tree.

A quota tree owns some of the cluster's nodes: those that its ElasticQuotaProfile selects. A pod whose quota
is part of a tree gets that node selector as required node affinity. Source: Koordinator,
`pkg/webhook/pod/mutating/multi_quota_tree_affinity.go`.
"""

from typing import Any, ClassVar, Final

from koordpy.admission.handler import CREATE, Handle, MutatingHandler, Request
from koordpy.api import extension
from koordpy.api.document import Document
from koordpy.api.koordinator import ElasticQuotaProfile
from koordpy.api.meta import LabelSelector
from koordpy.api.plugin import PluginArgs
from koordpy.cluster.quota.topology import QuotaTopology

_REQUIRED: Final = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_TERMS: Final = (*_REQUIRED, "nodeSelectorTerms")


class MultiQuotaTreePlugin(MutatingHandler):
    """The quota tree handler of pod admission."""

    name: ClassVar[str] = "MultiQuotaTree"
    path: ClassVar[str] = "/mutate-pod"
    feature: ClassVar[str | None] = "MultiQuotaTree"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._quotas = handle.cluster.shared(QuotaTopology)
        self._profiles = handle.cluster.store(ElasticQuotaProfile).index(_tree_ids)

    def mutate(self, request: Request, document: Document) -> None:
        """Add the node selector of the pod's quota tree, if it has one, to every required term."""
        if request.operation != CREATE:
            return
        label = document.get(("metadata", "labels", extension.LABEL_QUOTA_NAME))
        namespace = request.effective_namespace
        quota = self._quotas.find(label or namespace, namespace)
        profile = self._profile(quota.tree_id) if quota is not None else None
        if profile is None or profile.spec.node_selector is None:
            return
        requirements = _requirements(profile.spec.node_selector)
        terms = document.get(_TERMS)
        if not terms:
            document.set(_TERMS, [{"matchExpressions": requirements} if requirements else {}])
        for position in range(len(terms or ())):
            for requirement in requirements:
                document.append((*_TERMS, position, "matchExpressions"), requirement)
        if request.explanation is not None:
            request.explanation.changed(
                document, f"ElasticQuotaProfile {profile.metadata.key} of the quota's tree"
            )

    def _profile(self, tree_id: str) -> ElasticQuotaProfile | None:
        """Return the profile of a tree; if there are several, the first by namespace and name."""
        return min(
            self._profiles.get(tree_id),
            key=lambda profile: (profile.metadata.namespace, profile.metadata.name),
            default=None,
        )


def _tree_ids(profile: ElasticQuotaProfile) -> tuple[str, ...]:
    tree_id = profile.metadata.labels.get(extension.LABEL_QUOTA_TREE_ID)
    return (tree_id,) if tree_id else ()


def _requirements(selector: LabelSelector) -> list[dict[str, Any]]:
    """Return a label selector as node selector requirements, labels first, by key."""
    requirements: list[dict[str, Any]] = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in sorted(selector.match_labels.items())
    ]
    for expression in selector.match_expressions:
        requirement: dict[str, Any] = {"key": expression.key, "operator": expression.operator}
        if expression.values:
            requirement["values"] = expression.values
        requirements.append(requirement)
    return requirements
