import { describe, expect, it } from 'vitest';
import { keyOfText, RoutingError } from '../../../shared/router/index.ts';
import type { SchedulerObserver, SchedulingRequest } from '../../../shared/scheduler/types.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { Pool, promptTokens, worker } from './pool.ts';

const BLOCK = 16;

function join(...parts: readonly Uint32Array[]): Uint32Array {
  return Uint32Array.from(parts.flatMap((part) => [...part]));
}

/** Runs a prompt on a pinned worker, past its first token. */
function occupy(pool: Pool, id: string, workerId: string, tokens: Uint32Array): void {
  pool.submit(id, tokens, { pinned: { workerId, dpRank: 0 } });
  pool.scheduler.prefillDone(id);
}

describe('the choice', () => {
  it('is the worker that has cached the prompt', () => {
    const pool = new Pool();
    const prompt = promptTokens(160);
    pool.store('b', prompt);
    const { decision } = pool.submit('r1', prompt);
    expect(decision).toMatchObject({ workerId: 'b', deviceBlocks: 10, cachedTokens: 160, reason: 'lowest-cost' });
  });

  it('meets the worked example: 65, 66 and 58', () => {
    const pool = new Pool({ workers: ['1', '2', '3'].map((id) => worker(id)) });
    const prompt = promptTokens(320);
    occupy(pool, 'w1', '1', promptTokens(30 * BLOCK, 1));
    pool.submit('w2', join(prompt.subarray(0, 12 * BLOCK), promptTokens(28 * BLOCK, 2)), { pinned: { workerId: '2' } });
    occupy(pool, 'w3', '3', promptTokens(24 * BLOCK, 3));
    pool.store('1', prompt.subarray(0, 5 * BLOCK));
    pool.store('2', prompt.subarray(0, 12 * BLOCK));
    pool.index.stored(
      pool.ranks.find('3', 0)!,
      'host_pinned',
      undefined,
      hashBlocks(prompt.subarray(0, 8 * BLOCK), { blockSizeTokens: BLOCK }).sequence,
      hashBlocks(prompt.subarray(0, 8 * BLOCK), { blockSizeTokens: BLOCK }).local,
    );
    const { candidates, chosen } = pool.scheduler.explain(pool.request('r', prompt));
    const costs = Object.fromEntries(candidates.map(({ worker_id: id, cost }) => [id, cost]));
    // Worker 2 prefills and decodes 40 blocks here, of which the prompt shares 12: 60 - 12 raw, 40 + 8 blocks.
    expect(costs).toEqual({ '1': 65, '2': 20 + 40 - 12 + 48, '3': 58 });
    expect(chosen).toEqual({ worker_id: '3', dp_rank: 0, reason: 'lowest-cost' });
  });

  it('falls on each of equally cheap workers about equally often (case 2)', () => {
    const pool = new Pool({ workers: ['a', 'b', 'c'].map((id) => worker(id)) });
    const counts = new Map<string, number>();
    for (let at = 0; at < 3000; at++) {
      const { decision } = pool.submit(`r${at}`, promptTokens(16, at));
      counts.set(decision!.workerId, (counts.get(decision!.workerId) ?? 0) + 1);
      expect(decision!.reason).toBe('tie');
      pool.scheduler.free(`r${at}`);
    }
    for (const id of ['a', 'b', 'c']) expect(counts.get(id)).toBeGreaterThan(900);
  });

  it.each([0, 0.7])(
    'is the same however the pool came together, with one seed, at temperature %d (case 6)',
    (temperature) => {
      const ids = ['1', 'a', '10', '2', 'ff'];
      const run = (workers: readonly string[]): readonly (string | undefined)[] => {
        const pool = new Pool({
          config: { routerTemperature: temperature },
          workers: workers.map((id) => worker(id)),
          seed: 42,
        });
        return Array.from({ length: 64 }, (_, at) => pool.submit(`r${at}`, promptTokens(64, at)).decision?.workerId);
      };
      const first = run(ids);
      expect(run([...ids].reverse())).toEqual(first);
      expect(run(['ff', '2', '1', '10', 'a'])).toEqual(first);
      expect(new Set(first).size).toBeGreaterThan(1);
    },
  );

  it('takes the worker with the smaller cache among ties if configured so (case 36)', () => {
    const part = (letter: string): Uint32Array => promptTokens(8, letter.charCodeAt(0));
    const pool = new Pool({ blockSizeTokens: 8, config: { tieBreak: 'fewest-blocks' } });
    const sent = [
      ['AB', 'a'],
      ['ACD', 'a'],
      ['ACE', 'b'],
      ['ACDF', undefined],
      ['ACG', undefined],
    ] as const;
    const chosen = sent.map(([letters, forced], at) => {
      const prompt = join(...[...letters].map(part));
      const pinned = forced && { workerId: forced };
      const { decision } = pool.submit(`r${at}`, prompt, { pinned });
      pool.store(decision!.workerId, prompt);
      pool.scheduler.free(`r${at}`);
      return decision!.workerId;
    });
    expect(chosen).toEqual(['a', 'a', 'b', 'a', 'b']);
    expect(['a', 'b'].map((id) => pool.index.blocksOf(pool.ranks.find(id, 0)!))).toEqual([5, 4]);
  });

  it('draws by softmax: 0.480, 0.344, 0.176 for costs 0, 3, 9 (case 5)', () => {
    const pool = new Pool({
      workers: ['1', '2', '3'].map((id) => worker(id)),
      config: { routerTemperature: 1, trackPrefillTokens: false, overlapScoreCredit: 0 },
    });
    occupy(pool, 'x', '2', promptTokens(3 * BLOCK, 8));
    occupy(pool, 'y', '3', promptTokens(9 * BLOCK, 9));
    const counts = { '1': 0, '2': 0, '3': 0 };
    for (let at = 0; at < 20_000; at++) {
      const { decision } = pool.submit(`r${at}`, new Uint32Array(0));
      counts[decision!.workerId as '1']++;
      pool.scheduler.free(`r${at}`);
    }
    expect(counts['1'] / 20_000).toBeCloseTo(0.47975, 1);
    expect(counts['2'] / 20_000).toBeCloseTo(0.34376, 1);
    expect(counts['3'] / 20_000).toBeCloseTo(0.17649, 1);
  });

  it('lets idle workers win over a cached but loaded one', () => {
    const pool = new Pool();
    const prompt = promptTokens(64);
    pool.store('a', prompt);
    occupy(pool, 'busy', 'a', promptTokens(6400, 5));
    expect(pool.submit('r', prompt).decision?.workerId).toBe('b');
  });

  it('keeps to the worker of a session while it may go there', () => {
    const pool = new Pool();
    occupy(pool, 'busy', 'a', promptTokens(640, 5));
    const preferredWorker = { workerId: 'a', dpRank: 0 };
    const soft = pool.submit('r1', promptTokens(64), { preferredWorker });
    expect(soft.decision).toMatchObject({ workerId: 'a', reason: 'session' });
    const away = pool.submit('r2', promptTokens(64), { preferredWorker, excludedWorkers: new Set(['a']) });
    expect(away.decision).toMatchObject({ workerId: 'b', reason: 'only' });
  });
});

describe('the worker for a request', () => {
  const busy = (...ids: string[]) => ({ busyWorkers: new Set(ids) });
  const failureOf = (pool: Pool, more: Parameters<Pool['submit']>[2]) => {
    const { error } = pool.submit('r', promptTokens(64), more);
    return error instanceof RoutingError ? { ...error.failure, code: error.code } : undefined;
  };

  it('is not a busy worker, however much it has cached (case 7)', () => {
    const pool = new Pool();
    pool.store('a', promptTokens(64));
    expect(pool.submit('r', promptTokens(64), busy('a')).decision?.workerId).toBe('b');
  });

  it('is missing if all are busy: an overload, not an outage (cases 8 and 9)', () => {
    const pool = new Pool();
    expect(failureOf(pool, busy('a', 'b'))).toEqual({
      kind: 'AllEligibleWorkersOverloaded',
      code: 'server_overloaded',
    });
    expect(failureOf(pool, { ...busy('a'), pinned: { workerId: 'a' } })).toEqual({
      kind: 'PinnedWorkerOverloaded',
      workerId: 'a',
      code: 'server_overloaded',
    });
  });

  it('is missing without the required taint, outside the allowed ids, or on a missing rank (case 10)', () => {
    const pool = new Pool({ workers: [worker('a', { taints: ['a'] })] });
    const nobody = { kind: 'NoEndpoints', code: 'service_unavailable' };
    expect(failureOf(pool, { constraints: { required_taints: ['b'] } })).toEqual(nobody);
    expect(failureOf(pool, { allowedWorkers: new Set(['z']) })).toEqual(nobody);
    expect(failureOf(pool, { pinned: { workerId: 'a', dpRank: 1 } })).toEqual(nobody);
    expect(failureOf(pool, { pinned: { workerId: 'z' } })).toEqual(nobody);
    expect(failureOf(pool, { pinned: { workerId: 'a' }, allowedWorkers: new Set(['b']) })).toEqual({
      kind: 'PinnedWorkerNotAllowed',
      workerId: 'a',
      code: 'invalid_value',
    });
  });

  it('is the idle member of the group that the request requires (cases 11 and 12)', () => {
    const groups = ['x', 'y', 'z'];
    const workers = groups.flatMap((taint) => [1, 2].map((at) => worker(`${taint}${at}`, { taints: [taint] })));
    const pool = new Pool({ workers });
    for (const taint of groups) occupy(pool, `busy-${taint}`, `${taint}1`, promptTokens(64_000, 9));
    for (const taint of groups) {
      const { decision } = pool.submit(`r-${taint}`, promptTokens(64), { constraints: { required_taints: [taint] } });
      expect(decision?.workerId).toBe(`${taint}2`);
    }
  });

  it('is drawn to preferred taints and away from those with a negative weight (cases 13 and 14)', () => {
    const pool = new Pool({ workers: [worker('10', { taints: ['a'] }), worker('20')] });
    occupy(pool, 'x', '10', promptTokens(100 * BLOCK, 1));
    occupy(pool, 'y', '20', promptTokens(90 * BLOCK, 2));
    const prefer = (weight: number) => ({ constraints: { preferred_taints: { a: weight } } });
    expect(pool.submit('r1', promptTokens(16), prefer(0.85)).decision?.workerId).toBe('10');
    expect(pool.submit('r2', promptTokens(16), prefer(-0.25)).decision?.workerId).toBe('20');
  });

  it('is a worker that failed lately only when no other is left', () => {
    const pool = new Pool();
    const avoidedWorkers = new Set(['a']);
    expect(pool.submit('r1', promptTokens(16), { avoidedWorkers }).decision?.workerId).toBe('b');
    const last = pool.submit('r2', promptTokens(16), { avoidedWorkers, excludedWorkers: new Set(['b']) });
    expect(last.decision?.workerId).toBe('a');
  });

  it('is a rank of its own in a data-parallel worker', () => {
    const pool = new Pool({ workers: [worker('a', { dataParallelStartRank: 2, dataParallelSize: 2 })] });
    pool.store('a', promptTokens(64), 3);
    expect(pool.submit('r', promptTokens(64)).decision).toMatchObject({ workerId: 'a', dpRank: 3, deviceBlocks: 4 });
  });
});

describe('bookings', () => {
  it('weigh on their worker until they are freed, and leave nothing behind', () => {
    const pool = new Pool();
    pool.submit('r1', promptTokens(100), { pinned: { workerId: 'a' } });
    expect(pool.loadOf('a')).toMatchObject({ activePrefillTokens: 100, activeDecodeBlocks: 6, activeRequests: 1 });
    pool.scheduler.prefillDone('r1');
    pool.scheduler.prefillDone('r1');
    expect(pool.loadOf('a')).toMatchObject({ activePrefillTokens: 0, activeDecodeBlocks: 6, activeRequests: 1 });
    pool.scheduler.free('r1');
    pool.scheduler.free('r1');
    expect(pool.loadOf('a')).toMatchObject({ activePrefillTokens: 0, activeDecodeBlocks: 0, activeRequests: 0 });
  });

  it('are refused for an id that is under way (case 31)', () => {
    const pool = new Pool();
    pool.submit('r1', promptTokens(64), { pinned: { workerId: 'a' } });
    const { error } = pool.submit('r1', promptTokens(64));
    expect((error as RoutingError).failure).toEqual({ kind: 'BookingFailed', requestId: 'r1' });
    expect(pool.scheduler.activeRequests).toBe(1);
  });

  it('can be made for a worker that another router chose', () => {
    const pool = new Pool();
    const { hashes } = pool.request('r', promptTokens(64));
    const booking = { requestId: 'r', workerId: 'a', dpRank: 0, promptTokens: 64, hashes, uncachedTokens: 32 };
    expect(pool.scheduler.book(booking)).toBe(true);
    expect(pool.scheduler.book(booking)).toBe(false);
    expect(pool.scheduler.book({ ...booking, requestId: 's', workerId: 'z' })).toBe(false);
    expect(pool.loadOf('a')).toMatchObject({ activePrefillTokens: 32, activeDecodeBlocks: 4 });
  });

  it('go with their worker, and its number is given to another', () => {
    const pool = new Pool();
    pool.store('a', promptTokens(64));
    pool.submit('r1', promptTokens(64), { pinned: { workerId: 'a' } });
    const rank = pool.ranks.find('a', 0);
    pool.scheduler.setWorkers([worker('b')]);
    expect(pool.scheduler.activeRequests).toBe(0);
    expect(pool.ranks.find('a', 0)).toBeUndefined();
    while (pool.index.housekeep()) {}
    pool.scheduler.setWorkers([worker('b'), worker('c')]);
    expect(pool.ranks.find('c', 0)).toBe(rank);
    expect(pool.submit('r2', promptTokens(64), { pinned: { workerId: 'c' } }).decision?.deviceBlocks).toBe(0);
  });

  it('that were never freed end after five minutes', async () => {
    const pool = new Pool();
    pool.submit('lost', promptTokens(64), { pinned: { workerId: 'a' } });
    await pool.clock.advance(299_000);
    pool.scheduler.tick();
    expect(pool.scheduler.activeRequests).toBe(1);
    await pool.clock.advance(1000);
    pool.scheduler.tick();
    expect(pool.scheduler.activeRequests).toBe(0);
  });

  it('count neither blocks nor prompt if the configuration or the request says so', () => {
    const pool = new Pool({ config: { trackActiveBlocks: false } });
    pool.submit('r1', promptTokens(64), { pinned: { workerId: 'a' }, override: { track_prefill_tokens: false } });
    expect(pool.loadOf('a')).toMatchObject({ activePrefillTokens: 0, activeDecodeBlocks: 0, activeRequests: 1 });
  });

  it('share no blocks without reuse', () => {
    const pool = new Pool({ config: { assumeKvReuse: false } });
    for (const id of ['r1', 'r2']) pool.submit(id, promptTokens(64), { pinned: { workerId: 'a' } });
    expect(pool.loadOf('a').activeDecodeBlocks).toBe(8);
  });

  it('tell what load would be with a prompt added', () => {
    const pool = new Pool();
    pool.store('a', promptTokens(32));
    pool.submit('r1', promptTokens(48), { pinned: { workerId: 'a' } });
    const { hashes } = pool.request('r2', promptTokens(100));
    expect(pool.scheduler.potentialLoads(hashes, 100)).toEqual([
      { workerId: 'a', dpRank: 0, potentialPrefillTokens: 16 + 68, potentialDecodeBlocks: 6, activeRequests: 1 },
      { workerId: 'b', dpRank: 0, potentialPrefillTokens: 100, potentialDecodeBlocks: 6, activeRequests: 0 },
    ]);
  });

  it('refuse an override out of range by its name', () => {
    const { error } = new Pool().submit('r', promptTokens(16), { override: { router_temperature: -1 } });
    expect(error).toMatchObject({ code: 'invalid_value', param: 'router_config_override.router_temperature' });
  });
});

describe('explanations', () => {
  it('show every candidate with the parts of its cost, of decisions made and of one that would be', () => {
    const pool = new Pool({ config: { decodeActiveRequestWeight: 2 } });
    pool.store('b', promptTokens(32));
    occupy(pool, 'x', 'a', promptTokens(160, 3));
    const wanted = {
      cost_model: 'dynamo',
      prompt_tokens: 64,
      blocks: 4,
      chosen: { worker_id: 'b', dp_rank: 0, reason: 'lowest-cost' },
      candidates: [
        {
          worker_id: 'b',
          cost: 6,
          overlap: { device: 2 },
          load: { added_blocks: 4 },
          terms: { prefill: 2, decode: 4, requests: 0 },
          factor: 1,
        },
        {
          worker_id: 'a',
          cost: 20,
          load: { decode_blocks: 10 },
          terms: { prefill: 4, decode: 14, requests: 2 },
          factor: 1,
        },
      ],
    };
    expect(pool.scheduler.explain(pool.request('r', promptTokens(64)))).toMatchObject(wanted);
    expect(pool.scheduler.activeRequests).toBe(1);
    pool.submit('r', promptTokens(64));
    expect(pool.scheduler.explained('r')).toMatchObject(wanted);
    expect(JSON.parse(JSON.stringify(pool.scheduler.explained('r')))).toMatchObject(wanted);
  });

  it('say why no worker could take a request', () => {
    const pool = new Pool({ workers: [] });
    expect(pool.scheduler.explain(pool.request('r', promptTokens(64)))).toMatchObject({
      chosen: null,
      failure: 'no endpoints available to route work',
      candidates: [],
    });
  });

  it('are kept for the last decisions only', () => {
    const pool = new Pool({ explainedMax: 3 });
    for (let at = 0; at < 5; at++) pool.submit(`r${at}`, promptTokens(16, at));
    const known = [0, 1, 2, 3, 4].filter((at) => pool.scheduler.explained(`r${at}`) !== undefined);
    expect(known).toEqual([2, 3, 4]);
  });
});

describe('the cost model stator', () => {
  const stator = { costModel: 'stator' } as const;

  const MS_PER_TOKEN = 0.0207;

  /** The parts of the cost of each worker for a prompt of `tokens`. */
  function termsOf(pool: Pool, tokens: number, more: Partial<SchedulingRequest> = {}) {
    const { candidates } = pool.scheduler.explain(pool.request('r', promptTokens(tokens), more));
    return Object.fromEntries(candidates.map(({ worker_id: id, terms }) => [id, terms]));
  }

  it('adds the time of what waits, of the pass that is shared and of what is left to compute', () => {
    const pool = new Pool({ config: stator });
    pool.store('a', promptTokens(512));
    pool.submit('x', promptTokens(1600, 1), { pinned: { workerId: 'a' } });
    const { a, b } = termsOf(pool, 1024);
    expect(a?.wait).toBeCloseTo(MS_PER_TOKEN * (1600 + 2000), 6);
    expect(a?.compute).toBeCloseTo(MS_PER_TOKEN * 512, 6);
    expect(b?.wait).toBe(0);
    expect(b?.compute).toBeCloseTo(MS_PER_TOKEN * 1024, 6);
  });

  it('counts what is left to compute for later requests, too: hardly in a quiet pool, four times in a busy one', () => {
    const pool = new Pool({ config: stator });
    const later = () => termsOf(pool, 1024).a!.later! / (MS_PER_TOKEN * 1024);
    expect(later()).toBe(0);
    pool.submit('x', promptTokens(1600, 1), { pinned: { workerId: 'a' } });
    expect(later()).toBeCloseTo(1, 6);
    pool.submit('y', promptTokens(1600, 1), { pinned: { workerId: 'b' } });
    expect(later()).toBeCloseTo(4, 6);
  });

  it('does not wait for a cache while most workers are idle', () => {
    const pool = new Pool({ config: stator, workers: ['a', 'b', 'c', 'd'].map((id) => worker(id)) });
    const prompt = promptTokens(4096);
    pool.store('a', prompt);
    pool.submit('x', promptTokens(3200, 1), { pinned: { workerId: 'a' } });
    expect(pool.submit('r', prompt).decision?.workerId).not.toBe('a');
    for (const id of ['b', 'c', 'd']) pool.submit(`x-${id}`, promptTokens(320, 1), { pinned: { workerId: id } });
    expect(pool.submit('s', prompt).decision?.workerId).toBe('a');
  });

  it('counts the prefix that a running request computes as cached there', () => {
    const pool = new Pool({ config: stator });
    pool.submit('x', promptTokens(1024), { pinned: { workerId: 'a' } });
    const { a, b } = termsOf(pool, 2048);
    expect(a?.compute).toBeCloseTo(MS_PER_TOKEN * 1024, 6);
    expect(b?.compute).toBeCloseTo(MS_PER_TOKEN * 2048, 6);
    expect(a?.later).toBe(b?.later); // a second copy would also serve later requests
    expect(pool.submit('r', promptTokens(2048), { pinned: { workerId: 'a' } }).decision?.uncachedTokens).toBe(1024);
  });

  it('sends a request away from long contexts, if it saves no prefill there', () => {
    const pool = new Pool({ config: stator });
    for (let at = 0; at < 8; at++) {
      const [id, tokens] = at % 2 === 0 ? ['a', 20_000] : ['b', 2000];
      pool.submit(`x${at}`, promptTokens(tokens, 1), { pinned: { workerId: id } });
      pool.scheduler.prefillDone(`x${at}`);
    }
    const { a, b } = termsOf(pool, 320);
    expect(a!.decode!).toBeGreaterThan(b!.decode!);
    expect(pool.submit('r', promptTokens(320)).decision?.workerId).toBe('b');
  });

  it('counts the time for which the context of a request makes the steps of others longer', () => {
    const pool = new Pool({ config: stator });
    pool.submit('x', promptTokens(16, 1), { pinned: { workerId: 'a' } });
    pool.scheduler.prefillDone('x');
    const { a, b } = termsOf(pool, 320);
    expect(a?.others).toBeGreaterThan(0);
    expect(b?.others).toBe(0);
    expect(termsOf(pool, 3200).a?.others).toBeGreaterThan(a!.others!);
  });

  it('waits for the end of a request where a worker runs as many as it can', () => {
    const workers = [worker('a', { maxNumSeqs: 4 }), worker('b')];
    const pool = new Pool({ config: stator, workers });
    const run = (id: string) => {
      for (const worker of ['a', 'b']) {
        pool.submit(`${id}-${worker}`, promptTokens(16, 1), { pinned: { workerId: worker } });
        pool.scheduler.prefillDone(`${id}-${worker}`);
      }
    };
    for (const id of ['w', 'x', 'y']) run(id);
    expect(termsOf(pool, 320).a?.slot).toBe(0);
    run('z');
    const { a, b } = termsOf(pool, 320);
    expect(a?.slot).toBeCloseTo((2 * 2000) / 4, 6); // one of four requests that take two seconds
    expect(b?.slot).toBe(0);
    expect(pool.submit('r', promptTokens(320)).decision?.workerId).toBe('b');
  });

  it('takes a worker that runs 0 requests at once for one that does not say how many', () => {
    const pool = new Pool({ config: stator, workers: [worker('a', { maxNumSeqs: 0 }), worker('b')] });
    const { a, b } = termsOf(pool, 320);
    expect(a).toEqual(b);
    expect(a?.slot).toBe(0);
  });

  it('shows what a prompt costs less at its home as a part, not as a factor of taints', () => {
    const pool = new Pool({ config: stator });
    const home = { key: keyOfText('picture'), tokens: 64 };
    const { candidates } = pool.scheduler.explain(pool.request('r', promptTokens(320), { home }));
    expect(candidates.map(({ factor }) => factor)).toEqual([1, 1]);
    expect(candidates[0]?.terms.home).toBeCloseTo(-MS_PER_TOKEN * 64, 6);
    expect(candidates[1]?.terms.home).toBe(0);
  });

  it('counts the tokens of a home as if they were cached there: five times as much in a busy pool', () => {
    const pool = new Pool({ config: stator });
    for (const id of ['a', 'b']) pool.submit(`x${id}`, promptTokens(320, 1), { pinned: { workerId: id } });
    const home = { key: keyOfText('picture'), tokens: 64 };
    const { candidates } = pool.scheduler.explain(pool.request('r', promptTokens(320), { home }));
    const saved = candidates.map(({ terms }) => terms.home as number);
    expect(Math.min(...saved)).toBeCloseTo(-5 * MS_PER_TOKEN * 64, 6);
    expect(Math.max(...saved)).toBe(0);
  });

  it('goes to the cache even if the client expects billions of output tokens', () => {
    const pool = new Pool({ config: stator });
    const prompt = promptTokens(20_000);
    pool.store('a', prompt);
    pool.submit('x', promptTokens(16, 1), { pinned: { workerId: 'a' } });
    pool.scheduler.prefillDone('x');
    expect(pool.submit('r', prompt, { expectedOutputTokens: 2 ** 32 - 1 }).decision?.workerId).toBe('a');
  });

  it('learns that a worker is slow, and sends requests to the other one', async () => {
    const pool = new Pool({ config: stator });
    for (let at = 0; at < 400; at++) {
      const [id, stepMs] = at % 2 === 0 ? ['a', 40] : ['b', 10];
      pool.submit(`x${at}`, promptTokens(320, at), { pinned: { workerId: id } });
      await pool.clock.advance(10);
      pool.scheduler.prefillDone(`x${at}`);
      await pool.clock.advance(100 * stepMs);
      pool.scheduler.free(`x${at}`, 101);
    }
    const { a, b } = termsOf(pool, 3200);
    const slower = a!.decode! / b!.decode!;
    expect(slower).toBeGreaterThan(2);
    expect(a!.compute! / b!.compute!).toBeCloseTo(Math.sqrt(slower), 6);
    expect(a?.later).toBe(b?.later); // whoever comes later may go to either
    for (let at = 0; at < 20; at++) {
      expect(pool.submit(`r${at}`, promptTokens(320, 1000 + at)).decision?.workerId).toBe('b');
      pool.scheduler.free(`r${at}`);
    }
  });

  it('does not weigh decoding more and more if first tokens come late', async () => {
    const pool = new Pool({ config: stator });
    for (let at = 0; at < 400; at++) {
      pool.submit(`x${at}`, promptTokens(320, at));
      await pool.clock.advance(20_000);
      pool.scheduler.prefillDone(`x${at}`);
      await pool.clock.advance(1000); // 10 ms a token
      pool.scheduler.free(`x${at}`, 101);
    }
    const decodeMs = termsOf(pool, 320, { expectedOutputTokens: 1000 }).a?.decode;
    expect(decodeMs).toBeGreaterThan(0.04 * 1000 * 10);
    expect(decodeMs).toBeLessThan(0.06 * 1000 * 10);
  });

  it('prefers its own share of the ranks among equals, but goes elsewhere for a good cache hit', () => {
    const share = { isOwn: (rank: number) => rank === 1, routers: 2 };
    const pool = new Pool({ config: stator, share });
    for (let at = 0; at < 10; at++) {
      expect(pool.submit(`r${at}`, promptTokens(64, at)).decision?.rank).toBe(1);
      pool.scheduler.free(`r${at}`);
    }
    pool.store('a', promptTokens(8192, 50));
    expect(pool.submit('hit', promptTokens(8192, 50)).decision?.workerId).toBe('a');
  });

  it('holds its share less dear the more routers there are for each rank, and dearer in a busy pool', () => {
    const shareMs = (routers: number, busy: readonly string[] = []) => {
      const pool = new Pool({ config: stator, share: { isOwn: () => false, routers } });
      for (const id of busy) pool.submit(id, promptTokens(1600, 1), { pinned: { workerId: id } });
      return termsOf(pool, 3200).a?.share;
    };
    expect(shareMs(2)).toBeCloseTo(MS_PER_TOKEN * 750, 6);
    expect(shareMs(8)).toBeCloseTo((MS_PER_TOKEN * 750) / 4, 6); // of two ranks
    expect(shareMs(2, ['a', 'b'])).toBeCloseTo(5 * MS_PER_TOKEN * 750, 6);
  });

  /** Decides in 200 instants in which another router of `routers` books nine requests. Returns the last 100 workers. */
  async function decideWith(routers: number): Promise<readonly (string | undefined)[]> {
    const workers = Array.from({ length: 8 }, (_, at) => worker(`${at}`));
    const pool = new Pool({ config: stator, workers, share: { isOwn: () => false, routers } });
    pool.store('0', promptTokens(512)); // so that this worker is always slightly cheaper
    const chosen: (string | undefined)[] = [];
    for (let burst = 0; burst < 200; burst++) {
      chosen.push(pool.submit(`r${burst}`, promptTokens(1024)).decision?.workerId);
      for (let other = 0; other < 9; other++) {
        const booking = { workerId: `${other % 8}`, dpRank: 0, promptTokens: 8000, uncachedTokens: 8000 };
        pool.scheduler.book({ ...booking, requestId: `x${other}`, hashes: undefined });
      }
      await pool.clock.advance(1000);
      pool.scheduler.free(`r${burst}`);
      for (let other = 0; other < 9; other++) pool.scheduler.free(`x${other}`);
    }
    return chosen.slice(100);
  }

  it('spreads its requests over the ranks if many routers decide in the same instants', async () => {
    const chosen = await decideWith(50);
    expect(new Set(chosen).size).toBe(8);
    expect(chosen.filter((id) => id === '0').length).toBeLessThan(60);
  });

  it('counts a booking of another router once, however often it hears of it', async () => {
    const workers = Array.from({ length: 8 }, (_, at) => worker(`${at}`));
    const pool = new Pool({ config: stator, workers, share: { isOwn: () => false, routers: 50 } });
    pool.store('0', promptTokens(512)); // so that this worker is always slightly cheaper
    const booking = { requestId: 'x', workerId: '7', dpRank: 0, promptTokens: 8000, uncachedTokens: 8000 };
    for (let burst = 0; burst < 200; burst++) {
      expect(pool.submit(`r${burst}`, promptTokens(1024)).decision?.workerId).toBe('0');
      for (let again = 0; again < 9; again++) pool.scheduler.book({ ...booking, hashes: undefined });
      await pool.clock.advance(1000);
      pool.scheduler.free(`r${burst}`);
    }
  });

  it('leaves the spread to the shares if there are fewer routers than ranks', async () => {
    expect(new Set(await decideWith(7))).toEqual(new Set(['0']));
  });

  it.each([
    { overlap_score_credit: 0.5 },
    { overlap_score_weight: 2 },
    { prefill_load_scale: 3 },
    { router_temperature: 0.2 },
    { shared_cache_multiplier: 0.5 },
    { track_prefill_tokens: false },
  ])('scores a request by the formula of dynamo when it sets a weight of that one: %o', (override) => {
    const costsUnder = (costModel: 'dynamo' | 'stator') => {
      const pool = new Pool({ config: { costModel } });
      pool.store('a', promptTokens(512));
      pool.submit('x', promptTokens(1600, 1), { pinned: { workerId: 'b' } });
      return pool.scheduler.explain(pool.request('r', promptTokens(1024), { override, sharedRanges: [[40, 60]] }));
    };
    expect(costsUnder('stator')).toEqual({ ...costsUnder('dynamo'), cost_model: 'dynamo' });
  });

  it('goes where such a weight sends the request, and says afterwards which formula that was', () => {
    const pool = new Pool({ config: stator });
    pool.store('a', promptTokens(2048)); // 128 of 256 blocks
    pool.submit('x', promptTokens(2080, 1), { pinned: { workerId: 'a' } });
    pool.submit('y', promptTokens(16, 2), { pinned: { workerId: 'b' } }); // in a busy pool, hits weigh more
    for (const [id, override] of [
      ['plain', undefined],
      ['weighed', { prefill_load_scale: 4 }],
    ] as const) {
      pool.submit(id, promptTokens(4096), { override });
      pool.scheduler.free(id);
    }
    const [plain, weighed] = ['plain', 'weighed'].map((id) => pool.scheduler.explained(id));
    expect(plain).toMatchObject({ cost_model: 'stator', chosen: { worker_id: 'a' } });
    expect(weighed).toMatchObject({ cost_model: 'dynamo', chosen: { worker_id: 'b' } });
    expect(weighed?.candidates[0]?.terms).toMatchObject({ prefill: 4 * 257, decode: 257 }); // with y
  });

  it('stays with its own formula for what every formula goes by', () => {
    const pool = new Pool({ config: stator });
    const override = { assume_kv_reuse: false, track_prefill_tokens: true };
    expect(pool.scheduler.explain(pool.request('r', promptTokens(64), { override })).cost_model).toBe('stator');
  });

  it('counts a fully cached prompt as one token, and lets the backlog shrink with time', async () => {
    const pool = new Pool({ config: stator, workers: [worker('a')] });
    pool.store('a', promptTokens(512));
    expect(pool.submit('r', promptTokens(512)).decision?.uncachedTokens).toBe(1);
    pool.scheduler.free('r');
    pool.submit('x', promptTokens(1000, 1));
    await pool.clock.advance(10.35); // half of 1,000 tokens at 0.0207 ms each
    const { candidates } = pool.scheduler.explain(pool.request('y', promptTokens(16, 2)));
    expect(candidates[0]?.terms.wait).toBeCloseTo(MS_PER_TOKEN * (2000 + 500), 6);
  });
});

describe('observers', () => {
  it('hear of decisions, of waiting requests and of rejections', () => {
    const told: unknown[] = [];
    const pool = new Pool({
      config: { queueThreshold: 0, queuedRequestsMax: 2 },
      workers: [worker('a', { maxNumBatchedTokens: 100 }), worker('b', { maxNumBatchedTokens: 100 })],
      observer: {
        received: (policyClass) => void told.push(policyClass),
        decided: ({ promptTokens: tokens, cachedTokens, bestCachedTokens, blocksLost, sharedBeyondBlocks }) =>
          void told.push([tokens, cachedTokens, bestCachedTokens, blocksLost, sharedBeyondBlocks]),
        pending: (...line) => void told.push(line),
        backpressure: (policyClass, reason) => void told.push([policyClass, reason]),
      },
    });
    const prompt = promptTokens(64);
    pool.store('b', prompt.subarray(0, 16));
    const [a, b] = ['a', 'b'].map((id) => ({ allowedWorkers: new Set([id]) }));
    pool.submit('r1', prompt, a);
    pool.submit('r2', prompt, b);
    pool.submit('r3', prompt, b); // waits
    pool.submit('r4', prompt, { ...a, mayWait: false });
    pool.submit('r5', prompt, a); // waits, too
    pool.submit('r6', prompt, a); // one more than may
    pool.scheduler.free('r1'); // for r5
    pool.scheduler.free('r5');
    pool.submit('r7', prompt, { sharedRanges: [[2, 4]], policyClass: 'premium' }); // to a, as b is busy
    expect(told).toEqual([
      'default',
      [64, 0, 0, 0, 0],
      'default',
      [64, 16, 16, 0, 0],
      'default',
      ['default', 1, 64, 16],
      'default',
      ['default', 'do_not_queue'],
      'default',
      ['default', 2, 128, 16],
      'default',
      ['default', 'request_limit'],
      ['default', 1, 64, 16],
      [64, 0, 0, 0, 0],
      'premium',
      [64, 0, 16, 1, 2],
    ]);
  });

  it('hear of no choice with more cached tokens than the best one', () => {
    const told: unknown[] = [];
    const decided: SchedulerObserver['decided'] = ({ cachedTokens, bestCachedTokens }) =>
      void told.push([cachedTokens, bestCachedTokens]);
    const observer = { decided, received: () => {}, pending: () => {}, backpressure: () => {} };
    const pool = new Pool({ config: { costModel: 'stator' }, workers: [worker('a')], observer });
    pool.submit('x', promptTokens(1024));
    pool.submit('r', promptTokens(2048)); // the worker computes its first half for the other request
    expect(told).toEqual([
      [0, 0],
      [1024, 1024],
    ]);
  });

  it('hear how long the index and the decision took', () => {
    const told: unknown[] = [];
    const decided: SchedulerObserver['decided'] = ({ matchMs, schedulingMs }) =>
      void told.push([matchMs, schedulingMs]);
    const pool = new Pool({ observer: { decided, received: () => {}, pending: () => {}, backpressure: () => {} } });
    let nowMs = 0;
    const match = pool.index.match.bind(pool.index);
    Object.assign(pool.clock, { nowMs: () => nowMs });
    Object.assign(pool.index, {
      match(...[hashes, overlaps]: Parameters<typeof match>) {
        nowMs += 3;
        match(hashes, overlaps);
      },
      decided: () => {
        nowMs += 2;
      },
    });
    pool.submit('r', promptTokens(64));
    expect(told).toEqual([[3, 2]]);
  });
});
