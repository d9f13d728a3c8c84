/** Limits of a key; null = none. */
export interface Limits {
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly tokens_per_day: number | null;
}

/** The limits that a key may have: how forms name them, and the column of what is left. */
export const LIMITS = [
  { name: 'requests_per_minute', shown: 'Requests a minute', left: 'Req/min left' },
  { name: 'tokens_per_minute', shown: 'Tokens a minute', left: 'Tokens/min left' },
  { name: 'tokens_per_day', shown: 'Tokens a day', left: 'Tokens/day left' },
] as const satisfies readonly { readonly name: keyof Limits; readonly shown: string; readonly left: string }[];
