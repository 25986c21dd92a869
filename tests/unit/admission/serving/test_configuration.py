"""The rules by which a webhook configuration is completed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.admission.paths import PATHS
from koordpy.admission.serving.configuration import TEMPLATE, ConfigurationError, Target, completed

Document = dict[str, Any]

names = st.text("abc", min_size=1, max_size=3)
paths = st.sampled_from([*PATHS, "/somebody-elses"])
subsets = st.frozensets(paths)
services = st.builds(
    lambda path, extra: {"namespace": "x", "name": "y", "path": path, **extra},
    paths,
    st.sampled_from([{}, {"port": 443}, {"port": 8443}]),
)
addresses = st.one_of(
    services.map(lambda service: {"service": service}),
    paths.map(lambda path: {"url": f"https://example.org:1{path}"}),
)
bundles = st.sampled_from([{}, {"caBundle": "b2xk"}])
webhooks = st.builds(
    lambda name, address, bundle, policy: {
        "name": name,
        "clientConfig": {**address, **bundle},
        "failurePolicy": policy,
        "objectSelector": {"matchLabels": {"kept": name}},
    },
    names,
    addresses,
    bundles,
    st.sampled_from(["Fail", "Ignore"]),
)
lists = st.lists(webhooks, max_size=6, unique_by=lambda webhook: webhook["name"])
documents = st.builds(
    lambda entries, labels: {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "c", "resourceVersion": "7", **({"labels": labels} if labels else {})},
        "webhooks": entries,
    },
    lists,
    st.dictionaries(names, names, max_size=2),
)
targets = st.builds(
    Target,
    subsets,
    st.just("ns"),
    st.just("svc"),
    url=st.sampled_from(["", "https://10.0.0.1:9876"]),
    ca_bundle=st.sampled_from(["bmV3", None]),
)


def path_of(webhook: Document) -> str:
    config = webhook["clientConfig"]
    if "service" in config:
        return str(config["service"]["path"])
    return "/" + str(config["url"]).split("/", 3)[3]


@given(documents, targets)
def test_doing_it_again_changes_nothing(document: Document, target: Target) -> None:
    once = completed(document, target)
    assert completed(once, target) == once


@given(documents, targets, targets)
def test_what_was_done_before_does_not_matter(document: Document, before: Target, target: Target) -> None:
    """Gates and addresses may have been any others: the result is that of the pristine list."""
    if before.ca_bundle is None or target.ca_bundle is None:
        return  # then bundles are somebody else's, and those of webhooks that were taken out are lost
    pristine = completed(document, target)
    assert completed(completed(document, before), target) == pristine


@given(documents, targets)
def test_exactly_what_is_served_is_listed_in_order(document: Document, target: Target) -> None:
    listed = [webhook["name"] for webhook in completed(document, target)["webhooks"]]
    assert listed == [w["name"] for w in document["webhooks"] if path_of(w) in target.paths]


@given(documents, targets)
def test_nothing_but_the_address_and_the_authority_changes(document: Document, target: Target) -> None:
    before = {webhook["name"]: webhook for webhook in document["webhooks"]}
    result = completed(document, target)
    for webhook in result["webhooks"]:
        was = before[webhook["name"]]
        assert {**webhook, "clientConfig": {}} == {**was, "clientConfig": {}}
        assert path_of(webhook) == path_of(was)
        expected = was["clientConfig"].get("caBundle") if target.ca_bundle is None else target.ca_bundle
        assert webhook["clientConfig"].get("caBundle") == expected
    assert {**result["metadata"], "annotations": {}} == {**document["metadata"], "annotations": {}}
    assert {key: value for key, value in result.items() if key not in ("metadata", "webhooks")} == {
        "kind": document["kind"]
    }


@given(documents, subsets, st.data())
def test_bundles_that_others_have_written_stay_with_their_webhooks(
    document: Document, served: frozenset[str], data: st.DataObject
) -> None:
    """cert-manager writes them into the list that is there; the pristine list has none or older ones."""
    target = Target(served, "ns", "svc")
    done = completed(document, target)
    written = {}
    for webhook in done["webhooks"]:
        bundle = written[webhook["name"]] = data.draw(st.sampled_from(["bmV3", "bmV3ZXI=", ""]))
        webhook["clientConfig"]["caBundle"] = bundle
    again = completed(done, target)
    assert {w["name"]: w["clientConfig"]["caBundle"] for w in again["webhooks"]} == written


@given(documents, targets)
def test_addresses_are_the_service_or_the_url(document: Document, target: Target) -> None:
    for webhook in completed(document, target)["webhooks"]:
        config = webhook["clientConfig"]
        if target.url:
            assert config["url"] == target.url + path_of(webhook)
            assert "service" not in config
        elif "service" in config:
            assert (config["service"]["namespace"], config["service"]["name"]) == ("ns", "svc")


@given(documents, targets)
def test_the_argument_is_left_alone(document: Document, target: Target) -> None:
    before = json.dumps(document)
    completed(document, target)
    assert json.dumps(document) == before


def test_a_list_that_is_empty_is_not_taken_for_the_pristine_one() -> None:
    document = {"kind": "K", "metadata": {"name": "c"}}
    assert completed(document, Target((), "ns", "svc", ca_bundle="eA==")) == document


def test_an_empty_annotation_is_none() -> None:
    entry = {"name": "w", "clientConfig": {"service": {"path": "/mutate-pod"}}}
    document = {"kind": "K", "metadata": {"name": "c", "annotations": {TEMPLATE: ""}}, "webhooks": [entry]}
    result = completed(document, Target(("/mutate-pod",), "ns", "svc", ca_bundle="eA=="))
    assert json.loads(result["metadata"]["annotations"][TEMPLATE]) == [entry]


@pytest.mark.parametrize("text", ["{", "{}", "[1]", "null"])
def test_an_unusable_template_is_named(text: str) -> None:
    document = {"kind": "K", "metadata": {"name": "c", "annotations": {TEMPLATE: text}}, "webhooks": []}
    with pytest.raises(ConfigurationError) as refused:
        completed(document, Target((), "ns", "svc"))
    assert str(refused.value).startswith("K c: annotation template: ")
    assert str(refused.value).endswith(
        "; expected a JSON list of webhooks (without the annotation the present list becomes the template)"
    )


def _policies(document: Document) -> dict[str, str]:
    return {webhook["name"]: webhook["failurePolicy"] for webhook in document["webhooks"]}


@given(documents, targets, targets, st.sampled_from(["Fail", "Ignore"]))
def test_a_changed_failure_policy_is_kept(
    document: Document, before: Target, target: Target, policy: str
) -> None:
    """An administrator's change of an entry that is registered is not undone, nor lost with its gate."""
    done = completed(document, before)
    for webhook in done["webhooks"]:
        webhook["failurePolicy"] = policy
    changed = _policies(done)
    again = completed(done, before)
    assert _policies(again) == changed
    removed = completed(again, Target((), "ns", "svc"))
    restored = completed(removed, target)
    assert (
        _policies(restored).items()
        >= {name: policy for name in changed if name in _policies(restored)}.items()
    )
