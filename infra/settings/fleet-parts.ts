import * as z from 'zod';

/** Part of a request that workers do: all of it, or one half, for which the model has a fleet of each. */
export const Pool = z.enum(['agg', 'prefill', 'decode']).default('agg');

/** Suffix that tells two generations of a fleet apart. */
export const Generation = z
  .string()
  .regex(/^[a-z0-9]{1,16}$/, 'must be 1 to 16 lower-case letters and digits')
  .optional();
