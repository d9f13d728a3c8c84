import type {
  EmbeddingOptions,
  OutputOptions,
  RouterConfigOverride,
  RoutingHints,
  SamplingOptions,
  StopConditions,
} from './options.ts';

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

/**
 * The request record that crosses the request plane (`PreprocessedRequest`).
 * Absent and null are equal. Token ids ride as a raw u32 tail of the OPEN frame, never inside the record.
 */
export interface EngineRequest {
  /** Request id; also the key of cancellation. */
  readonly id: string;
  readonly model: string;
  readonly input: EngineInput;
  readonly stop: StopConditions;
  readonly sampling: SamplingOptions;
  readonly output: OutputOptions;
  readonly eosTokenIds: readonly number[];
  readonly routing: RoutingHints;
  readonly annotations: readonly string[];
  readonly routerConfigOverride?: RouterConfigOverride;
  readonly mdcSum?: string;
  readonly prefillResult?: PrefillResult;
  readonly bootstrapInfo?: BootstrapInfo;
  readonly encoderResult?: Readonly<Record<string, unknown>>;
  readonly migrationLink?: { readonly trace_id: string; readonly span_id: string };
  readonly multiModalData?: Readonly<Record<string, readonly unknown[]>>;
  readonly mmRoutingInfo?: unknown;
  readonly mmProcessorKwargs?: Readonly<Record<string, unknown>>;
  readonly extraArgs?: Readonly<Record<string, unknown>>;
  readonly requireReasoning?: boolean;
  readonly router?: { readonly ttft_target?: number; readonly itl_target?: number };
  readonly agentContext?: Readonly<Record<string, unknown>>;
  readonly requestTimestampMs?: number;
  /** Set when the prompt's embedding is wanted: the engine answers with one `body`, an `EmbeddingRecord`. */
  readonly embedding?: EmbeddingOptions;
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
