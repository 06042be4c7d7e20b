"""What is deployed, built: the asset of the functions, the package, and the CDK's command."""
