"""Whether the API's access log can be set up: by the account's role, or its policy of deliveries.

A REST API writes logs by one role of the account and Region. An HTTP API has CloudWatch Logs
deliver them, whose resource policy must allow the log group; near its limit of size, CloudWatch
Logs allows all groups below /aws/vendedlogs/ instead, where ours is. Sources: API Gateway Developer
Guide, "Set up CloudWatch logging for REST APIs in API Gateway"; CloudWatch Logs User Guide, "Enable
logging from AWS services", at its size limit; CloudWatch Logs API Reference, PutResourcePolicy.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.operations.doctor.checkup import Sign, finding, fine, warning
from tallyroll.operations.preflight.case import Preflight
from tallyroll.settings.texts import text_of

POLICY_CHARACTERS, POLICIES = 5_120, 10  # the most of a policy, and of policies in a Region
DELIVERY, VENDED = "delivery.logs.amazonaws.com", "/aws/vendedlogs/*"
ADDED = 160  # characters that one more log group takes: two ARNs at the most


def api_logs(of: Preflight) -> Iterator[Sign]:
    """API Gateway may write the access log."""
    api = of.planned.options.api
    if api == "private":
        yield from _role(of)
    elif api == "http":
        yield from _deliveries(of)
    else:
        yield fine("there is no API, and so no access log")


def _role(of: Preflight) -> Iterator[Sign]:
    role, option = of.account.api_log_role(), text_of(of.planned.options.api_log_role)
    ours = f":role/{of.name}-" in role
    if option == "false" and not role:
        yield finding(
            "API Gateway has no role here by which it writes logs, and tallyroll:api_log_role is"
            " false: the deployment will fail",
            "Leave tallyroll:api_log_role out: the stack then sets a role.",
        )
    elif option == "true" and role and not ours:
        yield warning(
            f"tallyroll:api_log_role true replaces {role}, by which API Gateway writes the logs of"
            " all REST APIs of this account and Region",
            "Leave tallyroll:api_log_role out: the role that is there then stays.",
        )
    if role:
        yield fine(f"API Gateway writes logs by {role}; tallyroll:api_log_role is {option}")
    else:
        yield fine(f"API Gateway has no role for logs: the stack sets one (api_log_role {option})")


def _deliveries(of: Preflight) -> Iterator[Sign]:
    found = of.account.log_policies()
    delivering = {name: text for name, text in found.items() if DELIVERY in text}
    if any(VENDED in text for text in delivering.values()):
        yield fine(f"CloudWatch Logs may deliver to all log groups {VENDED}")
        return
    longest = max(delivering, key=lambda name: len(delivering[name]), default="")
    size = len(delivering.get(longest, ""))
    if size + ADDED > POLICY_CHARACTERS:
        yield warning(
            f"the policy {longest} of CloudWatch Logs has {size:,} of {POLICY_CHARACTERS:,}"
            f" characters, and does not allow {VENDED}: the API's access log may not be set up",
            "`aws logs describe-resource-policies` shows it. Put it back shorter, with"
            f" log-group:{VENDED} in the place of the groups: `aws logs put-resource-policy"
            f" --policy-name {longest} --policy-document POLICY`.",
        )
    elif not delivering and len(found) >= POLICIES:
        yield warning(
            f"CloudWatch Logs has {len(found)} resource policies here, the most that it takes, and"
            " none for the API's access log",
            "`aws logs describe-resource-policies` lists them; delete one that nobody needs by"
            " `aws logs delete-resource-policy --policy-name NAME`.",
        )
    yield fine(f"the policy of log deliveries has {size:,} of {POLICY_CHARACTERS:,} characters")
