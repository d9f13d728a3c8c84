import * as z from 'zod';

/** A function ends at 900 s, and says so to its client before. */
const HOLD_SECS_MAX = 870;
const HOLD_SECS_ALLOWED = {
  error: ({ input }: { readonly input?: unknown }) => `${String(input)}: allowed are 0 to ${HOLD_SECS_MAX}`,
};

const MAX_TOKENS_MAX = 4_294_967_295;
const MAX_TOKENS_ALLOWED = {
  error: ({ input }: { readonly input?: unknown }) =>
    `${JSON.stringify(input)}: allowed are whole numbers from 0 to ${MAX_TOKENS_MAX}`,
};

/** Limits of a caller. */
export const Limits = z
  .strictObject({
    /** Sustained requests a second of the API, all callers together; more are refused with 429. */
    requestsPerSecond: z.int().min(1).max(10_000).default(100),
    burst: z.int().min(1).max(5000).default(200),
    /** Largest body at the container edge, MiB; the function's is 6. */
    bodyMb: z.int().min(1).max(1024).default(192),
    /**
     * Requests of a model without a worker wait this long; at the function 280 s at most if they do not stream. 0
     * refuses them. @default 120; with fleets on EC2 one and a half times the longest start, and 30 s
     */
    holdSecs: z.int().min(0, HOLD_SECS_ALLOWED).max(HOLD_SECS_MAX, HOLD_SECS_ALLOWED).optional(),
    /**
     * Tokens of a choice for requests to the function that name no number: it is not told of clients that leave.
     * Clients may ask for more. 0 = what the context leaves.
     */
    maxTokensFunction: z
      .int(MAX_TOKENS_ALLOWED)
      .min(0, MAX_TOKENS_ALLOWED)
      .max(MAX_TOKENS_MAX, MAX_TOKENS_ALLOWED)
      .default(8192),
    /** Adds a WAF that blocks an address which sends more in five minutes. @default none */
    requestsPerAddress: z.int().min(100).max(2_000_000_000).optional(),
  })
  .prefault({});

const HOLD_SECS = 120;
/** Starts differ: one that takes half as long again as the usual one is still waited for. */
const SLOW_START_FACTOR = 1.5;
const AFTER_START_SECS = 30;

interface Held {
  readonly limits: z.infer<typeof Limits>;
  readonly fleets: Readonly<Record<string, { readonly kind: string; readonly startSecs?: number }>>;
}

/** Returns how long a request of a model without a worker waits, in seconds: long enough for a machine to start. */
export function holdSecsOf({ limits: { holdSecs }, fleets }: Held): number {
  if (holdSecs !== undefined) return holdSecs;
  const starts = Object.values(fleets).map(({ startSecs = 0 }) => SLOW_START_FACTOR * startSecs + AFTER_START_SECS);
  return Math.min(HOLD_SECS_MAX, Math.ceil(Math.max(HOLD_SECS, ...starts)));
}
