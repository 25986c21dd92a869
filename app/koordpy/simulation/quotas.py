"""What ElasticQuotas say over time about what their pods use, and what they might use."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from koordpy.api import quantity
from koordpy.api.extension import LABEL_QUOTA_IS_ROOT
from koordpy.api.koordinator import ElasticQuota

from .result import QuotaUse, Series, Spread

ANNOTATION_RUNTIME: Final = "quota.scheduling.koordinator.sh/runtime"
_ROOTS: Final = frozenset(("koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota"))


def are_among(objects: Iterable[Mapping[str, object]]) -> bool:
    """Return whether some objects are, or lead to, ElasticQuotas."""
    return any(each.get("kind") in ("ElasticQuota", "ElasticQuotaProfile") for each in objects)


class QuotaSampler:
    """Measures quotas into `series`."""

    def __init__(self, quotas: Iterable[ElasticQuota], series: Series) -> None:
        self._quotas, self._series = quotas, series

    def sample(self) -> None:
        """Measure once, as the last of the times of the series."""
        count = len(self._series.times)
        for quota in self._quotas:
            if not _is_shown(quota):
                continue
            runtime = _runtime(quota)
            for resource in quota.spec.max:
                for lines, amounts in (
                    (self._series.quota_used, quota.status.used),
                    (self._series.quota_runtime, runtime),
                ):
                    values = lines.setdefault(quota.metadata.name, {}).setdefault(resource, [])
                    values += [0.0] * (count - 1 - len(values))  # not there before
                    values.append(_amount(amounts.get(resource)) or 0.0)

    def result(self) -> dict[str, dict[str, QuotaUse]]:
        """Return the use of each quota over time."""
        specs = {quota.metadata.name: quota.spec for quota in self._quotas}
        series = self._series
        return {
            name: {
                resource: QuotaUse(
                    Spread.of(used),
                    Spread.of(series.quota_runtime[name][resource]),
                    _amount(specs[name].min.get(resource)) if name in specs else None,
                    _amount(specs[name].max.get(resource)) if name in specs else None,
                )
                for resource, used in resources.items()
            }
            for name, resources in sorted(series.quota_used.items())
        }


def _is_shown(quota: ElasticQuota) -> bool:
    meta = quota.metadata
    return meta.name not in _ROOTS and meta.labels.get(LABEL_QUOTA_IS_ROOT) != "true"


def _runtime(quota: ElasticQuota) -> Mapping[str, object]:
    """Return what a quota might use; nothing before its status has been computed."""
    try:
        found = json.loads(quota.metadata.annotations.get(ANNOTATION_RUNTIME, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _amount(value: object) -> float | None:
    """Return an amount in cores, bytes or plain numbers; None for what is none."""
    if not isinstance(value, (str, int, float)):
        return None
    try:
        return quantity.from_wire(value).approximate_float()
    except ValueError:
        return None
