"""Jobs of many tasks, by name, put in line in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Required, TypeGuard

from slotq import checks, payload
from slotq.access import Access, twin
from slotq.errors import InvalidValue
from slotq.options import Options, Settings, settle
from slotq.store import due, jobs
from slotq.store.jobs import Call, Terms
from slotq.store.transaction import Tx

if TYPE_CHECKING:
    from slotq.store.callers import Connection

# What waits in memory to be written with a few statements; more gained nothing.
CHUNK: Final = 500

_OF_ONE: Final = frozenset({"args", "kwargs", "key"})


class Item(Options, total=False):
    """What ``enqueue`` takes for one job, as a dict."""

    task: Required[str]
    args: Sequence[object]
    kwargs: Mapping[str, object] | None


class Batches(Access):
    """The verb that enqueues for many tasks at once."""

    max_payload: int

    def enqueue_batch(
        self,
        items: Iterable[Mapping[str, object]],
        *,
        connection: "Connection | None" = None,
    ) -> range:
        """Store jobs for tasks by name in one transaction: all of them, or with one bad item none.

        Args:
            items: For each job a dict with its ``task``, and as needed ``args``, ``kwargs`` and the
                options of ``enqueue``. They are read one by one, so they may be more than fit
                into memory; the file is locked meanwhile, so reading them must neither wait nor
                use the queue.
            connection: Enqueue in this connection's open transaction.

        Returns:
            The ids of the new jobs, in the order given. An item whose ``dedupe`` found a job that
            has not ended has none.

        Raises:
            InvalidValue: As ``enqueue``, naming the item.
            QueueBusy: Others kept the file locked for too long.
            StoreError: The file cannot be used.
        """
        if not _is_iterable(items):
            raise InvalidValue(name="items", problem="must be dicts, one for each job", value=items)
        return self._write(lambda tx: _Batch(tx, self.max_payload).add_all(items), connection)

    aenqueue_batch = twin(enqueue_batch)


class _Batch:
    """Items on their way into the file; neighbours with the same options go together."""

    def __init__(self, tx: Tx, max_bytes: int) -> None:
        self._tx = tx
        self._max_bytes = max_bytes
        self._same: object = None
        self._terms = Terms(task="")
        self._calls: list[Call] = []
        self._new = range(0)

    def add_all(self, items: Iterable[object]) -> range:
        due.handle_due(self._tx)  # a job that has expired has ended, and must not be found
        for place, item in enumerate(items):
            try:
                self._add(item)
            except InvalidValue as error:
                raise InvalidValue(name=f"item {place}:", problem=str(error)) from error
        self._flush()
        return self._new

    def _add(self, item: object) -> None:
        if not _is_item(item):
            raise InvalidValue(name="it", problem="must be a dict with a task", value=item)
        kwargs = item.get("kwargs")
        texts = payload.encode_args(
            item.get("args", ()), {} if kwargs is None else kwargs, max_bytes=self._max_bytes
        )
        key = checks.key("key", item.get("key"))
        options = {name: value for name, value in item.items() if name not in _OF_ONE}
        # Types too, since True and 1 are the same to Python. A job without a key may have less.
        same = (options, [type(value) for value in options.values()], bool(key))
        if same != self._same:
            self._flush()
            self._terms = _terms(options, key)
            self._same = same
        self._calls.append(Call(*texts, key))
        if self._terms.dedupe is not None or len(self._calls) == CHUNK:
            self._flush()

    def _flush(self) -> None:
        calls, self._calls = self._calls, []
        if not calls:
            return
        if self._terms.dedupe is None:
            new = jobs.add_many(self._tx, self._terms, calls)
        else:
            job_id, is_new = jobs.add(self._tx, self._terms, calls[0])
            new = range(job_id, job_id + is_new)
        if new:
            self._new = range(self._new.start or new.start, new.stop)


def _terms(options: dict[str, object], key: str) -> Terms:
    settings = Settings(terms=Terms(task=checks.text("task", options.get("task"))), key=key)
    others = {name: value for name, value in options.items() if name != "task"}
    if "connection" in others:
        raise InvalidValue(name="connection", problem="is one for all items: give it once")
    assert _is_options(others)
    return settle(settings, others).terms


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def _is_item(value: object) -> TypeGuard[Item]:
    return isinstance(value, dict)  # what is in it is checked part by part


def _is_options(value: object) -> TypeGuard[Options]:
    return isinstance(value, dict)
