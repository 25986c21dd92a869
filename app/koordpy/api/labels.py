"""The syntax of label keys and values.

Source of the rules: Kubernetes, `k8s.io/apimachinery/pkg/util/validation` (qualified names, label values).
"""

import re

from koordpy.lib.bounded_cache import cached, text_size

MAX_NAME_LENGTH = 63
MAX_PREFIX_LENGTH = 253

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NAME_EXPECTED = (
    f"at most {MAX_NAME_LENGTH} letters, digits, '-', '_' or '.', with a letter or digit at both ends"
)


@cached("label_keys", 2 << 20, text_size)
def key_error(key: str) -> str | None:
    """Return what is expected of a label key (an annotation key, a resource name) if this is invalid."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > MAX_PREFIX_LENGTH or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return "the part before '/' must be a lower-case DNS name of at most 253 characters"
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        return f"the name part must be {_NAME_EXPECTED}"
    return None


@cached("label_values", 2 << 20, text_size)
def value_error(value: str) -> str | None:
    """Return what is expected of a label value if this is invalid."""
    if value and (len(value) > MAX_NAME_LENGTH or not _NAME.fullmatch(value)):
        return f"must be empty or {_NAME_EXPECTED}"
    return None
