"""The pipeline as AWS CDK constructs; nothing else in this package imports the CDK."""
