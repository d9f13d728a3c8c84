import { beforeAll, describe, expect, it } from 'vitest';
import { askAbout, type PlacedAnswer, runStator, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const MODEL = 'stator-mini';
/** Dead processes leave discovery within this. */
const SHORT = { STATOR_LEASE_TTL_SECS: '2', DYN_TCP_RPC_HOST: '127.0.0.1' };
const WORKER = ['--block-size=16', '--speedup-ratio=50'];
const SERVES = ['--router-mode=kv', '--serve-indexer'];
const ASKS = ['--router-mode=kv', '--use-remote-indexer'];
const QUERIES = 'dynamo_component_router_remote_indexer_query_failures_total';
const WRITES = 'dynamo_component_router_remote_indexer_write_failures_total';

const ask = (frontend: StatorProcess, topic: string): Promise<PlacedAnswer> => askAbout(frontend, topic, 60);

/** Requests that `frontend` sent to a worker that it knew to hold much of the prompt. */
async function hits(frontend: StatorProcess): Promise<number> {
  return frontend.metric('dynamo_component_router_kv_selected_cached_prefix_tokens_total');
}

/** Asks again and again until `frontend` knows who holds the prompt. */
async function untilKnown(frontend: StatorProcess, topic: string): Promise<void> {
  const before = await hits(frontend);
  await waitUntil(
    async () => {
      await ask(frontend, topic);
      return (await hits(frontend)) > before;
    },
    { what: 'cached prompts known', timeoutMs: 20_000 },
  );
}

async function indexedBlocks(serving: StatorProcess): Promise<number> {
  return serving.metric('stator_router_index_blocks', `model="${MODEL}"`);
}

/** Asks once, so that one worker alone holds the prompt, and waits until the index of `serving` says so. */
async function untilIndexed(serving: StatorProcess, frontend: StatorProcess, topic: string): Promise<number> {
  const before = await indexedBlocks(serving);
  const { worker } = await ask(frontend, topic);
  await waitUntil(async () => (await indexedBlocks(serving)) > before, { what: 'the prompt in the index' });
  return worker;
}

describe('a frontend that asks the index of another', () => {
  const fleet = useFleet(SHORT);
  let serving: StatorProcess;
  let asking: StatorProcess;

  beforeAll(async () => {
    const started = await Promise.all([
      fleet.frontend(SERVES),
      fleet.frontend(ASKS),
      fleet.worker(WORKER),
      fleet.worker(WORKER),
    ]);
    [serving, asking] = [started[0], started[1]];
    await Promise.all([fleet.untilWorkers(serving, 2), fleet.untilWorkers(asking, 2)]);
  }, 60_000);

  it('goes where a prompt is cached that only the other has sent', async () => {
    await untilKnown(asking, 'the way there'); // before that it goes by load, and a second worker has the prompt, too
    const worker = await untilIndexed(serving, serving, 'seen by the other');
    for (let turn = 0; turn < 4; turn++) expect((await ask(asking, 'seen by the other')).worker).toBe(worker);
    expect(await indexedBlocks(asking)).toBe(0); // it keeps none
  });

  it('serves on by load alone when the other is killed, counts it, and asks again once there is one', async () => {
    await untilKnown(asking, 'before the fall');
    const failed = await asking.metric(QUERIES);
    serving.signal('SIGKILL');
    await serving.exited;
    for (let turn = 0; turn < 4; turn++) expect((await ask(asking, 'before the fall')).prompt).toBeGreaterThan(0);
    expect(await asking.metric(QUERIES)).toBeGreaterThanOrEqual(failed + 4);
    serving = await fleet.frontend(SERVES);
    await untilKnown(asking, 'before the fall'); // the new one has asked the workers for what they hold
  }, 60_000);
});

describe('frontends without KV events around one index', () => {
  const fleet = useFleet(SHORT);
  const quiet = ['--no-router-kv-events'];

  it('tell it of their decisions, and refuse a second one that serves', async () => {
    const [serving, one, other] = await Promise.all([
      fleet.frontend([...SERVES, ...quiet]),
      fleet.frontend([...ASKS, ...quiet]),
      fleet.frontend([...ASKS, ...quiet]),
      fleet.worker(WORKER),
      fleet.worker(WORKER),
    ]);
    await Promise.all([serving, one, other].map((frontend) => fleet.untilWorkers(frontend, 2)));
    await serving.waitForOutput(/the block index is served/, 10_000);
    await Promise.all([untilKnown(one, 'the way of one'), untilKnown(other, 'the way of the other')]);
    const worker = await untilIndexed(serving, one, 'sent by one');
    for (let turn = 0; turn < 4; turn++) expect((await ask(other, 'sent by one')).worker).toBe(worker);
    const failed = await one.metric(WRITES);
    await ask(one, 'and one more');
    expect(await one.metric(WRITES)).toBe(failed);

    const second = await fleet.frontend([...SERVES, ...quiet]);
    await second.waitForOutput(/the block index is not served .*one process a component may/, 10_000);
  }, 60_000);
});

describe('the flags of a remote index', () => {
  it('exclude each other', async () => {
    const { code, stderr } = await runStator(['frontend', ...SERVES, '--use-remote-indexer']);
    expect(code).toBe(2);
    expect(stderr).toContain('--use-remote-indexer and --serve-indexer exclude each other');
  });
});
