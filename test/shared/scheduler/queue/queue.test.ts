import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RoutingError } from '../../../../shared/router/index.ts';
import { defaultKvRouterConfig } from '../../../../shared/scheduler/index.ts';
import { singleClass } from '../../../../shared/scheduler/queue/policy-config.ts';
import { parsePolicyConfig } from '../../../../shared/scheduler/queue/policy-file.ts';
import { queueKey } from '../../../../shared/scheduler/queue/request-queue.ts';
import { Pool, type PoolOptions, promptTokens, type Submitted, worker } from '../pool.ts';

const ISL = 1000;

/** One worker of 1,000 batched tokens with a queue at threshold 1: a second prompt waits for the first token of the first. */
function narrow(options: PoolOptions = {}): Pool {
  const workers = options.workers ?? [worker('a', { maxNumBatchedTokens: ISL })];
  return new Pool({ ...options, workers, config: { queueThreshold: 0, ...options.config } });
}

function failureOf({ error }: Submitted) {
  return error instanceof RoutingError ? error.failure : undefined;
}

/** Frees whoever runs, one after another, and tells in which order the others went. */
function drainOrder(pool: Pool, running: string, waiting: Readonly<Record<string, Submitted>>): readonly string[] {
  const order = (): readonly string[] => pool.decided.filter((id) => id in waiting);
  pool.scheduler.free(running);
  for (let at = 0; at < order().length; at++) pool.scheduler.free(order()[at] as string);
  return order();
}

describe('the gate', () => {
  it('opens while some worker is at its threshold or below, and closes above it (case 33)', () => {
    const pool = narrow({ config: { queueThreshold: 1 } });
    expect(pool.submit('r1', promptTokens(ISL, 1)).decision).toBeDefined();
    const second = pool.submit('r2', promptTokens(ISL, 2)); // active = isl: not above
    expect(second.decision).toBeDefined();
    const third = pool.submit('r3', promptTokens(ISL, 3));
    expect(third.decision).toBeUndefined();
    expect(third.ticket.position).toBe(0);
    expect(pool.scheduler.pendingPromptTokens).toBe(ISL);
    pool.scheduler.prefillDone('r1');
    expect(third.decision?.workerId).toBe('a');
    expect(third.ticket.position).toBeUndefined();
  });

  it('never closes without a threshold (case 34), nor for workers that do not say what they take', () => {
    for (const pool of [
      narrow({ config: { queueThreshold: undefined } }),
      narrow({ config: { queueThreshold: 16 }, workers: [worker('a')] }),
    ]) {
      for (let at = 0; at < 50; at++) expect(pool.submit(`r${at}`, promptTokens(ISL, at)).decision).toBeDefined();
    }
  });

  it('looks only at the workers that may take the request', () => {
    const pool = narrow({
      workers: [worker('a', { maxNumBatchedTokens: ISL }), worker('b', { maxNumBatchedTokens: ISL })],
    });
    pool.submit('r1', promptTokens(ISL, 1), { pinned: { workerId: 'a' } });
    expect(pool.submit('r2', promptTokens(ISL, 2), { pinned: { workerId: 'a' } }).decision).toBeUndefined();
    expect(pool.submit('r3', promptTokens(ISL, 3), { pinned: { workerId: 'b' } }).decision?.workerId).toBe('b');
    expect(pool.submit('r4', promptTokens(ISL, 4)).decision).toBeUndefined();
  });

  it('does not hold back a request that no worker may take', () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    expect(failureOf(pool.submit('r2', promptTokens(ISL, 2), { allowedWorkers: new Set(['z']) }))?.kind).toBe(
      'NoEndpoints',
    );
  });

  it('opens for a new worker, and ends requests that no worker is left for', () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    const second = pool.submit('r2', promptTokens(ISL, 2));
    pool.scheduler.setWorkers([worker('a', { maxNumBatchedTokens: ISL }), worker('b')]);
    expect(second.decision?.workerId).toBe('b');
    const third = pool.submit('r3', promptTokens(ISL, 3));
    pool.scheduler.setWorkers([]);
    expect(failureOf(third)?.kind).toBe('NoEndpoints');
  });
});

describe('the order', () => {
  it('has the keys of Dynamo', () => {
    expect(queueKey('wspt', 9, 0, 1024 - 60 * 16)).toBe(1 / 64);
    expect(queueKey('wspt', 9, 0, 1024 - 16)).toBe(1 / 1008);
    expect(queueKey('wspt', 9, 0, 1)).toBe(1);
    expect(queueKey('fcfs', 0, 0, 5)).toBe(0);
    expect(queueKey('fcfs', 5, 50, 5)).toBe(45);
    expect(queueKey('fcfs', 5, -50, 5)).toBe(-5);
    expect(queueKey('lcfs', 5, 0, 5)).toBe(5);
  });

  const arrivals = fc.array(
    fc.record({
      tokens: fc.integer({ min: 1, max: 40 }),
      jump: fc.integer({ min: 0, max: 20 }),
      tier: fc.integer({ min: 0, max: 2 }),
    }),
    { minLength: 1, maxLength: 12 },
  );

  it.each(['fcfs', 'lcfs', 'wspt'] as const)(
    'is tier first, then %s with its jump, then arrival',
    async (queuePolicy) => {
      await fc.assert(
        fc.asyncProperty(arrivals, async (requests) => {
          const pool = narrow({ config: { queuePolicy } });
          pool.submit('first', promptTokens(ISL, 999));
          const waiting: Record<string, Submitted> = {};
          const expected: { id: string; tier: number; key: number; at: number }[] = [];
          for (const [at, { tokens, jump, tier }] of requests.entries()) {
            await pool.clock.advance(1000);
            const id = `r${at}`;
            const prompt = promptTokens(16 * tokens, at);
            waiting[id] = pool.submit(id, prompt, { priorityJump: jump, strictPriority: tier });
            expected.push({ id, tier, at, key: queueKey(queuePolicy, at + 1, jump, prompt.length) });
          }
          expected.sort((a, b) => b.tier - a.tier || b.key - a.key || a.at - b.at);
          expect(drainOrder(pool, 'first', waiting)).toEqual(expected.map(({ id }) => id));
        }),
        { numRuns: 40 },
      );
    },
  );

  it('puts tier 1 before any jump (case 35)', () => {
    for (const queuePolicy of ['fcfs', 'lcfs', 'wspt'] as const) {
      const pool = narrow({ config: { queuePolicy } });
      pool.submit('first', promptTokens(ISL, 9));
      const jumping = pool.submit('jumping', promptTokens(16, 1), { priorityJump: 1000 });
      const tiered = pool.submit('tiered', promptTokens(640, 2), { strictPriority: 1 });
      expect(jumping.ticket.position).toBe(1);
      pool.scheduler.free('first');
      expect([jumping.decision, tiered.decision].map((decision) => decision?.requestId)).toEqual([undefined, 'tiered']);
    }
  });

  it('counts what some worker has cached of a prompt as done under wspt', () => {
    const pool = narrow({ config: { queuePolicy: 'wspt' } });
    pool.store('a', promptTokens(800, 2));
    pool.submit('first', promptTokens(ISL, 9));
    const short = pool.submit('short', promptTokens(160, 1));
    const cached = pool.submit('cached', promptTokens(816, 2));
    pool.scheduler.free('first');
    expect([short.decision, cached.decision?.workerId]).toEqual([undefined, 'a']);
  });
});

describe('a waiting request', () => {
  it('that is cancelled leaves no load and no place (case 32)', () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    const second = pool.submit('r2', promptTokens(ISL, 2));
    const third = pool.submit('r3', promptTokens(ISL, 3));
    expect(third.ticket.position).toBe(1);
    second.ticket.cancel();
    second.ticket.cancel();
    expect(third.ticket.position).toBe(0);
    pool.scheduler.free('r1');
    expect([second.decision, second.error]).toEqual([undefined, undefined]);
    expect(third.decision).toBeDefined();
    expect(pool.loadOf('a')).toMatchObject({ activeRequests: 1, activePrefillTokens: ISL });
  });

  it('fails at its deadline, when time or a free worker shows it', async () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    const deadlineMs = pool.clock.nowMs() + 100;
    const timed = pool.submit('r2', promptTokens(ISL, 2), { deadlineMs });
    expect(pool.scheduler.nextTickMs).toBe(deadlineMs);
    await pool.clock.advance(100);
    pool.scheduler.tick();
    expect(failureOf(timed)?.kind).toBe('DeadlineExceeded');
    expect(timed.error?.code).toBe('deadline_exceeded');
    expect(pool.scheduler.pendingRequests).toBe(0);
  });

  it('fails when the router shuts down, like later requests', () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    const waiting = pool.submit('r2', promptTokens(ISL, 2));
    pool.scheduler.close();
    expect(failureOf(waiting)?.kind).toBe('SubscriberShutdown');
    expect(failureOf(pool.submit('r3', promptTokens(16, 3)))?.kind).toBe('SubscriberShutdown');
  });

  it('must not wait when it says so', () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    pool.submit('r2', promptTokens(ISL, 2));
    expect(failureOf(pool.submit('r3', promptTokens(16, 3), { mayWait: false }))).toEqual({
      kind: 'DoNotQueue',
      policyClass: 'default',
      pendingRequests: 1,
      pendingPromptTokens: ISL,
      pendingCachedTokens: 0,
    });
  });

  it('gets a new look-up of its overlap after ten seconds, not before', async () => {
    const late = async (waitMs: number) => {
      const pool = narrow({ workers: [worker('a', { maxNumBatchedTokens: ISL })] });
      pool.submit('r1', promptTokens(ISL, 1));
      const waiting = pool.submit('r2', promptTokens(ISL, 2));
      pool.store('a', promptTokens(ISL, 2));
      await pool.clock.advance(waitMs);
      pool.scheduler.free('r1');
      return waiting.decision;
    };
    expect(await late(10_000)).toMatchObject({ cachedTokens: 0, waitedMs: 10_000 });
    expect(await late(10_001)).toMatchObject({ cachedTokens: 992 });
  });

  it('does not take the blocks of a worker that is gone for those of another with its number', () => {
    const pool = narrow();
    pool.store('a', promptTokens(ISL, 2));
    pool.submit('r1', promptTokens(ISL, 1));
    const waiting = pool.submit('r2', promptTokens(ISL, 2));
    pool.scheduler.setWorkers([worker('b', { maxNumBatchedTokens: ISL })]);
    expect(waiting.decision).toMatchObject({ workerId: 'b', cachedTokens: 0 });
  });

  it('may submit another from its callback, without confusing the queue', () => {
    const pool = narrow();
    pool.submit('r1', promptTokens(ISL, 1));
    const told: string[] = [];
    for (const id of ['r2', 'r3']) {
      pool.scheduler.submit(pool.request(id, promptTokens(ISL, 7)), {
        decided: ({ requestId }) => {
          told.push(requestId);
          pool.scheduler.free(requestId);
        },
        rejected: () => {},
      });
    }
    pool.scheduler.free('r1');
    expect(told).toEqual(['r2', 'r3']);
    expect(pool.scheduler.activeRequests).toBe(0);
  });
});

describe('limits', () => {
  const rejectionOf = (submitted: Submitted) => {
    const failure = failureOf(submitted);
    return failure?.kind === 'QueueRejected' ? failure : undefined;
  };

  it('let in the request that crosses them and turn away the next', () => {
    const policies = parsePolicyConfig(`
default_policy_family: all
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes:
  - name: main
    policy_family: all
    cache_bucket: any
    quantum: 100
    prefill_busy_threshold: 0
    raw_isl_token_queue_limit_per_worker: 1500
`).root;
    const pool = narrow({ policies });
    pool.submit('r1', promptTokens(ISL, 1));
    for (const id of ['r2', 'r3']) expect(pool.submit(id, promptTokens(ISL, 2)).error).toBeUndefined();
    const refused = pool.submit('r4', promptTokens(ISL, 4));
    expect(rejectionOf(refused)).toEqual({
      kind: 'QueueRejected',
      policyClass: 'main',
      limit: 'raw_isl_token_limit',
      current: 2000,
      max: 1500,
    });
    expect(refused.error?.code).toBe('server_overloaded');
  });

  it('of the older table apply to the tokens that no worker has cached, and grow with the workers', () => {
    const queueByIncomingMissingIsl = [
      { missingTokensFloor: 0, tokensPerWorkerMax: 4000 },
      { missingTokensFloor: 500, tokensPerWorkerMax: 1000 },
    ];
    const pool = narrow({
      policies: singleClass({ ...defaultKvRouterConfig, queueThreshold: 0, queueByIncomingMissingIsl }),
    });
    pool.submit('r1', promptTokens(ISL, 1));
    expect(pool.submit('r2', promptTokens(ISL, 2)).error).toBeUndefined();
    expect(rejectionOf(pool.submit('r3', promptTokens(ISL, 3)))).toMatchObject({ current: 1000, max: 1000 });
    expect(pool.submit('r4', promptTokens(400, 4)).error).toBeUndefined();
  });

  it('bound the queue in any case', () => {
    const pool = narrow({ config: { queuedRequestsMax: 2 } });
    pool.submit('r1', promptTokens(ISL, 1));
    for (const id of ['r2', 'r3']) pool.submit(id, promptTokens(16, 2));
    expect(rejectionOf(pool.submit('r4', promptTokens(16, 3)))).toMatchObject({ limit: 'request_limit', max: 2 });
  });
});

describe('policy classes', () => {
  const yaml = `
default_policy_family: standard
uncached_isl_buckets:
  - { min_tokens: 0, bucket: cached }
  - { min_tokens: 300, bucket: uncached }
policy_classes:
  - { name: short, policy_family: standard, cache_bucket: cached, queue_policy: wspt, quantum: 400, prefill_busy_threshold: 0 }
  - { name: long, policy_family: standard, cache_bucket: uncached, queue_policy: fcfs, quantum: 100, prefill_busy_threshold: 0 }
  - { name: direct, queue_policy: fcfs, quantum: 100, prefill_busy_threshold: 0 }
router: { prefill_load_scale: 2 }
models:
  big/model:
    default_policy_family: only
    uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
    policy_classes: [{ name: one, policy_family: only, cache_bucket: any, quantum: 1 }]
`;

  it('are found by family and by the tokens that no worker has cached, or by the name of an explicit class', () => {
    const { root, models, settings } = parsePolicyConfig(yaml);
    const nameOf = (asked: string | undefined, missing: number) =>
      root?.classes[root.classOf(asked, () => missing)]?.name;
    expect([nameOf(undefined, 0), nameOf(undefined, 299), nameOf('standard', 300)]).toEqual(['short', 'short', 'long']);
    expect([nameOf('direct', 5000), nameOf('long', 0), nameOf('unknown', 400)]).toEqual(['direct', 'short', 'long']);
    expect(models.get('big/model')?.classes.map(({ name }) => name)).toEqual(['one']);
    expect(settings).toEqual({ prefillLoadScale: 2 });
  });

  it('share service by their quanta: four times the tokens for four times the quantum', () => {
    const pool = narrow({ policies: parsePolicyConfig(yaml).root });
    pool.submit('first', promptTokens(ISL, 999));
    const waiting: Record<string, Submitted> = {};
    for (let at = 0; at < 40; at++) waiting[`short-${at}`] = pool.submit(`short-${at}`, promptTokens(200, at));
    for (let at = 0; at < 40; at++) waiting[`long-${at}`] = pool.submit(`long-${at}`, promptTokens(400, 100 + at));
    const order = drainOrder(pool, 'first', waiting);
    expect(order).toHaveLength(80);
    const head = order.slice(0, 27); // both classes have requests left all along
    const tokens = (name: string, each: number) => each * head.filter((id) => id.startsWith(name)).length;
    expect(tokens('short', 200) / tokens('long', 400)).toBeCloseTo(4, 0);
  });

  it('do not hold each other back', () => {
    const workers = [worker('a', { taints: ['x'] }), worker('b', { taints: ['y'] })];
    const pool = narrow({ policies: parsePolicyConfig(yaml).root, workers });
    const on = (taint: string) => ({ constraints: { required_taints: [taint] } });
    pool.submit('r1', promptTokens(ISL, 1), on('x'));
    pool.submit('r2', promptTokens(ISL, 2), on('y'));
    const stuck = pool.submit('stuck', promptTokens(ISL, 3), on('x'));
    const free = pool.submit('free', promptTokens(100, 4), on('y'));
    pool.scheduler.free('r2');
    expect([stuck.decision, free.decision?.workerId]).toEqual([undefined, 'b']);
  });

  it.each([
    ['policy_classes: [{ name: a, quantum: 0 }]', 'policy_classes.0.quantum'],
    ['unknown_key: 1', 'unknown_key'],
    [
      'policy_classes: [{ name: a, quantum: 1, policy_family: f }]',
      'uncached_isl_buckets must start with min_tokens 0',
    ],
    [
      'uncached_isl_buckets: [{ min_tokens: 0, bucket: b }]\npolicy_classes: [{ name: a, quantum: 1, policy_family: f }]',
      'a needs both a policy_family and a cache_bucket',
    ],
    [
      'uncached_isl_buckets: [{ min_tokens: 0, bucket: b }]\npolicy_classes: [{ name: a, quantum: 1, policy_family: f, cache_bucket: b }]',
      'default_policy_family must be one of f',
    ],
    ['worker_selection: { aggregated: mine }', 'worker_selection.aggregated must be default'],
    ['router: { nonsense: 1 }', 'nonsense is not a field'],
    ['a: [', 'is not YAML'],
  ])('are refused with the reason: %s', (text, reason) => {
    expect(() => parsePolicyConfig(text)).toThrow(reason);
  });
});

describe('the queue of the cost model stator', () => {
  const stator = { costModel: 'stator', queueThreshold: 'auto' } as const;

  it('is empty if there are as many routers as workers, which do not hear of each other’s waiting requests', () => {
    const waits = (routers: number, config: object = stator) => {
      const share = { isOwn: () => true, routers };
      const pool = narrow({ config, workers: [worker('a'), worker('b')], share });
      for (let at = 0; at < 2; at++) pool.submit(`x${at}`, promptTokens(8000, at));
      return pool.submit('r', promptTokens(8000, 3)).ticket.isWaiting;
    };
    expect([waits(1), waits(2), waits(3)]).toEqual([true, false, false]);
    const bounded = { ...stator, queueThreshold: 0 };
    expect([waits(1, bounded), waits(3, bounded)]).toEqual([true, true]);
  });

  it('sends while some eligible worker is idle, to the cheapest one, idle or not', () => {
    const pool = narrow({ config: stator, workers: [worker('a'), worker('b')] });
    pool.store('a', promptTokens(16_000, 5));
    pool.submit('r1', promptTokens(1600, 1), { pinned: { workerId: 'a' } });
    expect(pool.submit('r2', promptTokens(16_016, 5)).decision?.workerId).toBe('a'); // b is idle, a has it cached
    pool.submit('r3', promptTokens(1600, 3), { pinned: { workerId: 'b' } });
    expect(pool.submit('r4', promptTokens(1600, 4)).decision).toBeUndefined();
  });

  it('lets short prompts share passes: they wait only if the backlog would reach 2,000 tokens', () => {
    const pool = narrow({ config: stator });
    const sent = Array.from({ length: 30 }, (_, at) => pool.submit(`r${at}`, promptTokens(96, at)));
    expect(sent.filter(({ decision }) => decision !== undefined)).toHaveLength(20); // 20 × 96 = 1,920
    pool.scheduler.prefillDone('r0');
    expect(sent.filter(({ decision }) => decision !== undefined)).toHaveLength(21);
  });

  it('lets a long prompt go to a worker whose prefill is nearly over, but no shorter one', async () => {
    const sentAfter = async (ms: number, tokens: number) => {
      const pool = narrow({ config: stator });
      pool.submit('r1', promptTokens(20_000, 1));
      await pool.clock.advance(ms);
      return pool.submit('r2', promptTokens(tokens, 2)).decision !== undefined;
    };
    const nearlyOverMs = 0.0207 * 19_200; // 800 tokens are left
    expect(await sentAfter(nearlyOverMs, 9600)).toBe(true);
    expect(await sentAfter(nearlyOverMs, 6400)).toBe(false);
    expect(await sentAfter(0.0207 * 18_800, 32_000)).toBe(false); // 1,200 tokens are left
  });

  const bounded = (bound: string) =>
    parsePolicyConfig(`
default_policy_family: all
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes:
  - { name: main, policy_family: all, cache_bucket: any, quantum: 100 }
  - { name: batch, quantum: 100, ${bound} }
`).root;

  it.each(['prefill_busy_threshold: 0', 'prefill_busy_threshold_frac: 0'])(
    'keeps the bound of a policy class: with %s no request goes to a worker whose prompt is not done',
    async (bound) => {
      const pool = narrow({ config: stator, policies: bounded(bound) });
      pool.submit('first', promptTokens(96, 1), { policyClass: 'batch' });
      const second = pool.submit('second', promptTokens(96, 2), { policyClass: 'batch' });
      expect(second.decision).toBeUndefined(); // however short
      await pool.clock.advance(60_000);
      pool.scheduler.tick();
      expect(second.decision).toBeUndefined(); // however long ago it should have been over
      expect(pool.submit('other', promptTokens(96, 3)).decision).toBeDefined();
      for (const id of ['first', 'other']) pool.scheduler.prefillDone(id);
      expect(second.decision).toBeDefined();
    },
  );

  it('sends the requests of a class with a bound of its own up to that bound, idle worker or not', () => {
    const pool = narrow({ config: stator, policies: bounded('prefill_busy_threshold: 5000') });
    const sent = Array.from({ length: 4 }, (_, at) =>
      pool.submit(`r${at}`, promptTokens(3000, at), { policyClass: 'batch' }),
    );
    expect(sent.map(({ decision }) => decision !== undefined)).toEqual([true, true, false, false]);
  });

  it.each([
    ['fcfs', ['long', 'short', 'middle']],
    ['lcfs', ['middle', 'short', 'long']],
    ['wspt', ['short', 'middle', 'long']],
  ] as const)('keeps the configured order: %s', async (queuePolicy, order) => {
    const pool = narrow({ config: { ...stator, queuePolicy } });
    pool.submit('r1', promptTokens(100_000, 1));
    const long = pool.submit('long', promptTokens(5600, 2));
    await pool.clock.advance(500);
    const short = pool.submit('short', promptTokens(4160, 3));
    await pool.clock.advance(500);
    const middle = pool.submit('middle', promptTokens(4640, 4));
    expect(drainOrder(pool, 'r1', { long, short, middle })).toEqual(order);
  });

  it('keeps a threshold that is set: requests go to a busy worker up to it, and no further', () => {
    const pool = narrow({
      config: { ...stator, queueThreshold: 1 },
      workers: [worker('a', { maxNumBatchedTokens: 5000 })],
    });
    const sent = Array.from({ length: 4 }, (_, at) => pool.submit(`r${at}`, promptTokens(3000, at)));
    expect(sent.map(({ decision }) => decision !== undefined)).toEqual([true, true, false, false]);
  });

  it('keeps the order of a policy class', () => {
    const pool = narrow({ config: stator, policies: bounded('prefill_busy_threshold: 0, queue_policy: fcfs') });
    const more = { policyClass: 'batch' };
    pool.submit('r1', promptTokens(100_000, 1), more);
    const long = pool.submit('long', promptTokens(5600, 2), more);
    const short = pool.submit('short', promptTokens(4160, 3), more);
    expect(drainOrder(pool, 'r1', { long, short })).toEqual(['long', 'short']);
  });

  it('opens when a prefill should be over, before its first token is seen', async () => {
    const pool = narrow({ config: stator });
    pool.submit('r1', promptTokens(2000, 1));
    const waiting = pool.submit('r2', promptTokens(1600, 2));
    const dueMs = pool.scheduler.nextTickMs!;
    expect(dueMs).toBeCloseTo(41.4, 1);
    await pool.clock.advance(dueMs);
    pool.scheduler.tick();
    expect(waiting.decision).toBeDefined();
    expect(pool.scheduler.nextTickMs).toBeUndefined();
  });

  it('takes the request with the least to compute, and waiting makes up for length', async () => {
    const pool = narrow({ config: stator });
    pool.submit('r1', promptTokens(100_000, 1));
    const long = pool.submit('long', promptTokens(5600, 2));
    await pool.clock.advance(250); // worth 0.15 × 250 / 0.0207 = 1,812 tokens
    const short = pool.submit('short', promptTokens(3520, 3));
    const middle = pool.submit('middle', promptTokens(4160, 4));
    expect([long, short, middle].map(({ ticket }) => ticket.position)).toBeDefined();
    expect(drainOrder(pool, 'r1', { long, short, middle })).toEqual(['short', 'long', 'middle']);
  });

  it('keeps that order in a long line, too', async () => {
    const pool = narrow({ config: stator });
    pool.submit('running', promptTokens(100_000, 1));
    const waiting: Record<string, Submitted> = {};
    const urgency: Record<string, number> = {};
    for (let at = 0; at < 200; at++) {
      const tokens = 2100 + 16 * ((at * 37) % 101);
      waiting[`r${at}`] = pool.submit(`r${at}`, promptTokens(tokens, at + 2));
      urgency[`r${at}`] = (-0.15 / 0.0207) * pool.clock.nowMs() - tokens;
      await pool.clock.advance(7);
    }
    const expected = Object.keys(urgency).sort((a, b) => urgency[b]! - urgency[a]!);
    expect(drainOrder(pool, 'running', waiting)).toEqual(expected);
  });

  it('gives an idle worker a prompt that it has cached, before a shorter one that a busy worker has cached', () => {
    const pool = narrow({ config: stator, workers: [worker('a'), worker('b')] });
    const [onA, onB] = [promptTokens(16_000, 5), promptTokens(16_000, 6)];
    pool.store('a', onA);
    pool.store('b', onB);
    pool.submit('r1', promptTokens(60_000, 1), { pinned: { workerId: 'a' } });
    pool.submit('r2', promptTokens(60_000, 2), { pinned: { workerId: 'b' } });
    const forA = pool.submit('forA', Uint32Array.from([...onA, ...promptTokens(2400, 7)]));
    const forB = pool.submit('forB', Uint32Array.from([...onB, ...promptTokens(4000, 8)]));
    expect([forA, forB].map(({ decision }) => decision)).toEqual([undefined, undefined]);
    pool.scheduler.free('r2');
    expect(forB.decision?.workerId).toBe('b');
    expect(forA.decision).toBeUndefined();
    pool.scheduler.free('r1');
    expect(forA.decision?.workerId).toBe('a');
  });

  it('does not hold a request back for a worker with a long backlog, even if it has the prompt cached', () => {
    const pool = narrow({ config: stator, workers: [worker('a'), worker('b')] });
    const onA = promptTokens(3200, 5);
    pool.store('a', onA);
    pool.submit('r1', promptTokens(60_000, 1), { pinned: { workerId: 'a' } });
    pool.submit('r2', promptTokens(60_000, 2), { pinned: { workerId: 'b' } });
    const cached = pool.submit('cached', Uint32Array.from([...onA, ...promptTokens(2400, 7)]));
    const other = pool.submit('other', promptTokens(6400, 8));
    pool.scheduler.free('r2');
    expect(cached.decision?.workerId).toBe('b');
    expect(other.decision).toBeUndefined();
  });

  it('keeps the request with the least to compute first while no worker is idle', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    const pool = narrow({ config: stator, workers: ids.map((id) => worker(id)) });
    const onA = promptTokens(16_000, 5);
    pool.store('a', onA);
    for (const [at, workerId] of ids.entries()) {
      pool.submit(`r${at}`, promptTokens(workerId === 'b' ? 20_000 : 60_000, 10 + at), { pinned: { workerId } });
    }
    const cached = pool.submit('cached', Uint32Array.from([...onA, ...promptTokens(2400, 7)]));
    const long = pool.submit('long', promptTokens(8000, 8));
    await pool.clock.advance(19_350 * 0.0207); // at b, 650 tokens are left: a tenth of the long one is more
    const leaving = pool.submit('leaving', promptTokens(16, 9), { pinned: { workerId: 'a' } });
    leaving.ticket.cancel();
    pool.scheduler.free('leaving');
    expect([cached, long].map(({ decision }) => decision)).toEqual([undefined, undefined]);
  });

  it('sends a worker its next prompt before it is idle if more of them wait for long', async () => {
    const play = async (waiting: number, secs: number): Promise<number> => {
      const pool = narrow({ config: stator });
      pool.submit('running', promptTokens(300_000, 1));
      await pool.clock.advance(292_500 * 0.0207 - 1000 * secs); // when all have waited, 7,500 tokens are left
      for (let at = 0; at < waiting; at++) pool.submit(`r${at}`, promptTokens(4000, at + 2));
      await pool.clock.advance(1000 * secs);
      pool.submit('leaving', promptTokens(16, 50)).ticket.cancel();
      return pool.decided.filter((id) => /^r\d/.test(id)).length;
    };
    expect(await play(1, 6)).toBe(0);
    expect(await play(3, 6)).toBe(0);
    expect(await play(10, 6)).toBe(1); // then it has more than a pass to compute
    expect(await play(10, 0.2)).toBe(0);
  });

  it('keeps a higher tier first, whatever is cached where', () => {
    const pool = narrow({ config: stator, workers: [worker('a'), worker('b')] });
    const onB = promptTokens(16_000, 6);
    pool.store('b', onB);
    pool.submit('r1', promptTokens(60_000, 1), { pinned: { workerId: 'a' } });
    pool.submit('r2', promptTokens(60_000, 2), { pinned: { workerId: 'b' } });
    const cached = pool.submit('cached', Uint32Array.from([...onB, ...promptTokens(2400, 7)]));
    const first = pool.submit('first', promptTokens(16_000, 8), { strictPriority: 1 });
    pool.scheduler.free('r2');
    expect(first.decision?.workerId).toBe('b');
    expect(cached.decision).toBeUndefined();
  });

  it('notices in a long line, too, that a prompt is cached by now', async () => {
    const pool = narrow({ config: stator });
    pool.submit('running', promptTokens(100_000, 1));
    const waiting: Record<string, Submitted> = {};
    for (let at = 0; at < 200; at++) waiting[`r${at}`] = pool.submit(`r${at}`, promptTokens(4000, at + 2));
    const longest = pool.submit('longest', promptTokens(32_000, 999));
    pool.store('a', promptTokens(32_000, 999));
    await pool.clock.advance(60);
    const order = drainOrder(pool, 'running', { longest, ...waiting });
    expect(order).toHaveLength(201);
    expect(order.indexOf('longest')).toBeLessThan(30);
  });
});
