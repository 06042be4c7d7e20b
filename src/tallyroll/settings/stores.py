"""What a store without transactions cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyroll.model.specs import IdentityScope
from tallyroll.model.windows import KEYSPACES
from tallyroll.settings.texts import text_of

if TYPE_CHECKING:
    from tallyroll.settings.common import CommonSettings


def check_without_transactions(settings: CommonSettings, off: str) -> None:
    """Raise the settings' `error` for an event that counts under several keys, an identity that is
    put together with a record, or an event that is taken back; `off` is the value of `retraction`
    for none.
    """
    if settings.retracts:
        raise settings.error(
            f"{settings.named('retraction')} {settings.retraction}: windows in Keyspaces have no"
            " transactions, so an event that is taken back could still count: give"
            f" {off} as long as {settings.named('store')} is {KEYSPACES} or"
            f" {settings.named('keyspace')} is set"
        )
    if settings.remembers_ids:
        raise settings.error(
            f"{settings.named('identity')} {settings.identity}: windows in Keyspaces have no"
            " transactions, so an id could count without being remembered: give"
            f" {IdentityScope.WINDOW} as long as {settings.named('store')} is {KEYSPACES} or"
            f" {settings.named('keyspace')} is set"
        )
    if settings.logs:
        raise settings.error(
            f"{settings.named('logs')} {text_of(settings.logs)}: windows in Keyspaces have no"
            " transactions, so an event of a log could count twice: give {} as long as"
            f" {settings.named('store')} is {KEYSPACES} or {settings.named('keyspace')} is set,"
            " once no message can come for a window that logs"
        )
    if "keys" in settings.mapping:
        raise settings.error(
            f"{settings.named('mapping')} {text_of(settings.mapping)}: keys: windows in"
            " Keyspaces have no transactions, so the counters of an event could disagree: give"
            f" one `key` as long as {settings.named('store')} is {KEYSPACES} or"
            f" {settings.named('keyspace')} is set"
        )
