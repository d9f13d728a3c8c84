import { describe, expect, it } from 'vitest';
import { StalledWorkers } from '../../../../shared/pipeline/run/stalled-workers.ts';
import { StreamWatch, type WatchedStream } from '../../../../shared/pipeline/run/stream-watch.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { model, worker } from '../fixtures.ts';

interface Setup {
  readonly stallMs?: number;
  readonly silenceMsMax?: number;
  readonly warmUpMs?: number;
}

class FakeStream implements WatchedStream {
  showedLife = false;
  isPaused = false;
  hasBegun = true;
  promptTokens = 100;
  readonly told: string[] = [];
  timedOut(): void {
    this.told.push('timed out');
  }
  stalled(): void {
    this.told.push('stalled');
  }
}

function watchBed({ stallMs = 10_000, silenceMsMax = 0, warmUpMs }: Setup = {}) {
  const clock = new VirtualClock();
  const log: string[] = [];
  /** How the worker answers canaries from now on. */
  const answers = { passes: true, isTaken: true, afterMs: 3000 };
  const listed = new Set(['a', 'b']);
  const probe = ({ id }: { readonly id: string }) => {
    log.push(`canary to ${id} at ${clock.nowMs()}`);
    const { passes, isTaken, afterMs } = answers;
    const silent = isTaken ? ('taken' as const) : ('failed' as const);
    return clock.sleep(afterMs).then(() => (passes ? ('passed' as const) : silent));
  };
  const stalledWorkers = new StalledWorkers({
    clock,
    probe,
    pauseMs: 1000,
    isListed: ({ id }) => listed.has(id),
    onRecovered: () => void log.push('recovered'),
    observer: {
      workerStalled: (_model, id) => void log.push(`${id} stalled`),
      workerRecovered: (_model, id) => void log.push(`${id} free`),
      canary: (outcome) => void log.push(outcome),
    },
  });
  const watch = new StreamWatch({ clock, probe, stalledWorkers, stallMs, silenceMsMax, warmUpMs });
  const served = { ...model(), workers: [...listed].map(worker) };
  const open = (id = 'a', more: Partial<FakeStream> = {}): FakeStream => {
    const stream = Object.assign(new FakeStream(), more);
    watch.add(stream, worker(id), served);
    return stream;
  };
  /** Moves time on; each of `moving` shows a sign of life every second. */
  const pass = async (seconds: number, moving: readonly FakeStream[] = []): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      for (const stream of moving) stream.showedLife = true;
      await clock.advance(1000);
    }
  };
  return { answers, clock, listed, log, open, pass, stalledWorkers, watch };
}

describe('a stream that falls silent while others of its worker go on', () => {
  it('is moved, and the worker gets no new request until a canary passes', async () => {
    const { log, open, pass, stalledWorkers } = watchBed();
    const silent = open();
    const other = open();
    await pass(9, [other]);
    expect(silent.told).toEqual([]);
    await pass(3, [other]);
    expect(silent.told[0]).toBe('stalled');
    expect(other.told).toEqual([]);
    expect([...stalledWorkers.ids]).toEqual(['a']);
    await pass(4, [other, silent]);
    expect(stalledWorkers.ids.size).toBe(0);
    expect(log.slice(-3)).toEqual(['passed', 'a free', 'recovered']);
  });

  it('waits on when it has not begun: a full engine makes requests wait', async () => {
    const { log, open, pass } = watchBed();
    const waiting = open('a', { hasBegun: false });
    const other = open();
    await pass(60, [other]);
    expect(waiting.told).toEqual([]);
    expect(log).toEqual([]);
  });

  it('is left alone while its own client reads too slowly', async () => {
    const { log, open, pass } = watchBed();
    const slow = open('a', { isPaused: true });
    await pass(60, [open()]);
    expect(slow.told).toEqual([]);
    expect(log).toEqual([]);
  });
});

describe('a worker that falls silent altogether', () => {
  it('is asked by a canary, and left alone when it passes', async () => {
    const { log, open, pass, stalledWorkers } = watchBed();
    const streams = [open(), open()];
    await pass(14);
    expect(log.filter((line) => line.startsWith('canary'))).toHaveLength(1);
    expect(streams.flatMap(({ told }) => told)).toEqual([]);
    expect(stalledWorkers.ids.size).toBe(0);
    await pass(9);
    expect(log).toHaveLength(1); // the count began anew
  });

  it('loses its streams and gets no request when the canary fails, until one passes', async () => {
    const { answers, log, open, pass, stalledWorkers, watch } = watchBed();
    answers.passes = false;
    const streams = [open(), open('a', { hasBegun: false })];
    const elsewhere = open('b');
    await pass(15, [elsewhere]);
    expect(streams.map(({ told }) => told[0])).toEqual(['stalled', 'stalled']);
    await pass(1, [elsewhere]);
    expect([...stalledWorkers.ids]).toEqual(['a']);
    for (const stream of streams) watch.delete(stream);
    await pass(10, [elsewhere]);
    expect([...stalledWorkers.ids]).toEqual(['a']);
    answers.passes = true;
    await pass(8, [elsewhere]);
    expect(stalledWorkers.ids.size).toBe(0);
    expect(log.filter((line) => line === 'a stalled')).toHaveLength(1);
    expect(elsewhere.told).toEqual([]);
  });

  it('is believed when something comes while the canary is on its way', async () => {
    const { answers, open, pass, stalledWorkers } = watchBed();
    answers.passes = false;
    const stream = open();
    await pass(12);
    stream.showedLife = true;
    await pass(2);
    expect(stream.told).toEqual([]);
    expect(stalledWorkers.ids.size).toBe(0);
  });

  it('is given a millisecond for each token of a long prompt', async () => {
    const { log, open, pass } = watchBed();
    open('a', { hasBegun: false, promptTokens: 20_000 });
    await pass(29);
    expect(log).toEqual([]);
    await pass(3);
    expect(log).toHaveLength(1);
  });

  it('is forgotten when it leaves discovery', async () => {
    const { answers, clock, listed, log, open, pass, stalledWorkers, watch } = watchBed();
    answers.passes = false;
    const stream = open();
    await pass(14);
    expect([...stalledWorkers.ids]).toEqual(['a']);
    watch.delete(stream);
    listed.delete('a');
    await pass(10);
    expect(stalledWorkers.ids.size).toBe(0);
    expect(log.at(-1)).toBe('recovered');
    expect(clock.pendingTimers).toBe(0);
  });

  it('is asked nothing more once the process closes', async () => {
    const { answers, clock, open, pass, stalledWorkers, watch } = watchBed();
    answers.passes = false;
    const stream = open();
    await pass(17);
    watch.delete(stream);
    stalledWorkers.close();
    await pass(5);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a worker that has never answered', () => {
  const warming = { hasBegun: false, promptTokens: 0 };
  /** Two workers, of which the second is there only where a test says so. */
  const coldBed = () => {
    const bed = watchBed({ warmUpMs: 60_000 });
    bed.answers.passes = false;
    return bed;
  };

  it('keeps its requests while it compiles for the first of them, alone or beside others like it', async () => {
    const { log, open, pass, stalledWorkers } = coldBed();
    const [one, other] = [open('a', warming), open('b', warming)];
    await pass(16);
    expect([one.told, other.told, stalledWorkers.ids.size]).toEqual([[], [], 0]);
    expect(log.filter((line) => line.startsWith('canary'))).toHaveLength(2); // asked, and believed for now
    await pass(10, [one, other]);
    expect(log.some((line) => line.endsWith('stalled'))).toBe(false);
  });

  it('gives them up as soon as another one has answered', async () => {
    const { open, pass, stalledWorkers } = coldBed();
    const [silent, other] = [open('a', warming), open('b', warming)];
    await pass(30, [other]);
    expect(silent.told[0]).toBe('stalled');
    expect([...stalledWorkers.ids]).toEqual(['a']);
  });

  it('is taken for dead when its time is over, even if clients came and left in between', async () => {
    const { open, pass, stalledWorkers, watch } = coldBed();
    const first = open('a', warming);
    await pass(40);
    watch.delete(first);
    const second = open('a', warming);
    await pass(14);
    expect([first.told, second.told, stalledWorkers.ids.size]).toEqual([[], [], 0]);
    await pass(30);
    expect(second.told[0]).toBe('stalled');
    expect([...stalledWorkers.ids]).toEqual(['a']);
  });

  it('has no such time where not even its process takes a canary', async () => {
    const { answers, open, pass, stalledWorkers } = coldBed();
    answers.isTaken = false;
    open('a', warming);
    await pass(16);
    expect([...stalledWorkers.ids]).toEqual(['a']);
  });

  it('has that time although the process whose id it took over has answered', async () => {
    const { open, pass, stalledWorkers, watch } = coldBed();
    const before = open('a', warming);
    await pass(5, [before]);
    watch.delete(before);
    const standby = { ...worker('a'), transport: { memory: 'standby' } };
    const stream = Object.assign(new FakeStream(), warming);
    watch.add(stream, standby, { ...model(), workers: [standby] });
    await pass(16);
    expect([stream.told, stalledWorkers.ids.size]).toEqual([[], 0]);
  });

  it('has no such time left once it has answered', async () => {
    const { open, pass, stalledWorkers } = coldBed();
    const stream = open('a', warming);
    await pass(5, [stream]);
    await pass(16);
    expect([...stalledWorkers.ids]).toEqual(['a']);
  });
});

describe('a stream with a bound on its silence', () => {
  it('times out within a quarter of the bound, is watched no more, and leaves its worker in doubt', async () => {
    const { clock, open, stalledWorkers } = watchBed({ stallMs: 0, silenceMsMax: 2000 });
    const stream = open();
    await clock.advance(1900);
    expect(stream.told).toEqual([]);
    await clock.advance(600);
    expect(stream.told).toEqual(['timed out']);
    expect([...stalledWorkers.ids]).toEqual(['a']);
    await clock.advance(3000);
    expect(stalledWorkers.ids.size).toBe(0);
    expect(stream.told).toHaveLength(1);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a standby that has the id of a stalled worker', () => {
  it('is stalled on its own, whatever becomes of the old process', async () => {
    const clock = new VirtualClock();
    let listed = 'old';
    const stalled = new StalledWorkers({
      clock,
      probe: () => clock.sleep(3000).then(() => 'failed' as const),
      pauseMs: 1000,
      isListed: ({ transport }) => transport.memory === listed,
      onRecovered: () => {},
      observer: {},
    });
    const old = { ...worker('a'), transport: { memory: 'old' } };
    const standby = { ...worker('a'), transport: { memory: 'standby' } };
    stalled.add(old, model());
    listed = 'standby';
    expect([stalled.has(old), stalled.has(standby)]).toEqual([true, false]);
    stalled.add(standby, model());
    stalled.add(old, model());
    for (let second = 0; second < 20; second++) await clock.advance(1000);
    expect([stalled.has(old), stalled.has(standby)]).toEqual([false, true]);
    stalled.close();
  });
});
