"""Which objects of a collection a list or a watch selects."""

from koordpy.api import field_selector, label_selector

from ..catalog import Served
from ..errors import bad_request
from ..storage import Record
from ..wire import Request


class Selection:
    """A namespace, a label selector and a field selector."""

    __slots__ = ("fields", "labels", "name", "namespace", "prefix")

    def __init__(
        self,
        namespace: str,
        labels: label_selector.Selector | None,
        fields: field_selector.FieldSelector | None,
    ) -> None:
        self.namespace = namespace
        self.prefix = f"{namespace}/" if namespace else ""
        self.labels = labels
        self.fields = fields
        self.name = fields.exact_value("metadata.name") if fields else None

    @property
    def selects(self) -> bool:
        """Whether anything but the namespace matters."""
        return self.labels is not None or self.fields is not None

    def matches(self, record: Record) -> bool:
        """Return whether an object is selected; its namespace counts too."""
        if self.prefix and not record.key.startswith(self.prefix):
            return False
        if self.labels is not None and not self.labels.matches(record.labels):
            return False
        if self.fields is None:
            return True
        namespace, _, name = record.key.rpartition("/")
        for term in self.fields.terms:
            if term.field == "metadata.name":
                value = name
            elif term.field == "metadata.namespace":
                value = namespace
            else:
                value = record.fields.get(term.field, "")
            if (value == term.value) != term.equal:
                return False
        return True


def selection_of(request: Request, served: Served, namespace: str) -> Selection:
    """Parse the selectors of a request; raise ApiError (400) for an invalid one."""
    query = request.query
    labels = fields = None
    if text := query.get("labelSelector"):
        try:
            labels = label_selector.parse(text)
        except label_selector.SelectorError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
    if text := query.get("fieldSelector"):
        try:
            fields = field_selector.parse(text)
        except field_selector.FieldSelectorError as error:
            raise bad_request(str(error)) from None
        known = ("metadata.name", "metadata.namespace", *served.strategy.selectable)
        for term in fields.terms:
            if term.field not in known:
                raise bad_request(f"field label not supported: {term.field}")
    return Selection(namespace, labels, fields if fields and not fields.is_empty else None)
