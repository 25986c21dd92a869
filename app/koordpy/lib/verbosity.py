"""The log level as one number: 0 for important messages, 1 for more, 2 and above for everything."""

import logging

_TALKATIVE = ("uvicorn", "httpx")


def set_verbosity(level: int) -> None:
    """Set the verbosity; numbers below 0 count as 0."""
    logging.getLogger().setLevel(logging.DEBUG if level > 1 else logging.INFO)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.NOTSET if level > 0 else logging.WARNING)
