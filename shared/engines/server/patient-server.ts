import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { EngineServer, StartingServer } from './dialect.ts';

interface PatientLimits {
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a start may take, for messages ... */
  readonly startTimeoutMs: number;
  /** ... and when that is over, by the clock. */
  readonly untilMs: number;
  /** Between two tries. */
  readonly pauseMs: number;
}

/**
 * A server that may be slow to answer right after it has loaded: what it does not answer it is asked again for as long as a
 * start may take. Rejects then with all paths that were not answered, and at once when `signal` aborts.
 * @param askOnce asks and waits as long as one answer may take
 */
export function patientServer(
  askOnce: EngineServer['ask'],
  limits: PatientLimits,
  signal: AbortSignal,
): StartingServer {
  const { clock, logger, startTimeoutMs, untilMs, pauseMs } = limits;
  const unanswered = new Set<string>();
  return {
    askOnce,
    async ask(message, timeoutMs) {
      const { path } = message;
      unanswered.add(path);
      for (let tries = 1; ; tries++) {
        try {
          const answer = await askOnce(message, timeoutMs);
          unanswered.delete(path);
          return answer;
        } catch (thrown) {
          signal.throwIfAborted();
          const reason = reasonOf(thrown);
          if (clock.nowMs() + pauseMs > untilMs) {
            const late = `no answer within ${startTimeoutMs} ms (${reason}, asked ${tries} times)`;
            const paths = [...unanswered].join(', ');
            throw new Error(`the engine is up and does not say what it is: ${paths}: ${late}`, { cause: thrown });
          }
          if (tries === 1) logger.warn('the engine has not answered: asking again', { path, reason });
          await clock.sleep(pauseMs, signal);
        }
      }
    },
  };
}
