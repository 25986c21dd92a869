"""Names and labels of objects, and kube-apiserver's messages about wrong ones.

Source of the rules: Kubernetes, `k8s.io/apimachinery/pkg/util/validation` and `.../pkg/api/validation`.
"""

import re
from collections.abc import Iterator, Mapping

from . import labels as label_syntax
from .field_cause import Cause, invalid_value

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

SUBDOMAIN_EXPECTED = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_EXPECTED = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def dns_subdomain(name: str) -> str | None:
    """The rule for most names: lower-case DNS, at most 253 characters."""
    if len(name) > 253:
        return "must be no more than 253 bytes"
    return None if _DNS_SUBDOMAIN.fullmatch(name) else SUBDOMAIN_EXPECTED


def dns_label(name: str) -> str | None:
    """The rule for names of namespaces and containers: one DNS label, at most 63 characters."""
    if len(name) > 63:
        return "must be no more than 63 bytes"
    return None if _DNS_LABEL.fullmatch(name) else LABEL_EXPECTED


def validate_labels(labels: Mapping[str, str], path: str) -> Iterator[Cause]:
    """Yield the errors in labels."""
    for key, value in labels.items():
        if problem := label_syntax.key_error(key):
            yield invalid_value(path, key, problem)
        if problem := label_syntax.value_error(value):
            yield invalid_value(path, value, problem)
