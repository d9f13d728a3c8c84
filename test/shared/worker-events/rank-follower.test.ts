import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { Semaphore } from '../../../shared/concurrency/index.ts';
import type { RankEvent } from '../../../shared/worker-events/kv-events.ts';
import { RankFollower } from '../../../shared/worker-events/rank-follower.ts';
import type { RecoveryAnswer } from '../../../shared/worker-events/recovery.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { RANK, ScriptedRank, WatchedIndex } from './scripted-rank.ts';

const MINUTE_MS = 60_000;
/** Every restore has begun by then, and was answered. */
const RESTORE_MS = 100;
/** Of tests that compute for seconds, and much longer on a machine that does other things beside. */
const TIME = { timeout: 120_000 };

/** A follower of one scripted rank, and what it asked for. */
function followerBed(options: { readonly canRecover?: boolean; readonly slots?: Semaphore } = {}) {
  const clock = new VirtualClock();
  const worker = new ScriptedRank();
  const held = new WatchedIndex();
  const queries: (number | undefined)[] = [];
  const outcomes: string[] = [];
  const failures: string[] = [];
  const counts = { stale: 0, dropped: 0 };
  const bed = {
    clock,
    worker,
    held,
    /** First event asked for, in order; undefined = everything. */
    queries,
    outcomes,
    failures,
    counts,
    /** What the next queries are answered with; by default by the worker at once. */
    answer: async (start: number | undefined): Promise<RecoveryAnswer> => worker.answer(start),
    follower: undefined as unknown as RankFollower,
    live: (...events: readonly RankEvent[]): void => {
      for (const event of events) bed.follower.live({ publisherId: worker.publisherId, event });
    },
  };
  bed.follower = new RankFollower({
    rank: RANK,
    sink: held,
    clock,
    random: seededRandom(1),
    slots: options.slots ?? new Semaphore(16),
    canRecover: options.canRecover ?? true,
    defer: async () => {},
    observer: {
      stale: () => counts.stale++,
      dropped: () => counts.dropped++,
      recovered: (kind, outcome) => outcomes.push(`${kind} ${outcome}`),
    },
    query: (start) => {
      queries.push(start);
      return bed.answer(start);
    },
    onFailed: (reason) => failures.push(reason),
  });
  return bed;
}

/** The same, with blocks 1 to `events` stored one by one and the follower up to date. */
async function followingBed(events = 3) {
  const bed = followerBed();
  for (let block = 1; block <= events; block++) bed.worker.stored(block === 1 ? undefined : block - 1, block);
  bed.follower.start();
  await bed.clock.advance(RESTORE_MS);
  expect(bed.follower.cursor).toBe(events);
  bed.queries.length = 0;
  bed.outcomes.length = 0;
  return bed;
}

describe('a rank that is followed', () => {
  it('is restored in full when it is first seen, and then follows its events', async () => {
    const bed = followerBed();
    bed.worker.stored(undefined, 1, 2, 3);
    bed.worker.removed(3);
    bed.follower.start();
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([1, 2]);
    bed.live(bed.worker.stored(2, 4));
    expect(bed.held.blocks).toEqual([1, 2, 4]);
    expect(bed.queries).toEqual([undefined]);
    expect(bed.outcomes).toEqual(['restore ok']);
  });

  it('is restored by its first event, too, whatever its id', async () => {
    const bed = followerBed();
    bed.worker.stored(undefined, 1);
    bed.live(bed.worker.stored(1, 2));
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([1, 2]);
    expect(bed.follower.cursor).toBe(2);
  });

  it('ignores events that it has applied already', async () => {
    const bed = await followingBed();
    const removal = bed.worker.removed(3);
    bed.live(removal, bed.worker.stored(2, 3), removal);
    expect(bed.held.blocks).toEqual([1, 2, 3]);
    expect(bed.counts.stale).toBe(1);
    expect(bed.queries).toEqual([]);
  });

  it('asks for what a gap hides, from the first missing event on', async () => {
    const bed = await followingBed();
    bed.worker.stored(3, 4);
    bed.worker.stored(4, 5);
    bed.live(bed.worker.stored(5, 6));
    await bed.clock.advance(1);
    expect(bed.queries).toEqual([4]);
    expect(bed.held.blocks).toEqual([1, 2, 3, 4, 5, 6]);
    expect(bed.outcomes).toEqual(['gap ok']);
  });

  it('applies events once that come while it asks for them', async () => {
    const bed = await followingBed();
    const late = bed.worker.stored(3, 4);
    let give: (answer: RecoveryAnswer) => void = () => {};
    bed.answer = () => new Promise((resolve) => (give = resolve));
    bed.live(bed.worker.stored(4, 5), late);
    await bed.clock.advance(1);
    give(bed.worker.answer(4));
    await bed.clock.advance(1);
    expect(bed.held.blocks).toEqual([1, 2, 3, 4, 5]);
    expect(bed.queries).toEqual([4]);
  });

  it('takes a dump if the events are no longer kept, and replaces all its blocks', async () => {
    const bed = await followingBed();
    bed.worker.removed(2, 3);
    for (let at = 0; at < 2000; at++) bed.worker.stored(1, 1000 + at);
    bed.live(bed.worker.stored(1, 4));
    await bed.clock.advance(1);
    expect(bed.held.blocks).toHaveLength(2002);
    expect(bed.held.blocks.slice(0, 2)).toEqual([1, 4]);
    expect(bed.follower.cursor).toBe(bed.worker.lastEventId); // ids of a dump are its own
  });

  it('applies what arrives while a dump is on its way, once and in order (case 28)', async () => {
    const bed = followerBed();
    const events: RankEvent[] = [];
    for (let block = 1; block <= 35; block++)
      events.push(bed.worker.stored(block === 1 ? undefined : block - 1, block));
    const dump = bed.worker.answer();
    let give: (answer: RecoveryAnswer) => void = () => {};
    bed.answer = () => new Promise((resolve) => (give = resolve));
    bed.follower.start();
    await bed.clock.advance(RESTORE_MS);
    for (let block = 36; block <= 40; block++) events.push(bed.worker.stored(block - 1, block));
    bed.live(...events);
    give(dump);
    await bed.clock.advance(1);
    expect(bed.follower.cursor).toBe(40);
    expect(bed.held.blocks).toHaveLength(40);
    expect(bed.queries).toEqual([undefined]);
  });

  it('is done when all that waited is older than the answer (case 29)', async () => {
    const bed = followerBed();
    const events: RankEvent[] = [];
    for (let block = 1; block <= 20; block++) events.push(bed.worker.stored(undefined, block));
    bed.live(...[13, 14, 18, 19].map((id) => events[id - 1] as RankEvent));
    await bed.clock.advance(RESTORE_MS);
    expect(bed.follower.cursor).toBe(20);
    expect(bed.follower.isRecovering).toBe(false);
    expect(bed.queries).toEqual([undefined]);
  });

  it('asks again when the events that waited still leave a hole', async () => {
    const bed = await followingBed();
    bed.worker.stored(3, 4);
    const early = bed.worker.answer(4);
    bed.worker.stored(4, 5);
    let asked = 0;
    bed.answer = async (start) => (asked++ === 0 ? early : bed.worker.answer(start));
    bed.live(bed.worker.stored(5, 6));
    await bed.clock.advance(1);
    expect(bed.queries).toEqual([4, 5]);
    expect(bed.held.blocks).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('keeps at most 1,024 events that wait, and asks for those that it dropped', async () => {
    const bed = await followingBed(1);
    bed.worker.stored(undefined, 2);
    let give: (answer: RecoveryAnswer) => void = () => {};
    const slow = new Promise<RecoveryAnswer>((resolve) => (give = resolve));
    let asked = 0;
    bed.answer = async (start) => (asked++ === 0 ? slow : bed.worker.answer(start));
    const answer = bed.worker.answer(2);
    for (let block = 3; block <= 1500; block++) bed.live(bed.worker.stored(undefined, block));
    give(answer);
    await bed.clock.advance(1);
    expect(bed.counts.dropped).toBe(1498 - 1024);
    expect(bed.held.blocks).toHaveLength(1500);
  });
});

describe('a recovery that fails', () => {
  it('is tried eight times, each time after about twice as long', async () => {
    const bed = await followingBed();
    bed.answer = async () => {
      throw new Error('away');
    };
    bed.worker.stored(3, 4);
    bed.live(bed.worker.stored(4, 5));
    await bed.clock.advance(0);
    for (const [retries, backoffMs] of [200, 400, 800, 1600, 3200, 6400, 12_800].entries()) {
      expect(bed.queries).toHaveLength(retries + 1);
      const beforeMs = bed.clock.nowMs();
      while (bed.queries.length === retries + 1) await bed.clock.advance(10);
      const pauseMs = bed.clock.nowMs() - beforeMs;
      expect(pauseMs).toBeGreaterThanOrEqual(backoffMs / 2);
      expect(pauseMs).toBeLessThanOrEqual(1.5 * backoffMs + 10);
    }
    await bed.clock.advance(MINUTE_MS);
    expect(bed.queries).toHaveLength(8);
    expect(bed.failures).toEqual(['away']);
    expect(bed.outcomes).toEqual(['gap failed']);
    expect(bed.held.blocks).toEqual([1, 2, 3]); // what is known stays useful
  });

  it('is begun again by the next event', async () => {
    const bed = await followingBed();
    const { answer } = bed;
    bed.answer = async () => {
      throw new Error('away');
    };
    bed.worker.stored(3, 4);
    bed.live(bed.worker.stored(4, 5));
    await bed.clock.advance(MINUTE_MS);
    bed.answer = answer;
    bed.live(bed.worker.stored(5, 6));
    await bed.clock.advance(1);
    expect(bed.held.blocks).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('does not hold up others while it waits for its next attempt', async () => {
    const slots = new Semaphore(1);
    const broken = followerBed({ slots });
    const good = followerBed({ slots });
    broken.answer = async () => {
      throw new Error('away');
    };
    good.worker.stored(undefined, 1);
    broken.follower.start();
    await broken.clock.advance(RESTORE_MS);
    good.follower.start();
    await good.clock.advance(RESTORE_MS);
    expect(good.held.blocks).toEqual([1]);
  });
});

describe('the last events before a silence', () => {
  it('are fetched when the worker says that it published them', async () => {
    const bed = await followingBed();
    bed.worker.stored(3, 4);
    bed.follower.announced(4);
    await bed.clock.advance(249);
    expect(bed.queries).toEqual([]); // they may still be on their way
    await bed.clock.advance(2);
    expect(bed.held.blocks).toEqual([1, 2, 3, 4]);
  });

  it('cost nothing when they come by themselves', async () => {
    const bed = await followingBed();
    const event = bed.worker.stored(3, 4);
    bed.follower.announced(4);
    bed.live(event);
    await bed.clock.advance(MINUTE_MS);
    expect(bed.queries).toEqual([]);
  });

  it('are requested when a message of the worker was lost', async () => {
    const bed = await followingBed();
    bed.worker.stored(3, 4);
    bed.follower.suspect();
    await bed.clock.advance(1);
    expect(bed.held.blocks).toEqual([1, 2, 3, 4]);
    bed.follower.suspect(); // this time it was another rank's
    await bed.clock.advance(MINUTE_MS);
    expect(bed.queries).toEqual([4, 5]);
    expect(bed.outcomes).toEqual(['gap ok', 'gap ok']);
  });
});

describe('a cleared cache', () => {
  it('makes earlier events needless, however many are missing', async () => {
    const bed = await followingBed();
    bed.worker.stored(3, 4);
    bed.live(bed.worker.cleared());
    expect(bed.held.blocks).toEqual([]);
    expect(bed.follower.cursor).toBe(5);
    bed.live(bed.worker.stored(undefined, 9));
    expect(bed.held.blocks).toEqual([9]);
    expect(bed.queries).toEqual([]);
  });

  it('voids the answer that was under way', async () => {
    const bed = await followingBed();
    bed.worker.stored(3, 4);
    let give: (answer: RecoveryAnswer) => void = () => {};
    bed.answer = () => new Promise((resolve) => (give = resolve));
    bed.live(bed.worker.stored(4, 5));
    await bed.clock.advance(1);
    const stale = bed.worker.answer(4);
    bed.live(bed.worker.cleared(), bed.worker.stored(undefined, 9));
    give(stale);
    await bed.clock.advance(MINUTE_MS);
    expect(bed.held.blocks).toEqual([9]);
    expect(bed.follower.isRecovering).toBe(false);
  });

  it('keeps the later events that waited', async () => {
    const bed = await followingBed();
    const missing = bed.worker.cleared();
    let give: (answer: RecoveryAnswer) => void = () => {};
    bed.answer = () => new Promise((resolve) => (give = resolve));
    bed.live(bed.worker.stored(undefined, 9), missing);
    await bed.clock.advance(1);
    give(bed.worker.answer(4));
    await bed.clock.advance(1);
    expect(bed.held.blocks).toEqual([9]);
    expect(bed.follower.cursor).toBe(5);
  });
});

describe('a worker that starts anew under its id', () => {
  it('loses its blocks when its endpoint is another, and shows the new ones', async () => {
    const bed = await followingBed();
    bed.worker.restart();
    bed.worker.stored(undefined, 7);
    bed.follower.replaced();
    expect(bed.held.blocks).toEqual([]);
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([7]);
  });

  it('is noticed by its first event, although its ids are old ones', async () => {
    const bed = await followingBed();
    bed.worker.restart();
    bed.live(bed.worker.stored(undefined, 7));
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([7]);
    expect(bed.follower.cursor).toBe(1);
  });

  it('is noticed by its answer to a query', async () => {
    const bed = await followingBed();
    bed.live(bed.worker.stored(3, 4)); // now its publisher is known
    bed.worker.restart();
    bed.worker.stored(undefined, 7);
    bed.follower.suspect();
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([7]);
  });

  it('is not disturbed by late events of the process before', async () => {
    const bed = await followingBed();
    bed.live(bed.worker.stored(3, 4));
    const before = bed.worker.publisherId;
    const late = bed.worker.stored(4, 5);
    bed.worker.restart();
    bed.live(bed.worker.stored(undefined, 7));
    await bed.clock.advance(RESTORE_MS);
    bed.queries.length = 0;
    bed.follower.live({ publisherId: before, event: late });
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([7]);
    expect(bed.queries).toEqual([]);
  });
});

describe('a worker that keeps no index', () => {
  it('is followed from its next event on, gaps or not', async () => {
    const bed = followerBed({ canRecover: false });
    bed.follower.start();
    bed.live(bed.worker.stored(undefined, 1));
    bed.worker.stored(undefined, 2);
    bed.live(bed.worker.stored(undefined, 3));
    await bed.clock.advance(MINUTE_MS);
    expect(bed.held.blocks).toEqual([1, 3]);
    expect(bed.queries).toEqual([]);
  });
});

describe('many ranks', TIME, () => {
  it('are restored sixteen at a time, ten thousand of them', async () => {
    const clock = new VirtualClock();
    const random = seededRandom(2);
    const slots = new Semaphore(16);
    let running = 0;
    let most = 0;
    const observer = { stale() {}, dropped() {}, recovered() {} };
    const followers = Array.from({ length: 10_000 }, () => {
      const follower = new RankFollower({
        rank: RANK,
        sink: { changed() {} },
        clock,
        random,
        slots,
        observer,
        canRecover: true,
        defer: async () => {},
        query: async () => {
          most = Math.max(most, ++running);
          await clock.sleep(1);
          running--;
          return { kind: 'dump', events: [], lastEventId: 5, publisherId: 'p' };
        },
        onFailed: () => {},
      });
      follower.start();
      return follower;
    });
    await clock.advance(RESTORE_MS);
    await clock.advance(1000);
    expect(followers.every(({ cursor }) => cursor === 5)).toBe(true);
    expect(most).toBe(16);
    for (const follower of followers) follower.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it('do not all begin at once, nor come back at once after they failed together', async () => {
    const clock = new VirtualClock();
    const random = seededRandom(2);
    const askedMs: number[][] = [];
    const followers = Array.from({ length: 200 }, () => {
      const own: number[] = [];
      askedMs.push(own);
      return new RankFollower({
        rank: RANK,
        sink: { changed() {} },
        clock,
        random,
        slots: new Semaphore(16),
        observer: { stale() {}, dropped() {}, recovered() {} },
        canRecover: true,
        defer: async () => {},
        query: async () => {
          own.push(clock.nowMs());
          throw new Error('away');
        },
        onFailed: () => {},
      });
    });
    for (const follower of followers) follower.start();
    for (let turn = 0; turn < 1000; turn++) await clock.advance(1);
    /** Most questions within any 5 ms of attempt number `attempt`. */
    const mostAtOnce = (attempt: number): number => {
      const counts = new Map<number, number>();
      for (const own of askedMs) {
        const at = Math.floor((own[attempt] as number) / 5);
        counts.set(at, (counts.get(at) ?? 0) + 1);
      }
      return Math.max(...counts.values());
    };
    expect(mostAtOnce(0)).toBeLessThan(30); // 10 on average
    expect(mostAtOnce(1)).toBeLessThan(20);
    const pauses = askedMs.map(([first, second]) => (second as number) - (first as number));
    expect(Math.max(...pauses) - Math.min(...pauses)).toBeGreaterThan(150);
    for (const follower of followers) follower.close();
  });

  it('leave nothing behind when they are closed in the middle', async () => {
    const bed = await followingBed();
    bed.answer = () => new Promise(() => {});
    bed.worker.stored(3, 4);
    bed.live(bed.worker.stored(4, 5));
    bed.follower.announced(9);
    bed.follower.close();
    bed.live(bed.worker.stored(5, 6));
    await bed.clock.advance(MINUTE_MS);
    expect(bed.clock.pendingTimers).toBe(0);
    expect(bed.held.blocks).toEqual([1, 2, 3]);
  });
});

/** What happens next, and what becomes of the event if it makes one. */
type Step =
  | { readonly kind: 'stored' | 'removed'; readonly block: number; readonly fate: Fate }
  | { readonly kind: 'cleared'; readonly fate: Fate }
  | { readonly kind: 'restart'; readonly isNoticed: boolean }
  | { readonly kind: 'late' | 'wait' | 'report' | 'lost' }
  | { readonly kind: 'outage'; readonly queries: number };
type Fate = 'delivered' | 'lost' | 'twice' | 'late';

const fate = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Fate>('delivered') },
  fc.constantFrom<Fate>('lost', 'twice', 'late'),
);
const block = fc.integer({ min: 1, max: 12 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('stored' as const), block, fate }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('removed' as const), block, fate }) },
  fc.record({ kind: fc.constant('cleared' as const), fate }),
  fc.record({ kind: fc.constant('restart' as const), isNoticed: fc.boolean() }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('late' as const, 'wait' as const, 'report' as const, 'lost' as const),
    }),
  },
  fc.record({ kind: fc.constant('outage' as const), queries: fc.integer({ min: 1, max: 9 }) }),
);

describe('any interleaving of loss, duplication, reordering, restarts and outages', TIME, () => {
  it('ends with the index equal to what the worker holds', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const bed = followerBed();
        const late: { readonly publisherId: string; readonly event: RankEvent }[] = [];
        let failing = 0;
        bed.answer = async (start) => {
          if (failing > 0) {
            failing--;
            throw new Error('away');
          }
          return bed.worker.answer(start);
        };
        const send = (event: RankEvent, fate: Fate): void => {
          const { publisherId } = bed.worker;
          if (fate === 'late') late.push({ publisherId, event });
          if (fate === 'delivered' || fate === 'twice') bed.follower.live({ publisherId, event });
          if (fate === 'twice') bed.follower.live({ publisherId, event });
        };
        bed.follower.start();
        for (const next of steps) {
          switch (next.kind) {
            case 'stored': // block n hangs below n / 2, if that is held
              send(bed.worker.stored(next.block === 1 ? undefined : next.block >> 1, next.block), next.fate);
              break;
            case 'removed':
              send(bed.worker.removed(next.block), next.fate);
              break;
            case 'cleared':
              send(bed.worker.cleared(), next.fate);
              break;
            case 'restart':
              bed.worker.restart();
              if (next.isNoticed) bed.follower.replaced();
              break;
            case 'late': {
              const live = late.shift();
              if (live !== undefined) bed.follower.live(live);
              break;
            }
            case 'wait':
              await bed.clock.advance(50);
              break;
            case 'report':
              bed.follower.announced(bed.worker.lastEventId);
              break;
            case 'lost':
              bed.follower.suspect();
              break;
            case 'outage':
              failing = next.queries;
              break;
          }
        }
        failing = 0;
        for (const live of late) bed.follower.live(live);
        await bed.clock.advance(MINUTE_MS);
        const last = bed.worker.stored(undefined, 99); // the worker is alive and its last event arrives
        send(last, 'delivered');
        await bed.clock.advance(MINUTE_MS);
        expect(bed.held.blocks).toEqual([...new Set(blocksOf(bed))]);
        expect(bed.follower.isRecovering).toBe(false);
        bed.follower.close();
        expect(bed.clock.pendingTimers).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});

describe('a rank whose worker was restarted unseen', () => {
  it('is not emptied by a late event of the process before', async () => {
    const bed = followerBed();
    const late = { publisherId: bed.worker.publisherId, event: bed.worker.cleared() };
    bed.worker.restart();
    bed.live(bed.worker.stored(undefined, 1));
    bed.follower.live(late);
    await bed.clock.advance(RESTORE_MS);
    bed.live(bed.worker.stored(1, 2));
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([1, 2]);
  });
});

describe('a rank that goes on from a snapshot', () => {
  it('applies what comes after its place, and asks for nothing', async () => {
    const bed = followerBed();
    for (const block of [1, 2, 3]) bed.worker.stored(block === 1 ? undefined : block - 1, block);
    bed.follower.resume({ eventId: 2, publisherId: bed.worker.publisherId });
    const last = bed.worker.stored(3, 4);
    const third = bed.worker.answer(3);
    expect(third.kind).toBe('events');
    bed.live(...(third.kind === 'events' ? third.events : []), last);
    expect(bed.follower.cursor).toBe(4);
    expect(bed.queries).toEqual([]);
  });

  it('asks for everything when the worker was restarted since', async () => {
    const bed = followerBed();
    bed.worker.stored(undefined, 1);
    bed.follower.resume({ eventId: 1, publisherId: bed.worker.publisherId });
    bed.worker.restart();
    bed.live(bed.worker.stored(undefined, 9));
    await bed.clock.advance(RESTORE_MS);
    expect(bed.held.blocks).toEqual([9]);
  });

  it('drops a recovery that is under way', async () => {
    const bed = followerBed();
    let give: (answer: RecoveryAnswer) => void = () => {};
    bed.answer = () => new Promise((resolve) => (give = resolve));
    const recovered = bed.follower.recover(new AbortController().signal);
    await bed.clock.advance(RESTORE_MS);
    bed.follower.resume({ eventId: 5, publisherId: 'p1' });
    give({ kind: 'dump', events: [], lastEventId: 9, publisherId: 'p1' });
    await expect(recovered).rejects.toThrow('replaced');
    await bed.clock.advance(RESTORE_MS);
    expect(bed.follower.cursor).toBe(5);
    expect(bed.outcomes).toEqual([]);
  });

  it('reports the end of a requested recovery, and its outcome', async () => {
    const bed = followerBed();
    bed.worker.stored(undefined, 1);
    const { signal } = new AbortController();
    const both = Promise.all([bed.follower.recover(signal), bed.follower.recover(signal)]);
    await bed.clock.advance(RESTORE_MS);
    await both;
    expect(bed.queries).toHaveLength(1);
    bed.follower.resume(undefined);
    bed.answer = async () => ({ kind: 'refused', reason: 'busy', publisherId: undefined });
    const failed = expect(bed.follower.recover(signal)).rejects.toThrow('busy');
    await bed.clock.advance(MINUTE_MS);
    await failed;
    const leaving = new AbortController();
    const left = expect(bed.follower.recover(leaving.signal)).rejects.toThrow('enough');
    leaving.abort(new Error('enough'));
    await left;
    bed.follower.close();
    expect(bed.clock.pendingTimers).toBe(0);
  });
});

function blocksOf({ worker }: ReturnType<typeof followerBed>): number[] {
  const held = new WatchedIndex();
  const dump = worker.answer();
  if (dump.kind === 'dump') for (const { change } of dump.events) held.changed(RANK.workerId, RANK.dpRank, change);
  return held.blocks;
}
