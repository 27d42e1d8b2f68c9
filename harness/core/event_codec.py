"""Events to bytes and back, generic over the classes of `events.py` by their type hints.

The form of an event: `{"v":1,"at":{...},"run":...,"execution":...,"epoch":...,"type":KIND,"body":{...}}`, canonical JSON. Absent is written by
leaving the key out. A member of a union of classes carries its class in `type` (`MarkerReport` is `marker_report`), enums go by value, `Step` by
its lower-case name. Unknown fields, kinds and values: `harness/decisions/0003-unknown-fields.md`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final, NewType, Union, get_args, get_origin, get_type_hints

from harness.core.canonical import Json, JsonValue, NotCanonical, canonical_bytes, parse_canonical
from harness.core.events import Body, Event, UnknownBody
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.reports import Step

VERSION: Final = 1

Encoder = Callable[[Any], JsonValue]
Decoder = Callable[[Json], Any]


class NotAnEvent(ValueError):
    """The bytes are no event: not JSON, or without a readable envelope."""


class _Unreadable(ValueError):
    """A body that this version cannot read."""


def encode(event: Event) -> bytes:
    """The canonical bytes of `event`; an `UnknownBody` gives back the bytes that it came from. Raises NotCanonical for text that is no Unicode."""
    if isinstance(event.body, UnknownBody):
        return event.body.raw
    at = event.at
    whole: dict[str, JsonValue] = {
        "v": VERSION,
        "at": {"wall_us": at.wall_us, "boot": at.boot, "up_us": at.up_us, "time": at.rfc3339()},
        "run": event.run,
        "type": event.body.kind,
        "body": _codec(type(event.body)).encode(event.body),
    }
    if event.execution is not None:
        whole["execution"] = event.execution
    if event.epoch is not None:
        whole["epoch"] = event.epoch
    return canonical_bytes(whole)


def decode(data: bytes) -> Event:
    """The event that `data` says. A kind, or a body, that this version cannot read becomes an UnknownBody. Raises NotAnEvent."""
    try:
        whole = parse_canonical(data)
        if not isinstance(whole, dict):
            raise NotAnEvent("not an object")
        kind = _text(whole.get("type"))
        return Event(
            _moment(whole.get("at")),
            RunId(_text(whole.get("run"))),
            _body(kind, whole, data),
            ExecutionId(_text(whole["execution"])) if "execution" in whole else None,
            _number(whole["epoch"]) if "epoch" in whole else None,
        )
    except (NotCanonical, _Unreadable) as error:
        raise NotAnEvent(str(error)) from error


def _body(kind: str, whole: dict[str, Json], data: bytes) -> Body | UnknownBody:
    known = KINDS.get(kind)
    if known is None or whole.get("v") != VERSION:
        return UnknownBody(kind, data)
    try:
        body: Body = _codec(known).decode(whole.get("body"))
    except _Unreadable:
        return UnknownBody(kind, data)
    return body


def _moment(value: Json) -> Moment:
    if not isinstance(value, dict):
        raise _Unreadable("no time")
    return Moment(_number(value.get("wall_us")), _text(value.get("boot")), _number(value.get("up_us")))


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    raise _Unreadable("a text is missing")


def _number(value: Json) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _Unreadable("a number is missing")


def _flag(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    raise _Unreadable("a yes or no is missing")


def _same(value: Any) -> JsonValue:
    found: JsonValue = value
    return found


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of one type are written and read."""

    encode: Encoder
    decode: Decoder


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _codec(hint: Any) -> _Codec:
    """The codec of a type hint, made once. Raises TypeError for a type that events may not hold (bytes, floats, mappings)."""
    known = _CODECS.get(hint)
    if known is None:
        known = _CODECS[hint] = _made(hint)
    return known


def _made(hint: Any) -> _Codec:
    if isinstance(hint, NewType):
        return _codec(hint.__supertype__)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union(get_args(hint))
    if origin is tuple:
        return _sequence(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enumeration(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _record(hint)
    raise TypeError(f"events cannot hold {hint!r}")


def _enumeration(kind: type[Enum]) -> _Codec:
    if not all(isinstance(item.value, str) for item in kind):
        raise TypeError(f"{kind!r} has values that are no texts")
    by_value = {item.value: item for item in kind}
    return _Codec(lambda item: str(item.value), _looked_up(by_value))


def _looked_up(known: dict[str, Any]) -> Decoder:
    def read(value: Json) -> Any:
        found = known.get(_text(value))
        if found is None:
            raise _Unreadable("a word is not known")
        return found

    return read


def _sequence(args: tuple[Any, ...]) -> _Codec:
    if len(args) == 2 and args[1] is Ellipsis:
        item = _codec(args[0])
        put, get = item.encode, item.decode
        return _Codec(
            lambda value: [put(each) for each in value], lambda value: tuple(map(get, _list(value)))
        )
    items = tuple(_codec(arg) for arg in args)

    def write(value: Any) -> JsonValue:
        return [codec.encode(each) for codec, each in zip(items, value, strict=True)]

    def read(value: Json) -> Any:
        given = _list(value)
        if len(given) != len(items):
            raise _Unreadable("a list has another length")
        return tuple(codec.decode(each) for codec, each in zip(items, given, strict=True))

    return _Codec(write, read)


def _list(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    raise _Unreadable("a list is missing")


def _union(args: tuple[Any, ...]) -> _Codec:
    """None is handled by the field that holds it; one class is written as it is, several carry their class in `type`."""
    members = tuple(arg for arg in args if arg is not type(None))
    if len(members) == 1:
        return _codec(members[0])
    return _tagged(members)


def _tagged(members: tuple[Any, ...]) -> _Codec:
    if not all(is_dataclass(member) for member in members):
        raise TypeError(f"a union of {members!r} cannot be told apart")
    tags = {member: _snake(member.__name__) for member in members}
    by_tag = {tag: member for member, tag in tags.items()}
    # Codecs are looked up late: reports refer to each other.

    def write(value: Any) -> JsonValue:
        inner = _codec(type(value)).encode(value)
        if not isinstance(inner, dict):
            raise TypeError(f"{value!r} is no member")
        return {**inner, "type": tags[type(value)]}

    def read(value: Json) -> Any:
        if not isinstance(value, dict):
            raise _Unreadable("an object is missing")
        member = by_tag.get(_text(value.get("type")))
        if member is None:
            raise _Unreadable("a class is not known")
        return _codec(member).decode(value)

    return _Codec(write, read)


@dataclass(frozen=True, slots=True)
class _Slot:
    """One field: `optional` where None is a value (and is written by leaving the key out)."""

    name: str
    encode: Encoder
    decode: Decoder
    optional: bool
    default: Any


def _slot(field: Field[Any], hint: Any) -> _Slot:
    optional = type(None) in get_args(hint) and get_origin(hint) in (Union, types.UnionType)
    if optional and field.default not in (None, MISSING):
        raise TypeError(f"{field.name}: None and the default would look the same")
    codec = _codec(hint)
    return _Slot(field.name, codec.encode, codec.decode, optional, field.default)


def _record(kind: type[Any]) -> _Codec:
    hints = get_type_hints(kind)
    slots = tuple(_slot(field, hints[field.name]) for field in fields(kind))

    def write(value: Any) -> JsonValue:
        given = ((slot, getattr(value, slot.name)) for slot in slots)
        return {slot.name: slot.encode(item) for slot, item in given if item is not None or not slot.optional}

    def read(value: Json) -> Any:
        if not isinstance(value, dict):
            raise _Unreadable("an object is missing")
        return kind(*[_read_slot(slot, value) for slot in slots])

    return _Codec(write, read)


def _read_slot(slot: _Slot, value: dict[str, Json]) -> Any:
    if slot.name in value:
        return slot.decode(value[slot.name])
    if slot.optional:
        return None
    if slot.default is MISSING:
        raise _Unreadable(f"{slot.name} is missing")
    return slot.default


_CODECS: Final[dict[Any, _Codec]] = {
    str: _Codec(_same, _text),
    int: _Codec(_same, _number),
    bool: _Codec(_same, _flag),
    Step: _Codec(
        lambda step: Step(step).name.lower(), _looked_up({step.name.lower(): step for step in Step})
    ),
}

KINDS: Final[dict[str, type[Any]]] = {member.kind: member for member in get_args(Body)}
"""The kinds that this version knows."""
