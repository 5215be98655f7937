"""The rows of a file against the reference model."""

from support.recount import UNLIMITED, Rows
from support.reference import Reference


def compare(rows: Rows, model: Reference) -> None:
    """Check that a file holds what the model holds.

    Old start marks that no window reaches may have gone; the model then lets go of them too.
    """
    assert rows.clock[0] == model.kept
    _jobs(rows, model)
    _holds(rows, model)
    _limits(rows, model)
    _queues_and_lanes(rows, model)
    keys = {row.key: row for row in rows.keys.values() if row.id}
    assert keys.keys() == model.limits.keys.keys()
    for name, key in model.limits.keys.items():
        row = keys[name]
        assert (row.seq, row.opens_at, bool(row.paused)) == (key.last, key.full_until, key.paused)
        counting = {limit.name: since for limit, since in rows.rules_of(row.id) if limit.max_starts}
        rules = model.limits.in_force(name)
        assert counting == {
            rule: since for rule, since in key.since.items() if rules[rule].parts.max_starts
        }
        kept = rows.counted(row.id)
        forgotten = key.starts.keys() - kept.keys()
        if forgotten:
            reach = max(key.starts.values()) - model.limits.span(name)
            assert all(key.starts[number] <= reach for number in forgotten), (row, key)
            assert max(forgotten) < min(kept)
            model.seen["marks forgotten"] += 1
            key.starts = {number: key.starts[number] for number in kept}
        assert kept == key.starts


def _jobs(rows: Rows, model: Reference) -> None:
    caps = {lane.id: None if lane.cap == UNLIMITED else lane.cap for lane in rows.lanes}
    stored = {
        row.id: (
            rows.queues[row.queue_id].queue,
            rows.keys[row.key_id].key,
            caps[row.lane_id],
            -row.rank,
            *row[5:],
        )
        for row in rows.jobs
    }
    expected = {
        job.id: (
            job.queue,
            job.key,
            job.cap,
            job.priority,
            job.run_at,
            job.state,
            job.attempt,
            job.max_attempts,
            job.token,
            job.misses,
            job.expires_at,
            job.created_at,
            job.started_at,
            job.finished_at,
            job.lease_until,
            job.lease_ms,
            job.worker,
            job.dedupe,
            job.task,
            job.cancelling,
            job.error,
        )
        for job in model.jobs.values()
    }
    assert stored == expected


def _holds(rows: Rows, model: Reference) -> None:
    stored = {
        row.id: (
            rows.keys[row.key_id].key,
            row.slots,
            row.state == "held",
            row.since,
            row.until,
            row.ttl_ms,
            None if row.cap == UNLIMITED else row.cap,
            *row[-4:],
        )
        for row in rows.holds
    }
    assert stored == {
        hold.id: (
            hold.key,
            hold.slots,
            hold.held,
            hold.since,
            hold.until,
            hold.ttl_ms,
            hold.cap,
            hold.job,
            hold.process,
            hold.ticket,
            hold.bell,
        )
        for hold in model.holds.values()
    }


def _limits(rows: Rows, model: Reference) -> None:
    stored = {
        (row.kind, row.subject, row.name): (
            row.max_running,
            row.max_starts,
            row.window_ms,
            row.unit,
            row.zone,
            None if row.period_start is None else (row.period_start, row.period_end),
            row.version,
        )
        for row in rows.limits.values()
    }
    assert stored == {
        place: (
            limit.parts.max_running,
            limit.parts.max_starts,
            limit.parts.window_ms,
            limit.parts.unit,
            limit.parts.zone,
            limit.period,
            limit.version,
        )
        for place, limit in model.limits.all.items()
    }


def _queues_and_lanes(rows: Rows, model: Reference) -> None:
    assert {row.queue: (bool(row.paused), row.dry) for row in rows.queues.values()} == {
        name: (queue.paused, queue.dry) for name, queue in model.queues.items()
    }
    lanes = {
        (
            rows.queues[lane.queue_id].queue,
            rows.keys[lane.key_id].key,
            None if lane.cap == UNLIMITED else lane.cap,
        ): lane.last_start
        for lane in rows.lanes
    }
    assert lanes == {lane: model.last_start[lane[:2]] for lane in model.lanes}
