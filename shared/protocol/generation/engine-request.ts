/** What a worker gets to work on: one of the three model inputs of a card. */
export type EngineInput =
  | { readonly kind: 'tokens'; readonly tokenIds: Uint32Array; readonly promptEmbeds?: string }
  /** The client's own body, untouched: multimodal, images, videos, embeddings, and engines that tokenize themselves. */
  | { readonly kind: 'text'; readonly endpoint: string; readonly body: Readonly<Record<string, unknown>> }
  /** A KServe tensor request; raw contents stay bytes. */
  | { readonly kind: 'tensor'; readonly body: Readonly<Record<string, unknown>> };

/** Annotation of a request that gives up what the prefill with the same handoff holds. Only frontends set it. */
export const RELEASE_PREFILL = 'release_prefill';

export interface PrefillResult {
  readonly disaggregated_params: unknown;
  readonly prompt_tokens_details?: unknown;
}

export interface BootstrapInfo {
  readonly bootstrap_host: string;
  readonly bootstrap_port: number;
  /** u64 as decimal text. */
  readonly bootstrap_room: string;
  readonly handoff_id?: string;
}

/** What a dialect asks for and a worker gets in the same words. */
export interface RequestTerms {
  /** Request id (UUID v4), `<id>-<index>` of a part of a batch; also the key of cancellation. */
  readonly id: string;
  /** In a frontend as the client wrote it: the pipeline resolves aliases. */
  readonly model: string;
  readonly stop: StopConditions;
  readonly sampling: SamplingOptions;
  readonly output: OutputOptions;
  readonly routing: RoutingHints;
  readonly routerConfigOverride?: RouterConfigOverride;
  /** `nvext.annotations`. */
  readonly annotations: readonly string[];
  readonly extraArgs?: Readonly<Record<string, unknown>>;
  readonly agentContext?: Readonly<Record<string, unknown>>;
  readonly requestTimestampMs?: number;
  /** `nvext.router`: latency targets in milliseconds. */
  readonly router?: { readonly ttft_target?: number; readonly itl_target?: number };
  readonly mmProcessorKwargs?: Readonly<Record<string, unknown>>;
  /** Set when the prompt's embedding is wanted: the engine answers with one `body`, an `EmbeddingRecord`. */
  readonly embedding?: EmbeddingOptions;
}

/**
 * The request record that crosses the request plane (`PreprocessedRequest`).
 * Absent and null are equal. Token ids ride as a raw u32 tail of the OPEN frame, never inside the record.
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
  /** A probe: served locally, without peers. */
  readonly isHealthCheck?: boolean;
  /** W3C trace context and the client's own request id. They cross in the call's headers, not in the record. */
  readonly trace?: { readonly traceparent?: string; readonly tracestate?: string; readonly requestId?: string };
}

/** Whether the request names the worker that has to serve it. */
export function isPinned({ routing }: EngineRequest): boolean {
  return routing.backend_instance_id !== undefined || routing.decode_worker_id !== undefined;
}

/**
 * Whether another worker could go on with the request once it has begun: one
 * choice, from tokens, unguided, and not pinned to a worker. Frontends and workers both ask: what the one cannot move the
 * other must not give up.
 */
export function isMovable(request: EngineRequest): boolean {
  const { input, sampling } = request;
  if (input.kind !== 'tokens' || input.promptEmbeds !== undefined) return false;
  if ((sampling.n ?? 1) > 1 || sampling.guided_decoding !== undefined) return false;
  return !isPinned(request);
}

/**
 * Header of a call whose caller can be asked to have another worker go on, and does so where it can. Of a call without it a
 * worker that ends has to guess: callers of earlier releases move what fails.
 */
export const MOVES_HEADER = 'x-stator-moves';

/** When generation ends. Absent fields leave the choice to the engine. */
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

/** How the next token is drawn. `temperature` 0 is greedy. */
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
  /** Token id (as text) to bias, -100 to 100. */
  readonly logit_bias?: Readonly<Record<string, number>>;
}

/** What comes back beside the text. */
export interface OutputOptions {
  /** Alternatives per token beside the sampled one. */
  readonly logprobs?: number;
  readonly prompt_logprobs?: number;
  readonly skip_special_tokens?: boolean;
  readonly formatted_prompt?: boolean;
  readonly return_tokens_as_token_ids?: boolean;
}

/** Asks for the embedding of the prompt instead of its continuation. */
export interface EmbeddingOptions {
  /** Length of the vector; absent = the model's own. */
  readonly dimensions?: number;
}

export interface RoutingConstraints {
  readonly required_taints?: readonly string[];
  readonly preferred_taints?: Readonly<Record<string, number>>;
}

/** Where a request may or should run. Worker ids are lower-case hex strings; decimal only at the wire. */
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
  /** How long the client expects its prompt to be of use (`nvext.cache_control`). */
  readonly cache_ttl_ms?: number;
  /** What the client says that shares its beginning (`prompt_cache_key`). */
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
