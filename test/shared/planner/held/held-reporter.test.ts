import { describe, expect, it } from 'vitest';
import { HeldReporter } from '../../../../shared/planner/index.ts';
import { createHeldNoteMetrics, MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { MemoryHeldNotes } from '../../../support/memory-held-notes.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns#m';
const noteOf = (count: number) => ({ namespace: 'ns', model: 'm', count, oldestAtMs: 1_700_000_000_000 });

/** A reporter over a store in memory, whose calls `fault` may delay or fail. */
function open() {
  const clock = new VirtualClock();
  const notes = new MemoryHeldNotes(clock);
  const registry = new MetricRegistry();
  const { logger, lines } = captureLogger();
  const calls: string[] = [];
  const bed = { fault: undefined as undefined | ((call: string) => Promise<void>) };
  const faulty = {
    name: 'memory' as const,
    put: async (holder: string, note: ReturnType<typeof noteOf>, signal: AbortSignal) => {
      calls.push(`put ${note.count}`);
      await bed.fault?.('put');
      await notes.put(holder, note, signal);
    },
    remove: async (holder: string, model: { namespace: string; model: string }, signal: AbortSignal) => {
      calls.push('remove');
      await bed.fault?.('remove');
      await notes.remove(holder, model, signal);
    },
    live: (group: string, signal: AbortSignal) => notes.live(group, signal),
    close: async () => void calls.push('close'),
  };
  let opens = 0;
  const reporter = new HeldReporter({
    open: async () => {
      opens++;
      await bed.fault?.('open');
      return faulty;
    },
    holder: 'one',
    clock,
    logger: logger.for('planner'),
    metrics: createHeldNoteMetrics(registry),
  });
  const counted = () => registry.totalsBy('stator_frontend_held_notes_total', 'outcome');
  return { clock, notes, reporter, calls, lines, counted, bed, opens: () => opens };
}

describe('what a process notes of held requests', () => {
  it('is there at once, and is gone when nothing is held; then nothing is armed', async () => {
    const { clock, notes, reporter, counted } = open();
    reporter.holds('m', noteOf(2));
    await clock.advance(0);
    expect(await notes.live(GROUP, NEVER)).toEqual([noteOf(2)]);
    reporter.ends('m');
    await reporter.settled();
    expect(await notes.live(GROUP, NEVER)).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
    expect(counted()).toEqual({ written: 1, removed: 1, failed: 0 });
  });

  it('is written every 5 s at most, with what is held then, however often that changes', async () => {
    const { clock, reporter, calls } = open();
    for (let at = 1; at <= 20; at++) {
      reporter.holds('m', noteOf(at));
      await clock.advance(1000);
    }
    expect(calls).toEqual(['put 1', 'put 5', 'put 10', 'put 15', 'put 20']);
    reporter.ends('m');
    reporter.holds('m', noteOf(21)); // the next request, at once
    await clock.advance(4999);
    expect(calls.slice(5)).toEqual(['remove']);
    await clock.advance(1);
    expect(calls.slice(6)).toEqual(['put 21']);
    reporter.ends('m');
    await clock.advance(0);
    reporter.holds('m', noteOf(22));
    reporter.ends('m');
    await clock.advance(0);
    expect(clock.pendingTimers).toBe(0); // of the write that was not allowed yet
    await clock.advance(60_000);
    expect(calls.slice(7)).toEqual(['remove']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('goes even if its write was still under way when the requests went', async () => {
    const { clock, notes, reporter, calls, bed } = open();
    bed.fault = (call) => (call === 'put' ? clock.sleep(800) : Promise.resolve());
    reporter.holds('m', noteOf(1));
    await clock.advance(100);
    reporter.ends('m');
    const settled = reporter.settled();
    await clock.advance(800);
    await settled;
    expect(calls).toEqual(['put 1', 'remove']);
    expect(await notes.live(GROUP, NEVER)).toEqual([]);
  });

  it('goes even if the answer to its write was lost', async () => {
    const { clock, reporter, calls, bed } = open();
    bed.fault = async (call) => {
      if (call === 'put') throw new Error('the answer was lost');
    };
    reporter.holds('m', noteOf(1));
    await clock.advance(0);
    reporter.ends('m');
    await clock.advance(0);
    expect(calls).toEqual(['put 1', 'remove']);
  });

  it('is written with the next write if the table could not be opened or hung; each failure is counted', async () => {
    const { clock, notes, reporter, lines, counted, bed, opens } = open();
    bed.fault = async (call) => {
      if (call === 'open') throw new Error('no table');
    };
    reporter.holds('m', noteOf(1));
    await clock.advance(5000);
    bed.fault = (call) => (call === 'put' ? new Promise(() => {}) : Promise.resolve());
    reporter.holds('m', noteOf(2));
    await clock.advance(5000);
    expect(counted()).toEqual({ written: 0, removed: 0, failed: 2 });
    expect(lines.map(({ message }) => message)).toEqual(['held requests cannot be noted for the planner']);
    bed.fault = undefined;
    reporter.holds('m', noteOf(3));
    await clock.advance(0);
    expect(await notes.live(GROUP, NEVER)).toEqual([noteOf(3)]);
    expect(opens()).toBe(2);
  });

  it('says that the table is back', async () => {
    const { clock, notes, reporter, lines, bed } = open();
    bed.fault = async (call) => {
      if (call === 'put') throw new Error('throttled');
    };
    for (let at = 1; at <= 3; at++) {
      if (at === 3) bed.fault = undefined;
      reporter.holds('m', noteOf(at));
      await clock.advance(5000);
    }
    expect(await notes.live(GROUP, NEVER)).toEqual([noteOf(3)]);
    expect(lines.map(({ message }) => message)).toEqual([
      'held requests cannot be noted for the planner',
      'held requests are noted again',
    ]);
  });

  it('ends in bounded time while the table hangs, so that a host may freeze the process', async () => {
    const { clock, reporter, bed } = open();
    bed.fault = () => new Promise(() => {});
    reporter.holds('m', noteOf(1));
    await clock.advance(0);
    reporter.ends('m');
    let isSettled = false;
    void reporter.settled().then(() => {
      isSettled = true;
    });
    await clock.advance(3000);
    expect(isSettled).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('does not keep a process that closes while the store does not open', async () => {
    const { clock, reporter, bed, lines } = open();
    bed.fault = () => new Promise(() => {});
    reporter.holds('m', noteOf(1));
    let isClosed = false;
    const closing = reporter.close().then(() => {
      isClosed = true;
    });
    for (let second = 0; second < 10 && !isClosed; second++) await clock.advance(1000);
    expect(isClosed).toBe(true);
    await closing;
    expect(lines.map(({ message }) => message)).toContain('the store of held requests does not close');
  });

  it('is removed for all models when the process closes', async () => {
    const { clock, notes, reporter, calls } = open();
    reporter.holds('m', noteOf(1));
    reporter.holds('alias', { ...noteOf(1), model: 'other' });
    await clock.advance(0);
    await reporter.close();
    expect(await notes.live(GROUP, NEVER)).toEqual([]);
    expect(await notes.live('ns#other', NEVER)).toEqual([]);
    expect(calls.at(-1)).toBe('close');
  });
});

/** Notes of functions that each hold one request, for a minute. */
async function minuteOf(environments: number): Promise<number> {
  const clock = new VirtualClock();
  const notes = new MemoryHeldNotes(clock);
  const { logger } = captureLogger();
  const metrics = createHeldNoteMetrics(new MetricRegistry());
  const common = { open: async () => notes, clock, logger: logger.for('planner'), metrics };
  const reporters = Array.from({ length: environments }, (_, at) => new HeldReporter({ ...common, holder: `e${at}` }));
  for (let secs = 0; secs < 60; secs += 5) {
    for (const reporter of reporters) reporter.holds('m', noteOf(1));
    await clock.advance(5000);
  }
  return notes.writes;
}

describe('what holding costs', () => {
  it.each([
    [10, 120],
    [1000, 12_000],
  ])('is 12 writes a minute for each environment: of %d held requests %d', async (environments, writes) => {
    expect(await minuteOf(environments)).toBe(writes);
  });
});
