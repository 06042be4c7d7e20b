"""The Lambda functions: each a thin handler that parses its trigger, calls one core function and
answers.
"""
