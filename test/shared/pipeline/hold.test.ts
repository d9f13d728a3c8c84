import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../shared/clock/index.ts';
import type { ServeError } from '../../../shared/errors/index.ts';
import { Hold } from '../../../shared/pipeline/index.ts';

function holdBed({ timeoutMs = 60_000, requestsMax = 3 } = {}) {
  const clock = new VirtualClock();
  const log: string[] = [];
  const ready = new Map<string, object>();
  const hold = new Hold({
    clock,
    timeoutMs,
    requestsMax,
    observer: {
      holding: (model, count) => void log.push(`${model} holding ${count}`),
      wanted: (model, count, oldestAtMs) => void log.push(`${model} wanted ${count} since ${oldestAtMs}`),
      held: (model, outcome, waitedMs) => void log.push(`${model} ${outcome} ${waitedMs}`),
    },
  });
  const served: string[] = [];
  const ask = (name: string, model = 'm') => {
    const client = new AbortController();
    const failure: Promise<ServeError | undefined> = hold
      .until(model, () => ready.get(model), client.signal)
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
    ready.set('m', {});
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
    await expect(hold.until('m', () => ({}), gone.signal)).rejects.toThrow('gone');
    const { client, failure } = ask('one');
    client.abort(new Error('gone'));
    expect(await failure).toMatchObject({ message: 'gone' });
    expect(log).toContain('m cancelled 0');
    ready.set('m', {});
    hold.look();
    expect(served).toEqual([]);
    expect(hold.count).toBe(0);
  });
});
