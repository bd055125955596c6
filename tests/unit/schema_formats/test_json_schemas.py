"""JSON Schema: drafts, references, and that nothing is ever fetched."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from backend.registry.formats.schema_types import Referenced, SchemaInvalid, normalized, parse


def stored(schema, *references):
    return parse("JSON", json.dumps(schema), references).text


def reference(name, schema):
    return Referenced(name, f"subject of {name}", 1, json.dumps(schema), kind="JSON")


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema#",
    ],
)
def test_a_schema_is_checked_by_its_draft(draft):
    assert stored({"$schema": draft, "type": "object"})
    with pytest.raises(SchemaInvalid, match=r'^The JSON schema is invalid at /properties/a/type: "zonk" is not'):
        stored({"$schema": draft, "properties": {"a": {"type": "zonk"}}})


@pytest.mark.parametrize(
    ("draft", "minimum"),
    [("http://json-schema.org/draft-04/schema#", True), ("http://json-schema.org/draft-06/schema#", 1)],
)
def test_drafts_are_told_apart(draft, minimum):
    assert stored({"$schema": draft, "minimum": 1, "exclusiveMinimum": minimum})
    with pytest.raises(SchemaInvalid, match="at /exclusiveMinimum"):
        stored({"$schema": draft, "minimum": 1, "exclusiveMinimum": 1 if minimum is True else True})


def test_without_a_draft_it_is_draft_7():
    assert stored({"items": [{"type": "string"}]})
    with pytest.raises(SchemaInvalid, match="at /items"):
        stored({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{"type": "string"}]})


@pytest.mark.parametrize("said", ["http://json-schema.org/draft-03/schema#", "https://example.org/own", 5, "//"])
def test_an_unknown_draft_is_refused_with_those_that_are_known(said):
    with pytest.raises(SchemaInvalid, match=r'"\$schema" is .*; supported are .*draft-07'):
        stored({"$schema": said})


@pytest.mark.parametrize("schema", [[], 5, "string", None])
def test_a_schema_is_an_object_or_a_truth_value(schema):
    with pytest.raises(SchemaInvalid, match="must be an object, or true or false"):
        stored(schema)
    assert stored(True) == "true"


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"pattern": "("}, "/pattern"),
        ({"properties": {"a": {"minLength": -1}}}, "/properties/a/minLength"),
        ({"required": ["a", "a"]}, "/required"),
    ],
)
def test_what_no_validator_takes_is_refused_with_its_place(schema, place):
    with pytest.raises(SchemaInvalid, match=f"^The JSON schema is invalid at {place}: "):
        stored(schema)


def test_the_text_is_stored_without_spaces_in_the_order_written():
    text = '{ "type" : "object",\n "description": "\\u00fc", "properties": {"b": {}, "a": {"minimum": 1.0}} }'
    parsed = parse("JSON", text)
    assert parsed.text == '{"type":"object","description":"ü","properties":{"b":{},"a":{"minimum":1.0}}}'
    assert parse("JSON", parsed.text).identity == parsed.identity
    assert normalized(parsed).text == (
        '{"description":"ü","properties":{"a":{"minimum":1.0},"b":{}},"type":"object"}'
    )


def test_the_order_of_keys_makes_another_schema_unless_it_is_normalized():
    one, other = parse("JSON", '{"type":"object","title":"a"}'), parse("JSON", '{"title":"a","type":"object"}')
    assert one.identity != other.identity
    assert normalized(one).identity == normalized(other).identity


class TestReferences:
    NAMES = reference("names.json", {"definitions": {"name": {"type": "string"}}})
    PERSON = reference("person.json", {"properties": {"name": {"$ref": "names.json#/definitions/name"}}})

    def test_they_are_found_by_their_names_and_by_addresses_relative_to_the_schemas_own(self):
        assert stored({"$ref": "person.json"}, self.NAMES, self.PERSON)
        assert stored({"$id": "https://example.org/a/b.json", "$ref": "person.json"}, self.NAMES, self.PERSON)
        full = reference("https://example.org/x.json", {"type": "string"})
        assert stored({"$id": "https://example.org/a.json", "$ref": "x.json"}, full)

    @pytest.mark.parametrize(
        ("schema", "told"),
        [
            ({"$ref": "names.json#/definitions/none"}, "Pointer '/definitions/none' does not exist"),
            ({"$ref": "#/definitions/none"}, "Pointer '/definitions/none' does not exist"),
            (
                {"$ref": "other.json"},
                "points to 'other.json', which is neither in the schema nor one of its references",
            ),
        ],
    )
    def test_one_that_leads_nowhere_is_refused(self, schema, told):
        with pytest.raises(SchemaInvalid, match=told):
            stored(schema, self.NAMES)

    def test_the_drafts_own_schemas_are_known(self):
        assert stored({"$ref": "http://json-schema.org/draft-07/schema#"})

    def test_rings_are_taken(self):
        ring = {"properties": {"next": {"$ref": "#"}}}
        assert stored(ring)
        assert stored({"$ref": "a.json"}, reference("a.json", {"$ref": "b.json"}), reference("b.json", ring))

    def test_another_version_of_a_reference_makes_another_schema(self):
        newer = Referenced("names.json", self.NAMES.subject, 2, self.NAMES.text, kind="JSON")
        one, other = (parse("JSON", '{"$ref":"names.json"}', [each]) for each in (self.NAMES, newer))
        assert one.identity != other.identity

    def test_a_reference_must_be_of_the_same_type(self):
        with pytest.raises(SchemaInvalid, match="which is a schema of type AVRO"):
            stored({}, Referenced("a", "a", 1, '"int"'))

    def test_nothing_is_fetched_from_the_net_or_the_disk(self, tmp_path):
        asked: list[str] = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

        (tmp_path / "schema.json").write_text("{}")
        with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            there = f"http://127.0.0.1:{server.server_port}/schema.json"
            for address in (there, (tmp_path / "schema.json").as_uri()):
                with pytest.raises(SchemaInvalid, match="neither in the schema nor one of its references"):
                    stored({"$ref": address})
                with pytest.raises(SchemaInvalid, match="neither in the schema nor one of its references"):
                    stored({"$ref": "a.json"}, reference("a.json", {"$ref": address}))
            for schema in ({"$schema": there}, {"$id": there, "$ref": "other.json"}):
                with pytest.raises(SchemaInvalid):
                    stored(schema)
            server.shutdown()
        assert asked == []
