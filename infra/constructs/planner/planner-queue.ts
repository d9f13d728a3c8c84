import {
  InterfaceVpcEndpoint,
  InterfaceVpcEndpointAwsService,
  type ISecurityGroup,
  type IVpc,
  Port,
  SecurityGroup,
} from 'aws-cdk-lib/aws-ec2';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Settings } from '../../settings/index.ts';
import type { Network } from '../network.ts';

/** Queue by which the processes of a stack tell the planner what the fleet does. */
export class PlannerQueue extends Construct {
  /** Environment of the processes that write to it. */
  readonly environment: Readonly<Record<string, string>>;
  readonly #arn: string;

  /** @param queue the deployment's own, or the ARN of another planner's */
  constructor(scope: Construct, id: string, queue: IQueue | string) {
    super(scope, id);
    const { queueArn, queueUrl } = typeof queue === 'string' ? Queue.fromQueueArn(this, 'Queue', queue) : queue;
    this.#arn = queueArn;
    this.environment = { STATOR_PLANNER_QUEUE_URL: queueUrl };
  }

  /** Allows a resident router, or the agent of a machine, to send, but not to read what others have sent. */
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

/** Returns the queue of the planner that the settings name, else of the deployment's own; undefined without either. */
export function plannerQueueOf(
  scope: Construct,
  { planner: { queueArn } }: Pick<Settings, 'planner'>,
  own?: IQueue,
): PlannerQueue | undefined {
  const queue = queueArn ?? own;
  return queue === undefined ? undefined : new PlannerQueue(scope, 'PlannerQueue', queue);
}
