import logging
import sys
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from koordpy.lib.log_format import DOCUMENT, LINES, LONGEST, LineFormatter


def formatted(
    message: str,
    *args: object,
    exc: BaseException | None = None,
    extra: Mapping[str, object] = MappingProxyType({}),
) -> str:
    info = (type(exc), exc, exc.__traceback__) if exc is not None else None
    record = logging.LogRecord("koordpy.test", logging.INFO, __file__, 1, message, args, info)
    vars(record).update(extra)
    return LineFormatter().format(record)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\n2026-01-01 00:00:00,000 I koordpy: all is well", r"a\n2026-01-01"),
        ("a\r\nb", r"a\r\nb"),
        ("\x1b[2J\x1b[31mred", r"\x1b[2J\x1b[31mred"),
        ("a\u2028b\x85c", r"a\u2028b\x85c"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("\udcff", r"\udcff"),
        ("Grüße", "Grüße"),
    ],
)
def test_names_of_callers_cannot_forge_lines(name: str, shown: str) -> None:
    line = formatted("pod %s was refused", name)
    assert f"I koordpy.test: pod {shown}" in line
    assert line.isprintable()


def test_lines_are_bounded() -> None:
    assert len(formatted("pod %s", "x" * 1_000_000)) < LONGEST + 200
    assert formatted("pod %s", "x" * 1_000_000).endswith("... (1000004 characters)")
    assert len(formatted("document: %s", "x" * 100_000, extra=DOCUMENT)) > 100_000
    assert len(formatted("document: %s", "x" * 10_000_000, extra=DOCUMENT)) < 300_000


def test_a_table_has_lines_that_are_no_records() -> None:
    assert formatted("table:\n%s", "a\nb\x1b", extra=LINES).split("\n")[1:] == ["  | a", r"  | b\x1b"]


def test_a_traceback_cannot_forge_lines_and_is_bounded() -> None:
    try:
        raise ValueError("a\n2026-01-01 00:00:00,000 I koordpy: forged\x1b[0m" + "y" * 100_000)
    except ValueError as error:
        text = formatted("it broke", exc=error)
    first, *more = text.split("\n")
    assert first.endswith("I koordpy.test: it broke")
    assert all(line.startswith("  | ") and line.isprintable() for line in more)
    assert len(text) < 5000


def test_the_program_logs_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from koordpy.main import set_up_logging

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up_logging(0)
    [handler] = root.handlers
    assert isinstance(handler.formatter, LineFormatter)
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr
