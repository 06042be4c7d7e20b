"""The pipeline as constructs of the AWS CDK; nothing else here imports it."""
