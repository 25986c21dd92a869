"""Refuse pods without the labels that a ConfigMap requires.

The rules follow the ConfigMap: a change takes effect when the watch delivers it. Source: Koordinator,
`pkg/webhook/pod/validating/pod_enhanced_validator.go`.
"""

import logging
from typing import ClassVar

from koordpy.admission.handler import CREATE, UPDATE, Errored, Handle, Request, ValidatingHandler
from koordpy.api import extension
from koordpy.api.core import ConfigMap, Pod

from . import rules
from .args import EnhancedValidationArgs
from .rules import Rule

log = logging.getLogger(__name__)


class EnhancedValidationPlugin(ValidatingHandler):
    """The required-labels check of pod admission."""

    name: ClassVar[str] = "EnhancedValidation"
    path: ClassVar[str] = "/validate-pod"
    feature: ClassVar[str | None] = "EnablePodEnhancedValidator"
    args: EnhancedValidationArgs

    def __init__(self, args: EnhancedValidationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.rules: tuple[Rule, ...] = ()
        handle.cluster.store(ConfigMap).subscribe(
            on_add=self._read, on_update=lambda _, config: self._read(config), on_delete=self._forget
        )

    def validate(self, request: Request) -> None:
        """Refuse a pod that lacks labels, with the first rule that it violates."""
        if request.operation not in (CREATE, UPDATE) or not self.rules:
            return
        metadata = request.object(Pod).metadata
        if metadata.labels.get(extension.LABEL_SKIP_ENHANCED_VALIDATION) == "true":
            return
        for rule in self.rules:
            missing = rule.missing(metadata)
            if len(missing) == 1:
                raise Errored(400, f"required label '{missing[0]}' is missing")
            if missing:
                raise Errored(400, f"required labels are missing: [{' '.join(missing)}]")

    def _read(self, config: ConfigMap) -> None:
        """Take the rules of the ConfigMap; malformed ones change nothing."""
        if not self._is_ours(config):
            return
        try:
            self.rules = rules.read(config.data)
        except ValueError as error:
            log.error("ConfigMap %s: %s; the rules are unchanged", config.metadata.key, error)

    def _forget(self, config: ConfigMap) -> None:
        if self._is_ours(config):
            self.rules = ()

    def _is_ours(self, config: ConfigMap) -> bool:
        return (config.metadata.namespace, config.metadata.name) == (
            self.args.config_namespace,
            self.args.config_name,
        )
