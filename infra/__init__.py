"""The stack of one pipeline; its constructs are in `tallyroll.cdk`. README.md lists them."""
