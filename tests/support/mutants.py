"""Ways to break the schema, a statement or a function; the model tests must notice each."""

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType

import pytest

from slotq.store import claims, due, hold_statements, holds, migrate, statements
from support.program import Theme


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken build.

    Attributes:
        story: What is wrong with it.
        old: Text of the schema, or of the statement or function, that is replaced everywhere.
        new: What stands there instead.
        where: Name of a statement, or a function; None for the schema.
    """

    story: str
    old: str
    new: str
    where: str | Callable[..., object] | None = None

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Break the build until the test ends."""
        if self.where is None:
            schema = tuple(self._mutated(script) for script in migrate.scripts())
            monkeypatch.setattr(migrate, "scripts", lambda: schema)
        elif isinstance(self.where, str):
            module = statements if hasattr(statements, self.where) else hold_statements
            sql = getattr(module, self.where)
            monkeypatch.setattr(module, self.where, self._mutated(sql))
            for order, offer in claims.OFFERS.items():
                if offer == sql:
                    monkeypatch.setitem(claims.OFFERS, order, self._mutated(sql))
        else:
            assert isinstance(self.where, FunctionType)
            source = self._mutated(textwrap.dedent(inspect.getsource(self.where)))
            scope = dict(self.where.__globals__)
            exec(compile(source, "<mutant>", "exec"), scope)
            monkeypatch.setattr(self.where, "__code__", scope[self.where.__name__].__code__)

    def _mutated(self, text: str) -> str:
        assert self.old in text, f"{self.story}: not in the text any more"
        return text.replace(self.old, self.new)


_PRIVATE: Mapping[str, Callable[..., object]] = vars(holds)

# fmt: off
ROOM = (
    Mutant("limit off by one", "k.running < k.cap", "k.running <= k.cap"),
    Mutant("limit ignored", "k.running < k.cap AND ", ""),
    Mutant("own cap ignored", "AND k.running < l.cap ", ""),
    Mutant("waiting holds ignored", "AND k.queued = 0 ", ""),
    Mutant("paused key ignored", "k.paused = 0 AND ", ""),
    Mutant("full windows ignored", "AND k.opens_at IS NULL\n", "\n"),
    Mutant("loosest limit counts", "SELECT coalesce(min(l.max_running), 2147483647), ",
           "SELECT coalesce(max(l.max_running), 2147483647), "),
    Mutant("loosest limit of a queue counts", "(SELECT coalesce(min(l.max_running), 2147483647) FROM",
           "(SELECT coalesce(max(l.max_running), 2147483647) FROM"),
    Mutant("queue limit off by one", "q.running < q.cap", "q.running <= q.cap", "OFFER_FAIR"),
    Mutant("paused queue ignored", "NOT q.paused AND ", "", "OFFER_FIFO"),
    Mutant("slots of a hold run as one", "running = running + NEW.slots", "running = running + 1"),
    Mutant("released hold gives back one slot", "running - OLD.slots", "running - 1"),
    Mutant("served hold still waits", "SET queued = queued - 1, ", "SET "),
    Mutant("ended job keeps its slot", "SET running = running - 1 WHERE id = NEW.key_id",
           "SET running = running WHERE id = NEW.key_id"),
    Mutant("deleted running job keeps its slot", "slotq_jobs WHEN OLD.state = 'running' BEGIN",
           "slotq_jobs WHEN 0 BEGIN"),
    Mutant("lanes not told of running", "OF running, cap, opens_at, queued, paused",
           "OF cap, opens_at, queued, paused"),
    Mutant("lanes not told of an opening", "OF running, cap, opens_at, queued, paused",
           "OF running, queued, paused"),
    Mutant("lanes not told of waiting holds", "OF running, cap, opens_at, queued, paused",
           "OF running, cap, opens_at, paused"),
    Mutant("lanes not told of a pause", "OF running, cap, opens_at, queued, paused",
           "OF running, cap, opens_at, queued"),
    Mutant("sibling lanes not told of a start", "AND id <> NEW.lane_id", "AND 0"),
    Mutant("new lane counts from zero", "coalesce(max(o.running), 0)", "0"),
    Mutant("new lane is open", "open = (SELECT o.open FROM slotq_lane_open o WHERE o.lane_id = NEW.id)",
           "open = 1"),
)
ORDER = (
    Mutant("head by id", "(NEW.rank, NEW.run_at, NEW.id) < (head_rank, head_run_at, head_id)",
           "(NEW.rank, NEW.id) < (head_rank, head_id)"),
    Mutant("head stays after a delete", "INSERT INTO slotq_line VALUES (OLD.lane_id);", ""),
    Mutant("head stays after a cancel",
           "INSERT INTO slotq_line VALUES (NEW.lane_id);\nEND;\nCREATE TRIGGER slotq_job_reorder",
           "END;\nCREATE TRIGGER slotq_job_reorder"),
    Mutant("head stays after an edit",
           "INSERT INTO slotq_line VALUES (NEW.lane_id);\nEND;\nCREATE TRIGGER slotq_job_gone ",
           "SELECT 1;\nEND;\nCREATE TRIGGER slotq_job_gone "),
    Mutant("scheduled jobs not uncounted", "(NEW.state = 'scheduled') - (OLD.state = 'scheduled')",
           "(NEW.state = 'scheduled')"),
    Mutant("fair without running", "BY l.head_rank, l.running, ", "BY l.head_rank, ", "OFFER_FAIR"),
    Mutant("round-robin without last start", "BY l.head_rank, l.running, l.last_start, ",
           "BY l.head_rank, l.running, ", "OFFER_ROBIN"),
    Mutant("fifo by id", "BY l.head_rank, l.head_run_at, ", "BY l.head_rank, ", "OFFER_FIFO"),
    Mutant("queues in the order of their names", "min(offers.items(), key=_place)",
           "min(offers.items())", claims.claim),
    Mutant("offers of other queues kept", "q == queue or other[-1] == job.key_id != 0", "q == queue",
           claims.claim),
    Mutant("floor off by one", "q.dry < ?2", "q.dry <= ?2", "OFFER_FAIR"),
    Mutant("dry not reset", "THEN dry + 1 ELSE 0 END", "THEN dry + 1 ELSE dry END"),
    Mutant("starts not counted", "starts = starts + 1", "starts = 1"),
    Mutant("new lane in no order", "(fair, robin, fifo) = (SELECT o.fair, o.robin, o.fifo FROM slotq_orders o),", ""),
)
WINDOWS = (
    Mutant("window off by one", "s.seq <= k.seq - l.max_starts + 1", "s.seq <= k.seq - l.max_starts"),
    Mutant("window a millisecond long", "m.at + l.window_ms", "m.at + l.window_ms + 1"),
    Mutant("window a millisecond short", "m.at + l.window_ms", "m.at + l.window_ms - 1"),
    Mutant("since forgotten", "k.seq - l.max_starts + 1 > kl.since", "k.seq - l.max_starts + 1 > 0"),
    Mutant("since off by one", "> kl.since", ">= kl.since"),
    Mutant("first window to open counts", "max(o.opens_at)", "min(o.opens_at)"),
    Mutant("period begins late", "m.at >= l.period_start", "m.at > l.period_start"),
    Mutant("periods never end", "(?1 IS NULL OR period_end <= ?1)", "?1 IS NULL", "CALENDAR_LIMITS"),
    Mutant("only the last period ends", "(SELECT min(l.period_end)", "(SELECT max(l.period_end)"),
    Mutant("slots of a hold are one start", "seq + NEW.slots * (span > 0)", "seq + (span > 0)"),
    Mutant("marks fall in time", "CASE WHEN s.at > NEW.started_at THEN", "CASE WHEN 0 THEN"),
    Mutant("marks dropped too early", "- NEW.span;", "- NEW.span / 2;"),
    Mutant("marks kept for the shortest window", "coalesce(max(l.span_ms), 0)", "coalesce(min(l.span_ms), 0)"),
    Mutant("marks stay ahead of the clock", "SET at = NEW.now WHERE at > NEW.now", "SET at = NEW.now WHERE 0"),
    Mutant("leases stay ahead of the clock", "WHERE state = 'running' AND lease_until > NEW.now + lease_ms",
           "WHERE 0"),
    Mutant("holds stay ahead of the clock", "WHERE until > NEW.now + ttl_ms", "WHERE 0"),
    Mutant("openings stay ahead of the clock", "AND o.opens_at > NEW.now)\n    WHERE span > 0;",
           "AND o.opens_at > NEW.now)\n    WHERE 0;"),
)
RULES = (
    Mutant("new key without patterns", "l.glob IS NOT NULL AND NEW.key GLOB l.glob", "0"),
    Mutant("new key without its exact limit", "l.kind = 'key' AND l.subject = NEW.key;", "0;"),
    Mutant("new key by sort order", "ORDER BY l.specificity DESC, l.subject\n    ON CONFLICT",
           "ORDER BY l.subject\n    ON CONFLICT"),
    Mutant("any new pattern wins", "(SELECT (-NEW.specificity, NEW.subject) < (-o.specificity, o.subject)", "(SELECT 1"),
    Mutant("equal patterns by age", "(-NEW.specificity, NEW.subject) < (-o.specificity, o.subject)",
           "-NEW.specificity < -o.specificity"),
    Mutant("next limit by sort order", "ORDER BY l.specificity DESC, l.subject LIMIT 1", "ORDER BY l.subject LIMIT 1"),
    Mutant("next limit counts old starts", "SELECT k.id, OLD.name, n.id, k.seq", "SELECT k.id, OLD.name, n.id, 0"),
    Mutant("limit over another starts from zero", "THEN excluded.since ELSE since END",
           "THEN excluded.since ELSE excluded.since END"),
    Mutant("limit over one without window counts old starts", "THEN excluded.since ELSE since END",
           "THEN since ELSE since END"),
    Mutant("window that begins counts old starts", "AND OLD.max_starts IS NULL AND NEW.max_starts IS NOT NULL", "AND 0"),
    Mutant("edited window starts from zero", "AND OLD.max_starts IS NULL AND NEW.max_starts IS NOT NULL", ""),
    Mutant("new limit without effect",
           "INSERT INTO slotq_reckon SELECT kl.key_id FROM slotq_key_limits kl WHERE kl.limit_id = NEW.id;\nEND;\nCREATE TRIGGER slotq_limit_new_pattern",
           "END;\nCREATE TRIGGER slotq_limit_new_pattern"),
    Mutant("new pattern without effect",
           "INSERT INTO slotq_reckon SELECT kl.key_id FROM slotq_key_limits kl WHERE kl.limit_id = NEW.id;\nEND;\nCREATE TRIGGER slotq_limit_place",
           "END;\nCREATE TRIGGER slotq_limit_place"),
    Mutant("edit without effect",
           "INSERT INTO slotq_reckon SELECT kl.key_id FROM slotq_key_limits kl WHERE kl.limit_id = NEW.id;\nEND;\nCREATE TRIGGER slotq_limit_gone",
           "END;\nCREATE TRIGGER slotq_limit_gone"),
    Mutant("cleared limit still in force", "INSERT INTO slotq_reckon VALUES (OLD.key_id);", ""),
)
LEASES = (
    Mutant("success without token", "AND token = ?2", "AND ?2 > 0", "FINISH_JOB"),
    Mutant("failure without token", "AND token = :token", "", "STOP_JOB"),
    Mutant("end that was asked for forgotten", "CASE WHEN cancelling THEN 'cancelled' ELSE :state END", ":state",
           "STOP_JOB"),
    Mutant("cancelled job never finished", "CASE WHEN cancelling OR", "CASE WHEN", "STOP_JOB"),
    Mutant("end of a failed job is no end", "OR :state = 'failed' ", "", "STOP_JOB"),
    Mutant("snoozed job waits at once", "run_at = coalesce(:run_at, run_at)", "run_at = run_at", "STOP_JOB"),
    Mutant("hand back forgets the last error", "error = CASE WHEN :state = 'waiting' THEN error ELSE :error END",
           "error = :error", "STOP_JOB"),
    Mutant("end of a waiting job asked for", " AND state = 'running'", "", "ASK_FOR_END"),
    Mutant("dead worker keeps its leases", "AND worker_id = :id", "AND 0", "LAPSE_LEASES"),
    Mutant("renewal without token", "AND token = :token", "", "RENEW_LEASE"),
    Mutant("late renewal refused", "AND token = :token", "AND token = :token AND lease_until > :now", "RENEW_LEASE"),
    Mutant("hand back uses an attempt", "attempt = attempt - :unused,", "", "STOP_JOB"),
    Mutant("attempt not counted", "attempt = attempt + 1, ", "", "START_JOB"),
    Mutant("lost worker uses no attempt", "attempt < max_attempts", "True", vars(due)["_take_back"]),
    Mutant("lapsed lease lasts an instant longer", "lease_until <= ?", "lease_until < ?", "LAPSED_LEASES"),
    Mutant("expired job lasts an instant longer", "expires_at <= ?1", "expires_at < ?1", "EXPIRE_JOBS"),
    Mutant("scheduled jobs never expire", "state IN ('scheduled', 'waiting')\n", "state = 'waiting'\n", "EXPIRE_JOBS"),
    Mutant("hold lasts an instant longer", "until <= ?1", "until < ?1", "DROP_HOLDS"),
    Mutant("each put back is the first", "misses = misses + 1, ", "", "PUT_BACK_UNKNOWN"),
    Mutant("workers that know it ignored", "WHERE t.value = slotq_jobs.task", "WHERE 0", "PUT_BACK_UNKNOWN"),
    Mutant("misses kept after a start", "misses = 0, ", "", "START_JOB"),
    Mutant("retry keeps the expiry", ", expires_at = NULL", "", "RETRY_JOB"),
    Mutant("retry keeps the attempts", "attempt = 0, ", "", "RETRY_JOB"),
    Mutant("running job cancelled", "IN ('scheduled', 'waiting')", "IN ('scheduled', 'waiting', 'running')", "CANCEL_JOB"),
    Mutant("running job deleted", " AND state <> 'running'", "", "DELETE_JOB"),
    Mutant("newest pruned first", "ORDER BY finished_at LIMIT", "ORDER BY finished_at DESC LIMIT", "PRUNE_JOBS"),
    Mutant("key pruned with marks in a window", "ORDER BY s.seq DESC LIMIT 1) + span <= :now",
           "ORDER BY s.seq DESC LIMIT 1) <= :now", "PRUNE_KEYS"),
    Mutant("paused key pruned", "AND NOT paused", "", "PRUNE_KEYS"),
    Mutant("key with an exact limit pruned", "l.kind = 'key' AND l.subject = slotq_keys.key", "0", "PRUNE_KEYS"),
)
HOLDS = (
    Mutant("key of a hold without what is due", "more = due.handle_due(tx)", "more = False", _PRIVATE["_key"]),
    Mutant("what is due of a key left for later", "due.handle_key(tx, row[0])", "pass", _PRIVATE["_key"]),
    Mutant("leases of a key last an instant longer", "lease_until <= :now", "lease_until < :now", "LAPSED_LEASES_OF_KEY"),
    Mutant("holds of a key last an instant longer", "until <= :now", "until < :now", "DROP_HOLDS_OF_KEY"),
    Mutant("waiting holds of a key stay", "AND state IN ('held', 'waiting') ", "AND state = 'held' ", "DROP_HOLDS_OF_KEY"),
    Mutant("paused key holds", "if key.paused:", "if False:", _PRIVATE["_obstacle"]),
    Mutant("pause has an end", "tx.now + PAUSED_MS", "tx.now + 1", _PRIVATE["_obstacle"]),
    Mutant("own cap of a hold ignored", "cap = min(key.cap, request.cap)", "cap = key.cap", _PRIVATE["_obstacle"]),
    Mutant("limits ignored where a hold has its own", "cap = min(key.cap, request.cap)",
           "cap = request.cap if request.cap < 99 else key.cap", _PRIVATE["_obstacle"]),
    Mutant("own cap taken for a limit", "None if request.cap < key.cap else", "None if request.cap <= key.cap else",
           _PRIVATE["_obstacle"]),
    Mutant("nobody is ahead", "if ahead:", "if False:", _PRIVATE["_obstacle"]),
    Mutant("slots of those ahead ignored", "first = tx.value(statements.WAITING_SLOTS, (key.id, before or LAST_ID))",
           "first = 0", _PRIVATE["_obstacle"]),
    Mutant("all that wait are ahead", "(key.id, before or LAST_ID)", "(key.id, LAST_ID)", _PRIVATE["_obstacle"]),
    Mutant("room for one is room for all", "key.running + first + request.slots > cap", "key.running + first + 1 > cap",
           _PRIVATE["_obstacle"]),
    Mutant("limit of a hold off by one", "key.running + first + request.slots > cap", "key.running + first + request.slots >= cap",
           _PRIVATE["_obstacle"]),
    Mutant("line taken for slots", "if key.running + request.slots > cap:", "if True:", _PRIVATE["_obstacle"]),
    Mutant("one slot too few is waited for", "request.slots - cap)", "request.slots - cap - 1)", _PRIVATE["_obstacle"]),
    Mutant("windows of a hold ignored", "if key.span:", "if False:", _PRIVATE["_obstacle"]),
    Mutant("window asked for one start", '"slots": request.slots}', '"slots": 1}', _PRIVATE["_obstacle"]),
    Mutant("window open at its end counts as full", "opens_at > tx.now", "opens_at >= tx.now - 1", _PRIVATE["_obstacle"]),
    Mutant("first obstacle to end counts", "return max(found,", "return min(found,", _PRIVATE["_obstacle"]),
    Mutant("more than ever is a matter of time", "if request.slots > most:", "if False:", _PRIVATE["_check_ever"]),
    Mutant("as many as ever refused", "request.slots > most", "request.slots >= most", _PRIVATE["_check_ever"]),
    Mutant("own cap allows any number", "most = min(key.cap, request.cap)", "most = key.cap", _PRIVATE["_check_ever"]),
    Mutant("windows allow any number", "if request.slots > 1 and key.span:", "if False:", _PRIVATE["_check_ever"]),
    Mutant("loosest window allows", "min(l.max_starts)", "max(l.max_starts)", "LEAST_STARTS"),
    Mutant("a hold counts for one slot in a wait", "wanted -= slots", "wanted -= 1", _PRIVATE["_slots_at"]),
    Mutant("last to end is waited for", "ORDER BY until LIMIT", "ORDER BY until DESC LIMIT", "SLOT_ENDS"),
    Mutant("waiting holds have slots", "AND state = 'held')", ")", "SLOT_ENDS"),
    Mutant("jobs of all keys are waited for", "AND key_id = :key\n", "\n", "SLOT_ENDS"),
    Mutant("own slots never count", "return own + request.slots > min(key.cap, request.cap)", "return False", _PRIVATE["_is_own"]),
    Mutant("own slots wait for a fuller key", "own + request.slots > min", "own + request.slots >= min", _PRIVATE["_is_own"]),
    Mutant("own job of another key counts", "AND key_id = :key AND state = 'running')", "AND state = 'running')", "OWN_SLOTS"),
    Mutant("own job counts when it has ended", "AND key_id = :key AND state = 'running')", "AND key_id = :key)", "OWN_SLOTS"),
    Mutant("own holds count for one slot", "coalesce(sum(slots), 0)", "count(*)", "OWN_SLOTS"),
    Mutant("own holds that wait count", "AND state = 'held' AND job_id", "AND job_id", "OWN_SLOTS"),
    Mutant("holds of all jobs are own", "AND job_id = :job)", ")", "OWN_SLOTS"),
    Mutant("those who have their own wait", "if request.bell is None or is_own:", "if request.bell is None:", holds.take),
    Mutant("who does not wait joins the line", "if request.bell is None or is_own:", "if is_own:", holds.take),
    Mutant("a newcomer goes first", "ahead=found.queued > 0", "ahead=False", holds.take),
    Mutant("who waits goes when it calls", "ahead=ahead is not None", "ahead=False", holds.call_again),
    Mutant("the first waits for itself", "ahead=ahead is not None", "ahead=True", holds.call_again),
    Mutant("last come, first served", "ORDER BY id LIMIT 1", "ORDER BY id DESC LIMIT 1", "FIRST_WAITING"),
    Mutant("who has slots is first in line", "AND state = 'waiting' ORDER", "ORDER", "FIRST_WAITING"),
    Mutant("those ahead count as one slot each", "coalesce(sum(slots), 0)", "count(*)", "WAITING_SLOTS"),
    Mutant("who waits is ahead of itself", "AND id < ?", "AND id <= ?", "WAITING_SLOTS"),
    Mutant("a lost place is kept", "return take(tx, request)", "pass", holds.call_again),
    Mutant("last call waits on", "if request.bell is None:", "if False:", holds.call_again),
    Mutant("who waits behind the dead is not told when", "if ahead is None:", "if True:", _PRIVATE["_look_at"]),
    Mutant("who waits behind the dead looks late", "else min(until, counts_until)", "else until", _PRIVATE["_look_at"]),
    Mutant("who waits for a pause looks at its end", '{"paused", "queued"}', '{"queued"}', _PRIVATE["_look_at"]),
    Mutant("who waits in line looks soon", '{"paused", "queued"}', '{"paused"}', _PRIVATE["_look_at"]),
    Mutant("wait is not prolonged", "until = :now + :ttl, ttl_ms = :ttl WHERE", "ttl_ms = :ttl WHERE", "KEEP_WAITING"),
    Mutant("served hold keeps the end of its wait", "until = :now + :ttl, ", "", "SERVE_HOLD"),
    Mutant("served hold began when it came", "since = :now, ", "", "SERVE_HOLD"),
    Mutant("served hold is rung", ", bell = ''", "", "SERVE_HOLD"),
    Mutant("ended hold is revived", "AND until > ?4", "", "EXTEND_HOLD"),
    Mutant("hold extended at its end", "AND until > ?4", "AND until >= ?4", "EXTEND_HOLD"),
    Mutant("extended without ticket", "AND ticket = ?3", "AND ?3 = ?3", "EXTEND_HOLD"),
    Mutant("extended by another process", "AND process = ?2", "AND ?2 = ?2", "EXTEND_HOLD"),
    Mutant("who waits extends", "AND state = 'held' ", "", "EXTEND_HOLD"),
    Mutant("extended from its end", "until = ?4 + ?5", "until = until + ?5", "EXTEND_HOLD"),
    Mutant("extended hold has its old ttl", ", ttl_ms = ?5", "", "EXTEND_HOLD"),
    Mutant("ended hold is released", "AND until > ?4", "AND ?4 = ?4", "RELEASE_HOLD"),
    Mutant("hold released at its end", "AND until > ?4", "AND until >= ?4", "RELEASE_HOLD"),
    Mutant("released without ticket", "AND ticket = ?3", "AND ?3 = ?3", "RELEASE_HOLD"),
    Mutant("released by another process", "AND process = ?2", "AND ?2 = ?2", "RELEASE_HOLD"),
    Mutant("ended hold is taken back", "AND h.until > :now", "", "GET_HOLD"),
    Mutant("dead process keeps its holds", "SET until = ?2", "SET until = until", "LAPSE_HOLDS"),
    Mutant("all processes are dead", "WHERE process = ?1 AND until", "WHERE ?1 = ?1 AND until", "LAPSE_HOLDS"),
    Mutant("window of a hold off by one", "s.seq <= k.seq + :slots - l.max_starts", "s.seq < k.seq + :slots - l.max_starts",
           "HOLD_OPENS"),
    Mutant("hold counts old starts", "k.seq + :slots - l.max_starts > kl.since", "k.seq + :slots - l.max_starts > 0", "HOLD_OPENS"),
    Mutant("retry from the newest mark", "s.seq <= k.seq + :slots - l.max_starts", "s.seq <= k.seq", "HOLD_OPENS"),
    Mutant("period begins late for a hold", "m.at >= l.period_start", "m.at > l.period_start", "HOLD_OPENS"),
    Mutant("another limit is named", "AND l.max_running = ?", "AND ? > 0 AND l.max_running IS NOT NULL", "TIGHTEST_LIMIT"),
    Mutant("paused keys are rung", "NOT k.paused AND ", "", "BELLS"),
    Mutant("full windows are rung", "AND k.opens_at IS NULL\n", "\n", "BELLS"),
    Mutant("room for one rings who wants more", "k.running + h.slots <= k.cap", "k.running + 1 <= k.cap", "BELLS"),
    Mutant("ring of a hold's own cap ignored", "AND k.running + h.slots <= h.cap", "", "BELLS"),
    Mutant("who can never go is not told", "h.slots > k.cap OR ", "", "BELLS"),
    Mutant("last in line is rung", "ORDER BY w.id LIMIT 1", "ORDER BY w.id DESC LIMIT 1", "BELLS"),
    Mutant("ended holds are listed", "h.until > :now AND ", "", "LIST_HOLDS"),
)
# fmt: on

MUTANTS: dict[Theme, tuple[Mutant, ...]] = {
    "limits": ROOM + WINDOWS + RULES,
    "order": ORDER,
    "leases": LEASES,
    "holds": HOLDS,
}
"""All mutants, by the theme of the programs that notice them soonest."""
