import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AttributeValue, DeleteItemCommand, DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Discovery } from '../../../shared/discovery/index.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { createTestTable, type TestTable } from '../../contract/discovery/test-table.ts';
import { createDiscovery, type SharedStoreOptions } from '../../support/create-discovery.ts';
import {
  createTable,
  type DynamoDbServer,
  FreezableClock,
  freePort,
  hasDynamoDb,
  spawnTypeScript,
  startDynamoDb,
  startDynoxide,
  waitUntil,
} from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

type DynamoDbOptions = Extract<SharedStoreOptions, { readonly backend: 'dynamodb' }>;

const instances = { bucket: 'v1/instances', prefix: '' } as const;
const A = 'ns/backend/generate/a';
const HOUR_MS = 3_600_000;

describe.runIf(hasDynamoDb())('DynamoDbDiscovery', () => {
  const canRestart = Boolean(process.env.STATOR_TEST_DYNOXIDE_BIN); // an endpoint that was given stays up
  let server: DynamoDbServer;
  let folder: string;
  let table: TestTable;
  let opened: Discovery[];
  let problems: string[];

  beforeAll(async () => {
    server = await startDynamoDb();
    folder = await mkdtemp(join(tmpdir(), 'stator-dynamodb-'));
  });
  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true });
  });
  beforeEach(async () => {
    table = await createTestTable(server.url);
    opened = [];
    problems = [];
  });
  afterEach(async () => {
    await Promise.all(opened.map((discovery) => discovery.close()));
    await table.drop();
  });

  async function open(options: Partial<DynamoDbOptions> = {}): Promise<Discovery> {
    const { tableName, endpoint } = table;
    const onProblem = (problem: Error) => void problems.push(problem.message);
    const fast = { backend: 'dynamodb', ttlMs: 500, pollMs: 50, onProblem } as const;
    const discovery = await createDiscovery({ ...fast, tableName, endpoint, ...options });
    opened.push(discovery);
    return discovery;
  }

  /** Every item in the table as plain values. */
  async function items(): Promise<Record<string, string | number>[]> {
    const client = new DynamoDBClient({ endpoint: server.url });
    const { Items = [] } = await client.send(new ScanCommand({ TableName: table.tableName, ConsistentRead: true }));
    client.destroy();
    const plain = ({ S, N, B }: AttributeValue): string | number => S ?? (B ? `${B.length} bytes` : Number(N));
    return Items.map((item) => Object.fromEntries(Object.entries(item).map(([name, value]) => [name, plain(value)])));
  }

  const itemsUnder = async (start: string) => (await items()).filter(({ pk }) => String(pk).startsWith(start));

  describe('items', () => {
    it('are one lease a process, one item a record under it, and one card for all who have it', async () => {
      const [discovery, other] = [await open({ ttlMs: 10_000 }), await open({ ttlMs: 10_000 })];
      const startMs = Date.now();
      await discovery.put(endpointAt(A));
      await discovery.put(endpointAt(A, 'moved:1'));
      await discovery.put(modelAt(A));
      discovery.setLoad('a', {
        ranks: [{ dpRank: 0, requests: 3, decodeBlocks: 9, prefillTokens: 27 }],
        isDraining: false,
      });
      const own = modelAt('ns/backend/generate/b');
      const runtime_config = { ...own.card.runtime_config, total_kv_blocks: 7, taints: ['slow'] };
      await other.put({ ...own, card: { ...own.card, runtime_config } });
      await waitUntil(async () => (await itemsUnder('v1/leases#')).some(({ load }) => load === '9 bytes'));
      const lease = (await itemsUnder('v1/leases#')).find(({ load }) => load === '9 bytes');
      expect(await itemsUnder('v1/leases#')).toHaveLength(2);
      expect(lease).toEqual({
        pk: expect.stringMatching(/^v1\/leases#([0-9]|1[0-5])$/),
        sk: expect.stringMatching(/^[0-9a-f]+$/),
        expiresAtMs: expect.any(Number),
        ttlMs: 10_000,
        epoch: 1,
        rev: 3,
        load: '9 bytes',
        ttl: Math.ceil(Number(lease?.expiresAtMs) / 1000) + 3600,
      });
      expect(Math.abs(Number(lease?.expiresAtMs) - startMs - 10_000)).toBeLessThan(3000);
      const records = await itemsUnder(`v1/records#${lease?.sk}`);
      expect(records.map(({ sk, epoch }) => [sk, epoch])).toEqual([
        [`v1/instances/${A}`, 1],
        [`v1/mdc/${A}`, 1],
      ]);
      expect(await itemsUnder('v1/cards')).toHaveLength(1);
      expect(await itemsUnder('v1/catalogue')).toMatchObject([{ sk: 'Tiny/Model-1.0', namespace: 'ns' }]);
      const cards = (await discovery.list({ bucket: 'v1/mdc', prefix: '' })).flatMap((record) =>
        record.type === 'Model' ? [record.card.runtime_config] : [],
      );
      expect(cards).toEqual([{ total_kv_blocks: 1024 }, { total_kv_blocks: 7, taints: ['slow'] }]);
    });

    it('leave the catalogue, the cards and the view behind after close', async () => {
      const discovery = await open();
      await discovery.put(endpointAt(A));
      await discovery.put(modelAt('other/backend/generate/a'));
      await waitUntil(async () => (await itemsUnder('v1/view')).some(({ sk, body }) => sk === 'head' && body));
      await discovery.close();
      const kinds = new Set((await items()).map(({ pk }) => String(pk).split('#')[0]));
      expect([...kinds].sort()).toEqual(['v1/cards', 'v1/catalogue', 'v1/view']);
    });

    it('are refused above the size of an item, with the size', async () => {
      const discovery = await open();
      const card = { ...modelAt(A).card, user_data: 'x'.repeat(400 * 1024) };
      await expect(discovery.put({ ...modelAt(A), card })).rejects.toMatchObject({
        code: 'record_too_large',
        message: expect.stringMatching(/^the card of ns\/backend\/generate\/a has 401 KB, DynamoDB takes 400 KB/),
      });
      expect(await items()).toEqual([]);
    });
  });

  describe('liveness', () => {
    it.each([HOUR_MS, -HOUR_MS])('does not depend on a clock that is %d ms wrong', async (wallOffsetMs) => {
      const clock = new FreezableClock(undefined, wallOffsetMs);
      const [writer, reader] = [await open({ clock }), await open()];
      await writer.put(endpointAt(A));
      expect(await reader.list(instances)).toHaveLength(1); // first look: by table time
      const witness = new Witness();
      await reader.watch(instances, witness);
      clock.freeze();
      await waitUntil(() => witness.present.size === 0);
      expect(await reader.list(instances)).toEqual([]);
    });

    const MINUTE_MS = 60_000;
    it.each([
      ['worker', MINUTE_MS],
      ['worker', -MINUTE_MS],
      ['frontend', MINUTE_MS],
      ['frontend', -MINUTE_MS],
    ])(
      'is not disturbed by the clock of a %s that is wrong by %d ms, and set right while it runs',
      async (whose, offMs) => {
        const ttlMs = 1500; // no worker may die because the machine stands still for a moment
        const wrong = new FreezableClock(undefined, offMs);
        const dying = new FreezableClock(undefined, whose === 'worker' ? offMs : 0);
        const [worker, other, frontend] = [
          await open({ ttlMs, ...(whose === 'worker' ? { clock: wrong } : {}) }),
          await open({ ttlMs, clock: dying }),
          await open(whose === 'frontend' ? { clock: wrong } : {}),
        ];
        let hasLost = false;
        worker.onLeaseLost(() => {
          hasLost = true;
        });
        await worker.put(endpointAt(A));
        await other.put(endpointAt('ns/backend/generate/b'));
        expect(await frontend.list(instances)).toHaveLength(2); // a first look: by table time
        const witness = new Witness();
        await frontend.watch(instances, witness);
        const renewals = async () => (await itemsUnder('v1/leases#')).map(({ expiresAtMs }) => Number(expiresAtMs));
        const first = Math.max(...(await renewals()));
        await waitUntil(async () => Math.min(...(await renewals())) > first + 1.2 * ttlMs); // longer than a lease lives
        wrong.stepWall(-offMs);
        const second = Math.max(...(await renewals()));
        await waitUntil(async () => Math.min(...(await renewals())) > second + 1.2 * ttlMs);
        expect(hasLost).toBe(false);
        expect(witness.events).toHaveLength(2); // no worker came or went
        dying.freeze();
        await waitUntil(() => witness.present.size === 1);
        expect(witness.keys).toEqual([A]);
      },
    );

    it('lets a first look see what a crashed process left for the skew allowance at most', async () => {
      const clock = new FreezableClock();
      const writer = await open({ clock });
      await writer.put(endpointAt(A));
      clock.freeze();
      const isGone = async (): Promise<boolean> => {
        const fresh = await open({ skewMs: 100 });
        return (await fresh.list(instances)).length === 0;
      };
      await waitUntil(isGone, { pollMs: 100 });
    });

    it('registers everything under a new epoch when the lease was taken away', async () => {
      const [writer, reader] = [await open({ ttlMs: 3000 }), await open()]; // each registration has a second, then
      const witness = new Witness();
      await writer.put(endpointAt(A));
      await writer.put(modelAt(A));
      await reader.watch(instances, witness);
      const thief = new DynamoDBClient({ endpoint: server.url });
      const [lease] = await itemsUnder('v1/leases#');
      const Key = { pk: { S: String(lease?.pk) }, sk: { S: String(lease?.sk) } };
      await thief.send(new DeleteItemCommand({ TableName: table.tableName, Key }));
      thief.destroy();
      await waitUntil(async () => (await itemsUnder('v1/leases#'))[0]?.epoch === 2);
      expect((await itemsUnder('v1/records#')).map(({ epoch }) => epoch)).toEqual([2, 2]);
      await waitUntil(() => witness.present.size === 1);
    });

    it('clears away what a dead process left, and takes its holder back all the same', async () => {
      const clock = new FreezableClock();
      const [stopped, sweeping] = [await open({ clock, ttlMs: 1500 }), await open({ sweepAfterMs: 1000 })];
      const witness = new Witness();
      await stopped.put(endpointAt(A));
      await stopped.put(endpointAt('ns/backend/generate/b'));
      await sweeping.watch(instances, witness);
      clock.freeze();
      await waitUntil(async () => (await items()).every(({ pk }) => String(pk).startsWith('v1/view')));
      expect(witness.present.size).toBe(0);
      clock.thaw();
      await waitUntil(() => witness.present.size === 2);
      expect(await itemsUnder('v1/leases#')).toMatchObject([{ epoch: 2 }]);
    });
  });

  describe('refresh', () => {
    const SELDOM = { pollMs: 60_000 } as const;

    it('costs nothing while what is shown is recent enough, and no writes ever in a process that does not last', async () => {
      const clock = new FreezableClock();
      const front = await startRefusingServer(server.url);
      const [dying, reader] = [await open({ clock }), await open({ endpoint: front.url, isLasting: false })];
      const witness = new Witness();
      await dying.put(endpointAt(A));
      await reader.watch(instances, witness);
      const asked = front.operations.length;
      await reader.refresh(60_000);
      expect(front.operations).toHaveLength(asked);
      clock.freeze();
      await waitUntil(async () => {
        await reader.refresh(0);
        return witness.present.size === 0;
      });
      await reader.refresh(0);
      for (const operation of front.operations) expect(['GetItem', 'BatchGetItem', 'Query']).toContain(operation);
      await reader.close();
      await front.close();
    });

    it('gets over connections that died unnoticed', async () => {
      const [writer, reader] = [await open({ endpoint: server.url }), await open(SELDOM)];
      const witness = new Witness();
      await reader.watch(instances, witness);
      await writer.put(endpointAt(A));
      table.proxy.restore(); // drops what is open
      await reader.refresh(0);
      expect(witness.keys).toEqual([A]);
    });

    it('waits no longer than its bound for a table that does not answer, and says so', async () => {
      const reader = await open({ ...SELDOM, refreshTimeoutMs: 1000 }); // the way there takes less on a busy machine, too
      const witness = new Witness();
      await reader.watch(instances, witness);
      table.proxy.stall();
      await reader.refresh(0);
      expect(witness.outages).toEqual(['failing: no reading of the discovery table within 1000 ms']);
      table.proxy.restore();
      await waitUntil(async () => {
        await reader.refresh(0); // which may take longer than its bound on a slow machine
        return witness.outages.length === 2;
      });
      expect(witness.outages[1]).toBe('recovered');
    });

    it('takes a call that was cut short by standing still for no outage', async () => {
      const inner = new VirtualClock();
      const clock = new FreezableClock(inner);
      const reader = await open({ clock, pollMs: 1000 });
      const witness = new Witness();
      await reader.watch(instances, witness);
      table.proxy.stall();
      await inner.advance(1100); // a poll is under way
      clock.freeze();
      await inner.advance(60_000);
      clock.thaw(); // its deadline comes a minute late
      table.proxy.restore();
      await items(); // by then every lost connection is noticed
      await reader.refresh(1000);
      expect(witness.outages).toEqual([]);
    });
  });

  describe('when the table is unreachable', () => {
    const message = (where: string): RegExp =>
      new RegExp(`DynamoDB at ${where} for discovery table "[^"]+": .+\\. Check`);

    it('at start, rejects within its deadline and names the endpoint, the table and what to do', async () => {
      const endpoint = `http://127.0.0.1:${await freePort()}`;
      const discovery = await open({ endpoint, operationTimeoutMs: 300 });
      const failure = { code: 'unavailable', message: expect.stringMatching(message(endpoint)) };
      await expect(discovery.put(endpointAt(A))).rejects.toMatchObject(failure);
      await expect(discovery.watch(instances, new Witness())).rejects.toMatchObject(failure);
      await expect(discovery.list(instances)).rejects.toThrow(/^[^\n]+$/); // one line
    });

    it('at start, rejects also when it takes connections and never answers', async () => {
      table.proxy.stall();
      const discovery = await open({ operationTimeoutMs: 500, requestTimeoutMs: 200 });
      await expect(discovery.put(endpointAt(A))).rejects.toThrow('no answer within 200 ms');
      table.proxy.restore();
    });

    it.runIf(canRestart)('at start, goes on as soon as it comes up within the deadline', async () => {
      const databasePath = join(folder, 'db');
      const [port, tableName] = [await freePort(), 'discovery'];
      const own = { endpoint: `http://127.0.0.1:${port}`, tableName };
      const before = await startDynoxide({ port, databasePath });
      await createTable(own);
      await before.stop();
      const discovery = await open(own);
      const putting = discovery.put(endpointAt(A));
      const after = await startDynoxide({ port, databasePath });
      await putting;
      expect(await discovery.list(instances)).toEqual([endpointAt(A)]);
      await discovery.close();
      await after.stop();
    });

    it('says at once when the table does not exist', async () => {
      const discovery = await open({ tableName: 'no-such-table' });
      const endpoint = table.endpoint;
      const text = `discovery table "no-such-table" does not exist at ${endpoint}. Deploy the stack, or set STATOR_DISCOVERY_TABLE to a table that exists`;
      await expect(discovery.put(endpointAt(A))).rejects.toMatchObject({ code: 'misconfigured', message: text });
    });

    it('ends a waiting operation when its signal aborts and when the handle closes', async () => {
      table.proxy.cut();
      const discovery = await open();
      const abort = new AbortController();
      const [first, second] = [discovery.put(endpointAt(A), abort.signal), discovery.put(modelAt(A), abort.signal)];
      const watching = discovery.watch(instances, new Witness());
      abort.abort(new Error('not any more'));
      await expect(first).rejects.toThrow('not any more');
      await expect(second).rejects.toThrow('not any more');
      const closing = discovery.close();
      await expect(watching).rejects.toMatchObject({ code: 'closed' });
      await closing;
      table.proxy.restore();
    });

    it('for longer than the lease, keeps all known workers and tells of none but those that stay away', async () => {
      const crashing = new FreezableClock();
      const ttlMs = 1500; // no worker may die because the machine stands still for a moment
      const [writer, dying, reader] = [await open({ ttlMs }), await open({ ttlMs, clock: crashing }), await open()];
      const witness = new Witness();
      let isFenced = false;
      writer.onLeaseLost(() => {
        isFenced = true;
      });
      await writer.put(endpointAt(A));
      await dying.put(endpointAt('ns/backend/generate/b'));
      await reader.watch(instances, witness);
      table.proxy.cut();
      await waitUntil(() => isFenced && witness.outages.length === 1);
      crashing.freeze();
      expect(witness.present.size).toBe(2);
      table.proxy.restore();
      await waitUntil(() => witness.present.size === 1);
      expect(witness.keys).toEqual([A]);
      expect(witness.outages).toEqual([expect.stringMatching(/^failing: cannot reach/), 'recovered']);
      expect(witness.events.filter(({ key }) => key === A)).toHaveLength(1);
    });

    it.runIf(canRestart)('and comes back without its data, is filled again by the living processes', async () => {
      const [port, tableName] = [await freePort(), 'discovery'];
      const own = { endpoint: `http://127.0.0.1:${port}`, tableName };
      const before = await startDynoxide({ port, databasePath: join(folder, 'with-data') });
      await createTable(own);
      const [writer, reader] = [await open(own), await open(own)];
      const witness = new Witness();
      await writer.put(endpointAt(A));
      await reader.watch(instances, witness);
      await before.stop();
      await waitUntil(() => witness.outages.length === 1);
      const after = await startDynoxide({ port, databasePath: join(folder, 'empty') });
      await createTable(own);
      await waitUntil(() => witness.outages.length === 2);
      await waitUntil(async () => (await reader.list(instances)).length === 1);
      await waitUntil(() => witness.keys.join() === A);
      await writer.close();
      await reader.close();
      await after.stop();
    });
  });

  describe('when the table refuses', () => {
    let front: RefusingServer;
    beforeEach(async () => {
      front = await startRefusingServer(server.url);
    });
    afterEach(() => front.close());

    it('for want of capacity, repeats a write and keeps what a watch knows', async () => {
      const [writer, reader] = [await open(), await open({ endpoint: front.url })];
      const witness = new Witness();
      await writer.put(endpointAt(A));
      await reader.watch(instances, witness);
      front.refuseWith('ProvisionedThroughputExceededException');
      await waitUntil(() => witness.outages.length === 1);
      const putting = reader.put(endpointAt('ns/backend/generate/b'));
      const refused = front.refusals;
      await waitUntil(() => front.refusals > refused + 3);
      expect(witness.keys).toEqual([A]);
      front.refuseWith(undefined);
      await putting;
      await waitUntil(() => witness.present.size === 2);
      expect(witness.outages[1]).toBe('recovered');
    });

    it('four renewals of five for want of capacity, keeps the lease', async () => {
      // Of its calls, every fifth passes: it is to make none but renewals.
      const [worker, frontend] = [await open({ endpoint: front.url, ttlMs: 1500, isLasting: false }), await open()];
      const witness = new Witness();
      let hasLost = false;
      worker.onLeaseLost(() => {
        hasLost = true;
      });
      await worker.put(endpointAt(A));
      await frontend.watch(instances, witness);
      front.refuseWith('ThrottlingException', 5);
      const expiry = async () => Number((await itemsUnder('v1/leases#'))[0]?.expiresAtMs);
      const before = await expiry();
      await waitUntil(async () => (await expiry()) > before + 4500); // three times as long as a lease lives
      front.refuseWith(undefined);
      expect(hasLost).toBe(false);
      expect(witness.events).toHaveLength(1);
      expect(problems.filter((problem) => problem.includes('throttles discovery table'))).not.toEqual([]);
    });

    it('every renewal for longer than a lease, stops the worker and its routing alike, and takes it back', async () => {
      const [worker, frontend] = [await open({ endpoint: front.url }), await open()];
      const witness = new Witness();
      const log: string[] = [];
      worker.onLeaseLost(() => void log.push('lost'));
      worker.onLeaseRegained(() => void log.push('regained'));
      await worker.put(endpointAt(A));
      await frontend.watch(instances, witness);
      front.refuseWith('RequestLimitExceeded');
      await waitUntil(() => log.length === 1 && witness.present.size === 0);
      front.refuseWith(undefined);
      await waitUntil(() => log.length === 2 && witness.present.size === 1);
      expect(log).toEqual(['lost', 'regained']);
      expect(await itemsUnder('v1/leases#')).toMatchObject([{ epoch: 1 }]); // no process had to register anew
    });

    it('for want of rights, says so at once', async () => {
      const discovery = await open({ endpoint: front.url });
      front.refuseWith('AccessDeniedException');
      await expect(discovery.put(endpointAt(A))).rejects.toMatchObject({
        code: 'misconfigured',
        message: expect.stringMatching(/refused discovery table ".*": as told\. Check the AWS credentials/),
      });
      expect(front.refusals).toBe(1);
      front.refuseWith(undefined);
    });
  });

  it('prints nothing of its own, whatever the SDK thinks of the Node version', async () => {
    const { tableName, endpoint } = table;
    const argument = JSON.stringify({ options: { backend: 'dynamodb', tableName, endpoint }, record: endpointAt(A) });
    const entry = new URL('../../contract/discovery/worker-process.ts', import.meta.url);
    const env = { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: '' }; // this process has set it for itself
    const worker = await spawnTypeScript(entry, [argument], { env });
    await worker.waitForOutput(/^registered$/m);
    worker.write('leave\n');
    expect(await worker.exited).toBe(0);
    expect(worker.stderr()).toBe('');
  });
});

interface RefusingServer {
  readonly url: string;
  /** Error type of every answer from now on, but each `passEvery`-th; undefined = pass requests on. */
  refuseWith(type: string | undefined, passEvery?: number): void;
  readonly refusals: number;
  /** Names of the operations that were passed on. */
  readonly operations: readonly string[];
  close(): Promise<void>;
}

/** Stands before a DynamoDB server and answers with an error of the service when told to. */
async function startRefusingServer(target: string): Promise<RefusingServer> {
  let type: string | undefined;
  let passEvery = Number.POSITIVE_INFINITY;
  let asked = 0;
  let refusals = 0;
  const operations: string[] = [];
  const front = createServer((request, response) => {
    if (type !== undefined && ++asked % passEvery !== 0) {
      refusals++;
      request.resume();
      response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' });
      response.end(JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${type}`, message: 'as told' }));
      return;
    }
    const { method, url = '/', headers } = request;
    operations.push(String(headers['x-amz-target']).split('.')[1] ?? '');
    const onward = httpRequest(new URL(url, target), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');
  return {
    url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    refuseWith: (next, every = Number.POSITIVE_INFINITY) => {
      type = next;
      passEvery = every;
    },
    operations,
    get refusals() {
      return refusals;
    },
    close: async () => {
      front.closeAllConnections();
      front.close();
      await once(front, 'close');
    },
  };
}
