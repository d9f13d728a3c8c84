import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TableTime } from '../../../shared/discovery/table/table-time.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const EPOCH_MS = 1_700_000_000_000;

/** Answers of a table whose clock is `offsetMs` ahead of the machine's, each after some travel there and back. */
async function observe(offsetMs: number, answers: readonly { readonly gapMs: number; readonly travelMs: number }[]) {
  const clock = new VirtualClock(EPOCH_MS);
  const time = new TableTime(clock);
  for (const { gapMs, travelMs } of answers) {
    await clock.advance(gapMs);
    const sentMs = clock.nowMs();
    await clock.advance(travelMs / 2);
    const date = new Date(EPOCH_MS + clock.nowMs() + offsetMs).toUTCString();
    await clock.advance(travelMs / 2);
    time.observe(date, sentMs, clock.nowMs());
  }
  return { clock, time, errorMs: time.nowMs() - (EPOCH_MS + clock.nowMs() + offsetMs) };
}

const offset = fc.integer({ min: -3_600_000, max: 3_600_000 });

describe('TableTime', () => {
  it('is the clock of the machine until the table has answered', () => {
    const clock = new VirtualClock(EPOCH_MS);
    const time = new TableTime(clock);
    time.observe(undefined, 0, 1);
    time.observe('not a date', 0, 1);
    expect(time.nowMs()).toBe(EPOCH_MS);
  });

  it('is within half a second and half the travel after one answer, however wrong the machine is', async () => {
    await fc.assert(
      fc.asyncProperty(offset, fc.integer({ min: 0, max: 400 }), async (offsetMs, travelMs) => {
        const { errorMs } = await observe(offsetMs, [{ gapMs: 10, travelMs }]);
        expect(Math.abs(errorMs)).toBeLessThanOrEqual(500 + travelMs / 2 + 1);
      }),
    );
  });

  it('gets far below the resolution of the header with many answers', async () => {
    const gap = fc.record({ gapMs: fc.integer({ min: 900, max: 1100 }), travelMs: fc.integer({ min: 2, max: 10 }) });
    await fc.assert(
      fc.asyncProperty(offset, fc.array(gap, { minLength: 60, maxLength: 60 }), async (offsetMs, answers) => {
        const { errorMs } = await observe(offsetMs, answers);
        expect(Math.abs(errorMs)).toBeLessThanOrEqual(500);
      }),
    );
    const steady = Array.from({ length: 30 }, () => ({ gapMs: 1037, travelMs: 4 }));
    expect(Math.abs((await observe(1234, steady)).errorMs)).toBeLessThan(50);
  });

  it('starts over when a clock has stepped', async () => {
    const { clock, time } = await observe(0, [{ gapMs: 10, travelMs: 4 }]);
    const stepMs = 60_000;
    time.observe(new Date(clock.wallMs() + stepMs).toUTCString(), clock.nowMs(), clock.nowMs());
    expect(Math.abs(time.nowMs() - clock.wallMs() - stepMs)).toBeLessThanOrEqual(1000);
  });
});
