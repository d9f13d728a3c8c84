import type { DecisionRecord } from './types.ts';

/** Victims that a line names; the rest are counted. */
const NAMED_MAX = 8;

/** Statuses of a decision in words. */
export const STATUS_WORDS: Readonly<Record<DecisionRecord['status'], string>> = {
  PENDING: 'not begun yet',
  APPLYING: 'being carried out',
  APPLIED: 'carried out',
  SUPERSEDED: 'replaced by a newer one',
  TIMED_OUT: 'not carried out in time',
  STALLED: 'waits for capacity',
  REJECTED_BUDGET: 'refused by the budget',
  ADVISORY: 'advice, not carried out',
};

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
