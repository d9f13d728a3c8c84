import { CompleteLifecycleActionCommand, SetDesiredCapacityCommand } from '@aws-sdk/client-auto-scaling';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PLANNER_FLEETS_FILE } from '../../functions/planner/fleets-file.ts';
import { plannerFleetsOf } from '../../infra/constructs/ec2-fleet/planner-fleets.ts';
import { readSettings } from '../../infra/settings/index.ts';
import { systemClock } from '../../shared/clock/index.ts';
import { INSTANCE_EVENTS_GROUP } from '../../shared/planner/index.ts';
import { deployedTemplates } from '../infra/templates.ts';
import { type FakeAutoScaling, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import { type IamProxy, startIamProxy } from '../support/aws/iam-proxy.ts';
import { ONE_OPTION } from '../support/aws/one-option.ts';
import { unusedGrants } from '../support/aws/policy.ts';
import { RolesOf } from '../support/aws/roles.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb, useFleet, waitUntil } from '../support/index.ts';
import { startPlannerFunction } from '../support/lambda/built-function.ts';
import { hasLambdaRuntime, type LambdaRuntime } from '../support/lambda-runtime.ts';
import { queueEvent } from '../support/planner/queue-event.ts';

const SPECS = plannerFleetsOf(readSettings(ONE_OPTION, 'test'));
const [{ namespace, model, pools } = {}] = SPECS.fleets;
const GROUP = `${namespace}#${model}`;
const [{ group: first } = { group: '' }] = pools?.decode?.options ?? [];
const STACK = 'Stator-Planner';
const FUNCTION = 'planner';

/**
 * Rights that the function does not use itself.
 *
 * | Right | Used by |
 * |---|---|
 * | of SQS | Lambda, which hands it the messages with the rights of its role |
 * | of CloudWatch Logs | Lambda, for what it prints |
 */
const OF_LAMBDA = /^(sqs|logs):/;

const fleet = useFleet();

describe.runIf(hasDynamoDb() && hasLambdaRuntime())('the role of the planner', () => {
  const roles = new RolesOf(deployedTemplates(ONE_OPTION));
  const statements = roles.statements(STACK, /^PlannerRole/);
  const variables = roles.functionVariables(STACK, /^PlannerFunction/);
  let server: DynamoDbServer;
  let scaling: FakeAutoScaling;
  let proxy: IamProxy;
  let runtime: LambdaRuntime;
  let serial = 0;
  let nowMs = Date.now();

  beforeAll(async () => {
    server = await startDynamoDb();
    for (const tableName of [variables.STATOR_PLANNER_TABLE, variables.STATOR_DISCOVERY_TABLE])
      await createTable({ tableName: tableName ?? '', endpoint: server.url });
    const hooks = [{ name: 'launch', transition: 'autoscaling:EC2_INSTANCE_LAUNCHING' as const }];
    scaling = await startAutoScaling({
      clock: systemClock,
      times: { actMs: 20, launchMs: 50, terminateMs: 20, retryMs: 60_000 },
      groups: [{ name: first, types: ['g6e.12xlarge'], zones: ['eu-west-1a'], max: 4, hooks }],
    });
    proxy = await startIamProxy({
      ...{ target: server.url, storage: server.url, scaling: scaling.url },
      principals: { [FUNCTION]: statements },
      arnOf: (name) => roles.tableArn(name),
      groupOf: (id) => scaling.account.instances.get(id)?.group.name,
      secretOf: () => '',
    });
    const env = {
      ...variables,
      AWS_ENDPOINT_URL_AUTO_SCALING: proxy.url,
      STATOR_DYNAMODB_ENDPOINT: proxy.url,
      AWS_ACCESS_KEY_ID: FUNCTION,
      AWS_SECRET_ACCESS_KEY: FUNCTION,
      AWS_REGION: 'us-east-1',
    };
    runtime = await startPlannerFunction(env, { [PLANNER_FLEETS_FILE]: JSON.stringify(SPECS) });
  }, 120_000);
  afterAll(async () => {
    await runtime?.stop();
    await proxy?.close();
    await scaling?.stop();
    await server?.stop();
  });

  async function invoke(body: object, group = GROUP): Promise<void> {
    nowMs += 60_000;
    const id = `message-${serial++}`;
    const answer = await runtime.answerTo(queueEvent([{ id, group, body, sentAtMs: nowMs }]));
    expect(answer, runtime.output().slice(-2000)).toEqual({ batchItemFailures: [] });
    await runtime.idle();
    expect(proxy.refused).toEqual([]);
  }
  const event = (type: string, more: object) => ({
    ...{ type, v: 1, namespace, model, epoch: `epoch-${serial}`, seq: 0 },
    ...more,
  });
  const tick = () => invoke(event('tick', { source: 'scheduler', at: new Date(nowMs).toISOString() }));
  const setByHand = (desired: number) =>
    scaling.client().send(new SetDesiredCapacityCommand({ AutoScalingGroupName: first, DesiredCapacity: desired }));
  /** Waits until the group has so many instances in a state. */
  const until = (count: number, state: string) =>
    waitUntil(() => scaling.instances(first).filter((each) => each.state === state).length === count, {
      what: `${count} instances in ${state}`,
      timeoutMs: 20_000,
    });
  async function letServe(): Promise<void> {
    for (const { id, state } of scaling.instances(first)) {
      if (state !== 'Pending:Wait') continue;
      const hook = { AutoScalingGroupName: first, LifecycleHookName: 'launch', InstanceId: id };
      await scaling.client().send(new CompleteLifecycleActionCommand({ ...hook, LifecycleActionResult: 'CONTINUE' }));
    }
  }

  /** Ends the environment of the function, as Lambda does at times. The next message starts another one. */
  async function restart(): Promise<void> {
    for (const { pid } of runtime.environments()) if (pid !== undefined) process.kill(pid, 'SIGKILL');
    await waitUntil(() => runtime.environments().length === 0, { what: 'the end of the environment' });
  }

  it('allows each call from the first instance to the last, and has no right that none of them uses', async () => {
    await invoke(event('request.held', { source: 'edge', held_count: 1, oldest_at: Date.now() }));
    await until(1, 'Pending:Wait');
    await letServe();
    await until(1, 'InService');
    await tick();
    await setByHand(3); // launches that the planner calls off
    await until(2, 'Pending:Wait');
    await tick();
    await until(0, 'Pending:Wait');
    await setByHand(3); // instances that the planner ends
    await until(2, 'Pending:Wait');
    await letServe();
    await until(3, 'InService');
    for (const { id } of scaling.instances(first)) await serveOn(id);
    await restart(); // to a planner that has just started, no instance is too young
    await tick();
    await tick();
    scaling.account.capacity.lack({ market: 'on-demand', code: 'InsufficientInstanceCapacity' });
    await setByHand(4); // instances that EC2 does not have
    await tick();
    const [spot] = scaling.instances(first);
    const warning = { 'instance-id': spot?.id, 'instance-action': 'terminate' };
    const detailType = { 'detail-type': 'EC2 Spot Instance Interruption Warning', source: 'aws.ec2' };
    await invoke(
      { ...detailType, id: 'e1', time: new Date(nowMs).toISOString(), detail: warning },
      INSTANCE_EVENTS_GROUP,
    );
    const unused = unusedGrants(statements, proxy.callsOf(FUNCTION));
    expect(unused.filter((right) => !OF_LAMBDA.test(right))).toEqual([]);
  }, 120_000);

  /** Starts a worker on an instance, which registers with the rights of someone else. */
  async function serveOn(instanceId: string): Promise<void> {
    await fleet.worker(['--model-name', model ?? ''], {
      DYN_NAMESPACE: namespace ?? '',
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: variables.STATOR_DISCOVERY_TABLE ?? '',
      STATOR_DYNAMODB_ENDPOINT: server.url,
      STATOR_HOST_FACTS: JSON.stringify({ instance_id: instanceId, instance_type: 'g6e.12xlarge', zone: 'eu-west-1a' }),
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
    });
  }
});
