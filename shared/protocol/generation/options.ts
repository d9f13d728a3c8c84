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
