import type { Clock } from '../../clock/index.ts';
import { afterSocketsAreRead } from '../../concurrency/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { EngineOutput } from '../../protocol/index.ts';
import type { PlaneRequest, RequestPlane, Transport } from './types.ts';

/** Answer to a question, or the reason why there is none. */
export type OneAnswer =
  | {
      readonly kind: 'answered';
      /** The last output; undefined if the answer had none. */
      readonly output: EngineOutput | undefined;
    }
  | { readonly kind: 'failed'; readonly error: ServeError };

export interface AskOnceLimits {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Asks a question with one short answer. Resolves within `timeoutMs`, and at once if `signal` aborts; never rejects. If
 * this process stood still meanwhile, an answer that has arrived counts.
 * @param onOutput called with every output of an answer with several; an error that it throws fails the question
 */
export function askOnce(
  plane: Pick<RequestPlane, 'call'>,
  transport: Transport,
  question: PlaneRequest,
  { clock, timeoutMs, signal }: AskOnceLimits,
  onOutput?: (output: EngineOutput) => void,
): Promise<OneAnswer> {
  if (signal?.aborted) return Promise.resolve({ kind: 'failed', error: toServeError(signal.reason) });
  return new Promise((resolve) => {
    let last: EngineOutput | undefined;
    const settle = (answer: OneAnswer): void => {
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
      resolve(answer);
    };
    const giveUp = (error: ServeError): void => {
      call.kill();
      settle({ kind: 'failed', error });
    };
    const onAbort = (): void => giveUp(toServeError(signal?.reason));
    const onLate = (): void => giveUp(workerError('DeadlineExceeded', `no answer within ${timeoutMs} ms`));
    const timer = afterSocketsAreRead(clock, timeoutMs, onLate);
    signal?.addEventListener('abort', onAbort, { once: true });
    const call = plane.call(transport, question, {
      accepted() {},
      tokens() {},
      output(output) {
        last = output;
        try {
          onOutput?.(output);
        } catch (thrown) {
          giveUp(toServeError(thrown));
        }
      },
      end: () => settle({ kind: 'answered', output: last }),
      fail: (error) => settle({ kind: 'failed', error }),
    });
  });
}
