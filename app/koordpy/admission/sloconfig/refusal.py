"""The message that refuses a configuration, in a format that clients parse.

Source: Koordinator, `pkg/webhook/util/err/json_error.go`.
"""

import json
from typing import Any, Final

PARSE_CONFIG_FAIL: Final = "ParseConfigFail"
CONFIG_PARAM_INVALID: Final = "ConfigParamInvalid"
NODE_STRATEGIES_OVERLAP: Final = "NodeStrategiesOverlap"
EXIST_NODE_CONFLICT: Final = "ExistNodeConfict"

_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class ConfigRefused(Exception):
    """A configuration is refused; the text is the message of the refusal."""


def refusal(reason: str, message: Any) -> ConfigRefused:
    """Return a refusal with a reason; `message` is any JSON value."""
    document = {"reason": reason, "message": message}
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)
    return ConfigRefused(f"___{text}___")
