"""A hold in a transaction of SQLAlchemy's: taken and given back with the caller's rows, or alone."""

from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from slotq import HoldExpired, LimitExceeded, Queue
from support.orders import (
    KINDS,
    Order,
    aopened,
    async_engine_on,
    begin_immediate,
    engine_on,
    opened,
    orders,
)


@pytest.fixture
def engine(queue: Queue) -> Iterator[Engine]:
    queue.set_limit("k", max_running=2)
    with engine_on(queue) as made:
        begin_immediate(made)
        yield made


@pytest.fixture
async def aengine(queue: Queue, engine: Engine) -> AsyncIterator[AsyncEngine]:
    async with async_engine_on(queue) as made:
        begin_immediate(made.sync_engine)
        yield made


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_slots_are_taken_with_the_caller_s_rows(
    queue: Queue, engine: Engine, kind: str, commit: bool
) -> None:
    with opened(engine, kind) as mine:
        transaction = mine.begin()
        hold = queue.hold("k", connection=mine).acquire()
        assert queue.key("k").held == 0
        if commit:
            transaction.commit()
        else:
            transaction.rollback()
    assert queue.key("k").held == (1 if commit else 0)
    if commit:
        hold.release()
    else:
        with pytest.raises(HoldExpired):
            hold.release()
    assert queue.key("k").held == 0


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_slots_are_taken_with_the_caller_s_rows_async(
    queue: Queue, aengine: AsyncEngine, kind: str, commit: bool
) -> None:
    async with aopened(aengine, kind) as mine:
        transaction = await mine.begin()
        hold = await queue.hold("k", connection=mine).aacquire()
        assert queue.key("k").held == 0
        await (transaction.commit() if commit else transaction.rollback())
    assert queue.key("k").held == (1 if commit else 0)
    if commit:
        await hold.arelease()
    else:
        with pytest.raises(HoldExpired):
            await hold.arelease()
    assert queue.key("k").held == 0


async def test_slots_are_given_back_in_the_transaction_while_it_is_open(
    queue: Queue, engine: Engine, aengine: AsyncEngine
) -> None:
    with Session(engine) as session, session.begin(), queue.hold("k", connection=session):
        session.add(Order(item="tea"))
    async with (
        AsyncSession(aengine) as asession,
        asession.begin(),
        queue.hold("k", connection=asession),
    ):
        asession.add(Order(item="milk"))
    assert queue.key("k").held == 0
    assert orders(queue) == ["tea", "milk"]


async def test_giving_back_after_a_commit_begins_no_transaction(
    queue: Queue, engine: Engine, aengine: AsyncEngine
) -> None:
    with Session(engine) as session:
        with session.begin():
            hold = queue.hold("k", connection=session).acquire()
        hold.extend(60)
        hold.release()
        assert not session.in_transaction()
    async with AsyncSession(aengine) as asession:
        async with asession.begin():
            ahold = await queue.hold("k", connection=asession).aacquire()
        await ahold.aextend(60)
        await ahold.arelease()
        assert not asession.in_transaction()
    assert queue.key("k").held == 0


async def test_a_refused_hold_leaves_the_caller_s_transaction_as_it_was(
    queue: Queue, engine: Engine, aengine: AsyncEngine
) -> None:
    queue.hold("k", slots=2).acquire()
    with Session(engine) as session, session.begin():
        session.add(Order(item="tea"))
        session.flush()
        with pytest.raises(LimitExceeded):
            queue.hold("k", connection=session).acquire()
    async with AsyncSession(aengine) as asession, asession.begin():
        asession.add(Order(item="milk"))
        with pytest.raises(LimitExceeded):
            await queue.hold("k", connection=asession).aacquire()
    assert orders(queue) == ["tea", "milk"]
    assert queue.key("k").held == 2
