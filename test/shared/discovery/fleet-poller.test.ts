import { beforeEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { FleetPoller, type ReadingRequest } from '../../../shared/discovery/dynamodb/fleet-poller.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const POLL_MS = 1000;

/** A reading that was asked for and is answered by the test. */
interface Asked {
  readonly request: ReadingRequest;
  readonly signal: AbortSignal;
  answer(): void;
  fail(error: Error): void;
}

class Interruption extends Error {}

let clock: VirtualClock;
let poller: FleetPoller;
let asked: Asked[];
let failures: string[];
let shards: ReadonlySet<string>;

beforeEach(async () => {
  clock = new VirtualClock();
  asked = [];
  failures = [];
  shards = new Set(['here']);
  poller = new FleetPoller({
    clock,
    random: seededRandom(3),
    periodMs: () => POLL_MS,
    read: (request, signal) =>
      new Promise((resolve, reject) => {
        asked.push({ request, signal, answer: resolve, fail: reject });
        signal.addEventListener('abort', () => reject(signal.reason));
      }),
    covers: (shardKey) => shardKey === undefined || shards.has(shardKey),
    explain: (error) => (error instanceof Interruption ? undefined : (error as Error)),
    onFailing: ({ message }) => failures.push(message),
  });
  poller.start();
  const first = poller.readOnce({ isExact: true, shardKey: undefined }, new AbortController().signal);
  asked.shift()?.answer();
  await first;
});

/** A refresh with what became of it so far. */
function refresh(maxAgeMs: number, signal = new AbortController().signal, shardKey?: string) {
  const call = { outcome: 'waiting', promise: poller.refresh(maxAgeMs, shardKey, signal) };
  call.promise.then(
    () => {
      call.outcome = 'done';
    },
    (error: Error) => {
      call.outcome = error.message;
    },
  );
  return call;
}

/** Time passes without any timer firing, as in a frozen process; they are all due afterwards. */
function standStill(ms: number): void {
  const [nowMs, wallMs] = [clock.nowMs.bind(clock), clock.wallMs.bind(clock)];
  clock.nowMs = () => nowMs() + ms;
  clock.wallMs = () => wallMs() + ms;
}

describe('a refresh', () => {
  it('is over at once while what is shown is recent enough', async () => {
    await clock.advance(500);
    await refresh(500).promise;
    expect(asked).toHaveLength(0);
  });

  it('reads when what is shown is older, and polls on from there', async () => {
    await clock.advance(500);
    const call = refresh(499);
    await clock.advance(0);
    expect(call.outcome).toBe('waiting');
    asked[0]?.answer();
    await clock.advance(0);
    expect(call.outcome).toBe('done');
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(0.89 * POLL_MS);
    expect(asked).toHaveLength(1);
    await clock.advance(0.21 * POLL_MS);
    expect(asked).toHaveLength(2);
  });

  it('shares one reading with everyone who asks meanwhile, and with the poll', async () => {
    await clock.advance(1.1 * POLL_MS);
    const calls = [refresh(300), refresh(1000), refresh(300)];
    await clock.advance(3);
    expect(asked).toHaveLength(1); // the poll's
    asked[0]?.answer();
    await clock.advance(0);
    expect(calls.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done']);
  });

  it('counts the age of what is shown from when its reading began', async () => {
    const first = refresh(-1);
    await clock.advance(300);
    asked[0]?.answer();
    await first.promise;
    const second = refresh(200);
    await clock.advance(0);
    expect([second.outcome, asked.length]).toEqual(['waiting', 2]);
  });

  it('with no age at all is an exact one, and uses neither an earlier reading nor the view', async () => {
    await clock.advance(1.1 * POLL_MS);
    expect(asked.map(({ request }) => request.isExact)).toEqual([false]);
    const call = refresh(0);
    await clock.advance(0);
    expect(asked.map(({ request, signal }) => [request.isExact, signal.aborted])).toEqual([
      [false, true],
      [true, false],
    ]);
    asked[1]?.answer();
    await clock.advance(0);
    expect(call.outcome).toBe('done');
  });

  it('reads for another part of the fleet than is shown', async () => {
    await clock.advance(100);
    await refresh(500, undefined, 'here').promise;
    expect(asked).toHaveLength(0);
    const there = refresh(500, undefined, 'there');
    await clock.advance(0);
    expect(asked.map(({ request }) => request.shardKey)).toEqual(['there']);
    asked[0]?.answer();
    await clock.advance(0);
    expect(there.outcome).toBe('done');
  });

  it('believes the wall clock when the monotonic one stood still', async () => {
    const { wallMs } = clock;
    clock.wallMs = () => wallMs.call(clock) + 60_000;
    const call = refresh(1000);
    await clock.advance(0);
    expect([call.outcome, asked.length]).toEqual(['waiting', 1]);
  });
});

describe('a refresh after the process stood still', () => {
  it('gives up the reading from before, without a word, and reads anew', async () => {
    await clock.advance(1.1 * POLL_MS);
    standStill(3_600_000);
    const call = refresh(1000);
    await clock.advance(0);
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    asked[1]?.answer();
    await clock.advance(0);
    expect([call.outcome, failures]).toEqual(['done', []]);
    expect(clock.pendingTimers).toBe(1);
  });

  it('reads again when the reading from before fails as interrupted, which is no outage', async () => {
    await clock.advance(1.1 * POLL_MS);
    standStill(1500);
    const call = refresh(2000);
    asked[0]?.fail(new Interruption());
    await clock.advance(50);
    asked[1]?.answer();
    await clock.advance(0);
    expect([call.outcome, failures, poller.isFailing]).toEqual(['done', [], false]);
  });
});

describe('a refresh while the table is unreachable', () => {
  it('repeats the reading until it works', async () => {
    const call = refresh(-1);
    asked[0]?.fail(new Error('a dead connection'));
    await clock.advance(25);
    asked[1]?.fail(new Error('another'));
    await clock.advance(50);
    expect(poller.isFailing).toBe(true);
    asked[2]?.answer();
    await clock.advance(0);
    expect([call.outcome, poller.isFailing]).toEqual(['done', false]);
    expect(failures).toEqual(['a dead connection', 'another']);
  });

  it('ends with its signal, and leaves the reading to others', async () => {
    const impatient = new AbortController();
    const calls = [refresh(-1, impatient.signal), refresh(-1)];
    await clock.advance(0);
    impatient.abort(new Error('no time'));
    await clock.advance(0);
    expect(calls.map(({ outcome }) => outcome)).toEqual(['no time', 'waiting']);
    expect(asked.at(-1)?.signal.aborted).toBe(false);
    asked.at(-1)?.answer();
    await clock.advance(100);
    expect(calls[1]?.outcome).toBe('done');
  });

  it('does not wait for what has failed a moment ago', async () => {
    const impatient = new AbortController();
    refresh(-1, impatient.signal);
    asked[0]?.fail(new Error('away'));
    await clock.advance(0);
    impatient.abort(new Error('no time'));
    await clock.advance(1000);
    expect(refresh(1000).outcome).toBe('waiting'); // not yet told
    await clock.advance(0);
    expect(asked).toHaveLength(1);
    const late = refresh(999);
    await clock.advance(0);
    expect([late.outcome, asked.length]).toEqual(['waiting', 2]);
  });
});

describe('an exact reading', () => {
  it('waits for the one under way to end, and for none that another one asked for meanwhile', async () => {
    await clock.advance(1.1 * POLL_MS);
    const outcome = poller.readOnce({ isExact: true, shardKey: undefined }, new AbortController().signal);
    const other = poller.readOnce({ isExact: true, shardKey: undefined }, new AbortController().signal);
    await clock.advance(0);
    expect(asked).toHaveLength(1);
    asked[0]?.answer();
    await clock.advance(0);
    expect(asked.map(({ request }) => request.isExact)).toEqual([false, true]);
    asked[1]?.fail(new Error('away'));
    await expect(outcome).rejects.toThrow('away');
    await expect(other).rejects.toThrow('away');
  });
});

describe('a closed poller', () => {
  it('aborts its reading, calls no listener and leaves no timer', async () => {
    await clock.advance(1.1 * POLL_MS);
    poller.close();
    await clock.advance(10 * POLL_MS);
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true]);
    expect([failures, clock.pendingTimers]).toEqual([[], 0]);
  });
});
