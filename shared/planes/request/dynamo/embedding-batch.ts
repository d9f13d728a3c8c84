import { setMaxListeners } from 'node:events';
import { type ServeError, toServeError, workerError } from '../../../errors/index.ts';
import { type EmbeddingRecord, type EngineOutput, readEmbeddings } from '../../../protocol/index.ts';
import type { IncomingCall, PlaneHandler } from '../types.ts';

/** Prompts of one batch that the engine computes at the same time. A whole batch could fill every place of a worker. */
const PARALLEL_MAX = 16;

/**
 * Computes the embeddings of several prompts, with a call for each of them, because engines take one prompt at a time.
 * The answer is one record with all vectors, in order. The first failure ends the batch.
 */
export async function serveEmbeddings(
  whole: IncomingCall,
  prompts: readonly Uint32Array[],
  handler: PlaneHandler,
): Promise<void> {
  const failing = new AbortController();
  const signal = AbortSignal.any([whole.signal, failing.signal]);
  setMaxListeners(0, signal); // the calls share it
  const records: EmbeddingRecord[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < prompts.length && !signal.aborted; at = next++) {
      const tokenIds = prompts[at] as Uint32Array; // in range
      records[at] = await embed(new PromptCall(whole, { id: `${whole.id}-${at}`, tokenIds, signal }), handler);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(PARALLEL_MAX, prompts.length) }, lane));
  } catch (thrown) {
    failing.abort(toServeError(thrown));
    throw thrown;
  }
  if (signal.aborted) return; // the caller has left
  const sum = (count: (record: EmbeddingRecord) => number | undefined): number =>
    records.reduce((total, record) => total + (count(record) ?? 0), 0);
  const record: EmbeddingRecord = {
    embeddings: records.flatMap(({ embeddings }) => embeddings),
    prompt_tokens: sum(({ prompt_tokens }) => prompt_tokens),
    total_tokens: sum(({ total_tokens }) => total_tokens),
  };
  whole.output({ body: record, finish_reason: 'stop' });
  whole.end();
}

/** Passes a call to the handler, and resolves with its embedding. Rejects with the failure of the call. */
function embed(call: PromptCall, handler: PlaneHandler): Promise<EmbeddingRecord> {
  const { signal } = call;
  let failed = (_thrown: unknown): void => {};
  const onAbort = (): void => failed(signal.reason);
  const embedding = new Promise<EmbeddingRecord>((resolve, reject) => {
    call.settle = { resolve, reject };
    failed = (thrown) => reject(toServeError(thrown));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      handler(call)?.catch(failed);
    } catch (thrown) {
      failed(thrown);
    }
  });
  return embedding.finally(() => signal.removeEventListener('abort', onAbort));
}

interface PromptCallOptions {
  readonly id: string;
  readonly tokenIds: Uint32Array;
  readonly signal: AbortSignal;
}

/** One prompt of a batch, as the engine sees it. */
class PromptCall implements IncomingCall {
  readonly id: string;
  readonly endpoint: string;
  readonly headers: IncomingCall['headers'];
  readonly deadlineMs: number | undefined;
  readonly body: unknown;
  readonly tokenIds: Uint32Array;
  readonly signal: AbortSignal;
  readonly stopped: AbortSignal;
  readonly hearsMoves = false;
  readonly wasMoved = false;
  settle: { resolve(record: EmbeddingRecord): void; reject(error: ServeError): void } | undefined;
  readonly #whole: IncomingCall;
  #record: EmbeddingRecord | undefined;

  constructor(whole: IncomingCall, { id, tokenIds, signal }: PromptCallOptions) {
    this.#whole = whole;
    this.id = id;
    this.endpoint = whole.endpoint;
    this.headers = whole.headers;
    this.deadlineMs = whole.deadlineMs;
    this.body = whole.body;
    this.tokenIds = tokenIds;
    this.signal = signal;
    this.stopped = whole.stopped;
  }

  get isStopped(): boolean {
    return this.#whole.isStopped;
  }

  accept(): void {
    this.#whole.accept();
  }

  tokens(): void {
    this.fail(workerError('BackendProtocol', 'the engine answered a request for an embedding with tokens'));
  }

  output({ body }: EngineOutput): void {
    if (readEmbeddings(body) !== undefined) this.#record = body as EmbeddingRecord; // checked in this line
  }

  end(): void {
    if (this.#record !== undefined) this.settle?.resolve(this.#record);
    else this.fail(workerError('BackendProtocol', 'the engine ended without an embedding'));
  }

  fail(error: ServeError): void {
    this.settle?.reject(error);
  }

  askToMove(): void {}

  isBlocked(): boolean {
    return false; // an answer is one record
  }

  onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }
}
