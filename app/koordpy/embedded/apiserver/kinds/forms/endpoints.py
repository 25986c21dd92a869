"""The forms of endpoints and endpoint slices."""

from .form import Form


class _Port(Form):
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class _Address(Form):
    ip: str | None = None


class _Subset(Form):
    addresses: list[_Address] | None = None
    not_ready_addresses: list[_Address] | None = None
    ports: list[_Port] | None = None


class Endpoints(Form):
    """An Endpoints object."""

    subsets: list[_Subset] | None = None


class _Endpoint(Form):
    addresses: list[str] | None = None


class EndpointSlice(Form):
    """An EndpointSlice."""

    address_type: str | None = None
    ports: list[_Port] | None = None
    endpoints: list[_Endpoint] | None = None
