/**
 * States of a decision. The newest decision is acted on in each of them except ADVISORY.
 *
 *     PENDING -> APPLYING -> APPLIED
 *     PENDING -> SUPERSEDED                  a newer one is there before it is applied
 *     PENDING -> REJECTED_BUDGET -> PENDING  the budget has no room; it has room again
 *     APPLYING -> SUPERSEDED                 a newer one is there
 *     APPLYING -> TIMED_OUT                  the fleet did not match the decision in time
 *     APPLYING -> STALLED                    capacity is missing, and every option has failed
 *     TIMED_OUT, STALLED -> PENDING          the fleet or an option has changed
 *     TIMED_OUT, STALLED -> SUPERSEDED
 *     APPLIED -> APPLYING                    the fleet has become something else
 *     ADVISORY                               said, and never acted on
 */
const DECISION_STATUSES = [
  'PENDING',
  'APPLYING',
  'APPLIED',
  'SUPERSEDED',
  'TIMED_OUT',
  'STALLED',
  'REJECTED_BUDGET',
  'ADVISORY',
] as const;
export type DecisionStatus = (typeof DECISION_STATUSES)[number];

const NEXT: Readonly<Record<DecisionStatus, readonly DecisionStatus[]>> = {
  PENDING: ['PENDING', 'APPLYING', 'SUPERSEDED', 'REJECTED_BUDGET'],
  APPLYING: ['APPLYING', 'APPLIED', 'TIMED_OUT', 'STALLED', 'SUPERSEDED', 'REJECTED_BUDGET'],
  TIMED_OUT: ['TIMED_OUT', 'PENDING', 'SUPERSEDED'],
  STALLED: ['STALLED', 'PENDING', 'SUPERSEDED'],
  APPLIED: ['APPLYING'],
  SUPERSEDED: [],
  REJECTED_BUDGET: ['PENDING', 'SUPERSEDED'],
  ADVISORY: [],
};

/**
 * Returns whether a decision may go from one status to another. One that stays in its status may change otherwise.
 */
export function mayBecome(from: DecisionStatus, to: DecisionStatus): boolean {
  return NEXT[from].includes(to);
}
