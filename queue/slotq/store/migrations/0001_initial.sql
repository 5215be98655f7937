-- The whole schema of a queue file.
--
-- Everything that is a count, a head of a line, or an answer to "may this start?" is kept by the
-- triggers below, inside the transaction that changes the row. No program writes such a column.
-- Triggers use SQLite's own functions only: they also run in an application's connection.
--
-- Instants are integer milliseconds since 1970 UTC. 2147483647 stands for "unlimited", so that
-- caps compare without NULL. rank is -priority, so that every order is ascending.
-- Some views are procedures: an INSTEAD OF INSERT trigger on them is the one place that knows how
-- a thing is done, and an INSERT into the view calls it.
--
-- Every job passes through the triggers on its insert, its start and its end, and through those on
-- lanes and keys that they fire. They are written for speed: no IN list of more than two and no
-- INSERT from a SELECT, for which SQLite builds a table each time; no SQL function and no
-- RAISE(ABORT), for which it first saves each page that a statement is about to change, so that it
-- can undo the statement alone. Their guards undo the whole transaction instead.

-- One row. now: the last instant used, at most a second old. period_end: when the next calendar
-- window of any limit turns over, kept here so that a file without limits need not ask for it.
-- starts: a counter that orders the starts of all queues.
CREATE TABLE slotq_clock (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  now INTEGER NOT NULL,
  period_end INTEGER,
  starts INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO slotq_clock (id, now) VALUES (1, 0);

-- dry: unkeyed starts since the last keyed one.
CREATE TABLE slotq_queues (
  id INTEGER PRIMARY KEY,
  queue TEXT NOT NULL UNIQUE,
  cap INTEGER NOT NULL DEFAULT 2147483647,
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
  dry INTEGER NOT NULL DEFAULT 0
) STRICT;

-- running: slots taken by running jobs and live holds. cap: the least max_running of its limits.
-- span: the longest window of its limits, 0 for none. seq: number of the last start mark.
-- started_at: the instant of its last start.
-- opens_at: when its full windows have room again, NULL while none is full. queued: waiting holds.
CREATE TABLE slotq_keys (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
  cap INTEGER NOT NULL DEFAULT 2147483647,
  span INTEGER NOT NULL DEFAULT 0,
  seq INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER,
  opens_at INTEGER,
  queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1))
) STRICT;
CREATE INDEX slotq_keys_opens ON slotq_keys (opens_at) WHERE opens_at IS NOT NULL;
CREATE INDEX slotq_keys_queued ON slotq_keys (id) WHERE queued > 0;
INSERT INTO slotq_keys (id, key) VALUES (0, '');

-- One row. The claim orders that workers of this file have asked for: an index for an order that
-- nobody claims in would cost every claim a quarter more.
CREATE TABLE slotq_orders (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  fair INTEGER NOT NULL DEFAULT 0 CHECK (fair IN (0, 1)),
  robin INTEGER NOT NULL DEFAULT 0 CHECK (robin IN (0, 1)),
  fifo INTEGER NOT NULL DEFAULT 0 CHECK (fifo IN (0, 1))
) STRICT;
INSERT INTO slotq_orders (id) VALUES (1);

-- The jobs of one queue and key whose own max_running is the same. A lane is open or shut as a
-- whole, so one row answers for its whole backlog. running and last_start belong to the group
-- (queue, key) and stand in each of its lanes. fair, robin, fifo: those of slotq_orders.
CREATE TABLE slotq_lanes (
  id INTEGER PRIMARY KEY,
  queue_id INTEGER NOT NULL,
  key_id INTEGER NOT NULL,
  cap INTEGER NOT NULL CHECK (cap > 0),
  waiting INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),
  scheduled INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
  running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
  last_start INTEGER NOT NULL DEFAULT 0,
  open INTEGER NOT NULL DEFAULT 1 CHECK (open IN (0, 1)),
  fair INTEGER NOT NULL DEFAULT 0,
  robin INTEGER NOT NULL DEFAULT 0,
  fifo INTEGER NOT NULL DEFAULT 0,
  head_rank INTEGER,
  head_run_at INTEGER,
  head_id INTEGER,
  UNIQUE (key_id, queue_id, cap),
  CHECK ((head_id IS NULL) = (head_rank IS NULL AND head_run_at IS NULL))
) STRICT;
-- A claim is one probe of the index in its order. The WHERE terms must stand in the query letter
-- for letter, or SQLite scans and sorts instead.
CREATE INDEX slotq_lanes_fair ON slotq_lanes (queue_id, head_rank, running, head_run_at, head_id)
  WHERE fair AND open AND head_id IS NOT NULL;
CREATE INDEX slotq_lanes_robin
  ON slotq_lanes (queue_id, head_rank, running, last_start, head_run_at, head_id)
  WHERE robin AND open AND head_id IS NOT NULL;
CREATE INDEX slotq_lanes_fifo ON slotq_lanes (queue_id, head_rank, head_run_at, head_id)
  WHERE fifo AND open AND head_id IS NOT NULL;

-- queue_id and key_id repeat the lane's, which saves triggers a look-up; a job never moves.
-- token: claims so far; a run is ended only with it. misses: times it came up in a worker that
-- does not know its task. cancelling: it runs, and somebody asked for its end. progress: the share
-- that is done, 0 to 1. Long columns stand last, so that lists do not read them.
CREATE TABLE slotq_jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  lane_id INTEGER NOT NULL,
  queue_id INTEGER NOT NULL,
  key_id INTEGER NOT NULL,
  rank INTEGER NOT NULL DEFAULT 0,
  run_at INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  max_attempts INTEGER NOT NULL DEFAULT 5 CHECK (max_attempts > 0),
  token INTEGER NOT NULL DEFAULT 0 CHECK (token >= 0),
  misses INTEGER NOT NULL DEFAULT 0 CHECK (misses >= 0),
  store_result INTEGER NOT NULL DEFAULT 1 CHECK (store_result IN (0, 1)),
  timeout_ms INTEGER,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  lease_until INTEGER,
  lease_ms INTEGER,
  worker_id INTEGER,
  dedupe TEXT,
  task TEXT NOT NULL,
  cancelling INTEGER NOT NULL DEFAULT 0 CHECK (cancelling IN (0, 1)),
  progress REAL CHECK (progress BETWEEN 0 AND 1),
  progress_text TEXT,
  args TEXT NOT NULL,
  kwargs TEXT NOT NULL,
  error TEXT,
  traceback TEXT,
  result TEXT,
  CHECK ((state = 'running') = (lease_until IS NOT NULL)),
  CHECK (state <> 'running' OR (started_at IS NOT NULL AND worker_id IS NOT NULL
                                AND lease_ms IS NOT NULL)),
  CHECK (NOT cancelling OR state = 'running'),
  CHECK (CASE WHEN finished_at IS NULL
              THEN state = 'scheduled' OR state = 'waiting' OR state = 'running'
              ELSE state = 'succeeded' OR state = 'failed' OR state = 'cancelled' END)
) STRICT;
CREATE INDEX slotq_jobs_waiting ON slotq_jobs (lane_id, rank, run_at, id) WHERE state = 'waiting';
CREATE INDEX slotq_jobs_due ON slotq_jobs (run_at) WHERE state = 'scheduled';
CREATE INDEX slotq_jobs_lease ON slotq_jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX slotq_jobs_finished ON slotq_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX slotq_jobs_expires ON slotq_jobs (expires_at)
  WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting');
-- What people look for among many that succeeded.
CREATE INDEX slotq_jobs_unsuccessful ON slotq_jobs (state, id)
  WHERE state = 'failed' OR state = 'cancelled';
CREATE INDEX slotq_jobs_cancelling ON slotq_jobs (worker_id) WHERE cancelling;
CREATE INDEX slotq_jobs_key ON slotq_jobs (key_id, id) WHERE key_id <> 0;
CREATE UNIQUE INDEX slotq_jobs_dedupe ON slotq_jobs (dedupe)
  WHERE dedupe IS NOT NULL AND finished_at IS NULL;

-- until: end of its TTL while held; while waiting, when it counts as gone unless it calls again.
-- cap: its own max_running. job_id: the job whose body took it. process: the lock file that tells
-- whether its process lives; ticket: which of its holds. bell: the pipe that wakes it while it waits.
CREATE TABLE slotq_holds (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key_id INTEGER NOT NULL CHECK (key_id <> 0),
  slots INTEGER NOT NULL DEFAULT 1 CHECK (slots > 0),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'held')),
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  ttl_ms INTEGER NOT NULL CHECK (ttl_ms > 0),
  cap INTEGER NOT NULL DEFAULT 2147483647 CHECK (cap > 0),
  job_id INTEGER,
  holder TEXT NOT NULL DEFAULT '',
  label TEXT NOT NULL DEFAULT '',
  process TEXT NOT NULL DEFAULT '',
  ticket INTEGER NOT NULL DEFAULT 0,
  bell TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX slotq_holds_until ON slotq_holds (until);
CREATE INDEX slotq_holds_key ON slotq_holds (key_id, state, id);

-- subject: a key, a pattern as written, or a queue's name. specificity orders the limits of one
-- name that match a key: 2147483647 for an exact key, else the pattern's literal characters.
-- span_ms: the longest that its window can be. period_start, period_end: bounds of a calendar one.
CREATE TABLE slotq_limits (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('key', 'pattern', 'queue')),
  subject TEXT NOT NULL,
  name TEXT NOT NULL DEFAULT '',
  glob TEXT,
  specificity INTEGER NOT NULL DEFAULT 2147483647,
  max_running INTEGER CHECK (max_running BETWEEN 1 AND 1000000),
  max_starts INTEGER CHECK (max_starts BETWEEN 1 AND 1000000),
  window_ms INTEGER CHECK (window_ms > 0),
  unit TEXT CHECK (unit IN ('minute', 'hour', 'day', 'week', 'month')),
  zone TEXT,
  span_ms INTEGER,
  period_start INTEGER,
  period_end INTEGER,
  version INTEGER NOT NULL DEFAULT 1,
  updated_at INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  declared INTEGER NOT NULL DEFAULT 0 CHECK (declared IN (0, 1)),
  UNIQUE (kind, subject, name),
  CHECK ((kind = 'pattern') = (glob IS NOT NULL)),
  CHECK (max_running IS NOT NULL OR max_starts IS NOT NULL),
  CHECK ((max_starts IS NULL) = (span_ms IS NULL)),
  CHECK ((max_starts IS NOT NULL) = ((window_ms IS NULL) <> (unit IS NULL))),
  CHECK ((window_ms IS NULL) OR (unit IS NULL)),
  CHECK ((unit IS NULL) = (period_end IS NULL) AND (unit IS NULL) = (zone IS NULL)),
  CHECK (kind <> 'queue' OR max_starts IS NULL)
) STRICT;
CREATE INDEX slotq_limits_pattern ON slotq_limits (specificity DESC, subject)
  WHERE glob IS NOT NULL;
CREATE INDEX slotq_limits_period ON slotq_limits (period_end) WHERE period_end IS NOT NULL;

-- The limit in force for a key under each name, and the number of the last start before it began
-- to count (so a limit set after a clear starts from zero).
CREATE TABLE slotq_key_limits (
  key_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  limit_id INTEGER NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (key_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX slotq_key_limits_limit ON slotq_key_limits (limit_id);

-- Start marks of a key with a window: the row (seq, at) stands for all numbers from seq up to the
-- next row, or up to the key's own seq. at never falls from one mark of a key to the next.
CREATE TABLE slotq_starts (
  key_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (key_id, seq)
) STRICT, WITHOUT ROWID;

-- What people and workers did that somebody may ask about later: the newest 10,000.
CREATE TABLE slotq_events (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT,
  queue TEXT,
  job_id INTEGER,
  text TEXT NOT NULL DEFAULT '',
  by TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TRIGGER slotq_event_new AFTER INSERT ON slotq_events BEGIN
  DELETE FROM slotq_events WHERE id <= NEW.id - 10000;
END;

-- What is counted for charts, in buckets of time: see history.py. ref: the queue or the key, whose
-- number is not given again. waiting: as somebody last saw it; NULL if nobody looked. waits: how many
-- starts had waited how long, as "bin:count,...".
CREATE TABLE slotq_history (
  kind TEXT NOT NULL CHECK (kind IN ('queue', 'key')),
  at INTEGER NOT NULL,
  ref INTEGER NOT NULL,
  starts INTEGER NOT NULL,
  finishes INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  waiting INTEGER,
  waits TEXT NOT NULL,
  PRIMARY KEY (kind, at, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE slotq_workers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  pid INTEGER NOT NULL,
  host TEXT NOT NULL,
  queues TEXT NOT NULL,
  slots INTEGER NOT NULL,
  claim_order TEXT NOT NULL CHECK (claim_order IN ('fair', 'round-robin', 'fifo')),
  lease_ms INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  tasks TEXT NOT NULL
) STRICT;

--
-- Admission: two views. Whatever decides or explains a start reads one of them.
--

-- May a job of this lane start now? stored: what the lane said last.
CREATE VIEW slotq_lane_open AS
SELECT l.id AS lane_id,
       l.key_id AS key_id,
       l.open AS stored,
       k.paused = 0 AND k.queued = 0 AND k.opens_at IS NULL
         AND k.running < k.cap AND k.running < l.cap AS open
FROM slotq_lanes l JOIN slotq_keys k ON k.id = l.key_id;

-- When does each window of a key that has no room for one more start have it again? The mark that
-- must leave is the one that covers the max_starts-th last start.
CREATE VIEW slotq_key_opens AS
SELECT kl.key_id AS key_id,
       kl.limit_id AS limit_id,
       CASE WHEN l.window_ms IS NOT NULL THEN m.at + l.window_ms
            WHEN m.at >= l.period_start THEN l.period_end END AS opens_at
FROM slotq_key_limits kl
JOIN slotq_keys k ON k.id = kl.key_id
JOIN slotq_limits l ON l.id = kl.limit_id
JOIN slotq_starts m ON m.key_id = kl.key_id AND m.seq = (
  SELECT s.seq FROM slotq_starts s
  WHERE s.key_id = kl.key_id AND s.seq <= k.seq - l.max_starts + 1
  ORDER BY s.seq DESC LIMIT 1)
WHERE l.max_starts IS NOT NULL AND k.seq - l.max_starts + 1 > kl.since;

-- A job with the names of what it belongs to. The long columns stand last.
CREATE VIEW slotq_job_view AS
SELECT j.id, j.task, q.queue, k.key, l.cap, j.rank, j.state, j.run_at, j.expires_at, j.attempt,
       j.max_attempts, j.created_at, j.started_at, j.finished_at, j.lease_until, j.worker_id,
       j.timeout_ms, j.cancelling, j.progress, j.progress_text, j.error, j.args, j.kwargs,
       j.traceback, j.result
FROM slotq_jobs j
JOIN slotq_lanes l ON l.id = j.lane_id
JOIN slotq_queues q ON q.id = j.queue_id
JOIN slotq_keys k ON k.id = j.key_id;

-- The oldest waiting job of a lane, which need not be its head: the first of each rank in turn, so
-- a probe a rank, at any depth of the line.
CREATE VIEW slotq_lane_oldest AS
SELECT l.id AS lane_id, (
  WITH RECURSIVE firsts (rank, run_at) AS (
    SELECT l.head_rank, l.head_run_at
    UNION ALL
    SELECT n.rank, n.run_at FROM firsts f JOIN slotq_jobs n ON n.id = (
      SELECT j.id FROM slotq_jobs j
      WHERE j.lane_id = l.id AND j.state = 'waiting' AND j.rank > f.rank
      ORDER BY j.rank, j.run_at, j.id LIMIT 1))
  SELECT min(run_at) FROM firsts) AS run_at
FROM slotq_lanes l;

--
-- Procedures
--

-- Look for the head of a lane's line anew.
CREATE VIEW slotq_line AS SELECT 0 AS lane_id;
CREATE TRIGGER slotq_line_call INSTEAD OF INSERT ON slotq_line BEGIN
  UPDATE slotq_lanes
    SET (head_rank, head_run_at, head_id) = (
      SELECT j.rank, j.run_at, j.id FROM slotq_jobs j
      WHERE j.lane_id = slotq_lanes.id AND j.state = 'waiting'
      ORDER BY j.rank, j.run_at, j.id LIMIT 1)
    WHERE id = NEW.lane_id AND (head_rank, head_run_at, head_id) IS NOT (
      SELECT j.rank, j.run_at, j.id FROM slotq_jobs j
      WHERE j.lane_id = slotq_lanes.id AND j.state = 'waiting'
      ORDER BY j.rank, j.run_at, j.id LIMIT 1);
END;

-- Work out anew what the limits in force mean for a key.
CREATE VIEW slotq_reckon AS SELECT 0 AS key_id;
CREATE TRIGGER slotq_reckon_call INSTEAD OF INSERT ON slotq_reckon BEGIN
  UPDATE slotq_keys
    SET (cap, span) = (
          SELECT coalesce(min(l.max_running), 2147483647), coalesce(max(l.span_ms), 0)
          FROM slotq_key_limits kl JOIN slotq_limits l ON l.id = kl.limit_id
          WHERE kl.key_id = NEW.key_id),
        opens_at = (
          SELECT max(o.opens_at) FROM slotq_key_opens o
          WHERE o.key_id = NEW.key_id AND o.opens_at > (SELECT c.now FROM slotq_clock c))
    WHERE id = NEW.key_id;
END;

-- Work out anew what its limits mean for a queue.
CREATE VIEW slotq_reckon_queue AS SELECT '' AS queue;
CREATE TRIGGER slotq_reckon_queue_call INSTEAD OF INSERT ON slotq_reckon_queue BEGIN
  UPDATE slotq_queues
    SET cap = (SELECT coalesce(min(l.max_running), 2147483647) FROM slotq_limits l
               WHERE l.kind = 'queue' AND l.subject = NEW.queue)
    WHERE queue = NEW.queue;
END;

--
-- Jobs
--

CREATE TRIGGER slotq_job_place BEFORE UPDATE OF id, lane_id, queue_id, key_id ON slotq_jobs BEGIN
  SELECT RAISE(ABORT, 'a job never moves');
END;

-- The head of a line in a statement of its own: it rewrites the claim indexes.
CREATE TRIGGER slotq_job_new AFTER INSERT ON slotq_jobs BEGIN
  SELECT RAISE(ROLLBACK, 'a job begins scheduled or waiting')
    WHERE NEW.state <> 'waiting' AND NEW.state <> 'scheduled';
  UPDATE slotq_lanes
    SET waiting = waiting + (NEW.state = 'waiting'),
        scheduled = scheduled + (NEW.state = 'scheduled')
    WHERE id = NEW.lane_id;
  SELECT RAISE(ROLLBACK, 'the lane of a job is that of its queue and key')
    WHERE NOT EXISTS (SELECT 1 FROM slotq_lanes l WHERE l.id = NEW.lane_id
                      AND l.queue_id = NEW.queue_id AND l.key_id = NEW.key_id);
  UPDATE slotq_lanes
    SET head_rank = NEW.rank, head_run_at = NEW.run_at, head_id = NEW.id
    WHERE id = NEW.lane_id AND NEW.state = 'waiting' AND (head_id IS NULL
      OR (NEW.rank, NEW.run_at, NEW.id) < (head_rank, head_run_at, head_id));
END;

-- One update of the job's own lane, since each rewrites the claim indexes.
CREATE TRIGGER slotq_job_start AFTER UPDATE OF state ON slotq_jobs
WHEN OLD.state <> 'running' AND NEW.state = 'running' BEGIN
  SELECT RAISE(ROLLBACK, 'only a waiting job starts, with a new token')
    WHERE OLD.state <> 'waiting' OR NEW.token <= OLD.token;
  UPDATE slotq_clock SET starts = starts + 1;
  UPDATE slotq_queues
    SET running = running + 1,
        dry = CASE WHEN NEW.key_id = 0 THEN dry + 1 ELSE 0 END
    WHERE id = NEW.queue_id;
  UPDATE slotq_lanes
    SET waiting = waiting - 1, running = running + 1,
        last_start = (SELECT c.starts FROM slotq_clock c),
        (head_rank, head_run_at, head_id) = (
          SELECT j.rank, j.run_at, j.id FROM slotq_jobs j
          WHERE j.lane_id = slotq_lanes.id AND j.state = 'waiting'
          ORDER BY j.rank, j.run_at, j.id LIMIT 1)
    WHERE id = NEW.lane_id;
  UPDATE slotq_lanes
    SET running = running + 1,
        last_start = (SELECT c.starts FROM slotq_clock c)
    WHERE key_id = NEW.key_id AND queue_id = NEW.queue_id AND id <> NEW.lane_id;
  UPDATE slotq_keys
    SET running = running + 1, seq = seq + (span > 0), started_at = NEW.started_at
    WHERE id = NEW.key_id AND NEW.key_id <> 0;
END;
CREATE TRIGGER slotq_job_stop AFTER UPDATE OF state ON slotq_jobs
WHEN OLD.state = 'running' AND NEW.state <> 'running' BEGIN
  UPDATE slotq_lanes SET running = running - 1
    WHERE key_id = NEW.key_id AND queue_id = NEW.queue_id;
  UPDATE slotq_queues SET running = running - 1 WHERE id = NEW.queue_id;
  UPDATE slotq_keys SET running = running - 1 WHERE id = NEW.key_id AND NEW.key_id <> 0;
END;
-- What waits and what is scheduled; a start and the last end of a run leave that alone, or have
-- seen to it.
CREATE TRIGGER slotq_job_shift AFTER UPDATE OF state ON slotq_jobs
WHEN NEW.state <> OLD.state AND NEW.state <> 'running'
  AND (OLD.state <> 'running' OR NEW.finished_at IS NULL) BEGIN
  SELECT RAISE(ROLLBACK, 'a finished job can only wait again')
    WHERE OLD.finished_at IS NOT NULL AND NEW.state <> 'waiting';
  UPDATE slotq_lanes
    SET waiting = waiting + (NEW.state = 'waiting') - (OLD.state = 'waiting'),
        scheduled = scheduled + (NEW.state = 'scheduled') - (OLD.state = 'scheduled')
    WHERE id = NEW.lane_id;
  INSERT INTO slotq_line VALUES (NEW.lane_id);
END;
CREATE TRIGGER slotq_job_reorder AFTER UPDATE OF rank, run_at ON slotq_jobs
WHEN OLD.state = 'waiting' AND NEW.state = 'waiting' BEGIN
  INSERT INTO slotq_line VALUES (NEW.lane_id);
END;
CREATE TRIGGER slotq_job_gone AFTER DELETE ON slotq_jobs
WHEN OLD.state = 'waiting' OR OLD.state = 'scheduled' BEGIN
  UPDATE slotq_lanes
    SET waiting = waiting - (OLD.state = 'waiting'),
        scheduled = scheduled - (OLD.state = 'scheduled')
    WHERE id = OLD.lane_id;
  INSERT INTO slotq_line VALUES (OLD.lane_id);
END;
CREATE TRIGGER slotq_job_gone_running AFTER DELETE ON slotq_jobs WHEN OLD.state = 'running' BEGIN
  UPDATE slotq_lanes SET running = running - 1
    WHERE key_id = OLD.key_id AND queue_id = OLD.queue_id;
  UPDATE slotq_queues SET running = running - 1 WHERE id = OLD.queue_id;
  UPDATE slotq_keys SET running = running - 1 WHERE id = OLD.key_id AND OLD.key_id <> 0;
END;

--
-- Holds
--

CREATE TRIGGER slotq_hold_place BEFORE UPDATE OF id, key_id, slots ON slotq_holds BEGIN
  SELECT RAISE(ABORT, 'a hold keeps its key and its slots');
END;
CREATE TRIGGER slotq_hold_path BEFORE UPDATE OF state ON slotq_holds
WHEN OLD.state = 'held' AND NEW.state <> 'held' BEGIN
  SELECT RAISE(ABORT, 'a hold that has its slots never waits again');
END;
CREATE TRIGGER slotq_hold_taken AFTER INSERT ON slotq_holds WHEN NEW.state = 'held' BEGIN
  UPDATE slotq_keys
    SET running = running + NEW.slots, seq = seq + NEW.slots * (span > 0), started_at = NEW.since
    WHERE id = NEW.key_id;
END;
CREATE TRIGGER slotq_hold_waits AFTER INSERT ON slotq_holds WHEN NEW.state = 'waiting' BEGIN
  UPDATE slotq_keys SET queued = queued + 1 WHERE id = NEW.key_id;
END;
CREATE TRIGGER slotq_hold_served AFTER UPDATE OF state ON slotq_holds
WHEN OLD.state = 'waiting' AND NEW.state = 'held' BEGIN
  UPDATE slotq_keys
    SET queued = queued - 1, running = running + NEW.slots,
        seq = seq + NEW.slots * (span > 0), started_at = NEW.since
    WHERE id = NEW.key_id;
END;
CREATE TRIGGER slotq_hold_gone AFTER DELETE ON slotq_holds WHEN OLD.state = 'held' BEGIN
  UPDATE slotq_keys SET running = running - OLD.slots WHERE id = OLD.key_id;
END;
CREATE TRIGGER slotq_hold_gives_up AFTER DELETE ON slotq_holds WHEN OLD.state = 'waiting' BEGIN
  UPDATE slotq_keys SET queued = queued - 1 WHERE id = OLD.key_id;
END;

--
-- Lanes, keys, queues
--

CREATE TRIGGER slotq_lane_new AFTER INSERT ON slotq_lanes BEGIN
  UPDATE slotq_lanes
    SET (running, last_start) = (
          SELECT coalesce(max(o.running), 0), coalesce(max(o.last_start), 0) FROM slotq_lanes o
          WHERE o.key_id = NEW.key_id AND o.queue_id = NEW.queue_id AND o.id <> NEW.id),
        (fair, robin, fifo) = (SELECT o.fair, o.robin, o.fifo FROM slotq_orders o),
        open = (SELECT o.open FROM slotq_lane_open o WHERE o.lane_id = NEW.id)
    WHERE id = NEW.id;
END;
CREATE TRIGGER slotq_order_wanted AFTER UPDATE OF fair, robin, fifo ON slotq_orders BEGIN
  UPDATE slotq_lanes SET fair = NEW.fair WHERE fair <> NEW.fair;
  UPDATE slotq_lanes SET robin = NEW.robin WHERE robin <> NEW.robin;
  UPDATE slotq_lanes SET fifo = NEW.fifo WHERE fifo <> NEW.fifo;
END;
CREATE TRIGGER slotq_lane_place BEFORE UPDATE OF id, queue_id, key_id, cap ON slotq_lanes BEGIN
  SELECT RAISE(ABORT, 'a lane keeps its queue, key and cap');
END;
CREATE TRIGGER slotq_lane_gone BEFORE DELETE ON slotq_lanes
WHEN EXISTS (SELECT 1 FROM slotq_keys k WHERE k.id = OLD.key_id) BEGIN
  SELECT RAISE(ABORT, 'a lane goes with its key');
END;

-- The most specific limit of each name: an exact one, else the first pattern.
CREATE TRIGGER slotq_key_new AFTER INSERT ON slotq_keys BEGIN
  INSERT INTO slotq_key_limits (key_id, name, limit_id, since)
    SELECT NEW.id, l.name, l.id, 0 FROM slotq_limits l
    WHERE l.kind = 'key' AND l.subject = NEW.key;
  INSERT INTO slotq_key_limits (key_id, name, limit_id, since)
    SELECT NEW.id, l.name, l.id, 0 FROM slotq_limits l
    WHERE l.glob IS NOT NULL AND NEW.key GLOB l.glob
    ORDER BY l.specificity DESC, l.subject
    ON CONFLICT (key_id, name) DO NOTHING;
  UPDATE slotq_keys
    SET (cap, span) = (
      SELECT coalesce(min(l.max_running), 2147483647), coalesce(max(l.span_ms), 0)
      FROM slotq_key_limits kl JOIN slotq_limits l ON l.id = kl.limit_id
      WHERE kl.key_id = NEW.id)
    WHERE id = NEW.id AND EXISTS (SELECT 1 FROM slotq_key_limits kl WHERE kl.key_id = NEW.id);
END;
CREATE TRIGGER slotq_key_place BEFORE UPDATE OF id, key ON slotq_keys BEGIN
  SELECT RAISE(ABORT, 'a key is never renamed');
END;
-- A key's lanes are looked at each time, but written only when an answer has changed.
CREATE TRIGGER slotq_key_changes AFTER UPDATE OF running, cap, opens_at, queued, paused
ON slotq_keys
WHEN NEW.id <> 0 AND EXISTS (SELECT 1 FROM slotq_lane_open o
                             WHERE o.key_id = NEW.id AND o.open <> o.stored) BEGIN
  UPDATE slotq_lanes
    SET open = (SELECT o.open FROM slotq_lane_open o WHERE o.lane_id = slotq_lanes.id)
    WHERE key_id = NEW.id;
END;
-- A key with a window marks its starts. A mark never lies before the one ahead of it, though the
-- clock may have gone back a little: the window's arithmetic looks at one mark and trusts that all
-- earlier ones are no later. Now and then marks that no window reaches are dropped: four times as
-- many as were added since.
CREATE TRIGGER slotq_key_starts AFTER UPDATE OF seq ON slotq_keys WHEN NEW.seq > OLD.seq BEGIN
  INSERT INTO slotq_starts (key_id, seq, at) VALUES (
    NEW.id, OLD.seq + 1, coalesce((
      SELECT CASE WHEN s.at > NEW.started_at THEN s.at END FROM slotq_starts s
      WHERE s.key_id = NEW.id ORDER BY s.seq DESC LIMIT 1), NEW.started_at));
  UPDATE slotq_keys
    SET opens_at = (SELECT max(o.opens_at) FROM slotq_key_opens o
                    WHERE o.key_id = NEW.id AND o.opens_at > NEW.started_at)
    WHERE id = NEW.id
      AND opens_at IS NOT (SELECT max(o.opens_at) FROM slotq_key_opens o
                           WHERE o.key_id = NEW.id AND o.opens_at > NEW.started_at);
  DELETE FROM slotq_starts
    WHERE key_id = NEW.id AND NEW.seq / 16 <> OLD.seq / 16
      AND seq IN (SELECT s.seq FROM slotq_starts s WHERE s.key_id = NEW.id
                  ORDER BY s.seq LIMIT 64)
      AND at <= (SELECT s.at FROM slotq_starts s WHERE s.key_id = NEW.id
                 ORDER BY s.seq DESC LIMIT 1) - NEW.span;
END;
CREATE TRIGGER slotq_key_gone BEFORE DELETE ON slotq_keys BEGIN
  SELECT RAISE(ABORT, 'a key with jobs or holds stays')
    WHERE OLD.id = 0 OR EXISTS (SELECT 1 FROM slotq_jobs j WHERE j.key_id = OLD.id AND j.key_id <> 0)
      OR EXISTS (SELECT 1 FROM slotq_holds h WHERE h.key_id = OLD.id);
END;
CREATE TRIGGER slotq_key_went AFTER DELETE ON slotq_keys BEGIN
  DELETE FROM slotq_lanes WHERE key_id = OLD.id;
  DELETE FROM slotq_key_limits WHERE key_id = OLD.id;
  DELETE FROM slotq_starts WHERE key_id = OLD.id;
END;

CREATE TRIGGER slotq_queue_gone BEFORE DELETE ON slotq_queues BEGIN
  SELECT RAISE(ABORT, 'a queue stays');
END;
CREATE TRIGGER slotq_queue_new AFTER INSERT ON slotq_queues BEGIN
  INSERT INTO slotq_reckon_queue VALUES (NEW.queue);
END;

--
-- Limits
--

-- The next most specific limit of the name takes over and starts from zero.
CREATE TRIGGER slotq_key_limit_gone AFTER DELETE ON slotq_key_limits BEGIN
  INSERT INTO slotq_key_limits (key_id, name, limit_id, since)
    SELECT k.id, OLD.name, n.id, k.seq
    FROM slotq_keys k CROSS JOIN slotq_limits n
    WHERE k.id = OLD.key_id AND n.id = coalesce(
      (SELECT l.id FROM slotq_limits l
        WHERE l.kind = 'key' AND l.subject = k.key AND l.name = OLD.name),
      (SELECT l.id FROM slotq_limits l
        WHERE l.glob IS NOT NULL AND l.name = OLD.name AND k.key GLOB l.glob
        ORDER BY l.specificity DESC, l.subject LIMIT 1));
  INSERT INTO slotq_reckon VALUES (OLD.key_id);
END;

-- A new limit takes the place of a less specific one of its name and keeps its count, if that one
-- counted starts at all.
CREATE TRIGGER slotq_limit_new_key AFTER INSERT ON slotq_limits WHEN NEW.kind = 'key' BEGIN
  INSERT INTO slotq_key_limits (key_id, name, limit_id, since)
    SELECT k.id, NEW.name, NEW.id, k.seq FROM slotq_keys k
    WHERE k.key = NEW.subject AND k.id <> 0
    ON CONFLICT (key_id, name) DO UPDATE SET
      limit_id = excluded.limit_id,
      since = CASE WHEN (SELECT o.max_starts FROM slotq_limits o
                         WHERE o.id = slotq_key_limits.limit_id) IS NULL
                   THEN excluded.since ELSE since END;
  INSERT INTO slotq_reckon SELECT kl.key_id FROM slotq_key_limits kl WHERE kl.limit_id = NEW.id;
END;
CREATE TRIGGER slotq_limit_new_pattern AFTER INSERT ON slotq_limits WHEN NEW.kind = 'pattern' BEGIN
  INSERT INTO slotq_key_limits (key_id, name, limit_id, since)
    SELECT k.id, NEW.name, NEW.id, k.seq FROM slotq_keys k
    WHERE k.key GLOB NEW.glob AND k.id <> 0
    ON CONFLICT (key_id, name) DO UPDATE SET
      limit_id = excluded.limit_id,
      since = CASE WHEN (SELECT o.max_starts FROM slotq_limits o
                         WHERE o.id = slotq_key_limits.limit_id) IS NULL
                   THEN excluded.since ELSE since END
    WHERE (SELECT (-NEW.specificity, NEW.subject) < (-o.specificity, o.subject)
           FROM slotq_limits o WHERE o.id = slotq_key_limits.limit_id);
  INSERT INTO slotq_reckon SELECT kl.key_id FROM slotq_key_limits kl WHERE kl.limit_id = NEW.id;
END;
CREATE TRIGGER slotq_limit_place BEFORE UPDATE OF id, kind, subject, name, glob, specificity
ON slotq_limits BEGIN
  SELECT RAISE(ABORT, 'a limit keeps its subject and name');
END;
-- A window that begins to count starts from zero.
CREATE TRIGGER slotq_limit_edit AFTER UPDATE OF max_running, max_starts, window_ms, unit, zone
ON slotq_limits
WHEN (OLD.max_running, OLD.max_starts, OLD.window_ms, OLD.unit, OLD.zone)
  IS NOT (NEW.max_running, NEW.max_starts, NEW.window_ms, NEW.unit, NEW.zone) BEGIN
  UPDATE slotq_key_limits
    SET since = (SELECT k.seq FROM slotq_keys k WHERE k.id = slotq_key_limits.key_id)
    WHERE limit_id = NEW.id AND OLD.max_starts IS NULL AND NEW.max_starts IS NOT NULL;
  INSERT INTO slotq_reckon SELECT kl.key_id FROM slotq_key_limits kl WHERE kl.limit_id = NEW.id;
END;
CREATE TRIGGER slotq_limit_gone AFTER DELETE ON slotq_limits WHEN OLD.kind <> 'queue' BEGIN
  DELETE FROM slotq_key_limits WHERE limit_id = OLD.id;
END;
CREATE TRIGGER slotq_limit_queue_new AFTER INSERT ON slotq_limits WHEN NEW.kind = 'queue' BEGIN
  INSERT INTO slotq_reckon_queue VALUES (NEW.subject);
END;
CREATE TRIGGER slotq_limit_queue_edit AFTER UPDATE OF max_running ON slotq_limits
WHEN NEW.kind = 'queue' BEGIN
  INSERT INTO slotq_reckon_queue VALUES (NEW.subject);
END;
CREATE TRIGGER slotq_limit_queue_gone AFTER DELETE ON slotq_limits WHEN OLD.kind = 'queue' BEGIN
  INSERT INTO slotq_reckon_queue VALUES (OLD.subject);
END;
CREATE TRIGGER slotq_limit_period_new AFTER INSERT ON slotq_limits WHEN NEW.unit IS NOT NULL BEGIN
  UPDATE slotq_clock SET period_end = (SELECT min(l.period_end) FROM slotq_limits l
                                       WHERE l.period_end IS NOT NULL);
END;
CREATE TRIGGER slotq_limit_period_edit AFTER UPDATE OF period_end ON slotq_limits
WHEN OLD.period_end IS NOT NEW.period_end BEGIN
  UPDATE slotq_clock SET period_end = (SELECT min(l.period_end) FROM slotq_limits l
                                       WHERE l.period_end IS NOT NULL);
END;
CREATE TRIGGER slotq_limit_period_gone AFTER DELETE ON slotq_limits WHEN OLD.unit IS NOT NULL BEGIN
  UPDATE slotq_clock SET period_end = (SELECT min(l.period_end) FROM slotq_limits l
                                       WHERE l.period_end IS NOT NULL);
END;

-- The clock was set back: nothing may wait longer for that than its own window, lease or TTL.
-- Bounds of calendar windows are brought to the new time just before, by the program.
CREATE TRIGGER slotq_clock_back AFTER UPDATE OF now ON slotq_clock WHEN NEW.now < OLD.now BEGIN
  UPDATE slotq_starts SET at = NEW.now WHERE at > NEW.now;
  UPDATE slotq_jobs SET lease_until = NEW.now + lease_ms
    WHERE state = 'running' AND lease_until > NEW.now + lease_ms;
  UPDATE slotq_holds SET until = NEW.now + ttl_ms WHERE until > NEW.now + ttl_ms;
  UPDATE slotq_workers SET seen_at = NEW.now WHERE seen_at > NEW.now;
  UPDATE slotq_keys
    SET opens_at = (SELECT max(o.opens_at) FROM slotq_key_opens o
                    WHERE o.key_id = slotq_keys.id AND o.opens_at > NEW.now)
    WHERE span > 0;
END;
