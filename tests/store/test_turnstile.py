"""The turn to write: one process at a time, and everybody's turn comes."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slotq.store.turnstile import Turn, Turnstile
from support.partner import Partner, wait_until_taken
from support.stores import open_files

TURNS = 100


def enter_at_once(turnstile: Turnstile) -> bool:
    return turnstile.enter(time.monotonic())


def test_one_process_at_a_time_is_inside_and_nobody_starves(
    tmp_path: Path, partners: Callable[[int], list[Partner]]
) -> None:
    """With fair turns there would be four times as many as each wants: five times that will do."""
    everyone = partners(4)
    counts = tmp_path / "counts"
    counts.write_text("[0, 0, 0, 0]", "ascii")
    for number, each in enumerate(everyone):
        each.tell("count_up", str(tmp_path), number, TURNS, 5 * 4 * TURNS)
    turns = [each.hear() for each in everyone]
    assert counts.read_text("ascii") == str(turns)
    assert all(isinstance(count, int) and count > TURNS for count in turns), turns


def test_who_does_not_get_in_holds_nothing(tmp_path: Path) -> None:
    inside, other = Turnstile(tmp_path), Turnstile(tmp_path)
    assert enter_at_once(inside)
    assert not enter_at_once(other)
    inside.leave()
    assert enter_at_once(other)
    assert not enter_at_once(inside)
    other.leave()
    assert enter_at_once(inside)


def test_who_does_not_get_through_the_first_lock_holds_nothing(
    tmp_path: Path, partner: Partner
) -> None:
    inside, other = Turnstile(tmp_path), Turnstile(tmp_path)
    assert enter_at_once(inside)
    partner.tell("enter", str(tmp_path), 30.0)
    wait_until_taken(tmp_path / "gate")
    assert not other.enter(time.monotonic() + 0.05)
    inside.leave()
    assert partner.hear() is True
    partner.ask("leave")
    assert enter_at_once(other)


def test_leaving_without_the_turn_takes_it_from_nobody(tmp_path: Path) -> None:
    inside, other = Turnstile(tmp_path), Turnstile(tmp_path)
    assert enter_at_once(inside)
    other.leave()
    assert not enter_at_once(other)


def test_a_killed_process_lets_the_next_in(tmp_path: Path, partner: Partner) -> None:
    mine = Turnstile(tmp_path)
    assert partner.ask("enter", str(tmp_path), 0.0) is True
    assert not enter_at_once(mine)
    partner.kill()
    assert enter_at_once(mine)


def test_closing_lets_the_next_in_and_leaves_nothing_open(tmp_path: Path) -> None:
    mine, other = Turnstile(tmp_path), Turnstile(tmp_path)
    assert enter_at_once(mine)
    mine.close()
    mine.close()
    assert enter_at_once(other)
    del other
    assert open_files(tmp_path) == []


def test_lock_files_that_cannot_be_opened_leave_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(IsADirectoryError):
        Turnstile(tmp_path)
    assert open_files(tmp_path) == []


def test_lock_files_that_were_replaced_are_noticed(tmp_path: Path) -> None:
    mine = Turnstile(tmp_path)
    assert not mine.is_replaced()
    (tmp_path / "lock").unlink()
    assert mine.is_replaced()
    (tmp_path / "lock").touch()
    assert mine.is_replaced()


def test_closed_lock_files_can_be_asked_after(tmp_path: Path) -> None:
    """Another thread may close them just then."""
    mine = Turnstile(tmp_path)
    mine.close()
    assert not mine.is_replaced()


def test_a_mark_is_seen_by_all_for_a_while(tmp_path: Path) -> None:
    mine, other = Turnstile(tmp_path), Turnstile(tmp_path)
    assert not other.is_marked(10.0)
    mine.mark()
    assert other.is_marked(10.0)
    assert enter_at_once(other)
    other.leave()
    assert mine.is_marked(10.0)
    past_ns = time.time_ns() - 11_000_000_000
    os.utime(tmp_path / "lock", ns=(0, past_ns))
    assert not mine.is_marked(10.0)
    os.utime(tmp_path / "lock", ns=(0, past_ns + 30_000_000_000))
    assert not mine.is_marked(10.0)


def test_threads_take_turns_until_the_deadline() -> None:
    turn = Turn()
    began = time.monotonic()
    assert turn.enter(began)
    assert turn.is_taken()
    assert not turn.enter(began + 0.05)
    assert time.monotonic() - began >= 0.05
    got = threading.Event()

    def enter() -> None:
        if turn.enter(time.monotonic() + 30):
            got.set()

    thread = threading.Thread(target=enter)
    thread.start()
    turn.leave()
    thread.join()
    assert got.is_set()
    turn.leave()
    assert not turn.is_taken()
