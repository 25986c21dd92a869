"""What commands print: the same data as text for people, or as JSON or YAML for programs.

Colour and progress appear on a terminal only; everywhere else the text is plain.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Literal

from rich.console import Console

Format = Literal["text", "json", "yaml"]

FORMATS: tuple[Format, ...] = ("text", "json", "yaml")


def console() -> Console:
    """Return the console for standard output. Lines are never wrapped where nobody looks at a screen."""
    terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 200)


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
