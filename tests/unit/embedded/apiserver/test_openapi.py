from typing import Any

import msgspec
import pytest

from koordpy.embedded.apiserver import openapi
from koordpy.embedded.apiserver.catalog import built_in
from koordpy.embedded.apiserver.server import ApiServer
from koordpy.embedded.apiserver.wire import Request, Response

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}},
                    }
                },
            }
        ],
    },
}


@pytest.fixture
async def server() -> ApiServer:
    server = ApiServer(crds=[DEFINITION])
    await server.load()
    return server


def document(server: ApiServer, path: str) -> Any:
    answer = server.handle(Request("GET", path.encode(), {}, b""))
    assert isinstance(answer, Response)
    assert answer.status == 200
    return msgspec.json.decode(answer.body)


async def test_each_built_in_kind_has_a_schema_with_descriptions_and_no_open_reference(
    server: ApiServer,
) -> None:
    for served in built_in():
        if len(served.verbs) == 1:
            continue
        where = f"apis/{served.group}" if served.group else "api"
        schemas = document(server, f"/openapi/v3/{where}/{served.version}")["components"]["schemas"]
        found = [
            schema
            for schema in schemas.values()
            for kind in schema.get("x-kubernetes-group-version-kind", [])
            if (kind["group"], kind["version"], kind["kind"]) == (served.group, served.version, served.kind)
        ]
        assert len(found) == 1, served
        assert found[0]["description"], served
        assert found[0]["properties"]["metadata"], served
        assert set(openapi.references(schemas)) <= set(schemas)


async def test_containers_merge_by_name(server: ApiServer) -> None:
    schemas = document(server, "/openapi/v3/api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


async def test_custom_resources_have_the_fields_of_all_objects(server: ApiServer) -> None:
    schemas = document(server, "/openapi/v3/apis/example.com/v1")["components"]["schemas"]
    fields = schemas["com.example.v1.Thing"]["properties"]
    assert fields["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{openapi.METADATA}"}]
    assert fields["spec"] == {"type": "object"}
    assert "uid" in schemas[openapi.METADATA]["properties"]


async def test_the_old_document_has_no_open_reference(server: ApiServer) -> None:
    definitions = document(server, "/openapi/v2")["definitions"]
    names = {name.removeprefix("#/definitions/") for name in openapi.references(definitions)}
    assert names <= set(definitions)
