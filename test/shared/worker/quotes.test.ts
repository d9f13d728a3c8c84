import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../shared/engines/index.ts';
import { toWire, workerError } from '../../../shared/errors/index.ts';
import { askOnce } from '../../../shared/planes/index.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import type { Worker } from '../../../shared/worker/worker.ts';
import { load, ScriptedEngine, workerBed } from './worker-bed.ts';

const PROMPT = Uint32Array.from({ length: 40 }, (_, at) => at);
const HASHES = hashBlocks(PROMPT, { blockSizeTokens: 4 });

/** The engine has so many blocks of the prompt in a tier. */
function stored(blocks: number, tier: 'device' | 'host_pinned' = 'device'): KvEvent {
  const words = 2 * blocks;
  const [blockHashes, tokensHashes] = [HASHES.sequence.slice(0, words), HASHES.local.slice(0, words)];
  return { kind: 'stored', dpRank: 0, parentHash: undefined, blockHashes, tokensHashes, tier };
}

type Bed = ReturnType<typeof workerBed>;

async function ask(bed: Bed, worker: Worker, body: unknown, tokenIds = HASHES.sequence): Promise<unknown> {
  const { requestPlane, clock } = bed.options;
  const transport = { memory: `${worker.instanceId}/ns/backend/quote` };
  const asking = askOnce(requestPlane, transport, { id: 'q', headers: {}, body, tokenIds }, { clock, timeoutMs: 100 });
  await bed.clock.advance(1);
  const answer = await asking;
  return answer.kind === 'answered' ? answer.output?.body : toWire(answer.error).message;
}

const quoteOf = (bed: Bed, worker: Worker, tokenIds?: Uint32Array) =>
  ask(bed, worker, { block_size_tokens: 4 }, tokenIds);

const claimOf = (bed: Bed, worker: Worker, id: string, max?: number) =>
  ask(bed, worker, {
    claim: { request_id: id, dp_rank: 0, tokens: 30, ...(max === undefined ? {} : { prefill_tokens_max: max }) },
  });

describe('a worker that is asked what a prompt would cost', () => {
  async function start(engine = new ScriptedEngine()) {
    const bed = workerBed(engine);
    return { engine, bed, worker: await bed.start() };
  }

  it('says what its engine has of it, and what it has to do', async () => {
    const { engine, bed, worker } = await start();
    engine.loads = [load(7, 123)];
    engine.emitKvEvents([stored(3), stored(5, 'host_pinned')]);
    const said = { dp_rank: 0, cached_tokens: 4 * (3 + 0.75 * 2), prefill_tokens: 123, active_blocks: 7 };
    expect(await quoteOf(bed, worker)).toEqual({ ranks: [said] });
    engine.emitKvEvents([{ kind: 'cleared', dpRank: 0 }]);
    expect(await quoteOf(bed, worker)).toEqual({ ranks: [{ ...said, cached_tokens: 0 }] });
  });

  it('has nothing of a prompt that was cut into other blocks', async () => {
    const { engine, bed, worker } = await start();
    engine.emitKvEvents([stored(3)]);
    const body = { block_size_tokens: 8 };
    expect(await ask(bed, worker, body)).toMatchObject({ ranks: [{ cached_tokens: 0 }] });
  });

  it('counts what it has promised until that comes', async () => {
    const { bed, worker } = await start();
    expect(await claimOf(bed, worker, 'r1', 0)).toEqual({ held: true, prefill_tokens: 0 });
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: 30 }] });
    expect(await claimOf(bed, worker, 'r2', 29)).toEqual({ held: false, prefill_tokens: 30 });
    expect(await claimOf(bed, worker, 'r3')).toEqual({ held: true, prefill_tokens: 30 });
    bed.call(worker, [1, 2, 3], { id: 'r1' });
    await bed.clock.advance(1);
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: 30 }] });
    await bed.clock.advance(300);
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: 0 }] }); // the others never came
  });

  it('says in its metrics how many places it has promised without counting them', async () => {
    const { bed, worker } = await start();
    const { requestPlane, clock } = bed.options;
    const transport = { memory: `${worker.instanceId}/ns/backend/quote` };
    const asking = Array.from({ length: 4100 }, (_, at) => {
      const claim = { request_id: `r${at}`, dp_rank: 0, tokens: 1 };
      const asked = { id: `q${at}`, headers: {}, body: { claim }, tokenIds: HASHES.sequence };
      return askOnce(requestPlane, transport, asked, { clock, timeoutMs: 100 });
    });
    await bed.clock.advance(1);
    await Promise.all(asking);
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: 4096 }] });
    expect(await bed.metrics.render()).toMatch(/^stator_worker_uncounted_places_total\{[^}]*\} 4$/m);
  });

  const holdOf = (bed: Bed, worker: Worker, id: string, more: object = {}) => {
    const terms = { request_id: id, tokens: 40, uncached_tokens_max: 30, backlog_tokens_max: 60, ...more };
    return ask(bed, worker, { block_size_tokens: 4, hold: terms });
  };

  it('promises a place with its answer, for what the prompt does not find there', async () => {
    const { engine, bed, worker } = await start();
    engine.emitKvEvents([stored(3)]);
    expect(await holdOf(bed, worker, 'r1')).toMatchObject({ held_at: 0, ranks: [{ cached_tokens: 12 }] });
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: 28 }] });
    bed.call(worker, [1, 2, 3], { id: 'r1' });
    await bed.clock.advance(1);
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: 0 }] });
  });

  it.each([
    ['it would compute more than that', 2, 0, {}],
    ['there would be more to do than that', 3, 33, {}],
    ['another rank is asked for', 3, 0, { dp_rank: 1 }],
  ])('promises none where %s', async (_, blocks, waiting, more) => {
    const { engine, bed, worker } = await start();
    engine.loads = [load(0, waiting)];
    engine.emitKvEvents([stored(blocks)]);
    const answer = await holdOf(bed, worker, 'r1', more);
    expect(answer).toEqual({ ranks: [expect.objectContaining({ cached_tokens: 4 * blocks })] });
    expect(await quoteOf(bed, worker)).toMatchObject({ ranks: [{ prefill_tokens: waiting }] });
  });

  it('refuses a place at a rank that it does not have', async () => {
    const { bed, worker } = await start();
    const claim = { request_id: 'r1', dp_rank: 3, tokens: 30 };
    expect(await ask(bed, worker, { claim })).toMatch(/no rank 3/);
  });

  it('declines while it takes no requests', async () => {
    const { engine, bed, worker } = await start();
    engine.healthError = workerError('EngineShutdown', 'the core is dead');
    await bed.clock.advance(3000);
    expect(await quoteOf(bed, worker)).toMatch(/takes no requests/);
    engine.healthError = undefined;
    await bed.clock.advance(3000);
    expect(await quoteOf(bed, worker)).toHaveProperty('ranks');
    void worker.drain();
    await bed.clock.advance(1);
    expect(await quoteOf(bed, worker)).toMatch(/takes no requests|unavailable/i);
  });

  it('declines when it is full', async () => {
    const bed = workerBed(new ScriptedEngine());
    const worker = await bed.start({ settings: { requestLimit: 1, requestQueueLimit: 0 } });
    bed.call(worker, [1]);
    await bed.clock.advance(1);
    expect(await quoteOf(bed, worker)).toMatch(/at capacity/);
  });

  it('is not to be asked when it does not know what its engine has cached', async () => {
    const engine = new ScriptedEngine();
    engine.info = { ...engine.info, publishesKvEvents: false };
    const { bed, worker } = await start(engine);
    expect(await quoteOf(bed, worker)).toMatch(/nothing serves|unavailable/i);
  });

  it.each([
    ['no record', 'quote!', undefined, /question/],
    ['no block size', {}, undefined, /block_size_tokens/],
    ['a hash and a half', { block_size_tokens: 4 }, new Uint32Array(3), /block hashes/],
    ['more hashes than are allowed', { block_size_tokens: 4 }, new Uint32Array(2 * 4097), /at most 4096/],
    ['a claim without a request', { claim: { dp_rank: 0, tokens: 1 } }, undefined, /request_id/],
    [
      'a place on no terms',
      { block_size_tokens: 4, hold: { request_id: 'r', tokens: 1 } },
      undefined,
      /uncached_tokens_max/,
    ],
    ['a claim of less than nothing', { claim: { request_id: 'r', dp_rank: 0, tokens: -5 } }, undefined, /tokens/],
  ])('refuses %s and says why', async (_, body, tail, message) => {
    const { bed, worker } = await start();
    expect(await ask(bed, worker, body, tail)).toMatch(message);
  });
});
