import { beforeAll, describe, expect, it } from 'vitest';
import {
  askAbout,
  type PlacedAnswer,
  runStator,
  type StatorProcess,
  untilHeld,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
/** Dead processes leave discovery within this. */
const SHORT = { STATOR_LEASE_TTL_SECS: '2', DYN_TCP_RPC_HOST: '127.0.0.1' };
const WORKER = ['--block-size=16', '--speedup-ratio=50'];
const SERVES = ['--router-mode=kv', '--serve-indexer'];
const ASKS = ['--router-mode=kv', '--use-remote-indexer'];
const QUERIES = 'dynamo_component_router_remote_indexer_query_failures_total';
const WRITES = 'dynamo_component_router_remote_indexer_write_failures_total';

/** In a prompt. */
const SENTENCES = 60;

const ask = (frontend: StatorProcess, topic: string): Promise<PlacedAnswer> => askAbout(frontend, topic, SENTENCES);

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

interface Seen {
  /** Who took the prompt, the first time and each further one. */
  readonly workers: readonly number[];
  /** Decisions that did not get into the index meanwhile. */
  readonly failedWrites: number;
}

/**
 * Has `first` send a prompt, waits until the index of `serving` knows who holds it, and has `then` send it four times more.
 * An index has 50 ms to answer, and load alone decides when it does not: that shows nothing of the index, and all of it is
 * done again with another prompt.
 */
async function askInTurn(serving: StatorProcess, first: StatorProcess, then: StatorProcess): Promise<Seen> {
  const total = async (name: string): Promise<number> => (await first.metric(name)) + (await then.metric(name));
  const deadlineMs = performance.now() + 30_000;
  for (let attempt = 1; performance.now() < deadlineMs; attempt++) {
    const topic = `${attempt}, sent by one and then by the other`;
    const [unanswered, failed] = [await total(QUERIES), await total(WRITES)];
    const workers = [(await ask(first, topic)).worker];
    if ((await total(QUERIES)) > unanswered) continue; // nor is a decision told to an index that did not answer
    await untilHeld(serving, topic, SENTENCES);
    for (let turn = 0; turn < 4; turn++) workers.push((await ask(then, topic)).worker);
    if ((await total(QUERIES)) === unanswered) return { workers, failedWrites: (await total(WRITES)) - failed };
  }
  throw new Error('the index never answered five times in a row');
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
  });

  it('goes where a prompt is cached that only the other has sent', async () => {
    await untilKnown(asking, 'the way there'); // before that it goes by load
    const { workers } = await askInTurn(serving, serving, asking);
    expect(new Set(workers).size).toBe(1);
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
  });
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
    const { workers, failedWrites } = await askInTurn(serving, one, other);
    expect(new Set(workers).size).toBe(1);
    expect(failedWrites).toBe(0);

    const second = await fleet.frontend([...SERVES, ...quiet]);
    await second.waitForOutput(/the block index is not served .*only one process of a component may/, 10_000);
  });
});

describe('the flags of a remote index', () => {
  it('exclude each other', async () => {
    const { code, stderr } = await runStator(['frontend', ...SERVES, '--use-remote-indexer']);
    expect(code).toBe(2);
    expect(stderr).toContain('--use-remote-indexer and --serve-indexer exclude each other');
  });
});
