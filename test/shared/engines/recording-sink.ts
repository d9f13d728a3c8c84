import type { EngineInfo, EngineSink } from '../../../shared/engines/index.ts';
import type { ServeError } from '../../../shared/errors/index.ts';
import type { EngineOutput, EngineRequest } from '../../../shared/protocol/index.ts';

/** Keeps what an engine writes. */
export class RecordingSink implements EngineSink {
  /** Token ids by choice, those of plain tokens and of outputs alike. */
  readonly ids: number[][] = [];
  readonly outputs: EngineOutput[] = [];
  /** Ids that came without an object. */
  plainIds = 0;
  error: ServeError | undefined;
  isEnded = false;
  isFull = false;
  readonly closed: Promise<void>;
  #close: () => void = () => {};
  #unblocked: (() => void)[] = [];

  constructor() {
    this.closed = new Promise((resolve) => {
      this.#close = resolve;
    });
  }

  get finish(): EngineOutput['finish_reason'] {
    return this.outputs.find(({ finish_reason: reason }) => reason != null)?.finish_reason;
  }

  get usage(): EngineOutput['completion_usage'] {
    return this.outputs.find(({ completion_usage: usage }) => usage != null)?.completion_usage;
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.#of(choice).push(...Array.from(ids).slice(start, start + count));
    this.plainIds += count;
  }

  output(output: EngineOutput): void {
    this.outputs.push(output);
    if (output.token_ids !== undefined) this.#of(output.index ?? 0).push(...output.token_ids);
  }

  end(): void {
    this.isEnded = true;
    this.#close();
  }

  fail(error: ServeError): void {
    this.error = error;
    this.#close();
  }

  isBlocked(): boolean {
    return this.isFull;
  }

  onUnblocked(callback: () => void): void {
    this.#unblocked.push(callback);
  }

  unblock(): void {
    this.isFull = false;
    for (const callback of this.#unblocked.splice(0)) callback();
  }

  #of(choice: number): number[] {
    this.ids[choice] ??= [];
    return this.ids[choice];
  }
}

/** A request for tokens after `prompt`. */
export function tokenRequest(prompt: readonly number[], fields: Partial<EngineRequest> = {}): EngineRequest {
  return {
    id: 'r1',
    model: 'm',
    input: { kind: 'tokens', tokenIds: Uint32Array.from(prompt) },
    stop: {},
    sampling: {},
    output: {},
    eosTokenIds: [],
    routing: {},
    annotations: [],
    ...fields,
  };
}

/** A request with the body of a chat. */
export function chatRequest(body: Readonly<Record<string, unknown>> = {}): EngineRequest {
  return { ...tokenRequest([]), input: { kind: 'text', endpoint: 'chat_completions', body } };
}

/** Info of an engine that takes text and has no events. */
export const TEXT_ENGINE_INFO: EngineInfo = {
  contextLength: undefined,
  kvBlockSizeTokens: 16,
  totalKvBlocks: 0,
  maxNumSeqs: undefined,
  maxNumBatchedTokens: undefined,
  dataParallelSize: 1,
  modelInput: 'Text',
  modelType: ['Chat'],
  publishesKvEvents: false,
};
