"""The parameters of a task's function: what a call must look like, and of which types."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, Final

from slotq import payload
from slotq.errors import InvalidValue

_BY_PLACE: Final = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_BY_NAME: Final = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_VARIADIC: Final = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
# A value of exactly one of these comes back from JSON as what it was. Of any other, such as a
# dataclass with a field of a wrong type, only trying tells.
_EXACT: Final = frozenset({str, int, float, bool, NoneType, list, dict})


class Parameters:
    """The parameters of one task.

    Attributes:
        names: Those that always have one value, so that a key may name them.

    Raises:
        InvalidValue: Python cannot tell them.
    """

    def __init__(self, function: Callable[..., object], task: str) -> None:
        self._function = function
        self._task = task
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            problem = f"cannot be a task ({error}): register a function that calls it"
            raise InvalidValue(name=task, problem=problem) from error
        parameters = self._signature.parameters.values()
        self._variadic = any(p.kind in _VARIADIC for p in parameters)
        self.names = frozenset(p.name for p in parameters if p.kind not in _VARIADIC)
        self._positional = [p.name for p in parameters if p.kind in _BY_PLACE]
        self._by_name = {p.name for p in parameters if p.kind in _BY_NAME}
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._required = self.names - self._defaults.keys()
        self._hints: dict[str, object] | None = None

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Check that the function can be called like this.

        Raises:
            InvalidValue: It cannot.
        """
        placed = self._positional[: len(args)]
        fits = len(placed) == len(args) and not self._variadic
        if fits and not kwargs and self._required.issubset(placed):
            return
        given = {*placed, *kwargs}
        if (
            fits
            and kwargs.keys() <= self._by_name
            and len(given) == len(args) + len(kwargs)
            and self._required <= given
        ):
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidValue(
                name=f"{self._task}()", problem=f"cannot be called so: {error}"
            ) from None

    def values(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments by name, defaults included, without those of ``*`` and ``**``."""
        named = {name: value for name, value in kwargs.items() if name in self._by_name}
        return {**self._defaults, **dict(zip(self._positional, args, strict=False)), **named}

    def fits(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        """Tell whether each argument plainly is of its annotated type, so needs no conversion."""
        if self._variadic:
            return False
        hints = self._types()
        for name, value in chain(zip(self._positional, args, strict=False), kwargs.items()):
            hint = hints.get(name, object)
            if hint is not object and not (hint is type(value) and hint in _EXACT):
                return False
        return True

    def convert(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[list[object], dict[str, object]]:
        """Return decoded arguments as the annotated types.

        Raises:
            InvalidValue: One does not fit.
        """
        if self.fits(args, kwargs):
            return list(args), dict(kwargs)
        bound = self._signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            hint = self._types().get(name, object)
            parameter = self._signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(self._convert(name, v, hint) for v in value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                bound.arguments[name] = {k: self._convert(k, v, hint) for k, v in value.items()}
            else:
                bound.arguments[name] = self._convert(name, value, hint)
        return list(bound.args), dict(bound.kwargs)

    def convert_result(self, value: object) -> object:
        """Return a decoded result as the type that the function says it returns.

        Where that cannot be told or does not fit, the value stays what it is in JSON: the body has
        returned it, whatever its annotation says.
        """
        if value is None:
            return None
        try:
            hints = typing.get_type_hints(inspect.unwrap(self._function), include_extras=True)
            return payload.convert(value, hints.get("return", Any), f"{self._task}() -> result")
        except Exception:  # noqa: BLE001  # resolving an annotation runs what it says
            return value

    def _convert(self, name: str, value: object, hint: object) -> object:
        if hint is object:
            return value
        return payload.convert(value, hint, f"{self._task}({name})")

    def _types(self) -> dict[str, object]:
        """Return the annotations; resolved late, since they may name what is defined later."""
        if self._hints is None:
            try:
                found = _annotations(self._function)
            except Exception as error:
                problem = f"has an annotation that cannot be resolved ({error})"
                raise InvalidValue(name=f"{self._task}()", problem=problem) from error
            self._hints = {name: object if hint is Any else hint for name, hint in found.items()}
        return self._hints


def _annotations(function: Callable[..., object]) -> dict[str, object]:
    """Return the annotations of the parameters alone.

    What a function returns is not converted, and may be named for the type checker only.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__

    def stand_in() -> None: ...

    found = dict(inspect.get_annotations(function))
    found.pop("return", None)
    stand_in.__annotations__ = found
    namespace: dict[str, object] = getattr(inspect.unwrap(function), "__globals__", {})
    return typing.get_type_hints(stand_in, globalns=namespace, include_extras=True)
