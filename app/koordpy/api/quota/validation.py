"""The validation rules of a single ElasticQuota.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology_check.go` (`validateQuotaSelfItem`).
"""

from koordpy.api import extension, resource_list
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import Quantity
from koordpy.api.scheme import DecodeError

from .amounts import negative
from .info import QuotaInfo, read_names

_WEIGHT = extension.ANNOTATION_QUOTA_SHARED_WEIGHT
_STRICT = extension.ANNOTATION_QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS


class InvalidQuota(ValueError):
    """A quota breaks a rule; the message is Koordinator's."""


def check(quota: ElasticQuota, info: QuotaInfo) -> None:
    """Check amounts, the shared weight, and that the maximum covers the minimum. Raises InvalidQuota."""
    for field, amounts in (("Max", info.max), ("Min", info.min)):
        if names := negative(amounts):
            raise InvalidQuota(
                f"{info.name} quota.Spec.{field}'s value < 0, in dimensions :[{' '.join(names)}]"
            )
    _check_shared_weight(quota, info)
    for key, least in sorted(info.min.items()):
        most = info.max.get(key)
        if most is None:
            raise InvalidQuota(
                f"resourceKey {key} of quota {info.name} is included in min, which is not included in max"
            )
        if most < least:
            raise InvalidQuota(f"resourceKey {key} of quota {info.name} min {least} > max {most}")
    _check_used(quota, info)


def _check_shared_weight(quota: ElasticQuota, info: QuotaInfo) -> None:
    text = quota.metadata.annotations.get(_WEIGHT, "")
    if not text:
        return
    try:
        weight = resource_list.parse(text) or {}
    except DecodeError as error:
        raise InvalidQuota(str(error)) from None
    if names := negative(weight):
        raise InvalidQuota(
            f"{info.name} quota.Annotation[{_WEIGHT}]'s value < 0, in dimension :[{' '.join(names)}]"
        )


def _check_used(quota: ElasticQuota, info: QuotaInfo) -> None:
    """Check that the maximum covers the usage of the resources that an annotation names."""
    text = quota.metadata.annotations.get(_STRICT, "")
    if not text:
        return
    try:
        keys = read_names(text)
    except DecodeError as error:
        raise InvalidQuota(f"{info.name} quota.Annotation[{_STRICT}]'s value is invalid: {error}") from None
    used: dict[str, Quantity] = resource_list.from_wire(quota.status.used)
    for key in keys:
        if key not in used:
            continue
        if key not in info.max:
            raise InvalidQuota(
                f"resourceKey {key} of quota {info.name} is included in used, which is not included in max "
                "but should check max >= used"
            )
        if info.max[key] < used[key]:
            raise InvalidQuota(
                f"resourceKey {key} of quota {info.name} max {info.max[key]} < used {used[key]}"
            )
