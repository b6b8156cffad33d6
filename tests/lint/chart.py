#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The description of the chart's values is what packaging/kubernetes/describe.py makes of their schema, and
the schema knows each key of the agent's configuration file.
"""

import importlib.util
import json
import pathlib
import re
import sys

import lint

CHART = "packaging/kubernetes/chart"
SCHEMA = f"{CHART}/values.schema.json"
OPTIONS = "agent/options.c"

# The function of options.c that reads a value, and what the schema calls such a value; else it is a string.
TYPES = {
    "set_switch": "boolean",
    "set_count": "integer",
    "set_seconds": "integer",
    "add_endpoint": "array",
}


def load_describe():
    path = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "kubernetes" / "describe.py"
    spec = importlib.util.spec_from_file_location("describe", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wants(root, name):
    return name in (SCHEMA, f"{CHART}/values.yaml", f"{CHART}/README.md", OPTIONS)


def type_of(schema, key):
    """As the schema names it; a list of words is a string."""
    one = schema["properties"]["config"]["properties"][key]
    if "$ref" in one:
        one = schema["definitions"][one["$ref"].rpartition("/")[2]]
    return one.get("type", "string")


def check_keys(schema, text):
    settings = dict(re.findall(r'(?m)^        \{ "[a-z-]+", +"(\w+)", +(\w+),', text))
    known = schema["properties"]["config"]["properties"]
    complaints = [f"{SCHEMA}: config.{key} is no key of {OPTIONS}" for key in known if key not in settings]
    for key, reader in settings.items():
        expected = TYPES.get(reader, "string")
        if key not in known:
            complaints.append(f"{SCHEMA}: config.{key} is missing, which {OPTIONS} has")
        elif expected not in type_of(schema, key):
            complaints.append(f"{SCHEMA}: config.{key} is not of type {expected}")
    return complaints


def check(root, names):
    schema = json.loads((root / SCHEMA).read_text())
    complaints = check_keys(schema, (root / OPTIONS).read_text())
    made = load_describe().describe(schema, (root / CHART / "README.md").read_text())
    for name, text in made.items():
        if text != (root / CHART / name).read_text():
            complaints.append(f"{CHART}/{name}: run packaging/kubernetes/describe.py, the schema has changed")
    return complaints


def sample(key="size", kind="integer", default="1", options='{ "size", "size", set_count,'):
    """A chart with one value, and one key of the configuration."""
    size = {"description": "A size.", "type": "integer", "default": 1}
    config = {"type": "object", "default": {}, "properties": {key: {"description": "A key.", "type": kind}}}
    schema = {"properties": {"size": size, "config": config}}
    tables = "<!-- values: made by describe.py -->\n{}<!-- end of values -->\n"
    tables += "<!-- config: made by describe.py -->\n{}<!-- end of config -->\n"
    values = "| value | default | what |\n| --- | --- | --- |\n| `size` | `1` | A size. |\n"
    keys = f"| key | what |\n| --- | --- |\n| `config.{key}` | A key. |\n"
    return {
        SCHEMA: json.dumps(schema),
        f"{CHART}/values.yaml": load_describe().HEAD + f"\n# A size.\nsize: {default}\n",
        f"{CHART}/README.md": tables.format(values, keys),
        OPTIONS: f"        {options}\n",
    }


BAD = {
    "values": sample(default="2"),
    "readme": sample() | {f"{CHART}/README.md": sample()[f"{CHART}/README.md"].replace("`1`", "`2`")},
    "key": sample(key="length"),
    "type": sample(kind="string"),
    "missing": sample(options='{ "size", "size", set_count,\n        { "b", "b", set_text,'),
}
GOOD = {"good": sample()}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
