import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { HubFault } from './faults.ts';

/** Attempts of one request, the first included. */
const ATTEMPTS_MAX = 4;
const FIRST_WAIT_MS = 500;
/** Longest wait between two attempts, also if the hub asks for a longer one. */
const WAIT_MS_MAX = 30_000;

export interface RetryOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Tries `work` up to four times, as long as its failures are transient, and waits 0.5, 1 and 2 s between the attempts,
 * or as long as the hub asks.
 * @throws HubFault that says how often it was tried; any other failure of `work` at once
 */
export async function retrying<T>({ clock, signal }: RetryOptions, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (thrown) {
      if (!(thrown instanceof HubFault) || !thrown.isTransient) throw thrown;
      if (attempt === ATTEMPTS_MAX) {
        throw new HubFault(`${reasonOf(thrown)} (tried ${ATTEMPTS_MAX} times)`, { isTransient: true, cause: thrown });
      }
      await clock.sleep(Math.min(WAIT_MS_MAX, thrown.waitMs ?? FIRST_WAIT_MS * 2 ** (attempt - 1)), signal);
    }
  }
}
