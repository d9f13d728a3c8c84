import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { EngineServer, StartingServer } from './dialect.ts';

interface PatientLimits {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Limit of a start, for messages ... */
  readonly startTimeoutMs: number;
  /** ... and its end, by the clock. */
  readonly untilMs: number;
  /** Pause between two attempts. */
  readonly pauseMs: number;
}

/**
 * Wraps a server that may answer slowly right after loading: it sends unanswered messages again for as long as a start
 * may take. Then it rejects with all unanswered paths; it rejects at once when `signal` aborts.
 * @param askOnce sends a message and waits as long as one answer may take
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
            const late = `no answer within ${startTimeoutMs} ms (${reason}, ${tries} requests)`;
            const paths = [...unanswered].join(', ');
            throw new Error(`the engine is up but does not describe itself: ${paths}: ${late}`, { cause: thrown });
          }
          if (tries === 1) logger.warn('the engine did not answer: trying again', { path, reason });
          await clock.sleep(pauseMs, signal);
        }
      }
    },
  };
}
