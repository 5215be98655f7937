"""Calls that a type checker would not let through."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wrongly(function: Callable[..., T]) -> Callable[..., T]:
    """Return the function as one that takes anything, for a test of what it refuses."""
    return function
