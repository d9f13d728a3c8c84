import { beforeEach, describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../shared/clock/index.ts';
import { SnapshotPoller } from '../../../shared/discovery/dynamodb/snapshot-poller.ts';
import type { TableReading } from '../../../shared/discovery/dynamodb/table-reader.ts';
import { momentOf } from '../../../shared/discovery/moment.ts';
import { SnapshotWatcher } from '../../../shared/discovery/snapshot-watcher.ts';
import { endpointAt, Witness } from '../../contract/discovery/records.ts';

const POLL_MS = 1000;
const A = 'ns/backend/generate/a';
const B = 'ns/backend/generate/b';

/** A reading that the test answers. */
interface Asked {
  readonly signal: AbortSignal;
  answer(...paths: readonly string[]): void;
  fail(error: Error): void;
}

class Interruption extends Error {}

let clock: VirtualClock;
let asked: Asked[];
let sweeping: Promise<void>;
let poller: SnapshotPoller;
let witness: Witness;

beforeEach(() => {
  clock = new VirtualClock();
  asked = [];
  sweeping = Promise.resolve();
  poller = new SnapshotPoller({
    clock,
    random: seededRandom(1),
    pollMs: POLL_MS,
    read: (_scopes, signal) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        asked.push({ signal, answer: (...paths) => resolve(readingOf(paths)), fail: reject });
      }),
    explain: (error) => (error instanceof Interruption ? undefined : (error as Error)),
    onReading: () => sweeping,
    report: () => {},
  });
  witness = new Witness();
  const watcher = new SnapshotWatcher({ bucket: 'v1/instances', prefix: '' }, witness, () => {});
  poller.add(watcher, momentOf(clock));
});

function readingOf(paths: readonly string[]): TableReading {
  const texts = new Map(paths.map((path) => [path, JSON.stringify(endpointAt(path))]));
  return { texts: () => texts, dead: [], loads: new Map() };
}

/** A refresh with what became of it so far. */
function refresh(maxAgeMs: number, signal = new AbortController().signal) {
  const call = { outcome: 'waiting', promise: poller.refresh(maxAgeMs, signal) };
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
  it('is over at once while every watch is recent enough', async () => {
    await clock.advance(500);
    await refresh(500).promise;
    expect(asked).toHaveLength(0);
  });

  it('reads when what is shown is older, and polls on from there', async () => {
    await clock.advance(500);
    const call = refresh(499);
    await clock.advance(0);
    expect(call.outcome).toBe('waiting');
    asked[0]?.answer(A);
    await clock.advance(0);
    expect([call.outcome, witness.keys]).toEqual(['done', [A]]);
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
    asked[0]?.answer(A);
    await clock.advance(0);
    expect(calls.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done']);
  });

  it('counts the age of what is shown from when its reading began', async () => {
    const first = refresh(-1);
    await clock.advance(300);
    asked[0]?.answer(A);
    await first.promise;
    const second = refresh(200);
    await clock.advance(0);
    expect([second.outcome, asked.length]).toEqual(['waiting', 2]);
  });

  it('does not wait for what follows a reading', async () => {
    sweeping = new Promise(() => {});
    const call = refresh(-1);
    asked[0]?.answer(A);
    await clock.advance(0);
    expect(call.outcome).toBe('done');
    await clock.advance(POLL_MS);
    const next = refresh(100);
    asked[1]?.answer(B);
    await clock.advance(0);
    expect([next.outcome, witness.keys]).toEqual(['done', [B]]);
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
  it('gives up the reading from before, without a word to the watches, and reads anew', async () => {
    await clock.advance(1.1 * POLL_MS);
    standStill(3_600_000);
    const call = refresh(1000);
    await clock.advance(0);
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    asked[0]?.answer();
    asked[1]?.answer(B);
    await clock.advance(0);
    expect([call.outcome, witness.keys, witness.outages]).toEqual(['done', [B], []]);
    expect(clock.pendingTimers).toBe(1);
  });

  it('reads again when the reading from before fails as interrupted, which is no outage', async () => {
    await clock.advance(1.1 * POLL_MS);
    standStill(1500);
    const call = refresh(2000);
    asked[0]?.fail(new Interruption());
    await clock.advance(50);
    asked[1]?.answer(B);
    await clock.advance(0);
    expect([call.outcome, witness.keys, witness.outages]).toEqual(['done', [B], []]);
    expect(poller.isFailing).toBe(false);
  });
});

describe('a refresh while the table is away', () => {
  it('repeats the reading until it works', async () => {
    const call = refresh(-1);
    asked[0]?.fail(new Error('a dead connection'));
    await clock.advance(25);
    asked[1]?.fail(new Error('another'));
    await clock.advance(50);
    asked[2]?.answer(A);
    await clock.advance(0);
    expect([call.outcome, witness.keys]).toEqual(['done', [A]]);
    expect(witness.outages).toEqual(['failing: a dead connection', 'recovered']);
  });

  it('ends with its signal, and leaves the reading to others', async () => {
    const impatient = new AbortController();
    const calls = [refresh(-1, impatient.signal), refresh(-1)];
    await clock.advance(0);
    impatient.abort(new Error('no time'));
    await clock.advance(0);
    expect(calls.map(({ outcome }) => outcome)).toEqual(['no time', 'waiting']);
    expect(asked.at(-1)?.signal.aborted).toBe(false);
    asked.at(-1)?.answer(A);
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

describe('a closed poller', () => {
  it('aborts its reading, tells nobody and leaves no timer', async () => {
    await clock.advance(1.1 * POLL_MS);
    poller.close();
    await clock.advance(10 * POLL_MS);
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true]);
    expect([witness.outages, clock.pendingTimers]).toEqual([[], 0]);
    await refresh(0).promise;
  });
});
