"""Every SQL statement behind a dashboard's frame, by name.

A frame is read some times a second, in files of a million jobs and a hundred thousand keys. So its
statements look at each lane or key at most once, and at jobs only where a few of them are asked for.
"""

from typing import Final

# All is judged by now, also what nobody has handled yet. Of what is due of each kind no more than
# :most are looked at.
FRAME_LAPSED: Final = """
SELECT key_id, queue_id, attempt < max_attempts AND NOT cancelling, cancelling FROM slotq_jobs INDEXED BY slotq_jobs_lease
WHERE lease_until <= :now LIMIT :most
"""
FRAME_EXPIRED: Final = """
SELECT key_id, queue_id, state FROM slotq_jobs INDEXED BY slotq_jobs_expires
WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting') AND expires_at <= :now
LIMIT :most
"""
FRAME_DUE: Final = """
SELECT key_id, queue_id, run_at FROM slotq_jobs INDEXED BY slotq_jobs_due
WHERE state = 'scheduled' AND run_at <= :now AND (expires_at IS NULL OR expires_at > :now)
ORDER BY run_at LIMIT :most
"""

# Totals.

FRAME_COUNTS: Final = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM slotq_jobs INDEXED BY slotq_jobs_unsuccessful
          WHERE (state = 'failed' OR state = 'cancelled') AND state = 'failed' LIMIT :most)),
       (SELECT count(*) FROM (SELECT 1 FROM slotq_jobs INDEXED BY slotq_jobs_unsuccessful
          WHERE (state = 'failed' OR state = 'cancelled') AND state = 'cancelled' LIMIT :most)),
       (SELECT coalesce(sum(slots), 0) FROM slotq_holds WHERE state = 'held' AND until > :now),
       (SELECT count(*) - 1 FROM slotq_keys),
       (SELECT count(*) FROM slotq_lanes),
       (SELECT seq FROM sqlite_sequence WHERE name = 'slotq_keys'),
       (SELECT count(*) FROM slotq_limits)
"""
FRAME_QUEUES: Final = """
SELECT q.id, q.queue, q.running, q.cap, q.paused,
       (SELECT count(*) FROM slotq_workers w
        WHERE w.seen_at + :leases * w.lease_ms >= :now AND (w.queues = 'null'
          OR EXISTS (SELECT 1 FROM json_each(w.queues) n WHERE n.value = q.queue)))
FROM slotq_queues q ORDER BY q.queue
"""
# Of each queue; the first without the grouping, for the file that has one queue.
FRAME_LINE: Final = """
SELECT sum(waiting), sum(scheduled), min(head_run_at) FROM slotq_lanes
"""
FRAME_LINES: Final = """
SELECT queue_id, sum(waiting), sum(scheduled), min(head_run_at) FROM slotq_lanes GROUP BY queue_id
"""
FRAME_OLDEST: Final = """
SELECT l.queue_id, min(o.run_at) FROM slotq_lanes l JOIN slotq_lane_oldest o ON o.lane_id = l.id
WHERE l.head_id IS NOT NULL GROUP BY l.queue_id
"""
FRAME_WORKERS: Final = """
SELECT w.id, w.pid, w.host, w.queues, w.slots, w.claim_order, w.started_at, w.seen_at, w.tasks,
       (SELECT count(*) FROM slotq_jobs j INDEXED BY slotq_jobs_lease
        WHERE j.lease_until > :now AND j.worker_id = w.id)
FROM slotq_workers w WHERE w.seen_at + :leases * w.lease_ms >= :now ORDER BY w.id
"""
FRAME_HOLDERS: Final = """
SELECT h.id, k.key, h.slots, h.state, h.since, h.until, h.holder, h.label, h.job_id
FROM slotq_holds h INDEXED BY slotq_holds_until JOIN slotq_keys k ON k.id = h.key_id
WHERE h.until > :now AND h.state = 'held' ORDER BY h.until LIMIT :most
"""

# Which keys stand on a page. Keys that have none of what they are sorted by come last, by id.

FRAME_MATCHING: Final = """
SELECT count(*) FROM slotq_keys WHERE id <> 0 AND instr(key, :filter) > 0
"""
# Whether some key has several lanes; in the index alone.
FRAME_SEVERAL: Final = """
SELECT 1 FROM slotq_lanes WHERE key_id <> 0 GROUP BY key_id HAVING count(*) > 1 LIMIT 1
"""
PAGE_BY_KEY: Final = """
SELECT id FROM slotq_keys
WHERE id <> 0 AND (:filter IS NULL OR instr(key, :filter) > 0)
ORDER BY key LIMIT :limit OFFSET :offset
"""
PAGE_BY_KEY_DOWN: Final = """
SELECT id FROM slotq_keys
WHERE id <> 0 AND (:filter IS NULL OR instr(key, :filter) > 0)
ORDER BY key DESC LIMIT :limit OFFSET :offset
"""
# :sign is -1 for the largest first. Where each key has one lane:
PAGE_BY_WAITING: Final = """
SELECT key_id, waiting FROM slotq_lanes
WHERE waiting > :floor AND key_id <> 0 AND (:filter IS NULL
  OR key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
ORDER BY :sign * waiting, key_id LIMIT :limit
"""
PAGE_BY_SCHEDULED: Final = """
SELECT key_id FROM slotq_lanes
WHERE scheduled > 0 AND key_id <> 0 AND (:filter IS NULL
  OR key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
ORDER BY :sign * scheduled, key_id LIMIT :limit
"""
PAGE_BY_OLDEST: Final = """
SELECT key_id FROM slotq_lanes
WHERE head_id IS NOT NULL AND key_id <> 0 AND (:filter IS NULL
  OR key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
ORDER BY -:sign * head_run_at, key_id LIMIT :limit
"""
# Where a key has several:
PAGE_BY_ALL_WAITING: Final = """
SELECT key_id FROM slotq_lanes
WHERE waiting > 0 AND key_id <> 0 AND (:filter IS NULL
  OR key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
GROUP BY key_id ORDER BY :sign * sum(waiting), key_id LIMIT :limit
"""
PAGE_BY_ALL_SCHEDULED: Final = """
SELECT key_id FROM slotq_lanes
WHERE scheduled > 0 AND key_id <> 0 AND (:filter IS NULL
  OR key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
GROUP BY key_id ORDER BY :sign * sum(scheduled), key_id LIMIT :limit
"""
PAGE_BY_ALL_OLDEST: Final = """
SELECT key_id FROM slotq_lanes
WHERE head_id IS NOT NULL AND key_id <> 0 AND (:filter IS NULL
  OR key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
GROUP BY key_id ORDER BY -:sign * min(head_run_at), key_id LIMIT :limit
"""
PAGE_BY_RUNNING: Final = """
SELECT id FROM slotq_keys
WHERE running > 0 AND id <> 0 AND (:filter IS NULL OR instr(key, :filter) > 0)
ORDER BY :sign * running, id LIMIT :limit
"""
PAGE_BY_HELD: Final = """
SELECT h.key_id FROM slotq_holds h
WHERE h.state = 'held' AND h.until > :now AND (:filter IS NULL
  OR h.key_id IN (SELECT id FROM slotq_keys WHERE instr(key, :filter) > 0))
GROUP BY h.key_id ORDER BY :sign * sum(h.slots), h.key_id LIMIT :limit
"""
PAGE_BY_NEXT_START: Final = """
SELECT id FROM slotq_keys
WHERE opens_at IS NOT NULL AND opens_at > :now AND (:filter IS NULL OR instr(key, :filter) > 0)
ORDER BY :sign * opens_at, id LIMIT :limit
"""
PAGE_OF_REST: Final = """
SELECT id FROM slotq_keys
WHERE id <> 0 AND (:filter IS NULL OR instr(key, :filter) > 0)
  AND id NOT IN (SELECT value FROM json_each(:ids))
ORDER BY id LIMIT :limit OFFSET :offset
"""

# What a page tells of its keys.

PAGE_KEYS: Final = """
SELECT k.id, k.key, k.cap, k.seq, k.opens_at, k.paused
FROM json_each(:ids) e CROSS JOIN slotq_keys k WHERE k.id = e.value
"""
PAGE_LANES: Final = """
SELECT l.key_id, l.queue_id, l.cap, l.waiting, l.scheduled, l.running,
       (SELECT o.run_at FROM slotq_lane_oldest o
        WHERE o.lane_id = l.id AND l.head_id IS NOT NULL)
FROM json_each(:ids) e CROSS JOIN slotq_lanes l WHERE l.key_id = e.value
"""
PAGE_LIMITS: Final = """
SELECT kl.key_id, kl.since, l.period_start, l.period_end, l.kind, l.subject, l.name, l.max_running,
  l.max_starts, l.window_ms, l.unit, l.zone, l.version, l.updated_at, l.updated_by, l.declared
FROM json_each(:ids) e CROSS JOIN slotq_key_limits kl CROSS JOIN slotq_limits l
WHERE kl.key_id = e.value AND l.id = kl.limit_id
"""
PAGE_HOLDS: Final = """
SELECT h.key_id, h.state, h.slots
FROM json_each(:ids) e CROSS JOIN slotq_holds h INDEXED BY slotq_holds_key
WHERE h.key_id = e.value AND h.until > :now
"""
