import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { SYSTEM, systemClock } from '../../shared/clock/index.ts';
import { PLANNER_SECONDS, plannerGb } from '../../shared/commands/estimate/planner.ts';
import { HOURS, PRICES } from '../../shared/commands/estimate/prices.ts';
import { openQueuePlanner } from '../../shared/commands/index.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { openLogger } from '../../shared/telemetry/index.ts';
import { GPUS } from '../infra/deployments.ts';
import { deployedTemplates } from '../infra/templates.ts';
import { type FakeAutoScaling, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import { type CountingTableProxy, startCountingTableProxy } from '../support/counting-table-proxy.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb, waitUntil } from '../support/index.ts';
import { aggregatedAt } from '../support/planner/planned-model.ts';

const NEVER = new AbortController().signal;
const MINUTES_A_MONTH = HOURS * 60;
/** Minutes until a planner has settled, and those that are counted. */
const [SETTLING, COUNTED] = [2, 10];
/** Seconds between two reports of a resident router. */
const REPORT_S = 5;
/** Calls of a queue for a message: it is sent, received and deleted. */
const QUEUE_CALLS = 3;
const PER_INSTANCE = 8;
/** Memory of the planner's function, as it is deployed. */
const PLANNER_GB = plannerGb(Object.values(deployedTemplates(GPUS)));

interface Fleet {
  readonly models: number;
  /** Workers of each model, which serve nothing. */
  readonly workers: number;
}

interface Month {
  /** US$ of a model. */
  readonly dollars: number;
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly messages: number;
}

const nameOf = (at: number): string => `m${at}`;
const groupNameOf = (at: number): string => `${nameOf(at)}-0-on-demand`;

function fleetsOf({ models, workers }: Fleet): string {
  const fleets = Array.from({ length: models }, (_, at) => ({
    ...{ namespace: 'ns', model: nameOf(at), planner: { min_endpoint: workers, max_gpu_budget: 2000 } },
    pools: {
      decode: {
        ...{ gpusPerReplica: 1, startSecs: 60, drainSecs: 60 },
        options: [
          {
            ...{ id: '0-on-demand', group: groupNameOf(at), types: ['p5.48xlarge'], market: 'on-demand', min: 0 },
            ...{ gpusPerInstance: PER_INSTANCE, replicasPerInstance: PER_INSTANCE, max: 200 },
          },
        ],
      },
    },
  }));
  return JSON.stringify({ fleets });
}

describe.runIf(hasDynamoDb())('control of a planned model at rest', () => {
  let server: DynamoDbServer;
  let tables: CountingTableProxy;

  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName: 'fleet', endpoint: server.url });
    tables = await startCountingTableProxy(server.url);
  }, 60_000);
  afterAll(async () => {
    await tables?.close();
    await server?.stop();
  });

  /** Plays some minutes to the planner of the function, and returns what they would make of a month. */
  async function monthOf(fleet: Fleet, tableName: string): Promise<Month> {
    await createTable({ tableName, endpoint: server.url });
    const instances = fleet.workers / PER_INSTANCE;
    const scaling = await startAutoScaling({
      clock: systemClock,
      times: { actMs: 0, launchMs: 0 },
      groups: Array.from({ length: fleet.models }, (_, at) => ({
        ...{ name: groupNameOf(at), types: ['p5.48xlarge'], zones: ['us-east-1a'], protectsNew: true },
        ...{ max: 200, desired: instances },
      })),
    });
    const serving = () => scaling.instances(groupNameOf(0)).filter(({ state }) => state === 'InService').length;
    await waitUntil(() => serving() === instances, { what: `${instances} instances in service`, timeoutMs: 30_000 });
    try {
      return await play(fleet, tableName, scaling);
    } finally {
      vi.unstubAllEnvs();
      await scaling.stop();
    }
  }

  async function play(fleet: Fleet, tableName: string, scaling: FakeAutoScaling): Promise<Month> {
    vi.stubEnv('AWS_ENDPOINT_URL_AUTO_SCALING', scaling.url);
    let skippedMs = 0;
    const clock = Object.create(systemClock, {
      nowMs: { value: () => systemClock.nowMs() + skippedMs },
      wallMs: { value: () => systemClock.wallMs() + skippedMs },
    }) as typeof systemClock;
    const env = {
      STATOR_PLANNER_FLEETS: fleetsOf(fleet),
      STATOR_PLANNER_TABLE: tableName,
      STATOR_DYNAMODB_ENDPOINT: tables.url,
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: 'fleet',
      DYN_LOG: 'error',
    };
    const { settings } = resolveConfig('planner', ['--planner-connector=ec2'], env);
    const logger = openLogger(settings);
    const planner = await openQueuePlanner({
      ...{ settings, logger, clock, random: SYSTEM.random },
      onUnknown: () => {},
      onPlanned: () => {},
    });
    let serial = 0;
    const send = async (model: string, body: object): Promise<void> => {
      const id = `message-${serial++}`;
      const record = { messageId: id, group: `ns#${model}`, body: JSON.stringify(body), sentAtMs: clock.wallMs() };
      expect(await planner.handle([record], NEVER)).toEqual([]);
    };
    let messages = 0;
    for (let second = 0; second < 60 * (SETTLING + COUNTED); second += REPORT_S) {
      if (second === 60 * SETTLING) {
        tables.take();
        messages = 0;
      }
      for (let at = 0; at < fleet.models; at++) {
        const model = nameOf(at);
        const common = { v: 1, namespace: 'ns', model, epoch: `e${serial}`, seq: 0, source: 'scheduler' };
        if (second % 60 === 0) {
          await send(model, { ...common, type: 'tick', at: new Date(clock.wallMs()).toISOString() });
          messages++;
        }
        if (fleet.workers === 0) continue; // a router has nothing to report then
        const { signal } = aggregatedAt(second, second / REPORT_S, {
          workers: fleet.workers,
          perInstance: PER_INSTANCE,
        });
        const [pool] = Object.values((signal as unknown as { pools: Record<string, object> }).pools);
        await send(model, { ...signal, model, at: clock.wallMs(), pools: { agg: { ...pool, running: 0, kv_use: 0 } } });
        messages++;
      }
      skippedMs += REPORT_S * 1000;
    }
    const { readUnits, writeUnits } = tables.take();
    return priced({ readUnits, writeUnits, messages }, fleet);
  }

  it.each([
    ['one model without workers', { models: 1, workers: 0 }, 0.5, 5],
    ['each of ten models without workers', { models: 10, workers: 0 }, 0.5, 5],
    ['a model with 8 idle workers', { models: 1, workers: 8 }, 4, 3],
    ['a model with 1,000 idle workers', { models: 1, workers: 1000 }, 5, 6],
  ])(
    'costs at most five dollars a month: %s',
    async (_name, fleet, dollarsMax, unitsMax) => {
      const month = await monthOf(fleet, `plans-${fleet.models}-${fleet.workers}`);
      expect(month.dollars).toBeLessThanOrEqual(dollarsMax);
      // One plain write for a message, and the lease of a round; only the state grows with the workers.
      expect(month.writeUnits / month.messages).toBeLessThanOrEqual(unitsMax);
    },
    120_000,
  );
});

/** Prices a month of one model. Calls of Auto Scaling cost nothing. */
function priced(use: Omit<Month, 'dollars'>, { models }: Fleet): Month {
  const months = MINUTES_A_MONTH / COUNTED / models;
  const readUnits = use.readUnits * months;
  const writeUnits = use.writeUnits * months;
  const messages = use.messages * months;
  const millions =
    readUnits * PRICES.tableReadMillion +
    writeUnits * PRICES.tableWriteMillion +
    messages * (QUEUE_CALLS * PRICES.queueMillion + PRICES.requestMillion) +
    MINUTES_A_MONTH * PRICES.scheduleMillion;
  const dollars = millions / 1e6 + messages * PLANNER_GB * PLANNER_SECONDS * PRICES.gbSecond;
  return { dollars, readUnits, writeUnits, messages };
}
