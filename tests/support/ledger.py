"""A ledger that triggers keep inside a queue file: starts, ends and limits in commit order.

A hold of one slot stands in it like a job, by its negative number: enqueued when it comes into the
line or is taken, started when it has its slot, ended when its row goes. It sees what the file sees, whatever process or thread wrote it, and nothing else: no clock of
another host, no moment between a commit and the line that tells of it.
"""

import contextlib
import sqlite3
from pathlib import Path

from support.history import Event

TRIGGERS = """
CREATE TABLE ledger (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT, at INTEGER, job INTEGER, key TEXT,
  token INTEGER, is_final INTEGER, max_running INTEGER, max_starts INTEGER, window INTEGER);
CREATE TRIGGER ledger_enqueued AFTER INSERT ON slotq_jobs BEGIN
  INSERT INTO ledger (kind, at, job, key)
    SELECT 'enqueued', NEW.created_at, NEW.id, key FROM slotq_keys WHERE id = NEW.key_id;
END;
CREATE TRIGGER ledger_start AFTER UPDATE OF state ON slotq_jobs
WHEN NEW.state = 'running' AND OLD.state <> 'running' BEGIN
  INSERT INTO ledger (kind, at, job, key, token)
    SELECT 'start', NEW.started_at, NEW.id, key, NEW.token FROM slotq_keys WHERE id = NEW.key_id;
END;
CREATE TRIGGER ledger_end AFTER UPDATE OF state ON slotq_jobs
WHEN OLD.state = 'running' AND NEW.state <> 'running' BEGIN
  INSERT INTO ledger (kind, at, job, is_final)
    VALUES ('end', coalesce(NEW.finished_at, NEW.run_at), NEW.id, NEW.finished_at IS NOT NULL);
END;
CREATE TRIGGER ledger_cancelled AFTER UPDATE OF state ON slotq_jobs
WHEN OLD.state <> 'running' AND NEW.state = 'cancelled' BEGIN
  INSERT INTO ledger (kind, at, job, is_final) VALUES ('end', NEW.finished_at, NEW.id, 1);
END;
CREATE TRIGGER ledger_hold_new AFTER INSERT ON slotq_holds BEGIN
  INSERT INTO ledger (kind, at, job, key)
    SELECT 'enqueued', NEW.since, -NEW.id, key FROM slotq_keys WHERE id = NEW.key_id;
  INSERT INTO ledger (kind, at, job, key)
    SELECT 'start', NEW.since, -NEW.id, key FROM slotq_keys
    WHERE id = NEW.key_id AND NEW.state = 'held';
END;
CREATE TRIGGER ledger_hold_start AFTER UPDATE OF state ON slotq_holds
WHEN NEW.state = 'held' AND OLD.state <> 'held' BEGIN
  INSERT INTO ledger (kind, at, job, key)
    SELECT 'start', NEW.since, -NEW.id, key FROM slotq_keys WHERE id = NEW.key_id;
END;
CREATE TRIGGER ledger_hold_end AFTER DELETE ON slotq_holds BEGIN
  INSERT INTO ledger (kind, at, job, is_final)
    VALUES ('end', round((julianday('now') - 2440587.5) * 86400000), -OLD.id, 1);
END;
CREATE TRIGGER ledger_limit_new AFTER INSERT ON slotq_limits WHEN NEW.kind = 'key' BEGIN
  INSERT INTO ledger (kind, at, key, max_running, max_starts, window)
    VALUES ('limit', NEW.updated_at, NEW.subject, NEW.max_running, NEW.max_starts, NEW.window_ms);
END;
CREATE TRIGGER ledger_limit_edit AFTER UPDATE ON slotq_limits WHEN NEW.kind = 'key' BEGIN
  INSERT INTO ledger (kind, at, key, max_running, max_starts, window)
    VALUES ('limit', NEW.updated_at, NEW.subject, NEW.max_running, NEW.max_starts, NEW.window_ms);
END;
CREATE TRIGGER ledger_limit_gone AFTER DELETE ON slotq_limits WHEN OLD.kind = 'key' BEGIN
  INSERT INTO ledger (kind, at, key) VALUES ('limit', 0, OLD.subject);
END;
"""


def keep(path: Path) -> None:
    """Begin a ledger in a queue file; only exact limits without a name are written down."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.executescript(TRIGGERS)


def read(path: Path) -> list[Event]:
    """Return what happened in a queue file since ``keep``, in the order of its commits."""
    sql = """
    SELECT kind, at, coalesce(job, 0), coalesce(key, ''), coalesce(token, 0), is_final,
           max_running, max_starts, coalesce(window, 0) FROM ledger ORDER BY seq
    """
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return [
            Event(
                kind=kind, at=at, job=job, key=key, token=token, is_final=bool(is_final),
                max_running=max_running, max_starts=max_starts, window=window,
            )
            for kind, at, job, key, token, is_final, max_running, max_starts, window
            in connection.execute(sql)
        ]  # fmt: skip
