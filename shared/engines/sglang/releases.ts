import type { KnownReleases, OptionalArgument } from '../server/launch-plan.ts';

/** The releases that are served, and of which the arguments are known; another one is asked for its list. */
export const SGLANG_RELEASES: KnownReleases = { oldest: '0.5.20', newest: '0.5.23' };

/** Arguments that our own duties need, by the first release that knows them. */
export const OPTIONAL_ARGUMENTS: readonly OptionalArgument[] = [
  // Each event then has the new ids alone; without it the ids so far are sent again and again.
  { words: ['--incremental-streaming-output'], since: '0.5.20' },
];
