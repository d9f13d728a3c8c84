import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PlaceBook } from '../../../../shared/stateless-router/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const LIFE_MS = 250;

describe('PlaceBook', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('hold' as const), id: fc.nat(5), dpRank: fc.nat(1), tokens: fc.nat(1000) }),
    fc.record({ kind: fc.constant('arrived' as const), id: fc.nat(5) }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(200) }),
  );

  it('counts for each rank what was promised, did not come, and is not too old', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const clock = new VirtualClock();
        const book = new PlaceBook(clock);
        let held: { id: number; dpRank: number; tokens: number; untilMs: number }[] = [];
        for (const each of steps) {
          if (each.kind === 'wait') await clock.advance(each.ms);
          else held = held.filter(({ id }) => id !== each.id);
          if (each.kind === 'arrived') book.arrived(`r${each.id}`);
          if (each.kind === 'hold') {
            const { id, dpRank, tokens } = each;
            held.push({ id, dpRank, tokens, untilMs: clock.nowMs() + LIFE_MS });
            book.hold({ id: `r${id}`, dpRank, tokens });
          }
          held = held.filter(({ untilMs }) => untilMs > clock.nowMs());
          for (const rank of [0, 1]) {
            const expected = held.reduce((sum, { dpRank, tokens }) => sum + (dpRank === rank ? tokens : 0), 0);
            expect(book.tokensOf(rank)).toBe(expected);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it('keeps 4,096 places at most, and says how often one was not counted', () => {
    let uncounted = 0;
    const book = new PlaceBook(new VirtualClock(), () => uncounted++);
    for (let at = 0; at < 10_000; at++) book.hold({ id: `r${at}`, dpRank: 0, tokens: 1 });
    expect(book.tokensOf(0)).toBe(4096);
    expect(uncounted).toBe(10_000 - 4096);
  });
});
