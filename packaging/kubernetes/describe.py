#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what describes the values of the chart from their schema: values.yaml, and the tables of README.md.

packaging/kubernetes/describe.py writes both; what is written by hand is values.schema.json. ctest's lint/chart
checks that they are current.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parent / "chart"
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
#
# Made from values.schema.json by packaging/kubernetes/describe.py: change that file instead.
"""

Schema = dict[str, Any]


def is_leaf(schema: Schema) -> bool:
    return "default" in schema


def write_scalar(value: Any) -> str:
    """As YAML: quoted where it could be taken for something else."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./-]*|[1-9]\d*%", value):
        return value
    return json.dumps(value)


def write_value(value: Any, indent: int) -> list[str]:
    """A value behind "key:", as lines of YAML; the first one continues the line of the key."""
    pad = " " * indent
    if isinstance(value, dict) and value:
        lines = [""]
        for key, member in value.items():
            first, *rest = write_value(member, indent + 2)
            lines += [f"{pad}{key}:{first}", *rest]
        return lines
    if isinstance(value, list) and value:
        lines = [""]
        for item in value:
            first, second, *rest = write_value(item, indent + 2)
            assert first == ""
            lines += [f"{pad}- {second.strip()}", *rest]
        return lines
    return [f" {write_scalar(value)}"]


def write_values(properties: Schema, indent: int = 0) -> list[str]:
    lines: list[str] = []
    pad = " " * indent
    for name, schema in properties.items():
        if "description" not in schema:
            continue
        if indent == 0:
            lines.append("")
        lines += textwrap.wrap(schema["description"], 110, initial_indent=f"{pad}# ", subsequent_indent=f"{pad}# ")
        if is_leaf(schema):
            first, *rest = write_value(schema["default"], indent + 2)
            lines += [f"{pad}{name}:{first}", *rest]
        else:
            lines += [f"{pad}{name}:", *write_values(schema["properties"], indent + 2)]
    return lines


def write_row(name: str, schema: Schema, cells: list[str]) -> str:
    words = schema["description"]
    if "enum" in schema:
        words += f" One of {', '.join(f'`{value}`' for value in schema['enum'])}."
    return f"| {' | '.join([f'`{name}`', *cells, words])} |"


def write_table(properties: Schema, prefix: str = "") -> list[str]:
    rows: list[str] = []
    for name, schema in properties.items():
        if "description" not in schema:
            continue
        if is_leaf(schema):
            rows.append(write_row(prefix + name, schema, [f"`{json.dumps(schema['default'])}`"]))
        else:
            rows += write_table(schema["properties"], f"{prefix}{name}.")
    return rows


def write_tables(schema: Schema) -> dict[str, list[str]]:
    properties = schema["properties"]
    config = properties["config"]["properties"]
    return {
        "values": ["| value | default | what |", "| --- | --- | --- |", *write_table(properties)],
        "config": [
            *("| key | what |", "| --- | --- |"),
            *(write_row(f"config.{name}", one, []) for name, one in config.items()),
        ],
    }


def insert(text: str, table: str, lines: list[str]) -> str:
    """Replaces what is between the two marks of that table."""
    begin, end = f"<!-- {table}: made by describe.py -->", f"<!-- end of {table} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the lines {begin} and {end} are missing")
    return "\n".join([f"{before}{begin}", *lines, f"{end}{after}"])


def describe(schema: Schema, readme: str) -> dict[str, str]:
    """The files, by their names in the folder of the chart."""
    for name, lines in write_tables(schema).items():
        readme = insert(readme, name, lines)
    values = "\n".join([HEAD.rstrip("\n"), *write_values(schema["properties"])]) + "\n"
    return {"values.yaml": values, "README.md": readme}


def main() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    for name, text in describe(schema, (CHART / "README.md").read_text()).items():
        (CHART / name).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
