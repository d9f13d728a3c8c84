import * as z from 'zod';

/** Part of a request that workers do: all of it, or one half, for which the model has a fleet of each. */
export const Pool = z.enum(['agg', 'prefill', 'decode']).default('agg');

/** Suffix that tells two generations of a fleet apart. */
export const Generation = z
  .string()
  .regex(/^[a-z0-9]{1,16}$/, 'must be 1 to 16 lower-case letters and digits')
  .optional();

/** Kinds of fleets that a planner scales: machines of EC2, and pods of a cluster of EKS. */
export const PLANNED_KINDS = ['ec2', 'eks'] as const;

/** Whether a planner decides how many workers a fleet has. */
export function isPlanned({ kind }: { readonly kind: string }): boolean {
  return PLANNED_KINDS.some((planned) => planned === kind);
}
