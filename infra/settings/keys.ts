import * as z from 'zod';

/** Routes that require a key, and how soon a revoked key is refused. */
export const Keys = z
  .strictObject({
    /** Longest time until a revoked key is refused. */
    cacheSecs: z.int().min(0).max(300).default(60),
    /** Serves /metrics only to operators and to keys with the scope metrics. */
    metrics: z.boolean().default(true),
    /** Whether /docs needs a key. */
    docs: z.boolean().default(false),
  })
  .prefault({});
