import { toServeError, workerError } from '../../errors/index.ts';
import { askOnce } from '../../planes/index.ts';
import { type EngineOutput, type EngineRequest, encodeEngineRequest } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import type { DispatchContext, RoutedRequest } from './run-context.ts';

/**
 * Longest time for an encode worker, in milliseconds. After it the worker that computes the prompt encodes the media.
 */
const ENCODE_MS = 30_000;

export type EncoderResult = NonNullable<EngineRequest['encoderResult']>;

export interface EncodeStageOptions extends Pick<DispatchContext, 'plane' | 'clock' | 'observer' | 'stalledWorkers'> {
  /** Returns the model as it is now; undefined if another one has its name. */
  modelNow(model: RoutableModel): RoutableModel | undefined;
}

/**
 * Has the media of a request encoded by an encode worker before its prompt is computed.
 *
 *     request ──> encode worker ──(encoder_result)──> prefill or aggregated worker: the request, with the result
 *
 * All media of a request go to one encode worker, and the encode workers take turns. The next worker gets the media as
 * well, and encodes them itself if the encode worker could not.
 */
export class EncodeStage {
  readonly #options: EncodeStageOptions;
  #turn = 0;

  constructor(options: EncodeStageOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the encode worker's result; undefined if the model's workers use none, there is no encode worker, or
   * it failed. Rejects with a ServeError that the client has caused, and with the signal's reason when it aborts.
   */
  async run(request: EngineRequest, routed: RoutedRequest): Promise<EncoderResult | undefined> {
    const { model, signal } = routed;
    const { observer, stalledWorkers, modelNow } = this.#options;
    const now = modelNow(model);
    if (now === undefined || !wantsEncoder(now)) return undefined;
    const open = (now.encoders ?? []).filter((each) => !stalledWorkers.has(each));
    const worker = open[this.#turn++ % open.length];
    if (worker === undefined) {
      observer.encodedInline?.(model.primaryName);
      return undefined;
    }
    try {
      return await this.#ask(worker, request, routed);
    } catch (thrown) {
      const error = toServeError(thrown);
      if (signal.aborted || error.status < 500) throw thrown; // no other worker could do better
      observer.encodedInline?.(model.primaryName, error);
      return undefined;
    }
  }

  async #ask(worker: Worker, request: EngineRequest, { headers, signal }: RoutedRequest): Promise<EncoderResult> {
    const { plane, clock } = this.#options;
    const question = { id: request.id, headers, ...encodeEngineRequest(request) };
    const answer = await askOnce(plane, worker.transport, question, { clock, timeoutMs: ENCODE_MS, signal });
    signal.throwIfAborted();
    if (answer.kind === 'failed') throw answer.error;
    return resultOf(answer.output);
  }
}

/** Whether the workers that compute the prompt hand media to encode workers (`--route-to-encoder`). */
function wantsEncoder({ prefill, workers }: RoutableModel): boolean {
  return (prefill?.workers ?? workers).some(({ routesToEncoder }) => routesToEncoder === true);
}

/** Returns the result in the output of an encode worker: it has `encoder_result`, a finish reason and no tokens. */
function resultOf({ encoder_result: result, finish_reason: reason }: EngineOutput = {}): EncoderResult {
  if (typeof reason === 'object' && reason !== null) throw workerError('Internal', reason.error);
  if (isRecord(result)) return result as EncoderResult;
  throw workerError('BackendProtocol', 'the encode worker gave no encoder_result');
}
