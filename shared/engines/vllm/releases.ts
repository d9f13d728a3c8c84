import type { KnownReleases, OptionalArgument } from '../server/launch-plan.ts';

/** Supported releases, whose arguments are known; any other release is asked for its list. */
export const VLLM_RELEASES: KnownReleases = { oldest: '0.20.0', newest: '0.33' };

/** Returns the arguments that the worker's duties need, by the first release that supports them. */
export function optionalArguments(shutdownSecs: number): readonly OptionalArgument[] {
  return [
    // Tokens in and out: earlier releases serve that route without the argument.
    { words: ['--enable-scale-out'], since: '0.30.0' },
    { words: ['--shutdown-timeout', `${shutdownSecs}`], since: '0.20.0' },
    { words: ['--enable-prompt-tokens-details'], since: '0.20.0' },
    { words: ['--disable-uvicorn-access-log'], since: '0.20.0' },
  ];
}
