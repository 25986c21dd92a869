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


def test_client_learns_who_it_is(rest: Rest) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = ok(rest.request("POST", path, {}), 201)
    assert answer["status"]["userInfo"]["username"] == "admin"
    assert "system:masters" in answer["status"]["userInfo"]["groups"]


def test_client_learns_its_rules(rest: Rest) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = ok(rest.request("POST", path, {"spec": {"namespace": "default"}}), 201)["status"]
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in status["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in status["nonResourceRules"]
    refused(rest.request("POST", path, {"spec": {}}), 400, "BadRequest")


def test_local_review_is_of_its_namespace(rest: Rest, namespace: str) -> None:
    path = f"/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"
    attributes = {"namespace": namespace, "verb": "get", "resource": "pods"}
    spec = {"user": "admin", "groups": ["system:masters"], "resourceAttributes": attributes}
    body = {"metadata": {"namespace": namespace}, "spec": spec}
    assert ok(rest.request("POST", path, body), 201)["status"]["allowed"] is True
    attributes["namespace"] = "other"
    assert rest.request("POST", path, body).status_code in (400, 422)


def test_token_of_a_service_account_is_its_own(rest: Rest, namespace: str) -> None:
    accounts = rest.collection("serviceaccounts", namespace)
    ok(accounts.create({"metadata": {"name": "robot"}}), 201)
    answer = ok(accounts.post("robot", "token", {"spec": {"expirationSeconds": 900}}), 201)
    review = {"spec": {"token": answer["status"]["token"]}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = ok(rest.request("POST", path, review), 201)["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:robot"
    refused(accounts.post("robot", "token", {"spec": {"expirationSeconds": 60}}), 422, "Invalid")
    refused(accounts.post("missing", "token", {}), 404, "NotFound")
