"""The functions in a VPC, and the endpoints by which they reach AWS's services from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX, OptionsError

if TYPE_CHECKING:
    from constructs import IConstruct

HTTPS, CASSANDRA, CACHE = 443, 9142, 6379
GATEWAYS = ("dynamodb", "s3")
"""The services that functions call through gateway endpoints, which are free."""

INTERFACES = ("sqs", "monitoring")
"""The services that functions call through interface endpoints, which are charged by the hour."""

KEYSPACES = "cassandra"
"""The service that they call through an interface endpoint, too, if window tables are there."""

# What Lambda needs to attach a function. Source: AWS Lambda Developer Guide, "Giving Lambda
# functions access to resources in an Amazon VPC".
_ATTACHING = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
# With these Amazon Keyspaces tells a connection of all endpoints in its VPC, so that the driver can
# use more than one. Source: Amazon Keyspaces Developer Guide, "Using Amazon Keyspaces with
# interface VPC endpoints".
_LOOKING = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeVpcEndpoints")


@dataclass(frozen=True, slots=True)
class Network:
    """The ids of the subnets that functions run in, and of their security groups; the VPC and its
    subnets themselves, if a VPC is passed in.
    """

    subnets: Sequence[str]
    security_groups: Sequence[str]
    vpc: ec2.IVpc | None = None
    chosen: Sequence[ec2.ISubnet] = ()


def network_of(
    scope: Construct,
    options: Options,
    vpc: ec2.IVpc | None,
    subnets: ec2.SubnetSelection | None,
    security_groups: Sequence[ec2.ISecurityGroup] | None,
) -> Network | None:
    """Where the functions run: in what is passed in, or in the options' subnets; None: in no VPC.

    Without security groups for a `vpc`, one is made that lets out HTTPS alone, and what goes to
    Amazon Keyspaces, if window tables are there, and to a shared cache. Raises OptionsError
    for both ways at once, for subnets or groups without a VPC, and for a cache without one.
    """
    if vpc is None:
        if subnets is not None or security_groups:
            name = "vpc_subnets" if subnets is not None else "security_groups"
            raise OptionsError(f"{name}: no vpc is passed in; pass in the vpc that they are of")
        if not options.vpc_subnets:
            if options.cache_url:
                raise OptionsError(
                    f"{PREFIX}cache_url (not shown): a cache is reached in a VPC alone; give"
                    f" {PREFIX}vpc_subnets and {PREFIX}vpc_security_groups too, or pass in a vpc"
                )
            return None
        groups = options.vpc_security_groups.split(",")
        return Network(options.vpc_subnets.split(","), groups)
    if isinstance(vpc, type) or not hasattr(vpc, "select_subnets"):
        raise OptionsError(
            f"vpc {vpc!r}: give an ec2.Vpc(...), or ec2.Vpc.from_lookup(...) for one of another app"
        )
    if options.vpc_subnets:
        raise OptionsError(
            f"vpc {vpc.node.path}: {PREFIX}vpc_subnets is given too; give one of them"
        )
    chosen = vpc.select_subnets() if subnets is None else _selected(vpc, subnets)
    ports = {HTTPS: "AWS"}
    if options.settings().window_keyspace:
        ports[CASSANDRA] = "Amazon Keyspaces"
    if options.cache_url:
        # Not by urlsplit: a password that is yet to be resolved may hold a slash.
        port = options.cache_url.rpartition("@")[2].partition(":")[2]
        ports[int(port or CACHE)] = "the shared cache"
    given = security_groups or [_lets_out(scope, vpc, ports)]
    groups = [group.security_group_id for group in given]
    return Network(chosen.subnet_ids, groups, vpc, chosen.subnets)


def may_attach(
    scope: IConstruct, network: Network | None, name: str, *, keyspaces: bool = False
) -> list[iam.PolicyStatement]:
    """What the role of the function `name` needs to be in a network: Lambda may attach it, with
    this role; the function's own code may not use these permissions, except what connections to
    Amazon Keyspaces need.
    """
    if network is None:
        return []
    looks = _LOOKING if keyspaces else ()
    stack = cdk.Stack.of(scope)
    itself = stack.format_arn(
        service="lambda",
        resource="function",
        resource_name=name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    return [
        iam.PolicyStatement(actions=[*_ATTACHING, *looks[1:]], resources=["*"]),
        iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=[action for action in _ATTACHING if action not in looks],
            resources=["*"],
            conditions={"ArnEquals": {"lambda:SourceFunctionArn": itself}},
        ),
    ]


class Endpoints(Construct):
    """Endpoints in a VPC for all that the functions call, for a VPC that has none of them yet.

    A VPC takes one interface endpoint with private names for each service: leave out those that it
    has. A pipeline with window tables in Keyspaces needs `cassandra` among the services.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        vpc: ec2.IVpc,
        services: Sequence[str] = (*GATEWAYS, *INTERFACES),
        subnets: ec2.SubnetSelection | None = None,
    ) -> None:
        """`subnets` are those of the interface endpoints, by default the private ones. Raises
        OptionsError for a service that no function calls.
        """
        super().__init__(scope, id_)
        for service in services:
            if service in GATEWAYS:
                gateway = ec2.GatewayVpcEndpointAwsService(service)
                ec2.GatewayVpcEndpoint(self, service.capitalize(), vpc=vpc, service=gateway)
            elif service in (*INTERFACES, KEYSPACES):
                port = CASSANDRA if service == KEYSPACES else HTTPS
                interface = ec2.InterfaceVpcEndpointAwsService(service, port=port)
                ec2.InterfaceVpcEndpoint(
                    self, service.capitalize(), vpc=vpc, service=interface, subnets=subnets
                )
            else:
                known = ", ".join((*GATEWAYS, *INTERFACES, KEYSPACES))
                raise OptionsError(f"services {service!r}: no function calls it; give {known}")


def _selected(vpc: ec2.IVpc, subnets: ec2.SubnetSelection) -> ec2.SelectedSubnets:
    return vpc.select_subnets(
        availability_zones=subnets.availability_zones,
        one_per_az=subnets.one_per_az,
        subnet_filters=subnets.subnet_filters,
        subnet_group_name=subnets.subnet_group_name,
        subnets=subnets.subnets,
        subnet_type=subnets.subnet_type,
    )


def _lets_out(scope: Construct, vpc: ec2.IVpc, ports: Mapping[int, str]) -> ec2.ISecurityGroup:
    group = ec2.SecurityGroup(
        scope,
        "Functions",
        vpc=vpc,
        allow_all_outbound=False,
        description="Functions of Tallyroll call AWS by HTTPS",
    )
    for port, what in ports.items():
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(port), what)
    return group
