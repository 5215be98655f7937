"""Every SQL statement behind what people look at, by name; those of the jobs' way: statements.py."""

from typing import Final

GET_JOB: Final = "SELECT * FROM slotq_job_view WHERE id = ?"
# One page by id. A key, and the states that are few among many, have an index each; what else is
# asked for is tested row by row.
LIST_JOBS: Final = """
SELECT id, task, queue, key, cap, rank, state, run_at, expires_at, attempt, max_attempts,
  created_at, started_at, finished_at, lease_until, worker_id, timeout_ms, cancelling, progress,
  progress_text, error
FROM slotq_job_view
WHERE id > :after AND (:state IS NULL OR state = :state) AND (:queue IS NULL OR queue = :queue)
  AND (:task IS NULL OR task = :task) AND (:key IS NULL OR key = :key)
ORDER BY id LIMIT :limit
"""
LIST_JOBS_OF_KEY: Final = """
SELECT v.id, v.task, v.queue, v.key, v.cap, v.rank, v.state, v.run_at, v.expires_at, v.attempt,
  v.max_attempts, v.created_at, v.started_at, v.finished_at, v.lease_until, v.worker_id,
  v.timeout_ms, v.cancelling, v.progress, v.progress_text, v.error
FROM slotq_jobs j INDEXED BY slotq_jobs_key JOIN slotq_job_view v ON v.id = j.id
WHERE j.key_id = (SELECT id FROM slotq_keys WHERE key = :key) AND j.key_id <> 0 AND j.id > :after
  AND (:state IS NULL OR j.state = :state) AND (:queue IS NULL OR v.queue = :queue)
  AND (:task IS NULL OR j.task = :task)
ORDER BY j.id LIMIT :limit
"""
LIST_JOBS_UNSUCCESSFUL: Final = """
SELECT v.id, v.task, v.queue, v.key, v.cap, v.rank, v.state, v.run_at, v.expires_at, v.attempt,
  v.max_attempts, v.created_at, v.started_at, v.finished_at, v.lease_until, v.worker_id,
  v.timeout_ms, v.cancelling, v.progress, v.progress_text, v.error
FROM slotq_jobs j INDEXED BY slotq_jobs_unsuccessful JOIN slotq_job_view v ON v.id = j.id
WHERE (j.state = 'failed' OR j.state = 'cancelled') AND j.state = :state AND j.id > :after
  AND (:key IS NULL OR v.key = :key) AND (:queue IS NULL OR v.queue = :queue)
  AND (:task IS NULL OR j.task = :task)
ORDER BY j.id LIMIT :limit
"""
LIST_JOBS_RUNNING: Final = """
SELECT v.id, v.task, v.queue, v.key, v.cap, v.rank, v.state, v.run_at, v.expires_at, v.attempt,
  v.max_attempts, v.created_at, v.started_at, v.finished_at, v.lease_until, v.worker_id,
  v.timeout_ms, v.cancelling, v.progress, v.progress_text, v.error
FROM slotq_jobs j INDEXED BY slotq_jobs_lease JOIN slotq_job_view v ON v.id = j.id
WHERE j.lease_until IS NOT NULL AND j.id > :after AND :state = 'running'
  AND (:key IS NULL OR v.key = :key) AND (:queue IS NULL OR v.queue = :queue)
  AND (:task IS NULL OR j.task = :task)
ORDER BY j.id LIMIT :limit
"""
# By the end of a job, which is what makes one page follow another while jobs go on ending.
LIST_JOBS_ENDED: Final = """
SELECT v.id, v.task, v.queue, v.key, v.cap, v.rank, v.state, v.run_at, v.expires_at, v.attempt,
  v.max_attempts, v.created_at, v.started_at, v.finished_at, v.lease_until, v.worker_id,
  v.timeout_ms, v.cancelling, v.progress, v.progress_text, v.error
FROM slotq_jobs j INDEXED BY slotq_jobs_finished JOIN slotq_job_view v ON v.id = j.id
WHERE j.finished_at IS NOT NULL AND j.finished_at >= :since
  AND (j.finished_at > :since OR j.id > :after)
  AND (:state IS NULL OR j.state = :state) AND (:key IS NULL OR v.key = :key)
  AND (:queue IS NULL OR v.queue = :queue) AND (:task IS NULL OR j.task = :task)
ORDER BY j.finished_at, j.id LIMIT :limit
"""
# The same as HIDDEN_PARTS of every limit at once, as far as anybody reads on.
HIDDEN_LIMITS: Final = """
SELECT narrow.subject, wide.subject,
       wide.max_running IS NOT NULL AND narrow.max_running IS NULL,
       wide.max_starts IS NOT NULL AND narrow.max_starts IS NULL
FROM slotq_limits wide CROSS JOIN slotq_limits narrow
WHERE wide.kind = 'pattern' AND narrow.kind <> 'queue' AND narrow.name = wide.name
  AND narrow.id <> wide.id
  AND (wide.max_running IS NOT NULL AND narrow.max_running IS NULL
       OR wide.max_starts IS NOT NULL AND narrow.max_starts IS NULL)
  AND narrow.subject GLOB wide.glob
  AND (wide.specificity, narrow.subject) < (narrow.specificity, wide.subject)
ORDER BY wide.subject, narrow.subject LIMIT 100
"""
# A group stands in several lanes of one queue, each with the group's running count.
# Of the newest 10,000, those after one, or the last ones.
LIST_EVENTS: Final = """
SELECT id, at, kind, key, queue, job_id, text, by FROM slotq_events
WHERE id > :after AND (:kind IS NULL OR kind = :kind) ORDER BY id LIMIT :limit
"""
LIST_LAST_EVENTS: Final = """
SELECT id, at, kind, key, queue, job_id, text, by FROM slotq_events
WHERE :kind IS NULL OR kind = :kind ORDER BY id DESC LIMIT :limit
"""

KEY_COUNTS: Final = """
SELECT k.id, k.running - coalesce(sum(g.running), 0), coalesce(sum(g.running), 0),
       coalesce(sum(g.waiting), 0), coalesce(sum(g.scheduled), 0), k.cap, k.seq, k.opens_at,
       k.paused
FROM slotq_keys k LEFT JOIN (
  SELECT key_id, max(running) AS running, sum(waiting) AS waiting, sum(scheduled) AS scheduled
  FROM slotq_lanes WHERE key_id = (SELECT id FROM slotq_keys WHERE key = ?1)
  GROUP BY queue_id) g ON g.key_id = k.id
WHERE k.key = ?1 AND k.id <> 0 GROUP BY k.id
"""
OLDEST_OF_KEY: Final = """
SELECT min(o.run_at) FROM slotq_lanes l JOIN slotq_lane_oldest o ON o.lane_id = l.id
WHERE l.key_id = ? AND l.head_id IS NOT NULL
"""
# The windows of the limits in force for a key, each with its count's beginning.
KEY_WINDOWS: Final = """
SELECT l.max_starts, l.window_ms, l.unit, l.period_start, kl.since
FROM slotq_key_limits kl JOIN slotq_limits l ON l.id = kl.limit_id
WHERE kl.key_id = ? AND l.max_starts IS NOT NULL ORDER BY kl.name
"""
# The mark that covers a number.
MARK_OF: Final = """
SELECT at FROM slotq_starts WHERE key_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1
"""
LIST_KEYS: Final = """
SELECT k.key FROM slotq_keys k LEFT JOIN (
  SELECT key_id, sum(waiting) AS waiting, sum(scheduled) AS scheduled
  FROM slotq_lanes GROUP BY key_id) g ON g.key_id = k.id
WHERE k.id <> 0
ORDER BY CASE :sort WHEN 'waiting' THEN -coalesce(g.waiting, 0)
                    WHEN 'running' THEN -k.running
                    WHEN 'scheduled' THEN -coalesce(g.scheduled, 0) END, k.key
LIMIT :limit
"""
LIST_QUEUES: Final = """
SELECT q.queue, coalesce(g.waiting, 0), coalesce(g.scheduled, 0), q.running, q.cap, q.paused,
       (SELECT min(o.run_at) FROM slotq_lanes l JOIN slotq_lane_oldest o ON o.lane_id = l.id
        WHERE l.queue_id = q.id AND l.head_id IS NOT NULL),
       (SELECT count(*) FROM slotq_workers w WHERE w.queues = 'null'
          OR EXISTS (SELECT 1 FROM json_each(w.queues) n WHERE n.value = q.queue))
FROM slotq_queues q LEFT JOIN (
  SELECT queue_id, sum(waiting) AS waiting, sum(scheduled) AS scheduled
  FROM slotq_lanes GROUP BY queue_id) g ON g.queue_id = q.id
ORDER BY q.queue
"""
COUNT_ALL: Final = """
SELECT (SELECT coalesce(sum(scheduled), 0) FROM slotq_lanes),
       (SELECT coalesce(sum(waiting), 0) FROM slotq_lanes),
       (SELECT coalesce(sum(running), 0) FROM slotq_queues),
       (SELECT coalesce(sum(slots), 0) FROM slotq_holds WHERE state = 'held'),
       (SELECT count(*) FROM slotq_keys WHERE id <> 0),
       (SELECT count(*) FROM slotq_queues),
       (SELECT count(*) FROM slotq_limits),
       (SELECT count(*) FROM slotq_workers)
"""
COUNT_FINISHED: Final = """
SELECT count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'failed'),
       count(*) FILTER (WHERE state = 'cancelled')
FROM slotq_jobs INDEXED BY slotq_jobs_finished WHERE finished_at IS NOT NULL
"""

# Why a job is not running. What decides is what the schema keeps; nothing is counted anew here but
# the jobs before it, up to a bound.

WHY_JOB: Final = """
SELECT j.id, j.state, j.task, j.rank, j.run_at, j.attempt, j.max_attempts, j.misses, j.error,
  q.id, q.queue, q.paused, q.running, q.cap,
  k.id, k.key, k.paused, k.running, k.cap, l.cap, k.queued, k.opens_at, o.open
FROM slotq_jobs j JOIN slotq_lanes l ON l.id = j.lane_id JOIN slotq_queues q ON q.id = j.queue_id
JOIN slotq_keys k ON k.id = j.key_id JOIN slotq_lane_open o ON o.lane_id = j.lane_id
WHERE j.id = ?
"""
# Workers of a queue that are not gone, and whether each knows the task.
WORKERS_FOR: Final = """
SELECT w.id, EXISTS (SELECT 1 FROM json_each(w.tasks) t WHERE t.value = :task)
FROM slotq_workers w
WHERE w.seen_at + :leases * w.lease_ms >= :now
  AND (w.queues = 'null' OR EXISTS (SELECT 1 FROM json_each(w.queues) n WHERE n.value = :queue))
"""
KEY_OPENINGS: Final = """
SELECT l.kind, l.subject, l.name, l.max_running, l.max_starts, l.window_ms, l.unit, l.zone,
  l.version, l.updated_at, l.updated_by, l.declared, o.opens_at
FROM slotq_key_opens o JOIN slotq_limits l ON l.id = o.limit_id
WHERE o.key_id = ? AND o.opens_at > ?
"""
# All that run have a lease, and those are few at any depth of the line.
HOLDING_JOBS: Final = """
SELECT lease_until, id, 1, 'job' FROM slotq_jobs INDEXED BY slotq_jobs_lease
WHERE lease_until > 0 AND (:key IS NULL OR key_id = :key) AND (:queue IS NULL OR queue_id = :queue)
ORDER BY lease_until, id LIMIT :limit
"""
HOLDING_HOLDS: Final = """
SELECT until, id, slots, 'hold' FROM slotq_holds INDEXED BY slotq_holds_until
WHERE until > 0 AND key_id = :key AND state = 'held'
ORDER BY until, id LIMIT :limit
"""
WAITING_HOLDS: Final = """
SELECT id FROM slotq_holds WHERE key_id = ? AND state = 'waiting' ORDER BY id LIMIT ?
"""
# Of each lane of the group those that go before it, up to a bound. In three parts: for a comparison
# of (rank, run_at, id) as a whole SQLite reads all jobs of the same rank and instant.
COUNT_AHEAD: Final = """
SELECT count(*) FROM (
  SELECT 1 FROM slotq_lanes l CROSS JOIN slotq_jobs j INDEXED BY slotq_jobs_waiting
  WHERE l.key_id = :key AND l.queue_id = :queue AND j.lane_id = l.id AND j.state = 'waiting'
    AND j.rank < :rank
  UNION ALL
  SELECT 1 FROM slotq_lanes l CROSS JOIN slotq_jobs j INDEXED BY slotq_jobs_waiting
  WHERE l.key_id = :key AND l.queue_id = :queue AND j.lane_id = l.id AND j.state = 'waiting'
    AND j.rank = :rank AND j.run_at < :run_at
  UNION ALL
  SELECT 1 FROM slotq_lanes l CROSS JOIN slotq_jobs j INDEXED BY slotq_jobs_waiting
  WHERE l.key_id = :key AND l.queue_id = :queue AND j.lane_id = l.id AND j.state = 'waiting'
    AND j.rank = :rank AND j.run_at = :run_at AND j.id < :id
  LIMIT :limit)
"""
