/**
 * What becomes of a decision.
 *
 *     PENDING -> APPLYING -> APPLIED
 *     PENDING -> SUPERSEDED                  a newer one is there before it is applied
 *     APPLYING -> TIMED_OUT -> SUPERSEDED    the fleet did not become what was decided
 *     APPLYING -> SUPERSEDED                 a newer one is there
 *     PENDING -> REJECTED_BUDGET | REJECTED_AUTH
 *     ADVISORY                               said, and never acted on
 */
export const DECISION_STATUSES = [
  'PENDING',
  'APPLYING',
  'APPLIED',
  'SUPERSEDED',
  'TIMED_OUT',
  'REJECTED_BUDGET',
  'REJECTED_AUTH',
  'ADVISORY',
] as const;
export type DecisionStatus = (typeof DECISION_STATUSES)[number];

const NEXT: Readonly<Record<DecisionStatus, readonly DecisionStatus[]>> = {
  PENDING: ['APPLYING', 'SUPERSEDED', 'REJECTED_BUDGET', 'REJECTED_AUTH'],
  APPLYING: ['APPLYING', 'APPLIED', 'TIMED_OUT', 'SUPERSEDED'],
  TIMED_OUT: ['SUPERSEDED'],
  APPLIED: [],
  SUPERSEDED: [],
  REJECTED_BUDGET: [],
  REJECTED_AUTH: [],
  ADVISORY: [],
};

/** Whether a decision may go from one status to another; one that is being applied may be taken up anew. */
export function mayBecome(from: DecisionStatus, to: DecisionStatus): boolean {
  return NEXT[from].includes(to);
}

/** Whether nothing is left to do for it. */
export function isSettled(status: DecisionStatus): boolean {
  return status !== 'PENDING' && status !== 'APPLYING';
}
