"""The injector: decides before every call of AWS whether it goes well, and how it does not.

It sits at botocore's `before-send`, where requests are whole and replies not yet read, so all that
is above it is what runs in production: adapters, Caller, botocore's serializers and parsers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from tallyroll.adapters.aws.client import CONNECT_TIMEOUT_S, READ_TIMEOUT_S
from tests.faults import wire
from tests.faults.kinds import Kind, kinds_of
from tests.faults.sites import Site, site_now

SLOW_MS = READ_TIMEOUT_S * 1000 - 100
NOT_SEEN_FOR_MS = 10_000
NEXT_PAGE = "the-next-page"
NEXT_PAGES = {"LastEvaluatedKey", "LastEvaluatedTableName"}  # where DynamoDB's next page begins
# These strike only if the engine has something to hand out: more pages, a body, a table.
_DEPEND_ON_THE_REPLY = frozenset(
    {Kind.TRUNCATED, Kind.BROKEN_BODY, Kind.CHANGING, Kind.UNPROCESSED}
)


class Crash(BaseException):
    """The function's process ends here: no except clause and no answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is about to be made: its number in the life, from where, and what it asks."""

    number: int
    site: Site
    service: str
    request: AWSPreparedRequest

    @property
    def operation(self) -> str:
        """AWS's name of what is called."""
        return self.site.operation


@dataclass(frozen=True, slots=True)
class Blow:
    """What a plan has in store for a call; `before` and `after` may raise Crash, or let time pass.

    `kind` is None if the call itself goes well.
    """

    kind: Kind | None = None
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None


GOES_WELL = Blow()


class Plan(Protocol):
    """Decides about every call."""

    def blow(self, call: Call, kinds: tuple[Kind, ...]) -> Blow:
        """What shall happen to this call; `kinds` are those that can happen to it now."""
        ...


class Time(Protocol):
    """A clock that moves when told to."""

    def now(self) -> int:
        """Ms since the epoch."""
        ...

    def pass_by(self, ms: int) -> None:
        """Let time pass."""
        ...


Send = Callable[[str, AWSPreparedRequest], AWSResponse]
"""Has an engine carry out a request: service, request."""
Watch = Callable[[Call, AWSResponse], None]
"""Told of every request that an engine carried out, and of its reply."""


@dataclass
class Injector:
    """Carries out a plan, and keeps what really struck, where.

    Whatever the plan is, the process ends before each call that `kills` names.
    """

    send: Send
    time: Time
    plan: Plan | None = None
    chance: Random = field(default_factory=lambda: Random(0))
    watch: Watch | None = None
    kills: Callable[[Call], bool] = lambda _: False
    strikes: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    calls: int = 0
    _made: dict[str, int] = field(default_factory=dict)

    def on_send(self, event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        """Botocore's `before-send`: the reply, or the exception, that this request meets."""
        service = event_name.split(".")[1]
        site = site_now()
        if site is None:
            return self.send(service, request)
        self.calls += 1
        call = Call(self.calls, site, service, request)
        blow = self.plan.blow(call, self._possible(call)) if self.plan else GOES_WELL
        if blow.before:
            blow.before()
        if self.kills(call):
            raise Crash
        answer = self._strike(blow.kind, call) if blow.kind else self._carry_out(call)
        if blow.after:
            blow.after()
        return answer

    def _possible(self, call: Call) -> tuple[Kind, ...]:
        kinds = kinds_of(call.operation)
        if call.operation != "DescribeTable":
            return kinds
        made_at = self._made.get(wire.params_of(call.request)["TableName"])
        never = set()
        if made_at is None:  # there is no table that could be seen changing
            never.add(Kind.CHANGING)
        if made_at is None or self.time.now() >= made_at + NOT_SEEN_FOR_MS:
            never.add(Kind.NOT_SEEN_YET)
        return tuple(kind for kind in kinds if kind not in never)

    def _carry_out(self, call: Call, request: AWSPreparedRequest | None = None) -> AWSResponse:
        request = request or call.request
        if call.operation == "ListObjectsV2" and (
            wire.query_of(request, "continuation-token") == NEXT_PAGE
        ):
            request = wire.without_query(request, "continuation-token")
        answer = self.send(call.service, request)
        if call.operation == "CreateTable":
            self._made.setdefault(wire.params_of(request)["TableName"], self.time.now())
        if self.watch:
            self.watch(call, answer)
        return answer

    def _struck(self, kind: Kind, call: Call) -> None:
        self.strikes[str(call.site), kind] += 1

    def _strike(self, kind: Kind, call: Call) -> AWSResponse:
        if kind not in _DEPEND_ON_THE_REPLY:
            self._struck(kind, call)
        return getattr(self, f"_{kind.name.lower()}")(call)  # type: ignore[no-any-return]

    def _not_arrived(self, call: Call) -> AWSResponse:
        if self.chance.random() < 0.5:
            raise EndpointConnectionError(endpoint_url=call.request.url)
        self.time.pass_by(CONNECT_TIMEOUT_S * 1000)
        raise ConnectTimeoutError(endpoint_url=call.request.url)

    def _reply_lost(self, call: Call) -> AWSResponse:
        self._carry_out(call)
        self.time.pass_by(READ_TIMEOUT_S * 1000)
        raise ReadTimeoutError(endpoint_url=call.request.url)

    def _reset(self, call: Call) -> AWSResponse:
        if self.chance.random() < 0.5:
            self._carry_out(call)
        raise ConnectionClosedError(endpoint_url=call.request.url)

    def _error(self, call: Call) -> AWSResponse:
        status, code = self.chance.choice(wire.SERVER_ERRORS[call.service])
        if call.operation in wire.ERRORS_BY_200:
            status = 200
        return wire.error(call.request, call.service, status, code)

    def _error_applied(self, call: Call) -> AWSResponse:
        self._carry_out(call)
        return self._error(call)

    def _throttled(self, call: Call) -> AWSResponse:
        control = call.operation in wire.CONTROL_PLANE
        choice = wire.CONTROL_THROTTLES if control else wire.THROTTLES[call.service]
        status, code, more = self.chance.choice(choice)
        return wire.error(call.request, call.service, status, code, more)

    def _slow(self, call: Call) -> AWSResponse:
        answer = self._carry_out(call)
        self.time.pass_by(SLOW_MS)
        return answer

    def _conflict(self, call: Call) -> AWSResponse:
        return wire.error(call.request, call.service, 400, "TransactionConflictException")

    def _element_conflict(self, call: Call) -> AWSResponse:
        actions = len(wire.params_of(call.request)["TransactItems"])
        hit = {place for place in range(actions) if self.chance.random() < 1 / 3}
        return self._cancelled(call, hit or {self.chance.randrange(actions)}, "TransactionConflict")

    def _element_throttled(self, call: Call) -> AWSResponse:
        actions = len(wire.params_of(call.request)["TransactItems"])
        code = self.chance.choice(("ThrottlingError", "ProvisionedThroughputExceeded"))
        return self._cancelled(call, {self.chance.randrange(actions)}, code)

    def _cancelled(self, call: Call, hit: set[int], code: str) -> AWSResponse:
        actions = len(wire.params_of(call.request)["TransactItems"])
        reasons = [
            {"Code": code, "Message": "why"} if place in hit else {"Code": "None"}
            for place in range(actions)
        ]
        more = {"CancellationReasons": reasons}
        return wire.error(call.request, call.service, 400, "TransactionCanceledException", more)

    def _unprocessed(self, call: Call) -> AWSResponse:
        params = wire.params_of(call.request)
        if call.operation == "BatchGetItem":
            return self._unprocessed_keys(call, params)
        if call.operation == "BatchWriteItem":
            return self._unprocessed_items(call, params)
        entries = params["Entries"]
        kept = [entry for entry in entries[1:] if self.chance.random() < 0.5]
        ids = {entry["Id"] for entry in kept}
        by_sender = self.chance.random() < 0.5
        code = "InvalidMessageContents" if by_sender else "InternalError"
        failed = [
            {"Id": entry["Id"], "SenderFault": by_sender, "Code": code}
            for entry in entries
            if entry["Id"] not in ids
        ]
        self._struck(Kind.UNPROCESSED, call)
        request = wire.with_params(call.request, {**params, "Entries": kept})
        said = json.loads(self._carry_out(call, request).content) if kept else {}
        said["Failed"] = [*said.get("Failed", ()), *failed]
        return wire.json_reply(call.request, said)

    def _unprocessed_keys(self, call: Call, params: wire.Params) -> AWSResponse:
        asked = params["RequestItems"]
        places = [(table, key) for table, each in asked.items() for key in each["Keys"]]
        kept = len(places) // 2

        def of(some: Sequence[tuple[str, wire.Params]]) -> wire.Params:
            keys: dict[str, list[wire.Params]] = {}
            for table, key in some:
                keys.setdefault(table, []).append(key)
            return {table: {**asked[table], "Keys": those} for table, those in keys.items()}

        said: wire.Params = {"Responses": {table: [] for table in asked}}
        if kept:
            some = {**params, "RequestItems": of(places[:kept])}
            answer = self._carry_out(call, wire.with_params(call.request, some))
            if answer.status_code >= wire.REFUSED:
                return answer
            said = json.loads(answer.content)
        self._struck(Kind.UNPROCESSED, call)
        said["UnprocessedKeys"] = of(places[kept:])
        return wire.json_reply(call.request, said)

    def _unprocessed_items(self, call: Call, params: wire.Params) -> AWSResponse:
        ((table, puts),) = params["RequestItems"].items()
        kept = len(puts) // 2
        if kept:
            some = {**params, "RequestItems": {table: puts[:kept]}}
            answer = self._carry_out(call, wire.with_params(call.request, some))
            if answer.status_code >= wire.REFUSED:
                return answer
        self._struck(Kind.UNPROCESSED, call)
        return wire.json_reply(call.request, {"UnprocessedItems": {table: puts[kept:]}})

    def _truncated(self, call: Call) -> AWSResponse:
        if call.operation == "ListObjectsV2":
            if wire.query_of(call.request, "continuation-token"):
                return self._carry_out(call)
            self._struck(Kind.TRUNCATED, call)
            return wire.empty_page(call.request, NEXT_PAGE)
        request = wire.with_params(call.request, {**wire.params_of(call.request), "Limit": 1})
        answer = self._carry_out(call, request)
        if answer.status_code < wire.REFUSED and NEXT_PAGES & json.loads(answer.content).keys():
            self._struck(Kind.TRUNCATED, call)
        return answer

    def _broken_body(self, call: Call) -> AWSResponse:
        answer = self._carry_out(call)
        if answer.status_code >= wire.REFUSED:
            return answer
        self._struck(Kind.BROKEN_BODY, call)
        return wire.broken(answer, silently=self.chance.random() < 0.5)

    def _in_use(self, call: Call) -> AWSResponse:
        if call.operation == "CreateTable":  # another run was faster
            self._carry_out(call)
        return wire.error(call.request, call.service, 400, "ResourceInUseException")

    def _changing(self, call: Call) -> AWSResponse:
        answer = self._carry_out(call)
        if answer.status_code >= wire.REFUSED:
            return answer
        self._struck(Kind.CHANGING, call)
        said = json.loads(answer.content)
        fresh = Kind.NOT_SEEN_YET in self._possible(call)
        said["Table"]["TableStatus"] = "CREATING" if fresh else "UPDATING"
        return wire.json_reply(call.request, said)

    def _not_seen_yet(self, call: Call) -> AWSResponse:
        return wire.error(call.request, call.service, 400, "ResourceNotFoundException")
