import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ServeError } from '../../../../shared/errors/index.ts';
import { ColdStartQueue } from '../../../../shared/pipeline/index.ts';
import type { WorkerCapacity } from '../../../../shared/pipeline/run/cold-start-queue.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

function holdBed({
  timeoutMs = 60_000,
  requestsMax = 3,
  ...more
}: Partial<ConstructorParameters<typeof ColdStartQueue>[0]> = {}) {
  const clock = new VirtualClock();
  const log: string[] = [];
  const ready = new Map<string, WorkerCapacity>();
  const hold = new ColdStartQueue({
    clock,
    timeoutMs,
    requestsMax,
    ...more,
    observer: {
      holding: (model, count) => void log.push(`${model} holding ${count}`),
      wanted: (model, count, oldestAtMs) => void log.push(`${model} wanted ${count} since ${oldestAtMs}`),
      held: (model, outcome, waitedMs) => void log.push(`${model} ${outcome} ${waitedMs}`),
    },
  });
  const served: string[] = [];
  const ask = (name: string, model = 'm', isStream = true) => {
    const client = new AbortController();
    const failure: Promise<ServeError | undefined> = hold
      .until({ model, isStream, find: () => ready.get(model), holder: client }, client.signal)
      .then(
        () => void served.push(name),
        (error: ServeError) => error,
      );
    return { client, failure };
  };
  return { clock, hold, log, ready, served, ask };
}

describe('requests without a worker', () => {
  it('wait until one is there, and go on oldest first', async () => {
    const { clock, hold, log, ready, served, ask } = holdBed();
    const asked = [ask('first'), ask('second'), ask('third')];
    await clock.advance(1500);
    hold.look();
    expect(served).toEqual([]);
    ready.set('m', { capacity: 8 });
    hold.look();
    await Promise.all(asked.map(({ failure }) => failure));
    expect(served).toEqual(['first', 'second', 'third']);
    expect(log.slice(-6)).toEqual([
      'm holding 2',
      'm served 1500',
      'm holding 1',
      'm served 1500',
      'm holding 0',
      'm served 1500',
    ]);
    expect(hold.count).toBe(0);
  });

  it('ask for a worker at once, then every five seconds while any waits', async () => {
    const { clock, log, ask } = holdBed();
    const startMs = clock.wallMs();
    const { client, failure } = ask('one');
    await clock.advance(2000);
    ask('two');
    await clock.advance(3000);
    client.abort(new Error('gone'));
    await failure;
    await clock.advance(5000);
    expect(log.filter((line) => line.includes('wanted'))).toEqual([
      `m wanted 1 since ${startMs}`,
      `m wanted 2 since ${startMs}`,
      `m wanted 1 since ${startMs + 2000}`,
    ]);
  });

  it('fail after the bound with 503, and ask for nothing more', async () => {
    const { clock, hold, log, ask } = holdBed({ timeoutMs: 12_000 });
    const { failure } = ask('one');
    await clock.advance(12_000);
    expect(await failure).toMatchObject({ code: 'service_unavailable', status: 503, retryAfterMs: 1000 });
    const lines = log.length;
    await clock.advance(60_000);
    expect(log).toHaveLength(lines);
    expect(log).toContain('m timeout 12000');
    expect(hold.count).toBe(0);
  });

  it('wait less where nothing is heard of their answer, and say when to try again', async () => {
    const { clock, log, ask } = holdBed({ timeoutMs: 870_000, unaryTimeoutMs: 280_000, requestsMax: 2 });
    const [unary, streamed] = [ask('unary', 'm', false), ask('streamed')];
    await clock.advance(100_000);
    expect(await ask('refused').failure).toMatchObject({ status: 503, retryAfterMs: 180_000 });
    await clock.advance(180_000);
    expect(await unary.failure).toMatchObject({ code: 'service_unavailable', retryAfterMs: 590_000 });
    expect(log).toContain('m timeout 280000');
    await clock.advance(590_000);
    expect(await streamed.failure).toMatchObject({ code: 'service_unavailable', status: 503 });
    expect(log).toContain('m timeout 870000');
  });

  it('wait no longer unstreamed than streamed', async () => {
    const { clock, ask } = holdBed({ timeoutMs: 10_000, unaryTimeoutMs: 280_000 });
    const { failure } = ask('unary', 'm', false);
    await clock.advance(10_000);
    expect(await failure).toMatchObject({ status: 503 });
  });

  it('are refused when too many wait for that model, with the time until a worker should be there', async () => {
    const { clock, log, ask } = holdBed({ requestsMax: 2 });
    ask('one');
    await clock.advance(20_000);
    ask('two');
    expect(await ask('three').failure).toMatchObject({ code: 'service_unavailable', retryAfterMs: 40_000 });
    expect(log).toContain('m refused 0');
    ask('other', 'n');
    expect(log).toContain('n holding 1');
  });

  it('are refused at once where none may wait, and leave nothing behind', async () => {
    const { clock, hold, log, ask } = holdBed({ requestsMax: 0 });
    expect(await ask('one').failure).toMatchObject({ status: 503 });
    await clock.advance(60_000);
    expect(log.filter((line) => line.includes('wanted'))).toEqual([]);
    expect(hold.count).toBe(0);
  });

  it('leave when their client does, before and while they wait', async () => {
    const { hold, log, ready, served, ask } = holdBed();
    const gone = new AbortController();
    gone.abort(new Error('gone'));
    await expect(hold.until({ model: 'm', find: () => ({ capacity: 1 }), holder: gone }, gone.signal)).rejects.toThrow(
      'gone',
    );
    const { client, failure } = ask('one');
    client.abort(new Error('gone'));
    expect(await failure).toMatchObject({ message: 'gone' });
    expect(log).toContain('m cancelled 0');
    ready.set('m', { capacity: 8 });
    hold.look();
    expect(served).toEqual([]);
    expect(hold.count).toBe(0);
  });
});

describe('requests that wait when a worker comes', () => {
  it('go on in order, no more at a time than it takes, and the next as soon as one is over', async () => {
    const { hold, ready, served, ask, clock } = holdBed({ requestsMax: 100 });
    const asked = Array.from({ length: 50 }, (_, at) => ask(`${at}`));
    ready.set('m', { capacity: 8 });
    hold.look();
    await clock.advance(1);
    expect(served).toEqual(Array.from({ length: 8 }, (_, at) => `${at}`));
    hold.look(); // discovery says something else
    await clock.advance(1);
    expect(served).toHaveLength(8);
    asked[3]?.client.abort(new Error('gone')); // one that had gone on
    hold.over(asked[5]?.client ?? {});
    hold.over(asked[5]?.client ?? {}); // told twice
    await clock.advance(1);
    expect(served.slice(8)).toEqual(['8', '9']);
    ready.set('m', { capacity: 16 }); // a second worker
    hold.look();
    await clock.advance(1);
    expect(served).toHaveLength(18);
  });

  it('make those who come later wait behind them', async () => {
    const { hold, ready, served, ask, clock } = holdBed({ requestsMax: 100 });
    const [first] = [ask('first'), ask('second')];
    ready.set('m', { capacity: 1 });
    hold.look();
    expect(hold.isHolding('m')).toBe(true);
    ask('late');
    await clock.advance(1);
    expect(served).toEqual(['first']);
    hold.over(first.client);
    await clock.advance(1);
    expect(served).toEqual(['first', 'second']);
    expect(hold.isHolding('m')).toBe(true);
  });

  it('go on after the bound although it is full: it has a queue of its own', async () => {
    const { hold, ready, served, log, ask, clock } = holdBed({ timeoutMs: 10_000 });
    ask('first');
    ask('second');
    await clock.advance(5000);
    ready.set('m', { capacity: 1 });
    hold.look();
    await clock.advance(4999);
    expect(served).toEqual(['first']);
    await clock.advance(1);
    expect(served).toEqual(['first', 'second']);
    expect(log).toContain('m served 10000');
    expect(hold.isHolding('m')).toBe(false);
  });

  it('are an overload when there is no room for one more to wait', async () => {
    const { hold, ready, ask } = holdBed({ requestsMax: 1 });
    ask('first');
    ready.set('m', { capacity: 1 });
    hold.look();
    ask('second');
    expect(await ask('third').failure).toMatchObject({ code: 'server_overloaded', status: 503 });
  });

  it('do not keep from going on those that wait for something else', async () => {
    const { hold, ready, served, ask } = holdBed();
    const lost = new AbortController();
    hold.until({ model: 'm', find: () => undefined, holder: lost }, lost.signal).catch(() => {}); // every worker has failed it
    ready.set('m', { capacity: 1 });
    await ask('other').failure;
    expect(served).toEqual(['other']);
    lost.abort(new Error('gone'));
    expect(hold.isHolding('m')).toBe(false);
  });

  it('never exceed what the workers take, whatever comes and goes', async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('ask' as const) }),
      fc.record({ kind: fc.constantFrom('over' as const, 'abort' as const), at: fc.nat(40) }),
      fc.record({ kind: fc.constant('places' as const), places: fc.integer({ min: 0, max: 5 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { hold, ready, served, ask, clock } = holdBed({ requestsMax: 1000, timeoutMs: 1e9 });
        const asked: ReturnType<typeof ask>[] = [];
        const gone = new Set<string>();
        let places = 0;
        for (const one of steps) {
          const before = new Set(served);
          if (one.kind === 'ask') asked.push(ask(`${asked.length}`));
          if (one.kind === 'abort' || one.kind === 'over') {
            const target = asked[one.at];
            if (target !== undefined && (one.kind === 'abort' || before.has(`${one.at}`))) gone.add(`${one.at}`);
            if (one.kind === 'abort') target?.client.abort(new Error('gone'));
            else if (target !== undefined) hold.over(target.client);
          }
          if (one.kind === 'places') {
            places = one.places;
            if (places === 0) ready.delete('m');
            else ready.set('m', { capacity: places });
            hold.look();
          }
          await clock.advance(0);
          const running = served.filter((name) => !gone.has(name));
          const isNew = running.some((name) => !before.has(name));
          if (isNew) expect(running.length).toBeLessThanOrEqual(places);
          const waits = asked.some((_, at) => !served.includes(`${at}`) && !gone.has(`${at}`));
          if (waits) expect(running.length).toBeGreaterThanOrEqual(places);
          expect(served.map(Number)).toEqual([...served.map(Number)].sort((a, b) => a - b));
        }
      }),
      { numRuns: 200 },
    );
  });
});
