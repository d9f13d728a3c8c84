import type { KnownReleases, OptionalArgument } from '../server/launch-plan.ts';

/** Supported releases, whose arguments are known; any other release is asked for its list. */
export const SGLANG_RELEASES: KnownReleases = { oldest: '0.5.20', newest: '0.5.23' };

/** Arguments that the worker's duties need, by the first release that supports them. */
export const OPTIONAL_ARGUMENTS: readonly OptionalArgument[] = [
  // Each event then has only the new ids; otherwise all ids so far are sent again and again.
  { words: ['--incremental-streaming-output'], since: '0.5.20' },
];
