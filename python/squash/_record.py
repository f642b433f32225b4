"""Records: what an answer's JSON becomes, and the readers that look whether it has the promised shape.

A record is made from what came, field by field, without an ``__init__``: an exec's answer takes some microseconds. To type checkers
it is a frozen dataclass; what ``dataclasses`` needs to know is worked out when somebody asks, as it would double the time of an import.
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, Mapping, Type, TypeVar

from .errors import ProtocolError, SquashError

#: Makes a value of a field of what JSON has there. The second word says where it stands.
Reader = Callable[[object, str], Any]
Shape = Mapping[str, Reader]


class _LazyDataclass(type):
    def __getattr__(cls, name: str) -> Any:
        if name != "__dataclass_fields__":
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        import dataclasses

        make: Any = dataclasses.dataclass(init=False, repr=False, eq=False)
        make(cls)
        return cls.__dict__[name]


class FieldMissing(ProtocolError, AttributeError):
    """The daemon did not send this field: it is older than the SDK."""


class Record(metaclass=_LazyDataclass):
    """Fields that can be read and not written."""

    _shape: ClassVar[Shape] = {}

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._shape:
            raise FieldMissing(
                f"the daemon's answer has no `{name}` in its {type(self).__name__}",
                code="daemon_outdated",
                remedy="Upgrade the daemon, or do without this field",
            )
        raise AttributeError(f"{type(self).__name__!r} has no field {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} can not be changed: it is what the daemon answered")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"


_Class = TypeVar("_Class", bound=type)
_Record = TypeVar("_Record", bound=Record)


def dataclass(**_settings: bool) -> Callable[[_Class], _Class]:
    """Stands for that of ``dataclasses`` where the program runs."""
    return lambda cls: cls


def wrong(where: str, expected: str, value: object) -> SquashError:
    found = "null" if value is None else type(value).__name__
    return ProtocolError(
        f"the daemon's answer is not what the contract has: {where} is no {expected} but {found}",
        code="wrong_shape",
        remedy="Look whether the address is that of a Squash daemon, and of which version",
    )


def read(cls: Type[_Record], value: object, where: str = "the answer") -> _Record:
    """What came, as a record of this class. Raises ProtocolError where a field has another type."""
    if not isinstance(value, dict):
        raise wrong(where, "object", value)
    made = cls.__new__(cls)
    fields = made.__dict__
    for name, reader in cls._shape.items():
        if name in value:
            fields[name] = reader(value[name], name)
    return made


def text(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    raise wrong(where, "text", value)


def integer(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise wrong(where, "integer", value)


def number(value: object, where: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise wrong(where, "number", value)


def boolean(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    raise wrong(where, "boolean", value)


def nothing(value: object, where: str) -> None:
    if value is not None:
        raise wrong(where, "null", value)


def anything(value: object, where: str) -> object:
    return value


def nullable(reader: Reader) -> Reader:
    return lambda value, where: None if value is None else reader(value, where)


def array(reader: Reader) -> Reader:
    def read_array(value: object, where: str) -> object:
        if not isinstance(value, list):
            raise wrong(where, "list", value)
        return [reader(item, where) for item in value]

    return read_array


def mapping(reader: Reader) -> Reader:
    def read_mapping(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise wrong(where, "object", value)
        return {name: reader(item, where) for name, item in value.items()}

    return read_mapping


def record(cls: Type[Record]) -> Reader:
    return lambda value, where: read(cls, value, where)


def either(*readers: Reader) -> Reader:
    """The first that fits."""

    def read_either(value: object, where: str) -> object:
        for reader in readers[:-1]:
            try:
                return reader(value, where)
            except ProtocolError:
                # Then it is one of the others, whose last says what is wrong.
                continue
        return readers[-1](value, where)

    return read_either


def one_of(tag: str, classes: Mapping[str, Type[Record]]) -> Reader:
    """Told apart by a field's word. One that a newer daemon may say becomes a bare record with all that came."""

    def read_one(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise wrong(where, "object", value)
        cls = classes.get(str(value.get(tag)))
        return Record(**_plain(value)) if cls is None else read(cls, value, where)

    return read_one


def _plain(value: Dict[Any, Any]) -> Dict[str, Any]:
    return {str(name): item for name, item in value.items()}
