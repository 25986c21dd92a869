"""What kubelet was configured with, by its files and its command line, where its API is not asked.

Only what decides over CPUs is read: the policies of its CPU manager and topology manager, and reservations.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from koordpy.agent.cgroups.kubelet import Kubelet
from koordpy.lib.text_documents import DocumentError, Limits, read_yaml

log = logging.getLogger(__name__)

_LIMITS: Final = Limits(size=256 << 10)
_TEXTS: Final = {
    "cpu-manager-policy": "cpuManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
}
"""Fields of the configuration by the options that override them."""
_MAPS: Final = {
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
}
_DEFAULTS: Final = {
    "cpuManagerPolicy": "none",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
}
"""Kubelet's own, which its API shows, too."""


class KubeletConfiguration:
    """The configuration; files are parsed again only when one of them changed."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._texts: dict[Path, str] = {}
        self._found: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return the fields that are known; none if neither a file nor the process of kubelet is seen."""
        texts = {path: text for path in self._kubelet.files if (text := _text(path))}
        if texts != self._texts or not self._found:
            self._texts = texts
            self._found = _configuration(texts, self._kubelet.options)
        return self._found


def _configuration(texts: Mapping[Path, str], options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, text in texts.items():
        try:
            document = read_yaml(text, _LIMITS)
        except DocumentError as error:
            log.warning("%s is not used: %s", path, error)
            continue
        if isinstance(document, dict):
            _merge(found, document)
    _merge(found, {field: options[name] for name, field in _TEXTS.items() if name in options})
    _merge(found, {field: _pairs(options[name]) for name, field in _MAPS.items() if name in options})
    return {**_DEFAULTS, **found} if found or options else {}


def _merge(found: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add fields to others; maps are merged, as kubelet merges its drop-in files."""
    wanted: Iterable[str] = (*_TEXTS.values(), *_MAPS.values())
    for name in wanted:
        value = more.get(name)
        if isinstance(value, dict):
            known = found.get(name)
            texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in value.items()}
            found[name] = {**(known if isinstance(known, dict) else {}), **texts}
        elif value is not None:
            found[name] = value


def _pairs(text: str) -> dict[str, str]:
    """Return the values of `cpu=500m,memory=1Gi`."""
    return {
        name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in text.split(","))
    }


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LIMITS.size).decode("utf-8", "replace")
    except OSError:
        return ""
