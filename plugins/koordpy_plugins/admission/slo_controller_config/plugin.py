"""Refuse an invalid slo-controller-config.

Only keys whose text changed are validated, so a key that was written before the webhook was registered does
not block other changes. Source: Koordinator, `pkg/webhook/cm/plugins/sloconfig`.
"""

from typing import ClassVar

import msgspec

from koordpy.admission.handler import CREATE, UPDATE, Errored, Handle, Request, ValidatingHandler
from koordpy.admission.sloconfig.args import SLOConfigArgs
from koordpy.admission.sloconfig.checker import SECTIONS, Checker
from koordpy.admission.sloconfig.refusal import ConfigRefused
from koordpy.api.core import Node
from koordpy.api.document import Document


class SLOControllerConfigPlugin(ValidatingHandler):
    """The slo-controller-config handler of ConfigMap admission."""

    name: ClassVar[str] = "SLOControllerConfig"
    metric_name: ClassVar[str] = "SLOConfig"
    path: ClassVar[str] = "/validate-configmap"
    args: SLOConfigArgs

    def __init__(self, args: SLOConfigArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._nodes = handle.cluster.store(Node)

    def validate(self, request: Request) -> None:
        """Validate the changed configurations, each by itself, then against the nodes."""
        document = request.document
        if document is None or request.operation not in (CREATE, UPDATE):
            return
        args = self.args
        place = tuple(document.get(("metadata", name), "") for name in ("namespace", "name"))
        if place != (args.config_namespace, args.config_name):
            return
        new = _data(document)
        old = (
            _data(Document(msgspec.json.decode(request.raw_old_object)))
            if request.operation == UPDATE
            else {}
        )
        try:
            checkers = []
            for section in SECTIONS:
                text = new.get(section.key, "")
                if text and text != old.get(section.key, ""):
                    checker = Checker(section, new, "/".join(place))
                    checker.check(names_are_needed=args.node_strategy_name_need_check)
                    checkers.append(checker)
            self._check_nodes(checkers)
        except ConfigRefused as refused:
            raise Errored(400, str(refused)) from None

    def _check_nodes(self, checkers: list[Checker]) -> None:
        """Check that no two strategies of one configuration select a node. Raises ConfigRefused."""
        checkers = [checker for checker in checkers if len(checker.config.nodes) > 1]
        if checkers:
            for node in self._nodes:
                for checker in checkers:
                    checker.check_node(node.metadata.name, node.metadata.labels)


def _data(document: Document) -> dict[str, str]:
    return {key: text or "" for key, text in document.get(("data",), {}).items()}
