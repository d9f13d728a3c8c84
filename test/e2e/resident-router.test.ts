import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createTable,
  type DynamoDbServer,
  hasDynamoDb,
  openChat,
  postJson,
  runStator,
  type StatorProcess,
  startDynamoDb,
  untilHeld,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
/** Dead processes leave discovery, and lose their lease, within this. */
const SHORT = { STATOR_LEASE_TTL_SECS: '2', STATOR_LOAD_REPORT_INTERVAL_MS: '250' };
/** Prompts take no time, each token as long as on a GPU: streams last until they are left. */
const WORKER = ['--block-size=16', '--speedup-ratio=50', '--decode-speedup-ratio=0.02'];
const RESIDENT = ['--router-mode=kv', '--router-role=resident'];
const ASKER = ['--router-mode=kv', '--router-role=choose'];
/** Processes that share the machine with others need more than the 10 ms of production. */
const PATIENT = { STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '5000', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' };
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1' };

/** In a prompt. */
const SENTENCES = 30;

async function ask(frontend: StatorProcess, topic: string): Promise<{ status: number; id: string; worker: number }> {
  const content = `${topic}: ${'parts meet where their edges fit; '.repeat(SENTENCES)}`;
  const response = await postJson(`${frontend.url}/v1/chat/completions`, {
    model: MODEL,
    max_tokens: 2,
    messages: [{ role: 'user', content }],
    nvext: { extra_fields: ['worker_id'] },
  });
  const body = (await response.json()) as {
    readonly id: string;
    readonly nvext?: { readonly worker_id: { readonly decode_worker_id: number } };
  };
  return { status: response.status, id: body.id, worker: body.nvext?.worker_id.decode_worker_id ?? 0 };
}

function decisions(frontend: StatorProcess, source: string): Promise<number> {
  return frontend.metric('stator_router_decisions_total', `source="${source}"`);
}

/** Asks until the resident router decides for `frontend`. */
function untilResident(frontend: StatorProcess): Promise<true> {
  return waitUntil(
    async () => {
      await ask(frontend, 'who decides');
      return (await frontend.metric('stator_router_degraded')) === 0 && (await decisions(frontend, 'resident')) > 0;
    },
    { what: 'decisions of the resident router', timeoutMs: 20_000, pollMs: 50 },
  );
}

/** Requests without a pause, four at a time, until it is stopped. */
function startLoad(frontend: StatorProcess): { stop(): Promise<readonly number[]> } {
  const statuses: number[] = [];
  let isRunning = true;
  const lane = async (name: number): Promise<void> => {
    for (let turn = 0; isRunning; turn++) statuses.push((await ask(frontend, `lane ${name} turn ${turn % 5}`)).status);
  };
  const lanes = [1, 2, 3, 4].map(lane);
  return {
    stop: async () => {
      isRunning = false;
      await Promise.all(lanes);
      return statuses;
    },
  };
}

describe('a frontend that asks a resident router', () => {
  const fleet = useFleet({ ...SHORT, ...PATIENT, ...LOOPBACK });
  let resident: StatorProcess;
  let asker: StatorProcess;

  beforeAll(async () => {
    const started = await Promise.all([
      fleet.frontend(RESIDENT),
      fleet.frontend(ASKER),
      fleet.worker(WORKER),
      fleet.worker(WORKER),
    ]);
    [resident, asker] = [started[0], started[1]];
    await Promise.all([fleet.untilWorkers(resident, 2), fleet.untilWorkers(asker, 2)]);
    await untilResident(asker);
  });

  it('goes where the resident knows the prompt cached', async () => {
    const first = await ask(asker, 'once more');
    expect(await untilHeld(resident, 'once more', SENTENCES)).toEqual([first.worker]);
    for (let turn = 0; turn < 4; turn++) expect((await ask(asker, 'once more')).worker).toBe(first.worker);
    expect(await resident.metric('dynamo_component_router_kv_hit_rate_count')).toBeGreaterThanOrEqual(5);
  });

  it('keeps no place longer than its request', async () => {
    await Promise.all(Array.from({ length: 8 }, (_, at) => ask(asker, `many ${at}`)));
    await waitUntil(async () => (await resident.metric('stator_router_reservations')) === 0, {
      what: 'no places held',
    });
    expect(await resident.metric('stator_router_reservations_expired_total')).toBe(0);
  });

  it('keeps no place for a caller that dies, whatever its requests were doing', async () => {
    const mortal = await fleet.frontend(ASKER);
    await fleet.untilWorkers(mortal, 2);
    await untilResident(mortal);
    const streams = await Promise.all(
      Array.from({ length: 4 }, (_, at) =>
        openChat(mortal.url, {
          model: MODEL,
          messages: [{ role: 'user', content: `stream ${at} ${'goes on and on; '.repeat(60)}` }],
          max_tokens: 5000,
          ignore_eos: true,
        }),
      ),
    );
    await Promise.all(streams.map((stream) => stream.untilDeltas(1)));
    expect(await resident.metric('stator_router_reservations')).toBeGreaterThanOrEqual(4);
    const load = startLoad(mortal).stop;
    mortal.signal('SIGKILL');
    await Promise.allSettled([load(), ...streams.map(({ answer }) => answer)]);
    const held = async (): Promise<number> =>
      (await resident.metric('stator_router_reservations')) +
      (await resident.metric('dynamo_frontend_worker_active_decode_blocks'));
    await waitUntil(async () => (await held()) === 0, { what: 'no places held', timeoutMs: 10_000 });
  });

  it('is refused what the busy limits of the resident refuse', async () => {
    const limit = (threshold: number): Promise<Response> =>
      postJson(`${resident.url}/busy_threshold`, { model: MODEL, active_decode_blocks_threshold: threshold });
    expect((await limit(0)).status).toBe(200);
    const streams: Awaited<ReturnType<typeof openChat>>[] = [];
    const openStream = async (): Promise<void> => {
      const content = `busy ${streams.length} ${'goes on and on; '.repeat(60)}`;
      const body = { model: MODEL, messages: [{ role: 'user', content }], max_tokens: 5000, ignore_eos: true };
      streams.push(await openChat(resident.url, body));
    };
    const isRefused = async (): Promise<boolean> => {
      if ((await ask(asker, 'no room')).status === 503) return true;
      await openStream(); // those before may have ended
      return false;
    };
    await waitUntil(isRefused, { what: 'a refusal', pollMs: 50 });
    expect(await asker.metric('dynamo_frontend_requests_total', 'error_type="overload"')).toBeGreaterThan(0);
    expect(await asker.metric('stator_router_degraded')).toBe(0);
    for (const stream of streams) {
      stream.leave();
      stream.answer.catch(() => {}); // it was left
    }
    await waitUntil(async () => (await ask(asker, 'room again')).status === 200, { what: 'room again' });
    expect((await limit(1)).status).toBe(200);
  });

  it('lets operators see why, on both', async () => {
    for (const frontend of [resident, asker]) {
      const { id } = await ask(frontend, 'why there');
      const explained = await fetch(`${frontend.url}/router/explain/${id}`);
      expect(explained.status).toBe(200);
      expect(((await explained.json()) as { candidates: unknown[] }).candidates).toHaveLength(2);
    }
    const prompt = 'parts meet where their edges fit; '.repeat(30);
    const shown = await runStator(['router', 'explain', '--prompt', prompt, '--url', asker.url]);
    expect(shown.stderr).toBe('');
    expect(shown.stdout).toMatch(/^chosen {3}worker [0-9a-f]+ rank 0, /m);
  });

  it('fails no request when the resident is killed under load, and goes back to it when it is there again', async () => {
    const byResident = (): Promise<number> => decisions(asker, 'resident');
    const alone = async (): Promise<number> =>
      (await decisions(asker, 'embedded')) + (await decisions(asker, 'stateless'));
    const before = { resident: await byResident(), alone: await alone() };
    const load = startLoad(asker);
    await waitUntil(async () => (await byResident()) > before.resident + 20, { what: 'load on the resident' });
    resident.signal('SIGKILL');
    await waitUntil(async () => (await asker.metric('stator_router_degraded')) === 1, { what: 'the degraded mode' });
    await waitUntil(async () => (await alone()) > before.alone + 20, { what: 'decisions without a resident' });
    expect(await asker.metric('stator_router_fallbacks_total')).toBeGreaterThan(20);
    resident = await fleet.frontend(RESIDENT);
    const until = await byResident();
    await waitUntil(
      async () => (await asker.metric('stator_router_degraded')) === 0 && (await byResident()) > until + 20,
      { what: 'decisions of the new resident', timeoutMs: 20_000 },
    );
    const statuses = await load.stop();
    expect(statuses.length).toBeGreaterThan(60);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  }, 90_000);
});

describe('a full fleet behind a resident router', () => {
  const fleet = useFleet({ ...SHORT, ...PATIENT, ...LOOPBACK });

  it('lets requests wait at the resident for their turn', async () => {
    const [resident, asker] = await Promise.all([
      fleet.frontend([...RESIDENT, '--router-queue-threshold=0']),
      fleet.frontend(ASKER),
      fleet.worker(['--block-size=16', '--speedup-ratio=0.05']), // a prompt takes it 0.4 s
    ]);
    await Promise.all([fleet.untilWorkers(resident, 1), fleet.untilWorkers(asker, 1)]);
    await untilResident(asker);
    const answers = Promise.all(Array.from({ length: 6 }, (_, at) => ask(asker, `waits ${at}`)));
    await waitUntil(async () => (await resident.metric('stator_router_waiting_queries')) > 0, { what: 'a queue' });
    expect((await answers).map(({ status }) => status)).toEqual(Array(6).fill(200));
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="silent"')).toBe(0);
    expect(await resident.metric('stator_router_waiting_queries')).toBe(0);
  });
});

describe.runIf(hasDynamoDb())('two resident routers', () => {
  const fleet = useFleet({ ...SHORT, ...PATIENT, ...LOOPBACK, AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' });
  const tableName = 'router-state';
  let server: DynamoDbServer;

  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName, endpoint: server.url });
  });

  afterAll(() => server.stop());

  it('hand the lease over when the one that answers dies', async () => {
    const table = { STATOR_STATE_TABLE: tableName, STATOR_DYNAMODB_ENDPOINT: server.url, AWS_REGION: 'us-east-1' };
    const residents = await Promise.all([
      fleet.frontend(RESIDENT, table),
      fleet.frontend(RESIDENT, table),
      fleet.worker(WORKER),
    ]);
    const asker = await fleet.frontend(ASKER, table);
    await Promise.all([fleet.untilWorkers(asker, 1), fleet.untilWorkers(residents[0], 1)]);
    await untilResident(asker);
    const pair = [residents[0], residents[1]];
    const [holder, standby] = await waitUntil(
      async () => {
        const answering = await Promise.all(pair.map((resident) => resident.metric('stator_router_answering')));
        if (answering.filter((each) => each === 1).length !== 1) return undefined;
        return answering[0] === 1 ? pair : pair.toReversed();
      },
      { what: 'one of the two answering' },
    );
    const load = startLoad(asker);
    holder?.signal('SIGKILL');
    await waitUntil(async () => (await standby?.metric('stator_router_answering')) === 1, {
      what: 'the standby answering',
      timeoutMs: 20_000,
    });
    const before = await decisions(asker, 'resident');
    await waitUntil(async () => (await decisions(asker, 'resident')) > before + 10, { what: 'its decisions' });
    const statuses = await load.stop();
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect(await asker.metric('stator_router_fallbacks_total', 'reason="standby"')).toBeGreaterThan(0);
  }, 90_000);
});
