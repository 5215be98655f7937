"""Every SQL statement the engine runs, by name, in the order of a job's life.

Lists go in as JSON (``json_each``); optional filters are ``(:x IS NULL OR x = :x)``. In a claim the
terms ``fair AND open AND head_id IS NOT NULL`` repeat those of the partial index letter for letter.
``OR FAIL`` stands in what each job goes through: any error undoes the whole transaction there, so
SQLite need not keep what it takes to undo the statement alone.
"""

from typing import Final

# The clock.

READ_CLOCK: Final = "SELECT now, period_end FROM slotq_clock"
READ_PERIOD_END: Final = "SELECT period_end FROM slotq_clock"
SET_CLOCK: Final = "UPDATE slotq_clock SET now = ?"
# In a caller's transaction: takes the write lock before the clock is read.
TAKE_LOCK: Final = "UPDATE slotq_clock SET id = id"
CALENDAR_LIMITS: Final = """
SELECT id, unit, zone FROM slotq_limits
WHERE period_end IS NOT NULL AND (?1 IS NULL OR period_end <= ?1)
"""
SET_PERIOD: Final = "UPDATE slotq_limits SET period_start = ?, period_end = ? WHERE id = ?"

# Enqueue.

FIND_QUEUE: Final = "SELECT id FROM slotq_queues WHERE queue = ?"
ADD_QUEUE: Final = "INSERT INTO slotq_queues (queue) VALUES (?) RETURNING id"
# One look for what nearly every enqueue finds: queue, key and lane are there already.
FIND_PLACE: Final = """
SELECT l.id, l.queue_id, l.key_id
FROM slotq_queues q CROSS JOIN slotq_keys k CROSS JOIN slotq_lanes l
WHERE q.queue = ? AND k.key = ? AND l.key_id = k.id AND l.queue_id = q.id AND l.cap = ?
"""
# The same for many keys at once, and what is made where it is not there.
FIND_PLACES: Final = """
SELECT k.key, l.id, l.queue_id, l.key_id
FROM json_each(?1) e CROSS JOIN slotq_keys k CROSS JOIN slotq_lanes l
WHERE k.key = e.value AND l.key_id = k.id AND l.queue_id = ?2 AND l.cap = ?3
"""
ADD_KEYS: Final = """
INSERT INTO slotq_keys (key) SELECT e.value FROM json_each(?1) e
WHERE NOT EXISTS (SELECT 1 FROM slotq_keys k WHERE k.key = e.value)
"""
ADD_LANES: Final = """
INSERT INTO slotq_lanes (key_id, queue_id, cap)
SELECT k.id, ?2, ?3 FROM json_each(?1) e CROSS JOIN slotq_keys k WHERE k.key = e.value
"""
FIND_DUPLICATE: Final = """
SELECT id FROM slotq_jobs WHERE dedupe = ? AND dedupe IS NOT NULL AND finished_at IS NULL
"""
# Ids are given out by the caller from LAST_ID, so that a bulk insert knows them.
LAST_ID: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'slotq_jobs'"
# ?1 is the first id, ?2 to ?11 are the same for all jobs of a statement.
_INTO_JOBS: Final = """
INSERT OR FAIL INTO slotq_jobs (id, lane_id, queue_id, key_id, rank, run_at, state, max_attempts,
  store_result, timeout_ms, expires_at, created_at, dedupe, task, args, kwargs)
VALUES """
_JOB: Final = "(?1 + {}, ?{}, ?{}, ?{}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?{}, ?{})"


def _add_jobs(count: int) -> str:
    jobs = (_JOB.format(job, *range(12 + 5 * job, 17 + 5 * job)) for job in range(count))
    return _INTO_JOBS + ", ".join(jobs)


ADD_JOB: Final = _add_jobs(1)
# Half of what a job costs is its statement.
JOBS_AT_ONCE: Final = 25
ADD_JOBS: Final = _add_jobs(JOBS_AT_ONCE)

# What is due: one look at the first of each kind, then only what is.

FIRST_DUE: Final = """
SELECT (SELECT min(run_at) FROM slotq_jobs WHERE state = 'scheduled'),
       (SELECT min(lease_until) FROM slotq_jobs WHERE lease_until IS NOT NULL),
       (SELECT min(until) FROM slotq_holds),
       (SELECT min(opens_at) FROM slotq_keys WHERE opens_at IS NOT NULL),
       (SELECT min(expires_at) FROM slotq_jobs
        WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting'))
"""
LAPSED_LEASES: Final = """
SELECT id, token, attempt, max_attempts, queue_id, key_id FROM slotq_jobs
WHERE lease_until <= ? ORDER BY lease_until, id LIMIT ?
"""
EXPIRE_JOBS: Final = """
UPDATE slotq_jobs SET state = 'cancelled', finished_at = ?1, error = 'expired before it started'
WHERE id IN (SELECT id FROM slotq_jobs
             WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting')
               AND expires_at <= ?1
             ORDER BY expires_at, id LIMIT ?2)
"""
WAKE_SCHEDULED: Final = """
UPDATE slotq_jobs SET state = 'waiting', error = CASE WHEN misses = 0 THEN error END
WHERE id IN (SELECT id FROM slotq_jobs WHERE state = 'scheduled' AND run_at <= ?1
             ORDER BY run_at, id LIMIT ?2)
"""
DROP_HOLDS: Final = """
DELETE FROM slotq_holds
WHERE id IN (SELECT id FROM slotq_holds WHERE until <= ?1 ORDER BY until, id LIMIT ?2)
"""
# The stored instant is the latest of all its windows already: nothing to work out.
OPEN_KEYS: Final = """
UPDATE slotq_keys SET opens_at = NULL
WHERE id IN (SELECT id FROM slotq_keys WHERE opens_at IS NOT NULL AND opens_at <= ?1
             ORDER BY opens_at, id LIMIT ?2)
"""

# Claims: the best startable job of one queue, one statement an order. ?2 is how many unkeyed starts
# in a row there may be before a keyed job goes next; without a keyed one the statement runs again
# without floor. An offer has the columns of its order, of which the last, the instant, is
# the first of a Claim, then the rest of that: RETURNING costs more.

OFFER_FAIR: Final = """
SELECT l.head_rank, l.running, l.head_run_at, j.id, j.token + 1, j.attempt + 1,
  j.max_attempts, j.task, j.args, j.kwargs, j.timeout_ms, j.store_result, q.queue,
  (SELECT k.key FROM slotq_keys k WHERE k.id = l.key_id), j.key_id
FROM slotq_queues q CROSS JOIN slotq_lanes l INDEXED BY slotq_lanes_fair CROSS JOIN slotq_jobs j
WHERE q.queue = ?1 AND NOT q.paused AND q.running < q.cap AND l.queue_id = q.id
  AND l.fair AND l.open AND l.head_id IS NOT NULL AND (l.key_id <> 0 OR q.dry < ?2)
  AND j.id = l.head_id
ORDER BY l.head_rank, l.running, l.head_run_at, l.head_id LIMIT 1
"""
OFFER_ROBIN: Final = """
SELECT l.head_rank, l.running, l.last_start, l.head_run_at, j.id, j.token + 1, j.attempt + 1,
  j.max_attempts, j.task, j.args, j.kwargs, j.timeout_ms, j.store_result, q.queue,
  (SELECT k.key FROM slotq_keys k WHERE k.id = l.key_id), j.key_id
FROM slotq_queues q CROSS JOIN slotq_lanes l INDEXED BY slotq_lanes_robin CROSS JOIN slotq_jobs j
WHERE q.queue = ?1 AND NOT q.paused AND q.running < q.cap AND l.queue_id = q.id
  AND l.robin AND l.open AND l.head_id IS NOT NULL AND (l.key_id <> 0 OR q.dry < ?2)
  AND j.id = l.head_id
ORDER BY l.head_rank, l.running, l.last_start, l.head_run_at, l.head_id LIMIT 1
"""
OFFER_FIFO: Final = """
SELECT l.head_rank, l.head_run_at, j.id, j.token + 1, j.attempt + 1,
  j.max_attempts, j.task, j.args, j.kwargs, j.timeout_ms, j.store_result, q.queue,
  (SELECT k.key FROM slotq_keys k WHERE k.id = l.key_id), j.key_id
FROM slotq_queues q CROSS JOIN slotq_lanes l INDEXED BY slotq_lanes_fifo CROSS JOIN slotq_jobs j
WHERE q.queue = ?1 AND NOT q.paused AND q.running < q.cap AND l.queue_id = q.id
  AND l.fifo AND l.open AND l.head_id IS NOT NULL AND (l.key_id <> 0 OR q.dry < ?2)
  AND j.id = l.head_id
ORDER BY l.head_rank, l.head_run_at, l.head_id LIMIT 1
"""
QUEUE_NAMES: Final = "SELECT queue FROM slotq_queues ORDER BY id"
# The first claim in an order finds nothing, since its index is not kept yet.
KEEP_FAIR: Final = "UPDATE slotq_orders SET fair = 1 WHERE NOT fair"
KEEP_ROBIN: Final = "UPDATE slotq_orders SET robin = 1 WHERE NOT robin"
KEEP_FIFO: Final = "UPDATE slotq_orders SET fifo = 1 WHERE NOT fifo"
START_JOB: Final = """
UPDATE OR FAIL slotq_jobs
SET state = 'running', attempt = attempt + 1, token = token + 1, misses = 0, started_at = ?2,
    progress = NULL, progress_text = NULL, lease_until = ?2 + ?3, lease_ms = ?3, worker_id = ?4
WHERE id = ?1 AND state = 'waiting'
"""
# A job whose task the claiming worker does not know waits a while for one that does.
PUT_BACK_UNKNOWN: Final = """
UPDATE slotq_jobs SET state = 'scheduled', misses = misses + 1, error = 'unknown task',
  run_at = :now + CASE
  WHEN EXISTS (SELECT 1 FROM slotq_workers w, json_each(w.tasks) t WHERE t.value = slotq_jobs.task)
  THEN :known_ms ELSE min(:first_ms << min(misses, 20), :last_ms) END
WHERE id = :id AND state = 'waiting'
"""

# Ends of a run: each needs its token. Zero rows changed means that the lease was lost.

FINISH_JOB: Final = """
UPDATE OR FAIL slotq_jobs
SET state = 'succeeded', finished_at = ?3, lease_until = NULL, cancelling = 0,
  result = CASE WHEN store_result THEN ?4 END, error = NULL, traceback = NULL
WHERE id = ?1 AND state = 'running' AND token = ?2
"""
# Every other end of a run. A job whose end was asked for is cancelled, whatever its body did, unless
# it succeeded before it could know.
STOP_JOB: Final = """
UPDATE slotq_jobs SET lease_until = NULL, cancelling = 0, attempt = attempt - :unused,
  state = CASE WHEN cancelling THEN 'cancelled' ELSE :state END,
  finished_at = CASE WHEN cancelling OR :state = 'failed' OR :state = 'cancelled' THEN :now END,
  run_at = coalesce(:run_at, run_at),
  error = CASE WHEN :state = 'waiting' THEN error ELSE :error END,
  traceback = CASE WHEN :state = 'waiting' THEN traceback ELSE :traceback END
WHERE id = :id AND state = 'running' AND token = :token
RETURNING state
"""
RENEW_LEASE: Final = """
UPDATE slotq_jobs SET lease_until = :now + lease_ms
WHERE id = :id AND state = 'running' AND token = :token
"""
SET_PROGRESS: Final = """
UPDATE slotq_jobs SET progress = :progress, progress_text = :text
WHERE id = :id AND state = 'running' AND token = :token
"""
CANCELLING_JOBS: Final = """
SELECT id, token FROM slotq_jobs INDEXED BY slotq_jobs_cancelling
WHERE cancelling AND worker_id = ?
"""

# What people do to jobs.

JOB_STATE: Final = "SELECT state, dedupe FROM slotq_jobs WHERE id = ?"
CANCEL_JOB: Final = """
UPDATE slotq_jobs SET state = 'cancelled', finished_at = ?, error = NULL, traceback = NULL
WHERE id = ? AND state IN ('scheduled', 'waiting')
"""
# It runs: its worker is to see to its end.
ASK_FOR_END: Final = "UPDATE slotq_jobs SET cancelling = 1 WHERE id = ? AND state = 'running'"
RETRY_JOB: Final = """
UPDATE slotq_jobs SET state = 'waiting', attempt = 0, misses = 0, run_at = :now, expires_at = NULL,
  finished_at = NULL, error = NULL, traceback = NULL
WHERE id = :id AND state IN ('failed', 'cancelled')
"""
DELETE_JOB: Final = "DELETE FROM slotq_jobs WHERE id = ? AND state <> 'running'"
PRUNE_JOBS: Final = """
DELETE FROM slotq_jobs
WHERE id IN (SELECT id FROM slotq_jobs WHERE finished_at IS NOT NULL AND finished_at <= ?
             ORDER BY finished_at LIMIT ?)
"""
# A key with nothing to remember, among the next few after a place in the table. Marks are kept in
# order, so the last one tells whether any lies inside its longest window.
NEXT_KEYS: Final = (
    "SELECT max(id), count(*) FROM (SELECT id FROM slotq_keys WHERE id > ? ORDER BY id LIMIT ?)"
)
PRUNE_KEYS: Final = """
DELETE FROM slotq_keys
WHERE id > :after AND id <= :last AND id <> 0 AND running = 0 AND queued = 0 AND NOT paused
  AND NOT EXISTS (SELECT 1 FROM slotq_jobs j WHERE j.key_id = slotq_keys.id AND j.key_id <> 0)
  AND NOT EXISTS (SELECT 1 FROM slotq_holds h WHERE h.key_id = slotq_keys.id)
  AND NOT EXISTS (SELECT 1 FROM slotq_limits l WHERE l.kind = 'key' AND l.subject = slotq_keys.key)
  AND coalesce((SELECT s.at FROM slotq_starts s WHERE s.key_id = slotq_keys.id
                ORDER BY s.seq DESC LIMIT 1) + span <= :now, 1)
"""

# Limits.

FIND_LIMIT: Final = """
SELECT id, max_running, max_starts, window_ms, unit, zone, version FROM slotq_limits
WHERE kind = ? AND subject = ? AND name = ?
"""
COUNT_PATTERNS: Final = "SELECT count(*) FROM slotq_limits WHERE kind = 'pattern'"
ADD_LIMIT: Final = """
INSERT INTO slotq_limits (kind, subject, name, glob, specificity, max_running, max_starts,
  window_ms, unit, zone, span_ms, period_start, period_end, updated_at, updated_by, declared)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
EDIT_LIMIT: Final = """
UPDATE slotq_limits SET max_running = ?, max_starts = ?, window_ms = ?, unit = ?, zone = ?,
  span_ms = ?, period_start = ?, period_end = ?, updated_at = ?, updated_by = ?,
  declared = ?, version = version + 1
WHERE id = ?
"""
CLEAR_LIMITS: Final = """
DELETE FROM slotq_limits
WHERE kind = :kind AND subject = :subject AND (:name IS NULL OR name = :name)
RETURNING name, max_running, max_starts, window_ms, unit, zone
"""
LIST_LIMITS: Final = """
SELECT kind, subject, name, max_running, max_starts, window_ms, unit, zone, version, updated_at,
  updated_by, declared
FROM slotq_limits ORDER BY kind, subject, name
"""
GET_LIMIT: Final = """
SELECT kind, subject, name, max_running, max_starts, window_ms, unit, zone, version, updated_at,
  updated_by, declared
FROM slotq_limits WHERE kind = ? AND subject = ? AND name = ?
"""
# Pairs of this limit and another of its name in which the wider one has a part that the narrower,
# which hides it, lacks. A pattern taken as a text that another pattern matches is narrower. At
# most a few are of use to anybody. One look for each of its two parts: with an OR every limit would
# be held against every other.
HIDDEN_PARTS: Final = """
SELECT narrow.subject, wide.subject,
       wide.max_running IS NOT NULL AND narrow.max_running IS NULL,
       wide.max_starts IS NOT NULL AND narrow.max_starts IS NULL
FROM (SELECT n.id AS narrow_id, w.id AS wide_id FROM slotq_limits n CROSS JOIN slotq_limits w
      WHERE n.kind = :kind AND n.subject = :subject AND n.name = :name
        AND w.kind = 'pattern' AND w.name = :name
      UNION
      SELECT n.id, w.id FROM slotq_limits w CROSS JOIN slotq_limits n
      WHERE :kind = 'pattern' AND w.kind = :kind AND w.subject = :subject AND w.name = :name
        AND n.kind IN ('key', 'pattern') AND n.name = :name)
JOIN slotq_limits narrow ON narrow.id = narrow_id JOIN slotq_limits wide ON wide.id = wide_id
WHERE narrow.id <> wide.id
  AND narrow.subject GLOB wide.glob
  AND (wide.specificity, narrow.subject) < (narrow.specificity, wide.subject)
  AND (wide.max_running IS NOT NULL AND narrow.max_running IS NULL
       OR wide.max_starts IS NOT NULL AND narrow.max_starts IS NULL)
ORDER BY wide.specificity DESC, narrow.subject LIMIT 5
"""

# The limits in force for a key that may not have a row yet: the best of each name.
LIMITS_FOR: Final = """
SELECT kind, subject, name, max_running, max_starts, window_ms, unit, zone, version, updated_at,
  updated_by, declared
FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY specificity DESC, subject) AS place
      FROM slotq_limits
      WHERE (kind = 'key' AND subject = ?1) OR (kind = 'pattern' AND ?1 GLOB glob))
WHERE place = 1 ORDER BY name
"""

# Pauses.

PAUSE_KEY: Final = "UPDATE slotq_keys SET paused = ?1 WHERE key = ?2 AND id <> 0 AND paused <> ?1"
PAUSE_QUEUE: Final = "UPDATE slotq_queues SET paused = ?1 WHERE queue = ?2 AND paused <> ?1"

# Events.

ADD_EVENT: Final = """
INSERT INTO slotq_events (at, kind, key, queue, job_id, text, by)
VALUES (:at, :kind, :key, :queue, :job, :text, :by)
"""
# Of a job that was just taken back.
ADD_LOST_EVENT: Final = """
INSERT INTO slotq_events (at, kind, key, queue, job_id, text)
SELECT ?1, 'lease_lost', nullif(k.key, ''), q.queue, j.id,
       'worker ' || j.worker_id || ' lost attempt ' || j.attempt || ' of ' || j.max_attempts
       || ' of ' || j.task || ', which is ' || j.state || ' now'
FROM slotq_jobs j JOIN slotq_queues q ON q.id = j.queue_id JOIN slotq_keys k ON k.id = j.key_id
WHERE j.id = ?2
"""

# Workers.

ADD_WORKER: Final = """
INSERT INTO slotq_workers (id, pid, host, queues, slots, claim_order, lease_ms, started_at, seen_at,
  tasks)
VALUES (:id, :pid, :host, :queues, :slots, :claim_order, :lease_ms, :now, :now, :tasks) RETURNING id
"""
SEE_WORKER: Final = "UPDATE slotq_workers SET seen_at = ? WHERE id = ?"
# Its jobs are due at once: see LAPSED_LEASES.
LAPSE_LEASES: Final = """
UPDATE slotq_jobs SET lease_until = :now
WHERE lease_until IS NOT NULL AND lease_until > :now AND worker_id = :id
"""
DROP_WORKER: Final = "DELETE FROM slotq_workers WHERE id = ? RETURNING pid, host"
# A worker that has not been seen for this many of its leases is gone, and so are its jobs' leases.
DROP_GONE_WORKERS: Final = """
DELETE FROM slotq_workers WHERE seen_at + :leases * lease_ms < :now RETURNING id, pid, host
"""
ANY_WAITING: Final = """
SELECT 1 FROM slotq_queues q CROSS JOIN slotq_lanes l CROSS JOIN slotq_keys k
WHERE NOT q.paused AND l.queue_id = q.id AND l.waiting > 0 AND k.id = l.key_id AND NOT k.paused
  AND (:queues IS NULL OR q.queue IN (SELECT value FROM json_each(:queues)))
LIMIT 1
"""
LIST_WORKERS: Final = """
SELECT w.id, w.pid, w.host, w.queues, w.slots, w.claim_order, w.started_at, w.seen_at, w.tasks,
       (SELECT count(*) FROM slotq_jobs j
        WHERE j.lease_until IS NOT NULL AND j.worker_id = w.id)
FROM slotq_workers w ORDER BY w.id
"""
