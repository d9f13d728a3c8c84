/** Input of a worker: one of the three model inputs of a card. */
export type EngineInput =
  | { readonly kind: 'tokens'; readonly tokenIds: Uint32Array; readonly promptEmbeds?: string }
  /** The client's own body, untouched: multimodal, images, videos, embeddings, and engines that tokenize themselves. */
  | { readonly kind: 'text'; readonly endpoint: string; readonly body: Readonly<Record<string, unknown>> }
  /** KServe tensor request; raw contents stay bytes. */
  | { readonly kind: 'tensor'; readonly body: Readonly<Record<string, unknown>> };

/** Annotation of a request that releases the blocks of the prefill with the same handoff. Only frontends set it. */
export const RELEASE_PREFILL = 'release_prefill';

export interface PrefillResult {
  readonly disaggregated_params: unknown;
  readonly prompt_tokens_details?: unknown;
}

export interface BootstrapInfo {
  readonly bootstrap_host: string;
  readonly bootstrap_port: number;
  /** Room number, u64 as decimal text. */
  readonly bootstrap_room: string;
  readonly handoff_id?: string;
}

/** Terms of a request that a dialect decodes and a worker receives in the same form. */
export interface RequestTerms {
  /** Request id (UUID v4), `<id>-<index>` for a part of a batch; also the key of cancellation. */
  readonly id: string;
  /** Model name; in a frontend as the client wrote it, until the pipeline resolves aliases. */
  readonly model: string;
  readonly stop: StopConditions;
  readonly sampling: SamplingOptions;
  readonly output: OutputOptions;
  readonly routing: RoutingHints;
  readonly routerConfigOverride?: RouterConfigOverride;
  /** Annotations of `nvext.annotations`. */
  readonly annotations: readonly string[];
  readonly extraArgs?: Readonly<Record<string, unknown>>;
  readonly agentContext?: Readonly<Record<string, unknown>>;
  readonly requestTimestampMs?: number;
  /** Latency targets of `nvext.router`, in milliseconds. */
  readonly router?: { readonly ttft_target?: number; readonly itl_target?: number };
  readonly mmProcessorKwargs?: Readonly<Record<string, unknown>>;
  /** Set when the client wants the prompt's embedding: the engine answers with one `body`, an `EmbeddingRecord`. */
  readonly embedding?: EmbeddingOptions;
}

/**
 * Request record that crosses the request plane (`PreprocessedRequest`). Absent and null are equal. Token ids travel as
 * a raw u32 tail of the OPEN frame, never inside the record.
 *
 * @example
 * async function* generate({ sampling }: EngineRequest) {
 *   yield `temperature ${sampling.temperature ?? 1}`;
 * }
 */
export interface EngineRequest extends RequestTerms {
  readonly input: EngineInput;
  readonly eosTokenIds: readonly number[];
  readonly mdcSum?: string;
  readonly prefillResult?: PrefillResult;
  readonly bootstrapInfo?: BootstrapInfo;
  readonly encoderResult?: Readonly<Record<string, unknown>>;
  readonly multiModalData?: Readonly<Record<string, readonly unknown[]>>;
  readonly mmRoutingInfo?: unknown;
  readonly requireReasoning?: boolean;
  /** Whether the request is a probe, which is served locally, without peers. */
  readonly isHealthCheck?: boolean;
  /** W3C trace context and the client's own request id. They travel in the call's headers, not in the record. */
  readonly trace?: { readonly traceparent?: string; readonly tracestate?: string; readonly requestId?: string };
}

/** Returns whether the request names the worker that must serve it. */
export function isPinned({ routing }: Pick<EngineRequest, 'routing'>): boolean {
  return routing.backend_instance_id !== undefined || routing.decode_worker_id !== undefined;
}

/**
 * Returns whether another worker could continue the request once it has begun: one choice, from tokens, unguided, and
 * not pinned to a worker. Frontends and workers both use this: a worker must not give up a request that the frontend
 * cannot move.
 */
export function isMovable(request: EngineRequest): boolean {
  const { input, sampling } = request;
  if (input.kind !== 'tokens' || input.promptEmbeds !== undefined) return false;
  if ((sampling.n ?? 1) > 1 || sampling.guided_decoding !== undefined) return false;
  return !isPinned(request);
}

/**
 * Header of a call whose caller can be asked to continue it on another worker, and does so if it can. For a call
 * without the header, a worker that ends must guess: callers of earlier releases move a failed request.
 */
export const MOVES_HEADER = 'x-stator-moves';

/** Conditions that end generation. Absent fields leave the choice to the engine. */
export interface StopConditions {
  readonly max_tokens?: number;
  readonly min_tokens?: number;
  /** Strings that end the output and are not part of it. */
  readonly stop?: readonly string[];
  /** Token ids that end the output; their text is not shown. */
  readonly stop_token_ids?: readonly number[];
  /** EOS-like ids, not reported as `stop_reason`. */
  readonly stop_token_ids_hidden?: readonly number[];
  /** Ids that end the output and whose text is shown (a tool parser's end token). */
  readonly stop_token_ids_visible?: readonly number[];
  readonly ignore_eos?: boolean;
  readonly max_thinking_tokens?: number;
}

/** Constrained output: exactly one of `json`, `regex`, `choice`, `grammar`, `structural_tag`. */
export interface GuidedDecoding {
  readonly json?: unknown;
  readonly regex?: string;
  readonly choice?: readonly string[];
  readonly grammar?: string;
  readonly structural_tag?: unknown;
  readonly backend?: string;
  readonly whitespace_pattern?: string;
}

/** Options for choosing the next token. `temperature` 0 is greedy. */
export interface SamplingOptions {
  readonly n?: number;
  readonly best_of?: number;
  readonly presence_penalty?: number;
  readonly frequency_penalty?: number;
  readonly repetition_penalty?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  /** -1 = all tokens. */
  readonly top_k?: number;
  readonly min_p?: number;
  readonly use_beam_search?: boolean;
  readonly length_penalty?: number;
  readonly seed?: number;
  readonly include_stop_str_in_output?: boolean;
  readonly guided_decoding?: GuidedDecoding;
  readonly detokenize?: boolean;
  readonly allowed_token_ids?: readonly number[];
  readonly bad_words_token_ids?: readonly (readonly number[])[];
  /** Bias by token id (as text), -100 to 100. */
  readonly logit_bias?: Readonly<Record<string, number>>;
}

/** Options for the output besides its text. */
export interface OutputOptions {
  /** Number of alternatives for each token, besides the sampled one. */
  readonly logprobs?: number;
  readonly prompt_logprobs?: number;
  readonly skip_special_tokens?: boolean;
  readonly formatted_prompt?: boolean;
  readonly return_tokens_as_token_ids?: boolean;
}

/** Request for the embedding of the prompt instead of its continuation. */
export interface EmbeddingOptions {
  /** Length of the vector; absent = the model's own. */
  readonly dimensions?: number;
}

export interface RoutingConstraints {
  readonly required_taints?: readonly string[];
  readonly preferred_taints?: Readonly<Record<string, number>>;
}

/** Hints where a request may or should run. Worker ids are lower-case hex strings; decimal only at the wire. */
export interface RoutingHints {
  readonly backend_instance_id?: string;
  readonly prefill_worker_id?: string;
  readonly decode_worker_id?: string;
  readonly dp_rank?: number;
  readonly prefill_dp_rank?: number;
  readonly expected_output_tokens?: number;
  readonly lora_name?: string;
  readonly cache_salt?: string;
  /** Seconds subtracted from the arrival time in the router queue. */
  readonly priority_jump?: number;
  /** Queue tier; higher tiers always run first. */
  readonly strict_priority?: number;
  /** Engine priority, higher = sooner. */
  readonly priority?: number;
  readonly allowed_worker_ids?: readonly string[];
  readonly routing_constraints?: RoutingConstraints;
  readonly session_id?: string;
  /** Time for which the client expects its prompt to be useful (`nvext.cache_control`). */
  readonly cache_ttl_ms?: number;
  /** Key by which the client groups requests with the same beginning (`prompt_cache_key`). */
  readonly prompt_cache_key?: string;
}

/** Router settings of one request. */
export interface RouterConfigOverride {
  readonly overlap_score_credit?: number;
  readonly prefill_load_scale?: number;
  readonly router_temperature?: number;
  readonly assume_kv_reuse?: boolean;
  readonly track_prefill_tokens?: boolean;
  readonly shared_cache_multiplier?: number;
  readonly overlap_score_weight?: number;
}
