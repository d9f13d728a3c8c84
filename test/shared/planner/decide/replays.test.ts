import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import { decide } from '../../../../shared/planner/decide/decide.ts';
import { packState, startModel, unpackState } from '../../../../shared/planner/decide/model-state.ts';
import { NO_TRAFFIC, type TrafficTotals } from '../../../../shared/protocol/index.ts';
import { BEGIN_S, heldAt, rollupOf, tickAt } from '../../../support/planner/fleet-signals.ts';
import { instanceIdAt, plannerOf } from '../../../support/planner/planned-model.ts';

const ROUNDS = 24;
const WORKERS = 4;

/** What comes in each round of five seconds, from sources of which each counts for itself. */
function story(): readonly (readonly SentSignal[])[] {
  return Array.from({ length: ROUNDS }, (_, round) => {
    const started = round < 8 ? 25 * round : 200 + 150 * (round - 8);
    const totals: TrafficTotals = { ...NO_TRAFFIC, started, isl_sum: 1000 * started, isl_count: started };
    const sentAtS = BEGIN_S + 5 * round;
    const workers = Array.from({ length: WORKERS }, (_, worker): SentSignal => {
      const rollup = rollupOf(worker, round, totals, 1000 * sentAtS);
      return { signal: { ...rollup, host: { instance_id: instanceIdAt(worker) } }, sentAtS };
    });
    const at = 1000 * sentAtS;
    const id = instanceIdAt(1);
    const common = { v: 1, namespace: 'ns', model: 'm', seq: 0, component: 'agg', at } as const;
    const kind = 'spot-warning' as const;
    const warning = { type: 'capacity.interrupt', ...common, source: id, epoch: 'w', instance_id: id, kind } as const;
    const shortage = {
      ...{ type: 'capacity.failed', ...common, source: 'g/1', epoch: 'f', code: 'InsufficientInstanceCapacity' },
      ...{ instance_types: [], activity_id: '1' },
    } as const;
    return [
      ...workers,
      ...(round === 15 ? [{ signal: warning, sentAtS }] : []),
      ...(round === 18 ? [{ signal: shortage as never, sentAtS }] : []),
      ...(round % 3 === 0 ? [{ ...heldAt(5 * round, round), sentAtS }] : []),
      ...(round % 4 === 0 ? [{ ...tickAt(5 * round, round), sentAtS }] : []),
    ];
  });
}

function shuffled<T>(values: readonly T[], seed: number): readonly T[] {
  const rankOf = (place: number): number => Math.imul(Math.imul(seed + 1, 2654435761) ^ (place + 1), 40503) >>> 0;
  return values
    .map((value, place) => ({ value, rank: rankOf(place) }))
    .toSorted((one, other) => one.rank - other.rank)
    .map(({ value }) => value);
}

/** Plays batches, each on the state that was stored after the one before, and returns what was decided. */
function play(batches: readonly (readonly SentSignal[])[]) {
  const planner = plannerOf({ rate_deviations: 0 });
  let state = startModel(BEGIN_S - 1);
  const decided: unknown[] = [];
  for (const batch of batches) {
    const outcome = decide(unpackState(packState(state)), batch, { planner });
    state = outcome.state;
    if (outcome.decision !== undefined) {
      const { decisionId, targets, previous } = outcome.decision;
      decided.push({ decisionId, targets, previous, atS: outcome.tick?.atS });
    }
  }
  return { decided, targets: state.targets, startedTotal: state.sources['worker.rollup/w000000000000000']?.totals };
}

describe('batches that come shuffled and doubled', () => {
  it('have the same decisions as those that come once and in order, in thousands of batches', () => {
    const rounds = story();
    const right = play(rounds);
    expect(right.decided.length).toBeGreaterThan(2);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(), fc.nat({ max: ROUNDS - 1 }), fc.boolean()), {
          minLength: ROUNDS,
          maxLength: ROUNDS,
        }),
        (chances) => {
          const batches = rounds.flatMap((round, at) => {
            const [seed, earlier, isDoubled] = chances[at] ?? [0, 0, false];
            // A queue keeps the order of what one process sends. Workers may overtake each other.
            const all = [...shuffled(round.slice(0, WORKERS), seed), ...round.slice(WORKERS)];
            // What came before comes again in any order: with this batch, or as a batch of its own.
            const again = earlier <= at ? shuffled(rounds[earlier] ?? [], seed) : [];
            const cut = seed % (all.length + 1);
            return isDoubled ? [[...all, ...all, ...again]] : [all.slice(0, cut), all.slice(cut), again];
          });
          expect(play(batches)).toEqual(right);
        },
      ),
      { numRuns: 60 }, // some 50 batches each
    );
  });
});
