"""Pauses as a program sets and ends them."""

from collections.abc import Callable

from slotq import arguments, checks
from slotq.access import Access, twin
from slotq.errors import InvalidValue
from slotq.store import pauses
from slotq.store.transaction import Tx

Act = Callable[[Tx, str, str], bool]


class Pauses(Access):
    """The verbs of pauses."""

    def pause(
        self,
        *,
        key: str | None = None,
        queue: str | None = None,
        updated_by: str | None = None,
    ) -> bool:
        """Let no job of a key or a queue start until ``resume``; what runs goes on to its end.

        Holds on a paused key are refused. The key or the queue need not have been used before.

        Args:
            key: A key, byte for byte: in a pause a ``*`` is a star and stands for nothing else.
            queue: Or the name of a queue.
            updated_by: Who pauses it, for others to see; None for user@process.

        Returns:
            Whether it was not paused before.

        Raises:
            InvalidValue: A value is not valid, or not exactly one of ``key`` and ``queue`` was given.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        return self._set(key, queue, updated_by, pauses.pause_key, pauses.pause_queue)

    def resume(
        self,
        *,
        key: str | None = None,
        queue: str | None = None,
        updated_by: str | None = None,
    ) -> bool:
        """Let the jobs of a paused key or queue start again; idle workers are woken.

        Args:
            key: As in ``pause``.
            queue: Or the name of a queue.
            updated_by: Who resumes it, for others to see; None for user@process.

        Returns:
            Whether it was paused before.

        Raises:
            InvalidValue: A value is not valid, or not exactly one of ``key`` and ``queue`` was given.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        return self._set(key, queue, updated_by, pauses.resume_key, pauses.resume_queue)

    apause = twin(pause)
    aresume = twin(resume)

    def _set(self, key: object, queue: object, by: object, of_key: Act, of_queue: Act) -> bool:
        if (key is None) == (queue is None):
            raise InvalidValue(name="key", problem="or queue must be given, and not both")
        editor = arguments.editor(by)
        if queue is not None:
            name = checks.text("queue", queue)
            return self._write(lambda tx: of_queue(tx, name, editor))
        named = checks.key("key", key)
        if not named:
            raise InvalidValue(name="key", problem="must be a key, not none", value=key)
        return self._write(lambda tx: of_key(tx, named, editor))
