import type { Random } from '../../clock/index.ts';
import { type Duration, type OptionConditions, START_PHASES, type StartPhase } from './conditions.ts';
import type { PhaseTimes } from './ledger.ts';

/** Draws the times of a start from nothing. */
export function coldPhases({ start }: OptionConditions, random: Random): PhaseTimes {
  return draw((phase) => start[phase], random);
}

/** Draws the times of a start from the warm pool. */
export function warmPhases({ start, warmSkips }: OptionConditions, random: Random): PhaseTimes {
  return draw((phase) => (warmSkips.includes(phase) ? 0 : start[phase]), random);
}

export function totalMs(phases: PhaseTimes): number {
  return START_PHASES.reduce((total, phase) => total + phases[phase], 0);
}

function draw(read: (phase: StartPhase) => Duration, random: Random): PhaseTimes {
  const drawn = START_PHASES.map((phase) => {
    const given = read(phase);
    const seconds = typeof given === 'number' ? given : given[0] + random.next() * (given[1] - given[0]);
    return [phase, 1000 * seconds] as const;
  });
  return Object.fromEntries(drawn) as PhaseTimes;
}
