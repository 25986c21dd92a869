"""Tables: objects as `kubectl get` prints them, with the columns of kube-apiserver.

`kinds.columns` has the columns of built-in kinds; custom resources define their own.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ..catalog import Served

Document = dict[str, Any]


def table(served: Served, documents: list[Document], now: datetime, include: str = "Metadata") -> Document:
    """Return a Table of whole objects; `include` selects the part of them in the rows."""
    found = served.strategy.columns(served)
    definitions = [column.definition for column in found]
    rows = []
    for document in documents:
        row: Document = {"cells": [_shown(column.cell, document, now) for column in found]}
        if include == "Object":
            row["object"] = document
        elif include == "Metadata":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": document.get("metadata", {}),
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows,
    }


def _shown(cell: Callable[[Document, datetime], Any], document: Document, now: datetime) -> Any:
    """A field of another JSON type than its kind's, which no rule has checked, does not spoil the table."""
    try:
        return cell(document, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return "<error>"
