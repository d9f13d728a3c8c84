import type { Step } from '../live/connector.ts';
import type { Victim } from '../store/types.ts';
import type { Pool } from '../types.ts';
import { isBelow, type OptionState } from './option-state.ts';

/**
 * Returns the steps that bring the options of a pool to their counts. Ends come first, then lower numbers, then higher
 * ones: an option that fails gives up before another grows.
 */
export function stepsOf(pool: Pool, options: readonly OptionState[], chosen: readonly Victim[]): readonly Step[] {
  const chosenOf = ({ spec }: OptionState): readonly string[] =>
    chosen.filter(({ option }) => option === spec.id).map(({ instanceId }) => instanceId);
  const ended = options.flatMap((option) => {
    const { spec, seen, doomed } = option;
    // The environment ends nothing below the least number. After a change by hand the number is raised first.
    const ids = isBelow(option) ? [] : [...doomed.map(({ id }) => id), ...chosenOf(option)];
    const possible = ids.slice(0, Math.max(0, seen.desired - seen.min));
    return possible.map((instanceId) => ({ kind: 'terminate', pool, option: spec.id, instanceId }) as const);
  });
  const numbers = options.flatMap((option) => {
    const { seen, doomed, count, spec, live } = option;
    const isRaised = isBelow(option);
    const left = isRaised ? seen.desired : seen.desired - doomed.length - chosenOf(option).length;
    const wanted = isRaised ? Math.max(count, live.length + doomed.length) : count;
    const desired = Math.min(Math.max(seen.max, seen.desired), Math.max(seen.min, wanted));
    const step = { kind: 'desire', pool, option: spec.id, desired } as const;
    return desired === left ? [] : [{ step, by: desired - left }];
  });
  return [
    ...ended,
    ...numbers.toSorted((one, other) => Math.sign(one.by) - Math.sign(other.by)).map(({ step }) => step),
  ];
}
