"""What commands print: the same data as text for people, or as JSON or YAML for programs.

Colour and progress appear on a terminal only; everywhere else the text is plain.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Final, Literal, TextIO, cast

from rich.console import Console

Format = Literal["text", "json", "yaml"]

_WIDEST: Final = 4000
"""Characters in a line of text that is not for a screen."""

_BLANKS: Final = re.compile(r" +$", re.MULTILINE)

FORMATS: tuple[Format, ...] = ("text", "json", "yaml")


def console() -> Console:
    """Return the console for standard output.

    Where nobody looks at a screen lines are never wrapped, and end where their text does.
    """
    if sys.stdout.isatty():
        return Console(highlight=False)
    plain = cast(TextIO, _Trimmed())
    return Console(highlight=False, soft_wrap=True, width=_WIDEST, file=plain, color_system=None)


class _Trimmed:
    """Standard output without the blanks with which tables fill up their lines."""

    def write(self, text: str) -> int:
        """Write text; rich gives whole lines."""
        return sys.stdout.write(_BLANKS.sub("", text))

    def flush(self) -> None:
        """Hand on what was written."""
        sys.stdout.flush()


def emit(value: Any, format_: Format, render: Callable[[Console], None]) -> None:
    """Print a JSON-like value in a format; `render` prints it as text."""
    if format_ == "json":
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    elif format_ == "yaml":
        import yaml

        sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        render(console())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
