import {
  InterfaceVpcEndpoint,
  InterfaceVpcEndpointAwsService,
  type ISecurityGroup,
  type IVpc,
  Port,
  SecurityGroup,
} from 'aws-cdk-lib/aws-ec2';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Network } from './network.ts';

/** Queue that tells a planner outside of the deployment what the fleet does. */
export class PlannerQueue extends Construct {
  /** Environment of the processes that write to it. */
  readonly environment: Readonly<Record<string, string>>;
  readonly #arn: string;

  constructor(scope: Construct, id: string, queueArn: string) {
    super(scope, id);
    this.#arn = queueArn;
    this.environment = { STATOR_PLANNER_QUEUE_URL: Queue.fromQueueArn(this, 'Queue', queueArn).queueUrl };
  }

  /** Allows a resident router to send, but not to read what others have sent. */
  grantTell(grantee: IGrantable): void {
    Grant.addToPrincipal({ grantee, actions: ['sqs:SendMessage'], resourceArns: [this.#arn] });
  }

  /** Creates a private endpoint of the queue within the network, which only `callers` may use, by their names. */
  addEndpoint({ vpc, taskSubnets }: Network, callers: Readonly<Record<string, ISecurityGroup>>): void {
    const group = new SecurityGroup(this, 'EndpointSecurityGroup', {
      vpc,
      description: 'Endpoint of SQS for Stator',
      allowAllOutbound: false,
    });
    for (const [name, caller] of Object.entries(callers)) group.addIngressRule(caller, Port.tcp(443), name);
    new InterfaceVpcEndpoint(this, 'Endpoint', {
      vpc: vpc as IVpc,
      service: InterfaceVpcEndpointAwsService.SQS,
      subnets: taskSubnets,
      securityGroups: [group as ISecurityGroup], // its optional properties are `T | undefined`
      open: false,
    });
  }
}

/** Returns the queue that the settings name, or undefined if they name none. */
export function plannerQueueOf(scope: Construct, queueArn: string | undefined): PlannerQueue | undefined {
  return queueArn === undefined ? undefined : new PlannerQueue(scope, 'PlannerQueue', queueArn);
}
