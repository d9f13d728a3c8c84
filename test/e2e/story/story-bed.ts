import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { SQSClient } from '@aws-sdk/client-sqs';
import { COLLECTED, HELD_RECORDS } from '../../../infra/constructs/planner/wake.ts';
import { systemClock } from '../../../shared/clock/index.ts';
import { SqsPlannerQueue } from '../../../shared/planes/index.ts';
import { INSTANCE_EVENTS_GROUP } from '../../../shared/planner/index.ts';
import { type FakeAutoScaling, startAutoScaling } from '../../support/aws/auto-scaling/index.ts';
import { toQueue } from '../../support/aws/auto-scaling/to-queue.ts';
import type { BusEvent } from '../../support/aws/auto-scaling/types.ts';
import { startTableStream, type TableStream } from '../../support/aws/table-stream.ts';
import { createTable, type Fleet, runStator, type SqsServer, startSqs } from '../../support/index.ts';
import { FunctionBed, MODEL } from '../../support/lambda/function-bed.ts';
import { QueuePump } from '../../support/planner/queue-pump.ts';
import { startTableRelay, type TableRelay } from '../../support/planner/table-relay.ts';
import { groupSpec } from '../host-bed.ts';
import { GROUP, NAMESPACE, OPTIONS, type Option } from './fleet.ts';
import { type Functions, PLANS, prepareHttp, startFunctions } from './functions.ts';
import { Machines } from './machines.ts';

const NEVER = new AbortController().signal;
/** Interval of the scheduler's ticks: a minute in a deployment. */
const TICK_MS = 5000;
/** Time after which the messages of a batch that failed come again: minutes in a deployment. */
const HIDDEN_MS = 5000;
const CREDENTIALS = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local' };
const LOOPBACK = { DYN_EVENT_PLANE: 'zmq', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_TCP_RPC_HOST: '127.0.0.1' };
const MODEL_FOLDER = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));
const WORKER = ['--engine=mocker', '--mock-output=random', `--model-path=${MODEL_FOLDER}`, `--model-name=${MODEL}`];

interface Parts {
  readonly bed: FunctionBed;
  readonly relay: TableRelay;
  readonly sqs: SqsServer;
  readonly queue: SqsPlannerQueue;
  readonly bus: SQSClient;
  readonly scaling: FakeAutoScaling;
  readonly machines: Machines;
  readonly functions: Functions;
  readonly stream: TableStream;
}

/**
 * A deployment with a fleet of GPUs on one machine. The built functions run under Lambda's runtime client, with
 * stand-ins for DynamoDB, SQS and Auto Scaling. Each machine that Auto Scaling starts has a real agent and worker.
 */
export class StoryBed {
  readonly scaling: FakeAutoScaling;
  readonly machines: Machines;
  readonly functions: Functions;
  readonly pump: QueuePump;
  readonly #parts: Parts;
  readonly #ticks: NodeJS.Timeout;

  static async open(fleet: Fleet): Promise<StoryBed> {
    const [bed, sqs] = await Promise.all([FunctionBed.open(), startSqs()]);
    await createTable({ tableName: PLANS, endpoint: bed.server.url });
    const relay = await startTableRelay(bed.server.url);
    const queueUrl = await sqs.createQueue('planner-events');
    const queue = await SqsPlannerQueue.open({ queueUrl, endpoint: sqs.url });
    const bus = new SQSClient({ endpoint: sqs.url, region: 'us-east-1' });
    const toPlanner = { STATOR_PLANNER_QUEUE_URL: queueUrl, STATOR_SQS_ENDPOINT: sqs.url };
    const env = { ...bed.where, ...LOOPBACK, ...CREDENTIALS };
    const machines: Machines = new Machines(() => ({
      fleet,
      scaling,
      gpus: 1,
      env: {
        ...env,
        ...toPlanner,
        STATOR_EVENT_ROLLUP_INTERVAL_MS: '2000',
        STATOR_HOST_WORKER_ARGUMENTS: JSON.stringify(WORKER),
      },
    }));
    const scaling = await openScaling(machines, busEvents(bus, queueUrl));
    const options = { bed, queue: toPlanner, plannerTable: relay.url, scalingUrl: scaling.url };
    const functions = await startFunctions(options);
    const stream = await startTableStream({
      ...{ endpoint: bed.server.url, tableName: PLANS, windowMs: COLLECTED.toMilliseconds(), batchMax: 1000 },
      pattern: HELD_RECORDS,
      invoke: (event) => functions.wake.answerTo(event),
    });
    bed.spawn(['frontend', '--http-port=0']); // a deployment has a process that lasts and keeps the view of the fleet
    await prepareHttp(functions, fleet, WORKER, env);
    return new StoryBed({ bed, relay, sqs, queue, bus, scaling, machines, functions, stream });
  }

  private constructor(parts: Parts) {
    const { scaling, machines, functions, queue } = parts;
    this.scaling = scaling;
    this.machines = machines;
    this.functions = functions;
    this.#parts = parts;
    this.pump = new QueuePump({ queue, planner: functions.planner, hiddenMs: HIDDEN_MS });
    this.#ticks = setInterval(() => void this.#tick(), TICK_MS);
  }

  /** Address of the HTTP function. */
  get url(): string {
    return this.functions.http.url;
  }

  /** Returns the machines in service by option, in the order of the options: `2 + 1`. */
  inService(): string {
    const count = (group: string) => this.scaling.instances(group).filter(({ state }) => state === 'InService').length;
    return (Object.keys(OPTIONS) as Option[]).map((option) => count(OPTIONS[option])).join(' + ');
  }

  /** Returns what a command of `stator planner` prints. */
  async ask(...args: readonly string[]): Promise<string> {
    const table = { STATOR_PLANNER_TABLE: PLANS, STATOR_DYNAMODB_ENDPOINT: this.#parts.bed.server.url };
    const { stdout, stderr, code } = await runStator(['planner', ...args], { ...CREDENTIALS, ...table });
    if (code !== 0) throw new Error(stderr);
    return stdout;
  }

  /** EC2 takes a spot instance back: its metadata and an event say so, two minutes before. */
  async interrupt(id: string): Promise<void> {
    const machine = await this.machines.of(id);
    machine.imds.announceSpot('terminate', new Date(Date.now() + 120_000));
    this.scaling.interruptSpot(id);
  }

  /** Kills the planner's function in the middle of its next batch: after it has decided, before it acts. */
  killPlanner(): void {
    const { relay, functions } = this.#parts;
    relay.before = (body) => {
      if (!body.includes('LEASE')) return undefined;
      relay.before = () => undefined;
      for (const { pid, isIdle } of functions.planner.environments()) if (!isIdle && pid) process.kill(pid, 'SIGKILL');
      return new Promise(() => {}); // its call never arrives
    };
  }

  async close(): Promise<void> {
    const { bed, relay, sqs, queue, bus, stream, functions } = this.#parts;
    clearInterval(this.#ticks);
    await this.pump.stop();
    await stream.close();
    await Promise.all([functions.http, functions.wake, functions.planner].map((each) => each.stop()));
    await this.scaling.stop();
    await this.machines.stop();
    bus.destroy();
    await queue.close();
    await relay.close();
    await Promise.all([bed.close(), sqs.stop()]);
  }

  /** Sends a tick with the body that EventBridge Scheduler sends, twice: it delivers at least once. */
  async #tick(): Promise<void> {
    const body = JSON.stringify({
      ...{ type: 'tick', v: 1, namespace: NAMESPACE, model: MODEL, source: 'scheduler', seq: 0 },
      ...{ epoch: randomUUID(), at: new Date().toISOString() },
    });
    const messages = [1, 2].map(() => ({ group: GROUP, deduplicationId: randomUUID(), body }));
    await this.#parts.queue.send(messages, NEVER);
  }
}

/** Sends events as the rules of a deployment do: those of groups to their model, those of instances to all. */
function busEvents(bus: SQSClient, queueUrl: string): (event: BusEvent) => void {
  const ofGroup = toQueue(bus, queueUrl, GROUP);
  const ofInstance = toQueue(bus, queueUrl, INSTANCE_EVENTS_GROUP);
  return (event) => (event.source === 'aws.ec2' ? ofInstance : ofGroup).onEvent(event);
}

function openScaling(machines: Machines, onEvent: (event: BusEvent) => void): Promise<FakeAutoScaling> {
  return startAutoScaling({
    clock: systemClock,
    times: { actMs: 50, launchMs: 200, terminateMs: 50, hookMs: 100, retryMs: 5000 },
    groups: Object.entries(OPTIONS).map(([option, name]) => ({
      ...groupSpec(name),
      types: ['g6e.xlarge'],
      max: 4,
      market: option === '1-spot' ? 'spot' : 'on-demand',
      protectsNew: true,
      rebalances: option === '1-spot',
    })),
    onEvent,
    onLaunch: machines.onLaunch,
    onState: machines.onState,
    onTerminate: machines.onTerminate,
  });
}
