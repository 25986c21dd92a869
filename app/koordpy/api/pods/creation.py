"""Whether kube-apiserver would create a pod."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from koordpy.api.canonical_quantities import NotAQuantity
from koordpy.api.field_cause import Cause, invalid_value
from koordpy.api.object_names import dns_subdomain, validate_labels

from . import validation
from .defaults import default_pod_spec


def refusal(pod: Mapping[str, Any]) -> str:
    """Return why a pod would be refused as invalid, in kube-apiserver's words; empty if it would not.

    The pod may still have a generateName, and need not have its defaults. Its types must be right: a value of
    another type is reported as such.
    """
    made = _without_nulls(copy.deepcopy(dict(pod)))
    try:
        default_pod_spec(made.setdefault("spec", {}))
        causes = [*_metadata(made.get("metadata") or {}), *validation.validate(made)]
    except NotAQuantity as error:
        return str(error)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"Pod: a field has a wrong type: {error}"
    if not causes:
        return ""
    texts = list(dict.fromkeys(map(str, causes)))
    name = (made.get("metadata") or {}).get("name") or (made.get("metadata") or {}).get("generateName") or ""
    return f'Pod "{name}" is invalid: {texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"}'


def _metadata(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    name = metadata.get("name")
    if name and (problem := dns_subdomain(name)):
        yield invalid_value("metadata.name", name, problem)
    yield from validate_labels(metadata.get("labels") or {}, "metadata.labels")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
