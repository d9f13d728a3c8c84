import { type GenerationRequest, jsonPieces, type ServingWorkers } from '../../../protocol/index.ts';
import type { Inference } from '../serve-inference.ts';

/** The part of `nvext` that one chunk contributes. */
export interface NvextChunk {
  /** Generated token ids of the chunk. */
  readonly tokenIds: readonly number[];
  /** Present on the chunk with a finish reason. */
  readonly finish?: { readonly stopReason?: string | number | undefined };
}

const NO_CHUNK: NvextChunk = { tokenIds: [] };

/**
 * The `nvext` object of a response, with only the fields that the client asked for in `extra_fields`. Its objects are
 * built as JSON text, because worker ids are 64-bit numbers there.
 */
export class NvextFields {
  readonly #inference: Inference;
  readonly #asked: ReadonlySet<string>;
  readonly #handedOverMs: number;
  #workerMs: number | undefined;
  #worker = '';
  #promptTokenIds: readonly number[] | undefined;
  #engineData: Readonly<Record<string, unknown>> | undefined;

  private constructor(inference: Inference, asked: ReadonlySet<string>) {
    this.#inference = inference;
    this.#asked = asked;
    this.#handedOverMs = inference.elapsedMs;
  }

  /**
   * Returns the fields that the client asked for; undefined if there are none, which is the usual case and costs
   * nothing.
   */
  static for(request: GenerationRequest, inference: Inference): NvextFields | undefined {
    return request.extraFields.length === 0 ? undefined : new NvextFields(inference, new Set(request.extraFields));
  }

  /** Whether chunks must be built one by one, because a part of `nvext` differs from chunk to chunk. */
  get variesByChunk(): boolean {
    return this.#asked.has('completion_token_ids') || this.hasEngineData;
  }

  /** Whether there is engine data that no chunk has carried yet. */
  get hasEngineData(): boolean {
    return this.#engineData !== undefined;
  }

  worker(workers: ServingWorkers): void {
    this.#workerMs = this.#inference.elapsedMs;
    if (!this.#asked.has('worker_id')) return;
    const fields = [
      ...idField('prefill_worker_id', workers.prefillWorkerId),
      ...rankField('prefill_dp_rank', workers.prefillDpRank),
      ...idField('decode_worker_id', workers.decodeWorkerId),
      ...rankField('decode_dp_rank', workers.decodeDpRank),
    ];
    this.#worker = `"worker_id":{${fields.join(',')}}`;
  }

  /** Keeps for the next chunk the workers that a dry run names, and the prompt. */
  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.worker(workers);
    if (tokenIds.length > 0) this.#promptTokenIds = tokenIds;
  }

  /** Keeps engine data for the next chunk. */
  engineData(data: Readonly<Record<string, unknown>>): void {
    if (ENGINE_FIELDS.some((field) => this.#asked.has(field))) this.#engineData = { ...this.#engineData, ...data };
  }

  /** Returns `,"nvext":{...}` of a chunk, or an empty text. */
  take(chunk: NvextChunk = NO_CHUNK): string {
    const fields = this.#takeFields(chunk).map(([name, value]) => `"${name}":${JSON.stringify(value)}`);
    if (this.#worker !== '') fields.unshift(this.#worker);
    return fields.length === 0 ? '' : `,"nvext":{${fields.join(',')}}`;
  }

  /** Yields the same text for a whole object in pieces, because the engine's data may have megabytes. */
  *pieces(chunk: NvextChunk): Generator<string> {
    let lead = ',"nvext":{';
    if (this.#worker !== '') {
      yield lead + this.#worker;
      lead = ',';
    }
    for (const [name, value] of this.#takeFields(chunk)) {
      yield `${lead}"${name}":`;
      yield* jsonPieces(value);
      lead = ',';
    }
    if (lead === ',') yield '}';
  }

  #takeFields({ tokenIds, finish }: NvextChunk): (readonly [name: string, value: unknown])[] {
    const data = this.#engineData;
    this.#engineData = undefined;
    if (this.#promptTokenIds !== undefined) return [['token_ids', this.#promptTokenIds]];
    const fields = [
      ['completion_token_ids', tokenIds.length === 0 ? undefined : tokenIds],
      ['engine_data', data],
      ['routed_experts', data?.routed_experts],
      ['prompt_logprobs', data?.prompt_logprobs],
      ['timing', finish === undefined ? undefined : this.#timing()],
      ['stop_reason', finish?.stopReason],
    ] as const;
    return fields.filter(([name, value]) => value !== undefined && this.#asked.has(name));
  }

  /**
   * Returns the times of the request. Prefill starts when the worker is known; without that event, when the request
   * left the dialect.
   */
  #timing(): Readonly<Record<string, number>> {
    const totalMs = this.#inference.elapsedMs;
    const ttftMs = this.#inference.ttftMs ?? totalMs;
    const waitMs = Math.min(this.#workerMs ?? this.#handedOverMs, ttftMs);
    return {
      request_received_ms: this.#inference.receivedMs,
      prefill_wait_time_ms: waitMs,
      prefill_time_ms: ttftMs - waitMs,
      ttft_ms: ttftMs,
      total_time_ms: totalMs,
    };
  }
}

const ENGINE_FIELDS = ['engine_data', 'routed_experts', 'prompt_logprobs'] as const;

function idField(name: string, hexId: string): string[] {
  return hexId === '' || hexId === '0' ? [] : [`"${name}":${BigInt(`0x${hexId}`)}`]; // worker id 0 means unset
}

function rankField(name: string, rank: number | undefined): string[] {
  return rank === undefined ? [] : [`"${name}":${rank}`];
}
