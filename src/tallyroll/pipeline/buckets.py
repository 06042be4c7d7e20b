"""Buckets that are no pipeline's own: what a load reads."""

from __future__ import annotations

from tallyroll.adapters.aws.client import Caller, LateClient
from tallyroll.adapters.aws.s3 import S3Bucket
from tallyroll.ports.effects import Effects


def s3_bucket(name: str, effects: Effects) -> S3Bucket:
    """A bucket of S3."""
    return S3Bucket(Caller(LateClient("s3"), effects), effects, name)
