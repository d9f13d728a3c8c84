import { beforeAll, describe, expect, it } from 'vitest';
import {
  askAbout,
  type PlacedAnswer,
  postJson,
  type StatorProcess,
  untilHeld,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
/** Dead workers leave discovery within this. */
const LEASE = { STATOR_LEASE_TTL_SECS: '2' };
const SMALL_BLOCKS = ['--block-size=16', '--speedup-ratio=50'];
const KV = ['--router-mode=kv'];

const ask = (frontend: StatorProcess, topic: string): Promise<PlacedAnswer> => askAbout(frontend, topic, 60);
const holders = (frontend: StatorProcess, topic: string): Promise<readonly number[]> => untilHeld(frontend, topic, 60);

/** Who takes prompts that nobody has cached: workers that cost the same are drawn by lot, so several times 12 at once. */
async function takers(frontend: StatorProcess, topic: string): Promise<ReadonlySet<number>> {
  const workers = new Set<number>();
  for (let round = 0; round < 4 && workers.size < 2; round++) {
    const topics = Array.from({ length: 12 }, (_, at) => `${topic} ${round}/${at}`);
    const answers = await Promise.all(topics.map((each) => ask(frontend, each)));
    for (const { worker } of answers) workers.add(worker);
  }
  return workers;
}

function blocksKnown(frontend: StatorProcess): Promise<number> {
  return frontend.metric('stator_router_index_blocks', `model="${MODEL}"`);
}

/** Waits until the index of `frontend` holds what `holds` says. */
function untilBlocks(frontend: StatorProcess, what: string, holds: (blocks: number) => boolean): Promise<true> {
  return waitUntil(async () => holds(await blocksKnown(frontend)), { what });
}

describe('stator frontend --router-mode kv', () => {
  const fleet = useFleet(LEASE);
  let frontend: StatorProcess;
  let second: StatorProcess;
  const workers: StatorProcess[] = [];

  beforeAll(async () => {
    const started = await Promise.all([fleet.frontend(KV), fleet.worker(SMALL_BLOCKS), fleet.worker(SMALL_BLOCKS)]);
    frontend = started[0];
    workers.push(started[1], started[2]);
    await fleet.untilWorkers(frontend, 2);
  });

  it('sends a prompt to the worker that has it cached, again and again', async () => {
    const first = await ask(frontend, 'once more');
    await untilBlocks(frontend, 'the first prompt in the index', (blocks) => blocks > 0);
    for (let turn = 0; turn < 6; turn++) {
      const again = await ask(frontend, 'once more');
      expect(again.worker).toBe(first.worker);
      expect(again.cached).toBeGreaterThan(again.prompt - 32);
    }
    expect(first.cached).toBe(0);
    expect(await frontend.metric('dynamo_component_router_kv_hit_rate_count')).toBe(7);
    expect(await frontend.metric('dynamo_component_router_kv_selected_cached_prefix_tokens_total')).toBeGreaterThan(0);
    expect(await frontend.metric('dynamo_component_router_kv_worker_reused_tokens_total')).toBeGreaterThan(0);
    expect(
      await frontend.metric('dynamo_component_kv_cache_events_applied', 'event_type="stored"', 'status="ok"'),
    ).toBeGreaterThan(0);
    expect(await frontend.metric('dynamo_component_router_worker_registered')).toBe(2);
  });

  it('spreads prompts that no worker has cached', async () => {
    expect((await takers(frontend, 'topic')).size).toBe(2);
  });

  it('lets a frontend that starts later know what the workers hold already', async () => {
    const { worker } = await ask(frontend, 'known before');
    expect(await holders(frontend, 'known before')).toEqual([worker]);
    second = await fleet.frontend(KV);
    await fleet.untilWorkers(second, 2);
    expect(await holders(second, 'known before')).toEqual([worker]);
    await waitUntil(async () => (await blocksKnown(second)) === (await blocksKnown(frontend)), {
      what: 'both indexes equal',
    });
    expect((await ask(second, 'known before')).worker).toBe(worker);
    expect(await second.metric('stator_router_kv_recoveries_total', 'kind="restore"', 'outcome="ok"')).toBe(2);
  });

  it('gives two frontends the same picture of what both of them cause', async () => {
    await Promise.all([1, 2, 3, 4].flatMap((at) => [ask(frontend, `left ${at}`), ask(second, `right ${at}`)]));
    for (const topic of [1, 2, 3, 4].flatMap((at) => [`left ${at}`, `right ${at}`])) {
      expect(await holders(frontend, topic)).toEqual(await holders(second, topic));
    }
    const known = await waitUntil(
      async () => {
        const [left, right] = await Promise.all([blocksKnown(frontend), blocksKnown(second)]);
        return left === right && left;
      },
      { what: 'both indexes equal' },
    );
    expect(known).toBeGreaterThan(0);
    const asked = await ask(frontend, 'left 1');
    expect((await ask(second, 'left 1')).worker).toBe(asked.worker);
  });

  it('empties the caches of all workers on request, and knows that they are empty', async () => {
    const response = await postJson(`${frontend.url}/clear_kv_blocks`, {});
    const body = (await response.json()) as { cleared_workers: unknown[]; failed_workers: unknown[] };
    expect(body).toMatchObject({ failed_workers: [] });
    expect(body.cleared_workers).toHaveLength(2);
    await untilBlocks(frontend, 'an empty index', (blocks) => blocks === 0);
    await untilBlocks(second, 'an empty index at the other frontend', (blocks) => blocks === 0);
    expect((await ask(frontend, 'once more')).cached).toBe(0);
  });

  it('forgets a worker that was killed, and uses the one that replaces it', async () => {
    const before = await ask(frontend, 'to be lost');
    await waitUntil(async () => (await ask(frontend, 'to be lost')).cached > 0, { what: 'the prompt cached' });
    const holder = workers.find(({ instanceId }) => Number(BigInt(`0x${instanceId}`)) === before.worker);
    holder?.signal('SIGKILL');
    await fleet.untilWorkers(frontend, 1);
    const after = await ask(frontend, 'to be lost');
    expect(after.worker).not.toBe(before.worker);
    expect(await frontend.metric('dynamo_component_router_worker_registered', `"${holder?.instanceId}"`)).toBe(0);
    expect(await frontend.metric('dynamo_frontend_worker_active_decode_blocks', `"${holder?.instanceId}"`)).toBe(0);
    workers.push(await fleet.worker(SMALL_BLOCKS));
    await fleet.untilWorkers(frontend, 2);
    expect((await takers(frontend, 'after')).size).toBe(2);
  });
});

describe('stator frontend --router-mode kv --no-router-kv-events', () => {
  const fleet = useFleet();

  it('keeps to its own decisions', async () => {
    const [frontend] = await Promise.all([
      fleet.frontend([...KV, '--no-router-kv-events']),
      fleet.worker(SMALL_BLOCKS),
      fleet.worker(SMALL_BLOCKS),
    ]);
    await fleet.untilWorkers(frontend, 2);
    const first = await ask(frontend, 'predicted');
    expect(await blocksKnown(frontend)).toBeGreaterThan(0);
    for (let turn = 0; turn < 4; turn++) {
      const again = await ask(frontend, 'predicted');
      expect(again.worker).toBe(first.worker);
      expect(again.cached).toBeGreaterThan(0);
    }
    expect(await frontend.metric('stator_router_kv_recoveries_total')).toBe(0);
  });
});

describe('stator local --router-mode kv', () => {
  const fleet = useFleet();

  it('answers the second of two equal long prompts from the cache of the first', async () => {
    const local = await fleet.local(['--router-mode=kv', '--block-size=16', '--speedup-ratio=50']);
    const first = await ask(local, 'at home');
    await untilBlocks(local, 'the first prompt in the index', (blocks) => blocks > 0);
    const again = await ask(local, 'at home');
    expect(again.worker).toBe(first.worker);
    expect(again.cached).toBeGreaterThan(0);
  });
});

describe('an index that is full', () => {
  const fleet = useFleet();

  it('stays within STATOR_INDEX_MAX_MB, and says what left it', async () => {
    const bytesMax = 16 * 2 ** 20;
    const huge = ['--block-size=1', '--num-gpu-blocks-override=400000', '--speedup-ratio=1000'];
    const [frontend] = await Promise.all([fleet.frontend(KV, { STATOR_INDEX_MAX_MB: '16' }), fleet.worker(huge)]);
    await fleet.untilWorkers(frontend, 1);
    const evicted = (): Promise<number> => frontend.metric('stator_router_index_evicted_blocks_total');
    let asked = 0;
    await waitUntil(
      async () => {
        const prompt = Array.from({ length: 8000 }, (_, at) => (at === 0 ? ++asked : 7));
        const response = await postJson(`${frontend.url}/v1/completions`, { model: MODEL, prompt, max_tokens: 1 });
        expect(response.status).toBe(200);
        return (await evicted()) > 0;
      },
      { what: 'blocks that left the index', timeoutMs: 50_000 },
    );
    const bytes = await frontend.metric('stator_router_index_bytes');
    expect(bytes).toBeGreaterThan(0.5 * bytesMax);
    expect(bytes).toBeLessThanOrEqual(bytesMax);
    expect(await blocksKnown(frontend)).toBeLessThan(asked * 8000);
  });
});
