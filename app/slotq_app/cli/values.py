"""Public values of the engine as JSON: the names are those of their fields."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime


def json_of(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON in plain ASCII: nothing in it can act on a terminal.

    Args:
        value: A public value of the engine, or what JSON has.
        indent: Spaces for each step inwards; None for one line.
    """
    return json.dumps(value, default=_plain, ensure_ascii=True, indent=indent)


def json_list(values: Iterable[object]) -> Iterator[str]:
    """Yield the lines of a JSON array, an item a line: none is kept, however many there are."""
    line = "["
    for value in values:
        if line != "[":
            yield f"{line},"
            line = " "
        line += json_of(value)
    yield f"{line}]"


def fields_of(
    value: object, *, but: Collection[str] = ()
) -> Iterator[tuple[str, str | int | datetime | None]]:
    """Yield the fields of a public value with their names, as ``show`` prints them.

    What is neither text, number nor instant is JSON.

    Args:
        value: The value.
        but: Names that are left out.
    """
    for name, content in _content(value).items():
        if name in but:
            continue
        if content is None or isinstance(content, str | int | datetime):
            yield name, content
        else:
            yield name, json_of(content)


def instant(at: datetime) -> str:
    """Return an instant in ISO 8601, UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return instant(value)
    if is_dataclass(value):
        return _content(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _content(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}
