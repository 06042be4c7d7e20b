"""The stack, and the builds of what is deployed and released. Constructs are in `tallyroll.cdk`."""
