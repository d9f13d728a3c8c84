import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { EndpointRecord, ModelCard, ModelRecord } from '../../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import {
  createPipeline,
  FollowedPools,
  LiveModelDirectory,
  ModelStore,
  type Worker,
  workerSetsOf,
} from '../../../../shared/pipeline/index.ts';
import { Inhibition, SimpleRouter } from '../../../../shared/scheduler/index.ts';
import type { LoadedModel } from '../../../../shared/tokens/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import {
  HandPlane,
  idleMeter,
  letterModel,
  letterTokenizer,
  RecordingSink,
  request,
  type SeenCall,
} from '../fixtures.ts';

const clock = new VirtualClock();
let workers: MemoryDiscovery;
let discovery: MemoryDiscovery;
let directory: LiveModelDirectory;
let pipeline: ReturnType<typeof createPipeline>;
let plane: HandPlane;

/** Model files of the second generation: every letter has another token. */
const shifted: LoadedModel = {
  ...letterModel,
  tokenizer: { ...letterTokenizer, encode: (text) => letterTokenizer.encode(text).map((id) => 27 - id) },
};
const filesWith = (checksum: string) => ({ 'tokenizer.json': { path: '/m', checksum, size: 1 } });
const SECOND: Partial<ModelCard> = { files: filesWith('sha256:22') };

beforeEach(async () => {
  const hub = new MemoryHub(clock);
  workers = new MemoryDiscovery({ hub, clock });
  discovery = new MemoryDiscovery({ hub, clock });
  directory = new LiveModelDirectory({ discovery, clock, namespacePrefix: 'prod' });
  plane = new HandPlane();
  const inhibition = new Inhibition(clock, 0);
  const router = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition });
  const pools = new FollowedPools(router);
  directory.follow(() => pools.follow(directory.list().flatMap(workerSetsOf)));
  await directory.start();
  const open = async ({ card }: { readonly card: ModelCard }) =>
    card.files['tokenizer.json']?.checksum === 'sha256:22' ? shifted : letterModel;
  const store = new ModelStore({ open, clock, onFailure: () => {} });
  const random = seededRandom(3);
  pipeline = createPipeline({ models: directory, store, router, inhibition, plane, clock, random, observer: {} });
});

afterEach(async () => {
  pipeline.close();
  directory.close();
  await Promise.all([workers.close(), discovery.close()]);
});

function endpoint(id: string, namespace: string): EndpointRecord {
  const address = { namespace, component: 'backend', endpoint: 'generate', instance_id: id };
  return { type: 'Endpoint', ...address, transport: { memory: id } };
}

async function register(id: string, namespace: string, more: Partial<ModelCard> = {}): Promise<void> {
  const card: ModelCard = {
    display_name: 'letters',
    slug: 'letters',
    files: filesWith('sha256:11'),
    kv_cache_block_size: 16,
    model_type: ['Chat', 'Completions'],
    model_input: 'Tokens',
    worker_type: 'aggregated',
    needs: [],
    aliases: [],
    runtime_config: { context_length: 100 },
    ...more,
  };
  const { transport: _, ...address } = endpoint(id, namespace);
  await workers.put(endpoint(id, namespace));
  await workers.put({ ...address, type: 'Model', card } satisfies ModelRecord);
  await Promise.resolve();
}

/** Sends a request, and resolves with its first call once a worker has it. */
async function ask(more: Parameters<typeof request>[0] = {}): Promise<{ call: SeenCall; sink: RecordingSink }> {
  const sink = new RecordingSink();
  const calls = plane.calls.length;
  pipeline.generate(request(more), sink, { signal: new AbortController().signal, meter: idleMeter });
  await waitUntil(() => plane.calls.length > calls || sink.failure !== undefined, { what: 'the call' });
  if (sink.failure !== undefined) throw sink.failure;
  return { call: plane.calls[calls] as SeenCall, sink };
}

/** Sends requests until one goes to a worker as wanted, and returns it. */
async function askUntil(isWanted: (worker: string | undefined) => boolean) {
  for (let sent = 0; ; sent++) {
    const asked = await ask({ id: `r${sent}` });
    if (isWanted(workerOf(asked.call))) return asked;
  }
}

const workerOf = ({ transport }: SeenCall): string | undefined => transport.memory;
const tokensOf = ({ request: { tokenIds } }: SeenCall): readonly number[] => [...(tokenIds ?? [])];

describe('generations of workers whose cards differ', () => {
  it('share the requests by their numbers of workers, each with prompts of its own', async () => {
    for (const id of ['a', 'b', 'c']) await register(id, 'prod-1');
    await register('d', 'prod-2', SECOND);
    const counts: Record<string, number> = { a: 0, b: 0, c: 0, d: 0 };
    for (let sent = 0; sent < 400; sent++) {
      const { call } = await ask({ id: `r${sent}` });
      const worker = workerOf(call) ?? '';
      counts[worker] = (counts[worker] ?? 0) + 1;
      expect(tokensOf(call)).toEqual(worker === 'd' ? [26, 25, 24] : [1, 2, 3]);
    }
    // A hundred each, give or take three standard deviations of the draw
    for (const count of Object.values(counts)) expect(Math.abs(count - 100)).toBeLessThan(27);
  });

  it('take nothing while a part of them is missing', async () => {
    await register('a', 'prod-1');
    await register('d', 'prod-2', { ...SECOND, worker_type: 'decode', needs: [['prefill']] });
    for (let sent = 0; sent < 20; sent++) expect(workerOf((await ask({ id: `r${sent}` })).call)).toBe('a');
  });

  it('take the requests that name their workers', async () => {
    await register('a', 'prod-1');
    await register('d', 'prod-2', SECOND);
    for (let sent = 0; sent < 20; sent++) {
      const named = sent % 2 === 0 ? 'a' : 'd';
      const { call } = await ask({ id: `r${sent}`, routing: { backend_instance_id: named } });
      expect(workerOf(call)).toBe(named);
    }
  });

  it('continue only the streams of workers like themselves', async () => {
    await register('a', 'prod-1');
    for (const id of ['d', 'e']) await register(id, 'prod-2', SECOND);
    const at = await askUntil((worker) => worker !== 'a');
    const calls = plane.calls.length;
    at.call.sink.accepted();
    at.call.sink.tokens(0, [4], 0, 1);
    at.call.sink.fail(workerError('Disconnected'));
    const next = await plane.seen(calls + 1);
    expect([workerOf(at.call), workerOf(next)].sort()).toEqual(['d', 'e']);
    expect(tokensOf(next)).toEqual([26, 25, 24, 4]);
    expect(at.sink.failure).toBeUndefined();
  });
});

describe('a worker set that has gone', () => {
  it('leaves its streams without a worker, and they fail', async () => {
    await register('a', 'prod-1');
    await register('d', 'prod-2', SECOND);
    const at = await askUntil((worker) => worker === 'a');
    at.call.sink.accepted();
    await workers.remove(endpoint('a', 'prod-1'));
    await Promise.resolve();
    at.call.sink.tokens(0, [4], 0, 1);
    at.call.sink.fail(workerError('Disconnected'));
    await waitUntil(() => at.sink.failure !== undefined);
    expect(at.sink.shown).toBe('d');
  });
});
