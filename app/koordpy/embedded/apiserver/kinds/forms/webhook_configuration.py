"""The form of webhook configurations."""

from .form import Form, Selector


class _Rule(Form):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class _Service(Form):
    namespace: str | None = None
    name: str | None = None
    path: str | None = None
    port: int | None = None


class _Client(Form):
    url: str | None = None
    service: _Service | None = None
    ca_bundle: str | None = None


class _Condition(Form):
    name: str | None = None
    expression: str | None = None


class _Webhook(Form):
    name: str | None = None
    client_config: _Client | None = None
    rules: list[_Rule] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: Selector | None = None
    object_selector: Selector | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] | None = None
    reinvocation_policy: str | None = None
    match_conditions: list[_Condition] | None = None


class WebhookConfiguration(Form):
    """A Mutating- or ValidatingWebhookConfiguration."""

    webhooks: list[_Webhook] | None = None
