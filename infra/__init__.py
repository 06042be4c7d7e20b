"""The CDK app: one stack that wires constructs, one module per concern."""
