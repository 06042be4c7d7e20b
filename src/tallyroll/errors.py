"""Every error of the core, and the two answers there are to a message that fails.

TallyrollError
├── Rejected        the message can never count: it goes to the dead-letter queue with its reason
├── UsageError      a caller's argument is wrong: named with the bad value and the remedy
│   └── SettingsError   so is a setting
├── NotSent         a producer's events that are not certainly in the queue, and why
├── BufferFull      a producer holds as many events as it may: send later
├── StoreError      a call to a store, queue, catalog or bucket did not do its work
│   ├── Throttled   refused for load: nothing was written, try again later
│   ├── Unknown     no answer came: it may or may not have been done
│   ├── Missing     the table, queue or object is not there
│   └── Refused     refused for good; `code` says why
├── Contended       an update of an item of one's own found others ahead of it at each try
├── Absent          what a read names is not there
├── Archived        a read's window was dropped: what it held is in its archive
├── StateConflict   another run changed the window's state first
└── ProofMismatch   an archive does not agree with its window; it must not be dropped

Whatever is not `Rejected` is retried by the queue's redelivery or by the next scheduled run.
"""

from __future__ import annotations

from collections.abc import Mapping

from tallyroll.reasons import Reason as Reason  # noqa: PLC0414 - users take it from here


class TallyrollError(Exception):
    """The base of all errors that this package raises on purpose."""


class Rejected(TallyrollError):
    """A message that can never count; `reason` is for machines, `detail` for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class UsageError(TallyrollError):
    """A wrong argument; the message names the value and what would be right."""


class SettingsError(UsageError):
    """A wrong or missing setting; the message names the environment variable."""


class NotSent(TallyrollError):
    """So many `events` of a producer are not certainly in the queue.

    `unknown`: they may be in it, so they may count twice if they are sent again without ids of
    their own. `kept`: they are in the spool file, and the next start sends them.
    """

    def __init__(
        self, message: str, *, events: int = 1, unknown: bool = False, kept: bool = False
    ) -> None:
        super().__init__(message)
        self.events = events
        self.unknown = unknown
        self.kept = kept


class BufferFull(TallyrollError):
    """A producer holds as many events as it may, and did not take this one."""


_ENVIRONMENT = ("Region", "Credential", "Token", "Profile", "SSO")  # in the codes of such errors


class StoreError(TallyrollError):
    """A call at a port failed; `code` is the service's own word for it."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    @property
    def of_environment(self) -> bool:
        """Whether the caller's environment lacks an identity or a Region."""
        return any(part in self.code for part in _ENVIRONMENT)


class Throttled(StoreError):
    """Refused for load; nothing was written."""


class Unknown(StoreError):
    """No answer, or a server's error: the call may or may not have been carried out."""


class Missing(StoreError):
    """What the call names does not exist."""


class Refused(StoreError):
    """The service will not do it, however often it is asked."""


class Contended(TallyrollError):
    """Others were ahead of an update at each try, or its table was busy: nothing was written."""


class Absent(TallyrollError):
    """There is no such window, or no such event in it."""


class Archived(TallyrollError):
    """The window's table was dropped; its events are in the archive under `prefix`.

    Of a range, `archives` has the prefixes of its dropped windows, in the windows' order, and
    `since` (ISO) is the start of the first window after them, if there is one. `also` are other
    windows that were dropped and may have what was asked for.
    """

    also: tuple[str, ...] = ()

    def __init__(
        self,
        window: str,
        prefix: str,
        said: str = "",
        archives: Mapping[str, str] | None = None,
        since: str | None = None,
    ) -> None:
        super().__init__(
            said or f"window {window} was dropped: its events are in the archive, under {prefix}/"
        )
        self.window = window
        self.prefix = prefix
        self.archives = archives or {}
        self.since = since


class StateConflict(TallyrollError):
    """A window's state is not at the version that this run had read."""


class ProofMismatch(TallyrollError):
    """The archive and the window disagree; `findings` lists each difference."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__("; ".join(findings[:5]) + (" ..." if len(findings) > 5 else ""))
        self.findings = findings
