import { appendFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock/index.ts';
import { deployedTemplates } from '../infra/templates.ts';
import { type FakeAutoScaling, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import { type FakeQueue, startFakeQueue } from '../support/aws/fake-queue.ts';
import { type IamProxy, startIamProxy } from '../support/aws/iam-proxy.ts';
import { CHAT, ONE_OPTION } from '../support/aws/one-option.ts';
import { unusedGrants } from '../support/aws/policy.ts';
import { RolesOf } from '../support/aws/roles.ts';
import {
  createTable,
  type DynamoDbServer,
  hasDynamoDb,
  hasNatsServer,
  type NatsServer,
  startDynamoDb,
  startNatsServer,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { type S3Server, startS3Server } from '../support/s3-server.ts';
import { groupSpec } from './host-bed.ts';
import { Machines } from './story/machines.ts';

const FLEET_STACK = 'Stator-Fleet-chat-a1';
const GROUP = 'Stator-chat-a1-0-on-demand';
const WEIGHTS = CHAT.weights?.uri ?? '';
const MACHINE = 'machine';
const LOST_GPU = '3,1042,9000000,-;NVRM: Xid (PCI:0000:65:00): 79, pid=4242, GPU has fallen off the bus.\n';

/**
 * Rights that neither the agent nor a worker uses.
 *
 * | Right | Used by |
 * |---|---|
 * | of ECR | Docker, which pulls the image of the workers |
 * | of CloudWatch Logs | the agent of CloudWatch, which sends the log files |
 */
const OF_OTHERS = /^(ecr|logs):/;

const fleet = useFleet();

describe.runIf(hasDynamoDb() && hasNatsServer())('the role of machines on EC2', () => {
  const roles = new RolesOf(deployedTemplates(ONE_OPTION));
  const statements = roles.statements(FLEET_STACK, /^WorkersRole/);
  const { STATOR_DISCOVERY_TABLE: table = '' } = roles.functionVariables('Stator-Planner', /^PlannerFunction/);
  let server: DynamoDbServer;
  let nats: NatsServer;
  let bucket: S3Server;
  let queue: FakeQueue;
  let scaling: FakeAutoScaling;
  let proxy: IamProxy;
  const machines = new Machines(() => ({ fleet, scaling: proxy, env: environment() }));

  beforeAll(async () => {
    [server, nats, bucket, queue] = await Promise.all([
      startDynamoDb(),
      startNatsServer(),
      startS3Server(),
      startFakeQueue(),
    ]);
    bucket.objects.set(`${WEIGHTS.slice('s3://'.length)}config.json`, Buffer.from('{}'));
    await createTable({ tableName: table, endpoint: server.url });
    const { onLaunch, onState, onTerminate } = machines;
    scaling = await startAutoScaling({
      clock: systemClock,
      times: { actMs: 20, launchMs: 0, terminateMs: 0, hookMs: 0 },
      groups: [groupSpec(GROUP)],
      ...{ onLaunch, onState, onTerminate },
    });
    proxy = await startIamProxy({
      ...{ target: server.url, storage: bucket.url, scaling: scaling.url, queues: queue.url },
      principals: { [MACHINE]: statements },
      arnOf: (name) => roles.tableArn(name),
      queueArnOf: () => roles.queueArn('Stator-Planner', /^EventsQueue/),
      groupOf: (id) => scaling.account.instances.get(id)?.group.name,
      secretOf: (arn) =>
        JSON.stringify(
          arn.includes('Nats') ? { username: 'worker', password: 'p'.repeat(40) } : { current: 't'.repeat(40) },
        ),
    });
  }, 60_000);
  afterAll(async () => {
    await machines.stop();
    await proxy?.close();
    await Promise.all([scaling, queue, bucket, nats, server].map((each) => each?.stop()));
  });

  /** Variables of a machine's agent and workers. All that they call is behind the proxy, but NATS. */
  function environment(): Readonly<Record<string, string>> {
    const [token = '', user = ''] = ['PlaneToken', 'NatsWorker'].map((name) => secretArn(name));
    return {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: table,
      STATOR_DYNAMODB_ENDPOINT: proxy.url,
      DYN_EVENT_PLANE: 'nats',
      NATS_SERVER: nats.url,
      STATOR_PLANE_TOKEN_SECRET: token,
      STATOR_NATS_SECRET: user,
      AWS_ENDPOINT_URL_SECRETS_MANAGER: proxy.url,
      STATOR_PLANNER_QUEUE_URL: `${proxy.url}/1/planner.fifo`,
      STATOR_SQS_ENDPOINT: proxy.url,
      STATOR_HOST_WEIGHTS_URI: WEIGHTS,
      STATOR_HOST_WEIGHTS_MODE: 'disk',
      STATOR_HOST_HEARTBEAT_SECS: '0.2',
      AWS_ENDPOINT: proxy.url,
      AWS_ALLOW_HTTP: 'true',
      AWS_ACCESS_KEY_ID: MACHINE,
      AWS_SECRET_ACCESS_KEY: MACHINE,
    };
  }
  function secretArn(name: string): string {
    const found = statements.flatMap(({ Resource }) => [Resource].flat()).find((arn) => arn.includes(`Secrets${name}`));
    if (found === undefined) throw new Error(`the role reads no secret ${name}`);
    return found;
  }

  /** Waits for something, unless a call is refused. */
  async function until(what: string, probe: () => boolean | Promise<boolean>): Promise<void> {
    await waitUntil(() => proxy.refused.length > 0 || probe(), { what, timeoutMs: 40_000 });
    expect(proxy.refused).toEqual([]);
  }
  const inService = () => scaling.instances(GROUP).filter(({ state }) => state === 'InService');
  const setDesired = async (DesiredCapacity: number): Promise<void> => {
    const { SetDesiredCapacityCommand } = await import('@aws-sdk/client-auto-scaling');
    await scaling.client().send(new SetDesiredCapacityCommand({ AutoScalingGroupName: GROUP, DesiredCapacity }));
  };

  it('allows each call from the first start to the last end, and has no right that none of them uses', async () => {
    await setDesired(1);
    await until('a machine', () => machines.booted === 1);
    const [first] = scaling.instances(GROUP);
    const machine = await machines.of(first?.id ?? '');
    await until('the start of its workers', () => machine.workerPids().length > 0);
    const compiled = join(machine.folder, 'state', 'compile');
    writeFileSync(join(compiled, readdirSync(compiled)[0] ?? '', 'kernel'), 'as an engine writes it');
    await until('a machine in service', () => inService().length === 1);
    await until('its compiled kernels', () => [...bucket.objects.keys()].some((key) => key.includes('.compile/')));
    appendFileSync(machine.kernelLog, LOST_GPU);
    await until('another machine in its place', () => inService().some(({ id }) => id !== first?.id));
    await until('the end of the first', () => first?.state === 'Terminated');
    await until('a view of the fleet', () =>
      [...proxy.callsOf(MACHINE)].some((call) => call.includes(':BatchGetItem ')),
    );
    await setDesired(0);
    await until('the end of the last', () => scaling.instances(GROUP).length === 0);
    expect(queue.events.map(({ type }) => type)).toContain('host.phase');
    const unused = unusedGrants(statements, proxy.callsOf(MACHINE));
    expect(unused.filter((right) => !OF_OTHERS.test(right))).toEqual([]);
  }, 120_000);
});
