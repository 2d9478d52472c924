"""Settings: their fields are described once, in the source, for pages, schemas and complaints."""

from pydantic import Field

from securefg.foundation.settings import Settings


class Base(Settings):
    """A part with a string below its field, and a field without a description."""

    width: int = 3
    """columns of
    the table"""
    height: int = 4


class Derived(Base):
    """A part with a description of its own kind, and a new string for an old field."""

    depth: int = Field(5, description="layers")
    height: int = 6
    """rows of the table"""


def test_describe_fields_base_reads_strings_below_fields():
    assert Base.describe_fields() == {"width": "columns of\nthe table"}


def test_describe_fields_derived_joins_all_descriptions():
    assert Derived.describe_fields() == {
        "width": "columns of\nthe table",
        "height": "rows of the table",
        "depth": "layers",
    }


def test_json_schema_nested_settings_carries_descriptions():
    class Whole(Settings):
        part: Derived

    properties = Whole.model_json_schema()["$defs"]["Derived"]["properties"]
    assert {key: each["description"] for key, each in properties.items()} == (
        Derived.describe_fields()
    )
