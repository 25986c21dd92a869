"""TokenReviews and SubjectAccessReviews, for servers that delegate authentication and authorization."""

from tests.integration.apiserver.rest import Collection, Rest, ok, refused
from tests.integration.apiserver.server import Server

AUTHENTICATION = "authentication.k8s.io/v1"
AUTHORIZATION = "authorization.k8s.io/v1"


def token_reviews(rest: Rest) -> Collection:
    return rest.collection("tokenreviews", "", AUTHENTICATION)


def test_known_token_is_authenticated(apiserver: Server, rest: Rest) -> None:
    review = ok(token_reviews(rest).create({"spec": {"token": apiserver.token}}), 201)
    assert (review["kind"], review["apiVersion"]) == ("TokenReview", AUTHENTICATION)
    assert review["status"]["authenticated"] is True
    assert review["status"]["user"]["username"] == "admin"
    assert "system:masters" in review["status"]["user"]["groups"]


def test_unknown_token_is_not_authenticated(rest: Rest) -> None:
    status = ok(token_reviews(rest).create({"spec": {"token": "unknown"}}), 201)["status"]
    assert not status.get("authenticated")
    assert status["error"]


def test_review_without_a_token_is_refused(rest: Rest) -> None:
    refused(token_reviews(rest).create({"spec": {}}), 400, "BadRequest")


def test_masters_may_do_everything(rest: Rest) -> None:
    attributes = {"verb": "delete", "resource": "nodes", "name": "node-1"}
    spec = {"user": "admin", "groups": ["system:masters"], "resourceAttributes": attributes}
    reviews = rest.collection("subjectaccessreviews", "", AUTHORIZATION)
    assert ok(reviews.create({"spec": spec}), 201)["status"]["allowed"] is True


def test_path_outside_the_resources_is_reviewed_too(rest: Rest) -> None:
    attributes = {"verb": "get", "path": "/debug/state"}
    spec = {"user": "admin", "groups": ["system:masters"], "nonResourceAttributes": attributes}
    reviews = rest.collection("subjectaccessreviews", "", AUTHORIZATION)
    assert ok(reviews.create({"spec": spec}), 201)["status"]["allowed"] is True


def test_own_access_is_reviewed(rest: Rest) -> None:
    attributes = {"verb": "list", "resource": "pods", "namespace": "default"}
    reviews = rest.collection("selfsubjectaccessreviews", "", AUTHORIZATION)
    assert ok(reviews.create({"spec": {"resourceAttributes": attributes}}), 201)["status"]["allowed"] is True


def test_access_review_needs_attributes(rest: Rest) -> None:
    reviews = rest.collection("subjectaccessreviews", "", AUTHORIZATION)
    refused(reviews.create({"spec": {"user": "admin"}}), 422, "Invalid")
