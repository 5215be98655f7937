"""Every SQL statement behind holds, by name; those of the jobs' way: statements.py."""

from typing import Final

HOLD_KEY: Final = """
SELECT id, running, cap, span, seq, opens_at, queued, paused FROM slotq_keys
WHERE key = ? AND id <> 0
"""
ADD_HOLD_KEY: Final = "INSERT INTO slotq_keys (key) VALUES (?)"
# What the job in whose body a hold is taken has of its key itself: waiting would not free it.
OWN_SLOTS: Final = """
SELECT (SELECT count(*) FROM slotq_jobs WHERE id = :job AND key_id = :key AND state = 'running')
  + (SELECT coalesce(sum(slots), 0) FROM slotq_holds
     WHERE key_id = :key AND state = 'held' AND job_id = :job)
"""
ADD_HOLD: Final = """
INSERT INTO slotq_holds (key_id, slots, state, since, until, ttl_ms, cap, job_id, holder, label,
  process, ticket, bell)
VALUES (:key, :slots, :state, :now, :now + :ttl, :ttl, :cap, :job, :holder, :label, :process,
  :ticket, :bell)
RETURNING id
"""
GET_HOLD: Final = """
SELECT h.state, k.key, h.key_id FROM slotq_holds h JOIN slotq_keys k ON k.id = h.key_id
WHERE h.id = :id AND h.until > :now
"""
FIRST_WAITING: Final = """
SELECT id, until FROM slotq_holds WHERE key_id = ? AND state = 'waiting' ORDER BY id LIMIT 1
"""
WAITING_SLOTS: Final = """
SELECT coalesce(sum(slots), 0) FROM slotq_holds WHERE key_id = ? AND state = 'waiting' AND id < ?
"""
SERVE_HOLD: Final = """
UPDATE slotq_holds SET state = 'held', since = :now, until = :now + :ttl, ttl_ms = :ttl, bell = ''
WHERE id = :id AND state = 'waiting'
"""
KEEP_WAITING: Final = """
UPDATE slotq_holds SET until = :now + :ttl, ttl_ms = :ttl WHERE id = :id AND state = 'waiting'
"""
EXTEND_HOLD: Final = """
UPDATE slotq_holds SET until = ?4 + ?5, ttl_ms = ?5
WHERE id = ?1 AND process = ?2 AND ticket = ?3 AND state = 'held' AND until > ?4
"""
RELEASE_HOLD: Final = """
DELETE FROM slotq_holds
WHERE id = ?1 AND process = ?2 AND ticket = ?3 AND until > ?4
"""
# By anybody.
TAKE_BACK_HOLD: Final = "DELETE FROM slotq_holds WHERE id = ?"
LAPSE_HOLDS: Final = "UPDATE slotq_holds SET until = ?2 WHERE process = ?1 AND until > ?2"

# What is due of one key, where more is due in the file than one transaction handles.
LAPSED_LEASES_OF_KEY: Final = """
SELECT id, token, attempt, max_attempts, queue_id, key_id FROM slotq_jobs INDEXED BY slotq_jobs_lease
WHERE lease_until <= :now AND key_id = :key ORDER BY lease_until, id
"""
DROP_HOLDS_OF_KEY: Final = """
DELETE FROM slotq_holds WHERE key_id = :key AND state IN ('held', 'waiting') AND until <= :now
"""
OPEN_KEY: Final = """
UPDATE slotq_keys SET opens_at = NULL
WHERE id = :key AND opens_at IS NOT NULL AND opens_at <= :now
"""

# When the windows of a key that have no room for :slots more starts have it again, each with its
# limit: slotq_key_opens for any number. The mark that must leave covers the number that lies so
# many starts back that all the new ones fit.
HOLD_OPENS: Final = """
SELECT CASE WHEN l.window_ms IS NOT NULL THEN m.at + l.window_ms
            WHEN m.at >= l.period_start THEN l.period_end END AS opens_at,
  l.kind, l.subject, l.name, l.max_running, l.max_starts, l.window_ms, l.unit, l.zone, l.version,
  l.updated_at, l.updated_by, l.declared
FROM slotq_keys k CROSS JOIN slotq_key_limits kl CROSS JOIN slotq_limits l
CROSS JOIN slotq_starts m
WHERE k.id = :key AND kl.key_id = k.id AND l.id = kl.limit_id AND l.max_starts IS NOT NULL
  AND k.seq + :slots - l.max_starts > kl.since
  AND m.key_id = kl.key_id AND m.seq = (
    SELECT s.seq FROM slotq_starts s
    WHERE s.key_id = kl.key_id AND s.seq <= k.seq + :slots - l.max_starts
    ORDER BY s.seq DESC LIMIT 1)
"""
# The most starts that each window of a key ever allows at once.
LEAST_STARTS: Final = """
SELECT min(l.max_starts) FROM slotq_key_limits kl CROSS JOIN slotq_limits l
WHERE kl.key_id = ? AND l.id = kl.limit_id
"""
TIGHTEST_LIMIT: Final = """
SELECT l.kind, l.subject, l.name, l.max_running, l.max_starts, l.window_ms, l.unit, l.zone,
  l.version, l.updated_at, l.updated_by, l.declared
FROM slotq_key_limits kl CROSS JOIN slotq_limits l
WHERE kl.key_id = ? AND l.id = kl.limit_id AND l.max_running = ? ORDER BY kl.name LIMIT 1
"""
# The ends of what has the slots of a key, as many as must end.
SLOT_ENDS: Final = """
SELECT until, slots FROM (
  SELECT lease_until AS until, 1 AS slots FROM slotq_jobs INDEXED BY slotq_jobs_lease
  WHERE lease_until IS NOT NULL AND key_id = :key
  UNION ALL
  SELECT until, slots FROM slotq_holds WHERE key_id = :key AND state = 'held')
ORDER BY until LIMIT :most
"""

# The pipes of those who are first in line: of one key, and of each key where the first may be
# served, or never can be and is to be told so.
BELLS: Final = """
SELECT h.bell FROM slotq_keys k INDEXED BY slotq_keys_queued CROSS JOIN slotq_holds h
WHERE k.queued > 0 AND k.id > 0
  AND h.id = (SELECT w.id FROM slotq_holds w WHERE w.key_id = k.id AND w.state = 'waiting'
              ORDER BY w.id LIMIT 1)
  AND (k.id = ?1 OR h.slots > k.cap OR (NOT k.paused AND k.opens_at IS NULL
       AND k.running + h.slots <= k.cap AND k.running + h.slots <= h.cap))
"""
# The pipe of the first in line of one key.
FIRST_BELL: Final = """
SELECT bell FROM slotq_holds WHERE key_id = ? AND state = 'waiting' ORDER BY id LIMIT 1
"""
LIST_HOLDS: Final = """
SELECT h.id, k.key, h.slots, h.state, h.since, h.until, h.holder, h.label, h.job_id
FROM slotq_holds h JOIN slotq_keys k ON k.id = h.key_id
WHERE h.until > :now AND h.id > :after AND (:key IS NULL OR k.key = :key)
ORDER BY h.id LIMIT :limit
"""
