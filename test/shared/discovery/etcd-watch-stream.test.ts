import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { EtcdClient } from '../../../shared/discovery/etcd/etcd-client.ts';
import { KeyRange } from '../../../shared/discovery/etcd/key-range.ts';
import type { RangeFollower } from '../../../shared/discovery/etcd/range-follower.ts';
import { WatchStream } from '../../../shared/discovery/etcd/watch-stream.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** A watch stream at a scripted cluster. */
function bedOf(catchUp: () => Promise<void>, answer: (hear: (message: object) => void) => void) {
  const clock = new VirtualClock();
  const [openedMs, problems]: [number[], string[]] = [[], []];
  const open: { end(): void }[] = [];
  let cancelled = 0;
  const client = {
    open: async (_: unknown, hear: (message: object) => void, ended: (failure: Error) => void) => {
      openedMs.push(clock.nowMs());
      open.push({ end: () => ended(new Error('the member ended the stream')) });
      return { send: () => queueMicrotask(() => answer(hear)), cancel: () => void cancelled++, abandon: () => {} };
    },
  };
  const follower = { isShown: true, ranges: [new KeyRange('r/', '', String)], catchUp, fail: () => {} };
  const stream = new WatchStream({
    client: client as unknown as EtcdClient,
    clock,
    random: seededRandom(1),
    toError: (thrown) => thrown as Error,
    report: ({ message }) => problems.push(message),
  });
  stream.add(follower as unknown as RangeFollower<unknown>);
  return { clock, stream, openedMs, open, problems, unended: () => openedMs.length - cancelled };
}

const REFUSED = { watchId: 0n, created: true, canceled: true, cancelReason: 'not here', events: [] };
const created = { watchId: 1n, created: true, canceled: false, cancelReason: '', events: [] };

describe('the stream of changes in etcd', () => {
  it('is opened ever more rarely while etcd refuses the watch, and tells the reason', async () => {
    const { clock, stream, openedMs, problems } = bedOf(
      async () => {},
      (hear) => hear(REFUSED),
    );
    await clock.advance(60_000);
    const pauses = openedMs.slice(1).map((ms, at) => ms - (openedMs[at] ?? 0));
    expect(pauses.slice(0, 4)).toEqual(pauses.slice(0, 4).toSorted((a, b) => a - b));
    expect(Math.min(...pauses.slice(-10))).toBeGreaterThanOrEqual(1500);
    expect(problems[0]).toBe('not here');
    stream.close();
  });

  it('stays the only one if a reading fails while it is being opened', async () => {
    const readings: { readonly fail: (error: Error) => void; readonly end: () => void }[] = [];
    const catchUp = () =>
      new Promise<void>((end, fail) => {
        readings.push({ end, fail });
      });
    let answers: object[] = [created];
    const { clock, stream, open, openedMs, unended } = bedOf(catchUp, (hear) => {
      for (const answer of answers.splice(0)) hear(answer);
    });
    readings[0]?.end();
    answers.push({ ...created, created: false, canceled: true });
    await clock.advance(0);
    expect([readings.length, openedMs.length]).toEqual([2, 1]); // the watch has ended, and the follower catches up
    answers = [];
    open[0]?.end();
    await clock.advance(200);
    expect(readings.length).toBe(3); // so does the stream, before it is opened again
    readings[1]?.fail(new Error('no answer'));
    await clock.advance(0);
    readings[2]?.end();
    await clock.advance(10_000);
    for (const { end } of readings) end();
    await clock.advance(10_000);
    expect(openedMs.length).toBe(2);
    stream.close();
    expect(unended()).toBe(0);
  });
});
