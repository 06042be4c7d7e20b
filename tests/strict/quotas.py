"""Rules that refuse without a question to IAM: Lambda's concurrency, and topics under a key."""

from __future__ import annotations

from dataclasses import replace

from tests.strict.values import Account, Refusal

UNRESERVED_LEAST = 100


def reserving(account: Account, wanted: int) -> Refusal | Account:
    """PutFunctionConcurrency of a function that reserves nothing yet: the account after it.

    Lambda leaves 100 unreserved, or all in an account that has fewer. Source: AWS Lambda Developer
    Guide, "Configuring reserved concurrency for a function". Its message in an account with ten
    names a minimum of ten, so that nothing can be reserved there
    (awslabs/fhir-works-on-aws-deployment#691).
    """
    least = min(UNRESERVED_LEAST, account.concurrency)
    if account.concurrency - account.reserved - wanted < least:
        message = (
            "Specified ReservedConcurrentExecutions for function decreases account's"
            f" UnreservedConcurrentExecution below its minimum value of [{least}]."
        )
        return Refusal(400, "InvalidParameterValueException", message)
    return replace(account, reserved=account.reserved + wanted)


def invoking(account: Account, running: int) -> Refusal | None:
    """Invoke of a function without reserved concurrency while so many others run.

    Source: AWS Lambda Developer Guide, "Understanding Lambda function scaling".
    """
    if running < account.concurrency - account.reserved:
        return None
    return Refusal(429, "TooManyRequestsException", "Rate Exceeded.")


def publishing(account: Account, topic: str) -> Refusal | None:
    """Publish to a topic (ARN), by whomever: SNS asks KMS for a data key for each message.

    Source: Amazon SNS API Reference, Publish, on KMSDisabled.
    """
    key = account.keys.get(topic)
    if key in account.disabled:
        return Refusal(400, "KMSDisabled", f"{key} is disabled.")
    return None
