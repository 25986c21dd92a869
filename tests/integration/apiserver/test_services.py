"""Services: addresses and node ports that the server assigns."""

from tests.integration.apiserver.rest import Collection, Document, Rest, ok, refused


def service(name: str, **spec: object) -> Document:
    ports = [{"name": "web", "port": 80}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports, **spec}}


def services(rest: Rest, namespace: str) -> Collection:
    return rest.collection("services", namespace)


def test_new_service_gets_an_address_of_its_own(rest: Rest, namespace: str) -> None:
    made = [ok(services(rest, namespace).create(service(name)), 201)["spec"] for name in "ab"]
    assert made[0]["clusterIPs"] == [made[0]["clusterIP"]]
    assert (made[0]["ipFamilies"], made[0]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert made[0]["clusterIP"] != made[1]["clusterIP"]


def test_headless_and_external_services_get_none(rest: Rest, namespace: str) -> None:
    own = services(rest, namespace)
    assert ok(own.create(service("headless", clusterIP="None")), 201)["spec"]["clusterIPs"] == ["None"]
    external = service("external", type="ExternalName", externalName="example.com")
    assert "clusterIP" not in ok(own.create(external), 201)["spec"]


def test_taken_address_is_refused(rest: Rest, namespace: str) -> None:
    own = services(rest, namespace)
    taken = ok(own.create(service("a")), 201)["spec"]["clusterIP"]
    answer = refused(own.create(service("b", clusterIP=taken)), 422, "Invalid")
    assert "provided IP is already allocated" in answer["message"]


def test_address_and_node_ports_stay_where_an_update_leaves_them_out(rest: Rest, namespace: str) -> None:
    own = services(rest, namespace)
    before = ok(own.create(service("a", type="NodePort")), 201)
    assert 30000 <= before["spec"]["ports"][0]["nodePort"] < 32768
    after = ok(own.replace(service("a", type="NodePort", sessionAffinity="ClientIP")))
    assert after["spec"]["ports"] == before["spec"]["ports"]
    assert after["spec"]["clusterIP"] == before["spec"]["clusterIP"]
    refused(own.patch("a", {"spec": {"clusterIP": "10.0.0.77", "clusterIPs": None}}), 422, "Invalid")


def test_node_ports_go_with_the_type(rest: Rest, namespace: str) -> None:
    own = services(rest, namespace)
    ok(own.create(service("a", type="LoadBalancer")), 201)
    after = ok(own.patch("a", {"spec": {"type": "ClusterIP"}}))["spec"]
    assert "nodePort" not in after["ports"][0]
    assert "externalTrafficPolicy" not in after


def test_ports_of_endpoint_slices_have_a_name_and_a_protocol(rest: Rest, namespace: str) -> None:
    slices = rest.collection("endpointslices", namespace, "discovery.k8s.io/v1")
    endpoints = [{"addresses": ["10.1.2.3"]}]
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}]}
    ok(slices.create(body), 201)
    assert ok(slices.get("a"))["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    refused(slices.create({**body, "metadata": {"name": "b"}, "addressType": ""}), 422, "Invalid")


def test_requests_for_endpoints_are_answered_with_a_warning(rest: Rest, namespace: str) -> None:
    endpoints = rest.collection("endpoints", namespace)
    made = endpoints.create({"metadata": {"name": "a"}, "subsets": []})
    for answer in (made, endpoints.get("a"), endpoints.list()):
        assert "Endpoints is deprecated" in answer.headers["Warning"]


def test_services_are_selected_by_type_and_address(rest: Rest, namespace: str) -> None:
    own = services(rest, namespace)
    ok(own.create(service("a", type="NodePort")), 201)
    ok(own.create(service("b", clusterIP="None")), 201)
    for selector, name in (("spec.type=NodePort", "a"), ("spec.clusterIP=None", "b")):
        (found,) = ok(own.list(fieldSelector=selector))["items"]
        assert found["metadata"]["name"] == name


def test_node_ports_differ(rest: Rest, namespace: str) -> None:
    own = services(rest, namespace)
    made = [ok(own.create(service(name, type="NodePort")), 201) for name in "abc"]
    ports = [one["spec"]["ports"][0]["nodePort"] for one in made]
    assert len(set(ports)) == 3
