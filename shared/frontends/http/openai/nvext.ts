import { type GenerationRequest, jsonPieces, type ServingWorkers } from '../../../protocol/index.ts';
import type { Inference } from '../serve-inference.ts';

/** What one chunk contributes to `nvext`. */
export interface NvextChunk {
  /** Generated ids of the chunk. */
  readonly tokenIds: readonly number[];
  /** Set on the chunk with a finish reason. */
  readonly finish?: { readonly stopReason?: string | number | undefined };
}

const NO_CHUNK: NvextChunk = { tokenIds: [] };

/**
 * The `nvext` object of a response: only what the client asked for by `extra_fields`. Objects are built as JSON text, because worker ids are 64-bit numbers there.
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

  /** Undefined when the client asked for nothing, which is the usual case and costs nothing. */
  static for(request: GenerationRequest, inference: Inference): NvextFields | undefined {
    return request.extraFields.length === 0 ? undefined : new NvextFields(inference, new Set(request.extraFields));
  }

  /** True when chunks must be built one by one: something of `nvext` differs from chunk to chunk. */
  get variesByChunk(): boolean {
    return this.#asked.has('completion_token_ids') || this.hasEngineData;
  }

  /** Engine data that no chunk has carried yet. */
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

  /** The workers that a dry run names, and the prompt: for the next chunk. */
  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.worker(workers);
    if (tokenIds.length > 0) this.#promptTokenIds = tokenIds;
  }

  /** Kept for the next chunk. */
  engineData(data: Readonly<Record<string, unknown>>): void {
    if (ENGINE_FIELDS.some((field) => this.#asked.has(field))) this.#engineData = { ...this.#engineData, ...data };
  }

  /** `,"nvext":{...}` of a chunk, or nothing. */
  take(chunk: NvextChunk = NO_CHUNK): string {
    const fields = this.#takeFields(chunk).map(([name, value]) => `"${name}":${JSON.stringify(value)}`);
    if (this.#worker !== '') fields.unshift(this.#worker);
    return fields.length === 0 ? '' : `,"nvext":{${fields.join(',')}}`;
  }

  /** As `take`, of a whole object: in pieces, for there may be megabytes of what an engine tells. */
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

  /** Prefill starts when the worker is known; without that event, when the request left the dialect. */
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
