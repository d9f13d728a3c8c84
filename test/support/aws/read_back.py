"""Prints, as JSON by their names, what stacks that were deployed to moto consist of; saves the code of their functions. Arguments: URL FOLDER STACK..."""
import json, os, sys
import boto3

url, folder, *stacks = sys.argv[1:]
client = lambda name: boto3.client(name, endpoint_url=url, region_name="us-east-1")
cf, iam, awslambda, s3, ecs, ddb = map(client, ["cloudformation", "iam", "lambda", "s3", "ecs", "dynamodb"])

def document(value):
    return (json.loads(value) if isinstance(value, str) else value)["Statement"]

def managed(arn):
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    return document(iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"])

def role(name):
    inline = [document(iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"]) for each in iam.list_role_policies(RoleName=name)["PolicyNames"]]
    attached = [managed(each["PolicyArn"]) for each in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"] if ":aws:policy/" not in each["PolicyArn"]]
    return [statement for policy in inline + attached for statement in policy]

def read(stack):
    template = cf.get_template(StackName=stack)["TemplateBody"]
    template = json.loads(template) if isinstance(template, str) else template
    found = {"outputs": {}, "functions": {}, "policies": {}, "tables": {}, "tasks": {}, "physicalIds": {}}
    for each in cf.describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", []):
        found["outputs"][each["OutputKey"]] = each["OutputValue"]
    resources = cf.list_stack_resources(StackName=stack)["StackResourceSummaries"]
    physical = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources}
    found["physicalIds"] = physical
    for resource in resources:
        id, kind, name = resource["LogicalResourceId"], resource["ResourceType"], resource["PhysicalResourceId"]
        if kind == "AWS::Lambda::Function":
            configuration = awslambda.get_function(FunctionName=name)["Configuration"]
            key = template["Resources"][id]["Properties"]["Code"]["S3Key"]
            path = os.path.join(folder, stack + "-" + id + ".zip")
            s3.download_file("cdk-hnb659fds-assets-123456789012-us-east-1", key, path)
            found["functions"][id] = {
                "environment": configuration.get("Environment", {}).get("Variables", {}),
                "statements": role(configuration["Role"].split("/")[-1]),
                "handler": configuration["Handler"], "runtime": configuration["Runtime"],
                "memoryMb": configuration["MemorySize"], "timeoutSecs": configuration["Timeout"], "zip": path,
            }
        elif kind == "AWS::IAM::ManagedPolicy":
            found["policies"][name] = managed(name)
        elif kind == "AWS::DynamoDB::Table":
            table = ddb.describe_table(TableName=name)["Table"]
            found["tables"][name] = {"arn": table["TableArn"], "keys": table["KeySchema"], "attributes": table["AttributeDefinitions"]}
        elif kind == "AWS::ECS::TaskDefinition":
            task = ecs.describe_task_definition(taskDefinition=name)["taskDefinition"]
            found["tasks"][id] = {
                # moto's tasks do not tell their role; the template that it has does
                "statements": role(physical[template["Resources"][id]["Properties"]["TaskRoleArn"]["Fn::GetAtt"][0]]),
                "containers": [{
                    "name": each["name"], "command": each.get("command", []),
                    "environment": {pair["name"]: pair["value"] for pair in each.get("environment", [])},
                    "secrets": {pair["name"]: pair["valueFrom"] for pair in each.get("secrets", [])},
                } for each in task["containerDefinitions"]],
            }
    return found

print(json.dumps({stack: read(stack) for stack in stacks}))
