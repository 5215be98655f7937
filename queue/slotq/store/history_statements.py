"""Every SQL statement behind the history for charts, by name."""

from typing import Final

# What is in a bucket already, of those that are about to be added to it.
WAITS_OF: Final = """
SELECT h.ref, h.waits FROM json_each(:refs) e CROSS JOIN slotq_history h
WHERE h.kind = :kind AND h.at = :at AND h.ref = e.value
"""
COUNT_BUCKET: Final = """
SELECT count(*) FROM (SELECT 1 FROM slotq_history WHERE kind = :kind AND at = :at LIMIT :most)
"""
ADD_HISTORY: Final = """
INSERT INTO slotq_history (kind, at, ref, starts, finishes, failures, waiting, waits)
VALUES (?1, ?2, ?3, ?4, ?5, ?6,
  CASE ?1 WHEN 'queue' THEN ?7
          ELSE (SELECT sum(l.waiting) FROM slotq_lanes l WHERE l.key_id = ?3) END, ?8)
ON CONFLICT (kind, at, ref) DO UPDATE SET
  starts = starts + excluded.starts, finishes = finishes + excluded.finishes,
  failures = failures + excluded.failures, waiting = coalesce(excluded.waiting, waiting),
  waits = excluded.waits
"""
# What is too old, and what a clock that was set back has left in the future.
DROP_OLD_HISTORY: Final = """
DELETE FROM slotq_history
WHERE kind = ?1 AND (at, ref) IN (
  SELECT at, ref FROM slotq_history WHERE kind = ?1 AND at < ?2 ORDER BY at, ref LIMIT ?3)
"""
DROP_FUTURE_HISTORY: Final = """
DELETE FROM slotq_history
WHERE kind = ?1 AND (at, ref) IN (
  SELECT at, ref FROM slotq_history WHERE kind = ?1 AND at > ?2 ORDER BY at, ref LIMIT ?3)
"""
# Whether somebody has looked how many jobs wait, in this bucket.
IS_SAMPLED: Final = """
SELECT 1 FROM slotq_history WHERE kind = 'queue' AND at = ? AND waiting IS NOT NULL LIMIT 1
"""
WAITING_BY_QUEUE: Final = """
SELECT q.queue, sum(l.waiting) FROM slotq_lanes l JOIN slotq_queues q ON q.id = l.queue_id
WHERE l.waiting > 0 GROUP BY l.queue_id
"""
# The buckets of one queue or key: a probe each. :at is the first, :width how long each is.
HISTORY_OF_QUEUE: Final = """
WITH RECURSIVE bucket (at) AS (
  SELECT :at UNION ALL SELECT at + :width FROM bucket WHERE at + :width <= :now)
SELECT h.at, h.starts, h.finishes, h.failures, h.waiting, h.waits
FROM slotq_queues q CROSS JOIN bucket b CROSS JOIN slotq_history h
WHERE q.queue = :name AND h.kind = 'queue' AND h.at = b.at AND h.ref = q.id
"""
HISTORY_OF_KEY: Final = """
WITH RECURSIVE bucket (at) AS (
  SELECT :at UNION ALL SELECT at + :width FROM bucket WHERE at + :width <= :now)
SELECT h.at, h.starts, h.finishes, h.failures, h.waiting, h.waits
FROM slotq_keys k CROSS JOIN bucket b CROSS JOIN slotq_history h
WHERE k.key = :name AND k.id <> 0 AND h.kind = 'key' AND h.at = b.at AND h.ref = k.id
"""
HISTORY_OF_ALL: Final = """
SELECT at, starts, finishes, failures, waiting, waits FROM slotq_history
WHERE kind = 'queue' AND at >= ?1 AND at <= ?2 ORDER BY at
"""
