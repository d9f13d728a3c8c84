import type { KnownReleases, OptionalArgument } from '../server/launch-plan.ts';

/** The releases that are served, and of which the arguments are known; another one is asked for its list. */
export const VLLM_RELEASES: KnownReleases = { oldest: '0.20.0', newest: '0.33' };

/** Arguments that our own duties need, by the first release that knows them. */
export function optionalArguments(shutdownSecs: number): readonly OptionalArgument[] {
  return [
    // Tokens in and out: releases before it serve that route without being asked.
    { words: ['--enable-scale-out'], since: '0.30.0' },
    { words: ['--shutdown-timeout', `${shutdownSecs}`], since: '0.20.0' },
    { words: ['--enable-prompt-tokens-details'], since: '0.20.0' },
    { words: ['--disable-uvicorn-access-log'], since: '0.20.0' },
  ];
}
