# SPDX-License-Identifier: Apache-2.0
"""Read a pickle as data: nothing that it names is imported or called.

A pickle is a program for a small stack machine. This one knows the instructions that build numbers,
texts, bytes and containers. A name in the file (`GLOBAL`) is only looked up in a table of our own,
and calling it (`REDUCE`) calls what stands there; a name that is not in the table, or any other
instruction, is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from typing import IO, TypeAlias

Names: TypeAlias = Mapping[str, object]
"""`module.attribute`, as pickles spell it → what stands for it here."""

_MARK = object()
_CONSTANTS: dict[str, object] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
_VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4",
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
}  # fmt: skip
_IGNORED = {"PROTO", "FRAME"}
_MOST_MEMORIES = 1_000_000


class UnsafePickle(Exception):
    """The file asks for more than data."""


def read_pickle(
    stream: IO[bytes], names: Names, persistent: Callable[[object], object] | None = None
) -> object:
    """Return what the next pickle in `stream` holds, and leave `stream` after it.

    `persistent` stands for what the file stores outside of itself. Raises `UnsafePickle` for an
    instruction or a name that is not data, `ValueError` for a file that is no pickle or is cut.
    """
    return _Machine(names, persistent).run(stream)


class _Machine:
    def __init__(self, names: Names, persistent: Callable[[object], object] | None) -> None:
        self._names = names
        self._persistent = persistent
        self._stack: list[object] = []
        self._memory: dict[int, object] = {}
        self._steps: dict[str, Callable[[object], None]] = {
            "MARK": lambda _: self._stack.append(_MARK),
            "EMPTY_DICT": lambda _: self._stack.append({}),
            "EMPTY_LIST": lambda _: self._stack.append([]),
            "TUPLE": lambda _: self._stack.append(tuple(self._pop_to_mark())),
            "TUPLE1": lambda _: self._stack.append(tuple(self._pop(1))),
            "TUPLE2": lambda _: self._stack.append(tuple(self._pop(2))),
            "TUPLE3": lambda _: self._stack.append(tuple(self._pop(3))),
            "APPEND": lambda _: self._extend(self._pop(1)),
            "APPENDS": lambda _: self._extend(self._pop_to_mark()),
            "SETITEM": lambda _: self._set(self._pop(2)),
            "SETITEMS": lambda _: self._set(self._pop_to_mark()),
            "MEMOIZE": lambda _: self._remember(len(self._memory)),
            "BINPUT": self._remember,
            "LONG_BINPUT": self._remember,
            "BINGET": self._recall,
            "LONG_BINGET": self._recall,
            "GLOBAL": lambda argument: self._look_up(str(argument).replace(" ", ".", 1)),
            "STACK_GLOBAL": lambda _: self._look_up(_dotted(*self._pop(2))),
            "REDUCE": lambda _: self._call(*self._pop(2)),
            "BINPERSID": lambda _: self._resolve(*self._pop(1)),
        }

    def run(self, stream: IO[bytes]) -> object:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "STOP":
                (value,) = self._pop(1)
                if self._stack:
                    raise ValueError("the pickle leaves values behind")
                return value
            self._step(opcode.name, argument)
        raise ValueError("the pickle has no end")

    def _step(self, name: str, argument: object) -> None:
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in self._steps:
            self._steps[name](argument)
        elif name not in _IGNORED:
            raise UnsafePickle(f"it has the instruction {name}, which data does not need")

    def _pop(self, count: int) -> list[object]:
        taken = self._stack[-count:]
        if len(taken) < count or any(value is _MARK for value in taken):
            raise ValueError("the pickle takes more values than it has")
        del self._stack[-count:]
        return taken

    def _pop_to_mark(self) -> list[object]:
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                taken = self._stack[place + 1 :]
                del self._stack[place:]
                return taken
        raise ValueError("the pickle takes more values than it has")

    def _extend(self, values: list[object]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise ValueError(f"the pickle appends to a {type(target).__name__}")
        target.extend(values)

    def _set(self, values: list[object]) -> None:
        target = self._top()
        if not isinstance(target, dict) or len(values) % 2:
            raise ValueError(f"the pickle sets items of a {type(target).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise ValueError(f"the pickle has a key of type {type(key).__name__}")
            target[key] = value

    def _remember(self, place: object) -> None:
        if not isinstance(place, int) or len(self._memory) >= _MOST_MEMORIES:
            raise ValueError("the pickle remembers too much")
        self._memory[place] = self._top()

    def _recall(self, place: object) -> None:
        if not isinstance(place, int) or place not in self._memory:
            raise ValueError(f"the pickle recalls {place}, which it has not remembered")
        self._stack.append(self._memory[place])

    def _top(self) -> object:
        if not self._stack:
            raise ValueError("the pickle takes more values than it has")
        return self._stack[-1]

    def _look_up(self, name: str) -> None:
        if name not in self._names:
            raise UnsafePickle(
                f"it names {name[:80]}, which is not part of a dictionary of tensors"
            )
        self._stack.append(self._names[name])

    def _call(self, function: object, arguments: object) -> None:
        # Only a name puts something callable on the stack, and only from our own table.
        if not callable(function) or not isinstance(arguments, tuple):
            raise UnsafePickle(f"it calls a {type(function).__name__}")
        self._stack.append(function(*arguments))

    def _resolve(self, key: object) -> None:
        if self._persistent is None:
            raise UnsafePickle("it refers to something outside of itself")
        self._stack.append(self._persistent(key))


def _dotted(module: object, attribute: object) -> str:
    if not isinstance(module, str) or not isinstance(attribute, str):
        raise ValueError("the pickle names something with no text")
    return f"{module}.{attribute}"
