"""The Lambda functions: each a thin handler that parses its trigger, calls one core function and
answers.

What the libraries leave in memory stays there for a sandbox's whole life. So no collection of
garbage looks at it again, which took a twentieth of a cold start.
"""

import gc

import aws_lambda_powertools  # noqa: F401
import boto3  # noqa: F401

gc.freeze()
