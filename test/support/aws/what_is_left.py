"""
Prints, as JSON, what an account at moto has besides what `cdk bootstrap` made. Argument: URL
APIs, services of ECS, networks, log groups and managed policies are not looked at: moto leaves them whatever is deleted.
"""
import json, sys
import boto3

client = lambda name: boto3.client(name, endpoint_url=sys.argv[1], region_name="us-east-1")
own = lambda names: sorted(name for name in names if not name.startswith("cdk-hnb659fds-"))
iam = client("iam")
stacks = client("cloudformation").describe_stacks()["Stacks"]
print(json.dumps({
    "stacks": sorted(each["StackName"] for each in stacks if each["StackName"] != "CDKToolkit"),
    "tables": sorted(client("dynamodb").list_tables()["TableNames"]),
    "buckets": own(each["Name"] for each in client("s3").list_buckets()["Buckets"]),
    "functions": own(each["FunctionName"] for each in client("lambda").list_functions()["Functions"]),
    "roles": own(each["RoleName"] for each in iam.list_roles()["Roles"]),
}))
