"""The adapter of Cassandra without a node: texts, tokens, the driver's errors, and tries."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import (
    ConsistencyLevel,
    InvalidRequest,
    OperationTimedOut,
    ReadTimeout,
    Unauthorized,
    Unavailable,
    WriteTimeout,
    WriteType,
)
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import BadCredentials, OverloadedErrorMessage

from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.failures import translated
from tallyroll.adapters.cassandra.places import TOKEN_MAX, TOKEN_MIN, segment_of, token, tokens_of
from tallyroll.adapters.cassandra.session import (
    PREPARED_MAX,
    REQUESTS_AT_ONCE,
    Connection,
    Endpoint,
    cql_name,
)
from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown
from tallyroll.ports.backoff import STATEMENT
from tests.harness.cassandra import BATCH_MAX, within_subset
from tests.harness.pipeline import StillEffects

PACKAGE = Path(cql.__file__).parent
TEXTS = {
    name: value for name, value in vars(cql).items() if isinstance(value, str) and name.isupper()
}
NAMES = {
    "table": 'k."t_1"',
    "keyspace": "k",
    "status_keyspace": "system_schema_mcs",
    "tags": "{'a': 'b'}",
}
BACKUPS = "'point_in_time_recovery': {'status': 'enabled'}"
OPTIONS = {
    "CREATE_WINDOW_WITH": f"CUSTOM_PROPERTIES = {{{BACKUPS}}} AND TAGS = {{'a': 'b', 'c': 'd'}}",
    "ALTER_WINDOW": f"CUSTOM_PROPERTIES = {{{BACKUPS}}}",
}
CAS = WriteTimeout("cas", write_type=WriteType.CAS, consistency=ConsistencyLevel.LOCAL_SERIAL)
FEW = Unavailable("few", consistency=ConsistencyLevel.LOCAL_QUORUM)


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_is_one_that_keyspaces_documents(name: str) -> None:
    assert within_subset(TEXTS[name].format(**NAMES, options=OPTIONS.get(name, "")))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM k.t WHERE key = ?",
        "SELECT sum(n) FROM k.t WHERE key = ?",
        "SELECT DISTINCT key FROM k.t",
        "SELECT n FROM k.t WHERE key IN (?, ?)",
        "SELECT n FROM k.t WHERE n = ? ALLOW FILTERING",
        "SELECT n FROM k.t WHERE key = ? GROUP BY key",
        "BEGIN UNLOGGED BATCH INSERT INTO k.t (key) VALUES (?) IF NOT EXISTS APPLY BATCH",
        "CREATE TABLE IF NOT EXISTS k.t (key text, s int static, PRIMARY KEY ((key)))",
        "CREATE MATERIALIZED VIEW k.v AS SELECT n FROM k.t PRIMARY KEY (n)",
        "CREATE INDEX ON k.t (n)",
        "INSERT INTO k.t (key) VALUES (?) USING TIMESTAMP ?",
        "TRUNCATE k.t",
        "ALTER TABLE k.t DROP n",
        "ALTER TABLE k.t WITH comment = 'x'",
        # One property at a time, and those that there are.
        f"ALTER TABLE k.t WITH CUSTOM_PROPERTIES = {{{BACKUPS}, {BACKUPS}}}",
        "ALTER TABLE k.t WITH CUSTOM_PROPERTIES = {'warm': {'write_units_per_second': 5}}",
    ],
)
def test_what_keyspaces_has_not_is_outside_the_subset(text: str) -> None:
    assert not within_subset(text)


def test_only_one_module_has_texts_and_batches_are_small() -> None:
    others = [path for path in PACKAGE.glob("*.py") if path.name != "cql.py"]
    literals = [
        node.value
        for path in others
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    verbs = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "DROP ", "ALTER ", "BEGIN ")
    assert len(others) >= 6
    assert [text for text in literals if text.startswith(verbs)] == []
    assert cql.BATCH_STATEMENTS_MAX <= BATCH_MAX


def test_segments_divide_all_tokens() -> None:
    for segments in (1, 3, 8, 10):
        bounds = [tokens_of(segment, segments) for segment in range(segments)]
        assert bounds[0][0] == TOKEN_MIN
        assert bounds[-1][1] == TOKEN_MAX
        assert all(bounds[at][1] == bounds[at + 1][0] for at in range(segments - 1))


def test_a_partition_is_in_the_segment_that_has_its_token() -> None:
    met = set()
    for number in range(200):
        segment = segment_of(f"köy.{number}", number % 7, 8)
        low, high = tokens_of(segment, 8)
        assert low < token(f"köy.{number}", number % 7) <= high
        met.add(segment)
    assert met == set(range(8))


@pytest.mark.parametrize(
    ("error", "text", "kind"),
    [
        (CAS, cql.INSERT, Unknown),
        (OperationTimedOut(), cql.INSERT, Unknown),
        (ReadTimeout("slow", consistency=ConsistencyLevel.LOCAL_QUORUM), cql.ROW, Unknown),
        (NoHostAvailable("none", {}), cql.ROW, Unknown),
        (NoHostAvailable("none", {"a": OSError(), "b": BadCredentials(0, "", None)}), "", Unknown),
        (NoHostAvailable("none", {"a": BadCredentials(0, "", None)}), cql.ROW, Refused),
        (FEW, cql.INSERT, Unknown),
        (FEW, cql.ROW, Throttled),
        (OverloadedErrorMessage(0, "full", None), cql.INSERT, Throttled),
        (Unauthorized("no"), cql.ROW, Refused),
        (InvalidRequest("no"), cql.ROW, Refused),
        (OSError("gone"), cql.ROW, Unknown),
    ],
)
def test_errors_of_the_driver(error: Exception, text: str, kind: type[StoreError]) -> None:
    found = translated(error, text, "t-1")
    assert type(found) is kind
    assert found.code == type(error).__name__


@pytest.mark.parametrize("name", ["a_b", "ü", "a" * 49, "", 'a"b'])
def test_names_that_cql_does_not_take(name: str) -> None:
    with pytest.raises(Refused) as refused:
        cql_name(name)
    assert refused.value.code == "BadTableName"


class Future:
    """An answer that is there already; `paging_state` says whether another page follows."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def add_callbacks(self, done: Callable[[Any], None], failed: Callable[[Any], None]) -> None:
        (failed if isinstance(self._answer, Exception) else done)(self._answer)

    def result(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Session:
    """Answers by a script: rows, (rows, state) or an exception, which `now` raises at once."""

    def __init__(self, *answers: Any, now: bool = False) -> None:
        self._answers = list(answers)
        self._now = now
        self.sent: list[tuple[str, Sequence[Any]]] = []
        self.prepared: list[str] = []

    def prepare(self, text: str) -> Any:
        self.prepared.append(text)

        def bind(values: Sequence[Any]) -> Any:
            return SimpleNamespace(text=text, values=values, fetch_size=None)

        return SimpleNamespace(bind=bind)

    def execute_async(self, bound: Any, paging_state: bytes | None = None) -> Future:
        self.sent.append((bound.text, bound.values))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            if self._now:
                raise answer
            return Future(answer)
        rows, state = answer if isinstance(answer, tuple) else (answer, None)
        names = ["a"]
        return Future(SimpleNamespace(column_names=names, current_rows=rows, paging_state=state))


class SlowSession(Session):
    """Takes six seconds for each answer."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.effects = StillEffects()

    def execute_async(self, bound: Any, paging_state: bytes | None = None) -> Future:
        self.effects.pass_by(6_000)
        return super().execute_async(bound, paging_state)


def connection(session: Session) -> Connection:
    cluster = SimpleNamespace(shutdown=lambda: None)
    effects = session.effects if isinstance(session, SlowSession) else StillEffects()
    return Connection(cluster, session, Endpoint(("h",), "k"), effects)


def test_what_may_be_repeated_is() -> None:
    session = Session(OperationTimedOut(), FEW, [(True,)])
    assert connection(session).run(cql.GATE, "", "w", 1) == [(True,)]
    assert len(session.sent) == 3
    assert len(session.prepared) == 1


def test_tries_end_with_the_last_error() -> None:
    session = Session(*[OperationTimedOut()] * STATEMENT.tries)
    with pytest.raises(Unknown):
        connection(session).run(cql.GATE, "", "w", 1)
    assert len(session.sent) == STATEMENT.tries


def test_a_node_that_does_not_answer_is_asked_no_more_after_five_seconds() -> None:
    """Else four timeouts of a gate's read would outlast the writer's function."""
    session = SlowSession(OperationTimedOut(), [(True,)])
    with pytest.raises(Unknown):
        connection(session).run(cql.GATE, "", "w", 1)
    assert len(session.sent) == 1


def test_a_chain_of_slow_answers_ends_after_ten_seconds() -> None:
    """A hundred rows of one partition would else take a hundred times as long as one."""
    session = SlowSession(*[[(True,)]] * 4)
    chain = [(cql.PUT_GATE, ("w", number, True)) for number in range(4)]
    [found] = connection(session).chained("", [chain])
    assert list(map(type, found)) == [dict, dict, Throttled, Throttled]
    assert len(session.sent) == 2


def test_a_row_is_sent_once() -> None:
    session = Session(CAS)
    with pytest.raises(Unknown):
        connection(session).once(cql.INSERT, "t-1", *range(9))
    assert len(session.sent) == 1


def test_an_invalid_statement_is_for_want_of_its_table_if_that_is_not_there() -> None:
    session = Session(InvalidRequest("unconfigured"), [])
    with pytest.raises(Missing):
        connection(session).run(cql.ROW, "t-1", "a", 1, "x")
    assert session.sent[1][1] == ("k", "t_1")
    session = Session(InvalidRequest("another"), [("t_1",)])
    with pytest.raises(Refused):
        connection(session).run(cql.ROW, "t-1", "a", 1, "x")


@pytest.mark.parametrize("now", [False, True])
def test_a_scatter_reads_all_pages_and_asks_again_for_what_failed(now: bool) -> None:
    session = Session(([(1,)], b"more"), OperationTimedOut(), [(2,)], [(3,)], now=now)
    found = list(connection(session).gathered(cql.SUMS, "t-1", [("a", 1), ("a", 2)]))
    assert sorted(found) == [(("a", 1), [(1,)]), (("a", 1), [(3,)]), (("a", 2), [(2,)])]


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize(
    ("first", "kinds"),
    [
        ([(True,)], [dict, dict]),
        (CAS, [Unknown, Throttled]),
        (OperationTimedOut(), [Unknown, Throttled]),
        (Unauthorized("no"), [Refused, dict]),
    ],
    ids=["answered", "contended", "timeout", "refused"],
)
def test_a_chain_ends_where_its_partition_does_not_answer(
    now: bool, first: Any, kinds: list[type]
) -> None:
    """What follows was not sent, so nothing waits for one timeout after the other."""
    session = Session(first, [(True,)], now=now)
    made = connection(session)
    chain = [(cql.PUT_GATE, ("w", number, True)) for number in (1, 2)]
    [found] = made.chained("", [chain])
    assert list(map(type, found)) == kinds
    assert len(session.sent) == (2 if kinds[1] is dict else 1)
    if isinstance(found[1], Throttled):
        assert found[1].code == "NotSent"


def test_chains_give_their_room_back_and_do_not_fail_together() -> None:
    times = REQUESTS_AT_ONCE + 1
    session = Session(*[OSError()] * times, [(True,)])
    made = connection(session)
    chains = [[(cql.PUT_GATE, ("w", number, True))] for number in range(times + 1)]
    found = made.chained("", chains)
    assert [type(answers[0]) for answers in found] == [Unknown] * times + [dict]


def test_chains_of_a_table_that_is_gone() -> None:
    session = Session(InvalidRequest("unconfigured"), [(True,)], [])
    values = tuple(range(9))
    [[first, second]] = connection(session).chained("t-1", [[(cql.INSERT, values)] * 2])
    assert isinstance(first, Missing)
    assert second == {"a": True}


def test_room_is_given_back_also_after_failures() -> None:
    times = REQUESTS_AT_ONCE + 1
    session = Session(*[OSError()] * times, [(True,)], now=True)
    made = connection(session)
    for _ in range(times):
        with pytest.raises(Unknown):
            made.once(cql.GATE, "", "w", 1)
    assert made.run(cql.GATE, "", "w", 1) == [(True,)]


def test_statements_of_old_windows_are_forgotten() -> None:
    session = Session(*[[]] * (PREPARED_MAX + 1))
    made = connection(session)
    for number in range(PREPARED_MAX + 1):
        made.run(cql.ROW, f"t-{number}", "a", 1, "x")
    assert len(made._prepared) == 1


def test_a_statement_is_sent_though_another_thread_forgets_all() -> None:
    class Forgotten(dict[tuple[str, str], Any]):
        def __setitem__(self, key: tuple[str, str], value: Any) -> None:
            """Another thread clears it at once."""

    made = connection(Session([(True,)]))
    made._prepared = Forgotten()
    assert made.run(cql.GATE, "", "w", 1) == [(True,)]


def test_a_mistake_of_ours_is_no_error_of_the_store() -> None:
    with pytest.raises(ZeroDivisionError):
        connection(Session(ZeroDivisionError(), now=True)).run(cql.GATE, "", "w", 1)
