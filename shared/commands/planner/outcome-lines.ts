import type { DecisionRecord } from '../../planner/index.ts';

/** Victims that a line names; the rest are counted. */
const NAMED_MAX = 8;

/** Returns what became of a decision beyond its status, a sentence a line. */
export function outcomeLines(decision: DecisionRecord): readonly string[] {
  const { code, option, fleet, victims = [], reapplied = 0 } = decision;
  const shortage = [
    ...(code === undefined ? [] : [`code ${code}`]),
    ...(option === undefined ? [] : [`option ${option}`]),
  ];
  return [
    ...(shortage.length === 0 ? [] : [shortage.join(', ')]),
    ...(fleet === undefined || fleet === '' ? [] : [`fleet: ${fleet}`]),
    ...(victims.length === 0 ? [] : [`ends ${namesOf(victims)}`]),
    ...(reapplied === 0 ? [] : [`applied again ${reapplied} times, because the fleet had become something else`]),
  ];
}

function namesOf(victims: NonNullable<DecisionRecord['victims']>): string {
  const named = victims.slice(0, NAMED_MAX).map(({ instanceId, option }) => `${instanceId} (${option})`);
  const rest = victims.length - named.length;
  return `${named.join(', ')}${rest === 0 ? '' : ` and ${rest} more`}`;
}
