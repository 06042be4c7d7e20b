"""Builds what is deployed and released: the functions' asset, the package, bills of materials.

Deployment needs it too: it checks what a machine has, and runs the CDK's command on a Node.js out
of a Python wheel.
"""
