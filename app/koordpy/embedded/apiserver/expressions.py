"""Match conditions: the part of CEL that webhook configurations use to choose requests.

Supported: `object`, `oldObject` and `request` with fields and indexes, literals, lists, `==`, `!=`, `<`,
`<=`, `>`, `>=`, `in`, `&&`, `||`, `!`, `?:`, `has()`, `size()`, `startsWith`, `endsWith`, `contains`
and `matches`. Anything else is rejected while parsing, so a configuration that uses it is never stored.
"""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from koordpy.lib.bounded_cache import cached

Variables = Mapping[str, Any]
Expression = Callable[[Variables], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<symbol>&&|\|\||==|!=|<=|>=|[-<>!?:().,\[\]]))"
)
_ROOTS = ("object", "oldObject", "request")
_CONSTANTS = {"true": True, "false": False, "null": None}
_METHODS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


class ExpressionError(ValueError):
    """An expression cannot be read, or cannot be evaluated; the message says where it failed."""


@cached("expressions", 1 << 20)
def parse(text: str) -> Expression:
    """Parse an expression; raise ExpressionError if it is invalid or not supported."""
    parser = _Parser(text)
    found = parser.ternary()
    parser.expect_end()
    try:
        constant = found({})
    except (KeyError, ExpressionError):
        return found  # it depends on the request
    if not isinstance(constant, bool):
        raise ExpressionError(f"expression {text!r} must evaluate to bool")
    return found


def holds(expression: Expression, variables: Variables) -> bool:
    """Evaluate an expression that must be true or false. Raises ExpressionError."""
    value = expression(variables)
    if not isinstance(value, bool):
        raise ExpressionError(f"expected true or false, got {value!r}")
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self._error(f"cannot read {stripped[position:].strip()!r}")
            position = match.end()
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind]))
        self._at = 0

    def _error(self, told: str) -> ExpressionError:
        return ExpressionError(f"expression {self._text!r}: {told}")

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._error("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, symbol: str) -> None:
        found = self._take()[1]
        if found != symbol:
            raise self._error(f"found {found!r}, expected {symbol!r}")

    def expect_end(self) -> None:
        """Reject trailing text after an expression."""
        if self._at < len(self._tokens):
            raise self._error(
                f"found {self._peek()!r}, expected the end (this server knows a part of CEL only)"
            )

    def ternary(self) -> Expression:
        """`a ? b : c`."""
        condition = self._or()
        if self._peek() != "?":
            return condition
        self._take()
        first = self.ternary()
        self._expect(":")
        second = self.ternary()
        return lambda v: first(v) if holds(condition, v) else second(v)

    def _or(self) -> Expression:
        left = self._and()
        while self._peek() == "||":
            self._take()
            left = _either(left, self._and())
        return left

    def _and(self) -> Expression:
        left = self._relation()
        while self._peek() == "&&":
            self._take()
            left = _both(left, self._relation())
        return left

    def _relation(self) -> Expression:
        left = self._unary()
        while self._peek() in ("==", "!=", "<", "<=", ">", ">=", "in"):
            operator = self._take()[1]
            left = _compare(operator, left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._peek() == "!":
            self._take()
            inner = self._unary()
            return lambda v: not holds(inner, v)
        if self._peek() == "-":
            self._take()
            number = self._unary()
            return lambda v: -number(v)
        return self._postfix(self._primary())

    def _postfix(self, value: Expression) -> Expression:
        while self._peek() in (".", "["):
            if self._take()[1] == "[":
                value = _index(value, self.ternary())
                self._expect("]")
                continue
            kind, name = self._take()
            if kind != "name":
                raise self._error(f"found {name!r}, expected a field name")
            if self._peek() != "(":
                value = _field(value, name)
                continue
            self._take()
            if name == "size":
                self._expect(")")
                value = _size(value)
                continue
            if name not in _METHODS:
                raise self._error(f"the function {name} is not supported by this server")
            argument = self.ternary()
            self._expect(")")
            value = _call(name, value, argument)
        return value

    def _primary(self) -> Expression:
        kind, token = self._take()
        if kind == "number":
            number = float(token) if "." in token else int(token)
            return lambda v: number
        if kind == "text":
            text = ast.literal_eval(token)
            return lambda v: text
        if token == "(":
            inner = self.ternary()
            self._expect(")")
            return inner
        if token == "[":
            return self._list()
        if kind != "name":
            raise self._error(f"found {token!r}, expected a value")
        if token in _CONSTANTS:
            constant = _CONSTANTS[token]
            return lambda v: constant
        if token in ("has", "size") and self._peek() == "(":
            self._take()
            inner = self.ternary()
            self._expect(")")
            return _has(inner) if token == "has" else _size(inner)
        if token not in _ROOTS:
            raise self._error(f"{token} is not supported by this server (known: {', '.join(_ROOTS)})")
        return lambda v: v[token]

    def _list(self) -> Expression:
        items: list[Expression] = []
        while self._peek() != "]":
            items.append(self.ternary())
            if self._peek() != "]":
                self._expect(",")
        self._take()
        return lambda v: [item(v) for item in items]


def _either(left: Expression, right: Expression) -> Expression:
    def evaluate(variables: Variables) -> bool:
        try:
            if holds(left, variables):
                return True
        except ExpressionError:
            if holds(right, variables):
                return True
            raise
        return holds(right, variables)

    return evaluate


def _both(left: Expression, right: Expression) -> Expression:
    def evaluate(variables: Variables) -> bool:
        try:
            if not holds(left, variables):
                return False
        except ExpressionError:
            if not holds(right, variables):
                return False
            raise
        return holds(right, variables)

    return evaluate


def _compare(operator: str, left: Expression, right: Expression) -> Expression:
    def evaluate(variables: Variables) -> bool:
        a, b = left(variables), right(variables)
        if operator == "==":
            return bool(a == b)
        if operator == "!=":
            return bool(a != b)
        try:
            match operator:
                case "in":
                    return a in b
                case "<":
                    return bool(a < b)
                case "<=":
                    return bool(a <= b)
                case ">":
                    return bool(a > b)
            return bool(a >= b)
        except TypeError:
            raise ExpressionError(f"no such overload: {a!r} {operator} {b!r}") from None

    return evaluate


def _field(value: Expression, name: str) -> Expression:
    def evaluate(variables: Variables) -> Any:
        holder = value(variables)
        if not isinstance(holder, Mapping) or name not in holder:
            raise ExpressionError(f"no such key: {name}")
        return holder[name]

    return evaluate


def _index(value: Expression, key: Expression) -> Expression:
    def evaluate(variables: Variables) -> Any:
        holder, wanted = value(variables), key(variables)
        try:
            return holder[wanted]
        except (KeyError, IndexError, TypeError):
            raise ExpressionError(f"no such key: {wanted}") from None

    return evaluate


def _has(value: Expression) -> Expression:
    def evaluate(variables: Variables) -> bool:
        try:
            value(variables)
        except ExpressionError:
            return False
        return True

    return evaluate


def _size(value: Expression) -> Expression:
    def evaluate(variables: Variables) -> int:
        found = value(variables)
        if not isinstance(found, str | list | dict):
            raise ExpressionError(f"no such overload: size({found!r})")
        return len(found)

    return evaluate


def _call(name: str, value: Expression, argument: Expression) -> Expression:
    def evaluate(variables: Variables) -> bool:
        text, other = value(variables), argument(variables)
        if not isinstance(text, str) or not isinstance(other, str):
            raise ExpressionError(f"no such overload: {text!r}.{name}({other!r})")
        return _METHODS[name](text, other)

    return evaluate
