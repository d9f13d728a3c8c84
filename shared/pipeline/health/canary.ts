import type { Clock, Random } from '../../clock/index.ts';
import type { CallSink, RequestPlane } from '../../planes/request/index.ts';
import { encodeEngineRequest, healthCheckRequest } from '../../protocol/generation/index.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';

/** Sends one canary to a worker. Undefined where none can be made; otherwise resolves with whether it passed. */
export type Probe = (
  worker: Worker,
  model: Pick<RoutableModel, 'primaryName' | 'card'>,
) => Promise<boolean> | undefined;

export interface CanaryOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** Until the first output. */
  readonly timeoutMs: number;
}

/** Probes by one-token requests over the request plane. */
export function canaryProbe({ plane, clock, random, timeoutMs }: CanaryOptions): Probe {
  return (worker, { primaryName, card }) => {
    const probed = { model: primaryName, input: card.model_input, types: card.model_type };
    const request = healthCheckRequest(`canary-${random.uuid()}`, probed);
    if (request === undefined) return undefined;
    const { body, tokenIds } = encodeEngineRequest(request);
    return new Promise((resolve) => {
      const settle = (hasPassed: boolean): void => {
        timer.cancel();
        resolve(hasPassed);
      };
      const sink: CallSink = {
        accepted() {},
        tokens: () => settle(true),
        output: () => settle(true),
        end: () => settle(false), // nothing when an output came before
        fail: () => settle(false),
      };
      const timer = clock.after(timeoutMs, () => {
        call.kill();
        settle(false);
      });
      const call = plane.call(
        worker.transport,
        { id: request.id, headers: {}, deadlineMs: timeoutMs, body, ...(tokenIds && { tokenIds }) },
        sink,
      );
    });
  };
}
