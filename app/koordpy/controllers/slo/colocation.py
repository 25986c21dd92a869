"""What colocation-config means for a controller.

Source: Koordinator, `pkg/slo-controller/config/colocation_cm_event_handler.go`.
"""

import logging
from collections.abc import Mapping
from typing import Final

from koordpy.api.decoding import DecodeError
from koordpy.api.slo.colocation_config import ColocationConfig, InvalidStrategy
from koordpy.api.slo.config import COLOCATION

from .config_source import Parsed
from .extensions import colocation_default

log = logging.getLogger(__name__)

UNMARSHAL_FAILED: Final = "ColocationCfgUnmarshalFailed"


def default() -> ColocationConfig:
    """Return what holds without a configuration."""
    return ColocationConfig(colocation_default())


def parse(data: Mapping[str, str] | None, known: ColocationConfig) -> Parsed[ColocationConfig]:
    """Read the section. What is known is kept if its JSON or the cluster's strategy is wrong.

    Without the ConfigMap the defaults hold, which counts as a fault: what is stored already is better.
    """
    text = (data or {}).get(COLOCATION.key, "")
    if data is None or not text:
        return Parsed(default(), is_faulty=data is None)
    try:
        return Parsed(ColocationConfig.read(text, colocation_default()))
    except DecodeError as error:
        failure = (UNMARSHAL_FAILED, f"failed to unmarshal colocation config, err: {error}")
        return Parsed(None, is_faulty=True, failures=(failure,))
    except InvalidStrategy as error:
        log.error(
            "%s: the strategy of the cluster is invalid, the former one stays: %s", COLOCATION.key, error
        )
        return Parsed(None, is_faulty=True)
