"""Spans of time as people write them: ``90``, ``90s``, ``5m``, ``2h``, ``7d``, ``day``."""

import math
import re
from collections.abc import Callable
from typing import Final, Literal, get_args

import typer

from slotq_app.cli.usage import did_you_mean

Period = Literal["minute", "hour", "day", "week", "month"]
PERIODS: Final[tuple[Period, ...]] = get_args(Period)

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONG_UNITS: Final = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m",
    "minute": "m", "minutes": "m", "hour": "h", "hours": "h", "hr": "h", "day": "d", "days": "d",
}  # fmt: skip
_SPAN: Final = re.compile(r"(?P<number>[0-9]*\.?[0-9]+) *(?P<unit>[^0-9. ]*)")


def seconds(text: str) -> float:
    """Return the seconds of a span such as ``90``, ``1.5s``, ``5m``, ``2h`` or ``7d``.

    Raises:
        typer.BadParameter: It is none.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} must be a time such as 90, 90s, 5m, 2h or 7d")
    unit = match["unit"]
    if unit not in _UNITS:
        known = _LONG_UNITS.get(unit.lower(), unit.lower())
        hint = f". Did you mean {match['number']}{known}?" if known in _UNITS else ""
        raise typer.BadParameter(f"{text!r} has no unit of s, m, h or d{hint}")
    span = float(match["number"]) * _UNITS[unit]
    if not math.isfinite(span):
        raise typer.BadParameter(f"{text!r} is too long")
    return span


def seconds_or_none(text: str, *, of: str) -> float | None:
    """Return the seconds of a span, or None for ``none``.

    Args:
        text: The span.
        of: The option that it is for.

    Raises:
        typer.BadParameter: It is neither.
    """
    try:
        return None if text == "none" else seconds(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{error.message}; none is for no limit", param_hint=of) from None


def seconds_or_inf(text: str) -> float:
    """Return the seconds of a span, or infinity for ``inf``.

    Raises:
        typer.BadParameter: It is neither.
    """
    try:
        return math.inf if text == "inf" else seconds(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{error.message}; inf is for ever") from None


def seconds_within(least: str, most: str) -> Callable[[str], float]:
    """Return what parses a span that must lie between two others."""

    def parse(text: str) -> float:
        span = seconds(text)
        if not seconds(least) <= span <= seconds(most):
            raise typer.BadParameter(f"{text!r} must be from {least} to {most}")
        return span

    return parse


def seconds_or_period(text: str) -> float | Period:
    """Return a window: the seconds of a sliding one, or the name of a calendar period.

    Raises:
        typer.BadParameter: It is neither.
    """
    for period in PERIODS:
        if text == period:
            return period
    if text[:1].isdigit() or text[:1] == ".":
        return seconds(text)
    hint = did_you_mean(text, PERIODS)
    raise typer.BadParameter(
        f"{text!r} must be a time such as 60s or 5m, or one of {', '.join(PERIODS)}.{hint}"
    )
