import type { Span } from '../../telemetry/index.ts';
import type { RequestTerms } from './engine-request.ts';

/** Value of the `request_type` label of metrics. */
export type RequestType = 'unary' | 'stream';

/** Chat message in OpenAI's shape, which chat templates also expect. */
export interface ChatMessage {
  readonly role: string;
  readonly content?: string | readonly Readonly<Record<string, unknown>>[] | null;
  readonly name?: string;
  readonly tool_calls?: readonly Readonly<Record<string, unknown>>[];
  readonly tool_call_id?: string;
  readonly reasoning_content?: string;
  readonly [key: string]: unknown;
}

export interface ToolDefinition {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters?: unknown;
    readonly strict?: boolean | null;
  };
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

/** Input of the prompt. */
export type PromptInput =
  | {
      readonly kind: 'chat';
      readonly messages: readonly ChatMessage[];
      readonly tools?: readonly ToolDefinition[];
      readonly toolChoice?: ToolChoice;
      readonly parallelToolCalls?: boolean;
      readonly addGenerationPrompt?: boolean;
      readonly continueFinalMessage?: boolean;
      /** Extra variables of the chat template. */
      readonly templateArgs?: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: 'raw'; readonly text: string }
  | { readonly kind: 'tokens'; readonly tokenIds: readonly number[] }
  | { readonly kind: 'embeds'; readonly data: string }
  /** Passed to the worker untouched. */
  | { readonly kind: 'body' }
  | { readonly kind: 'tensor'; readonly body: Readonly<Record<string, unknown>> };

export interface ReasoningOptions {
  readonly effort?: string;
  /** Whether to split reasoning from content when the model has a parser. @default true */
  readonly separate?: boolean;
}

/**
 * Request in the product's own terms: every dialect decodes to it, and the pipeline knows nothing else. It has one
 * prompt; a batch of prompts is several requests with one parent signal.
 */
export interface GenerationRequest extends RequestTerms {
  readonly endpoint: Endpoint;
  readonly stream: boolean;
  readonly prompt: PromptInput;
  /**
   * Most tokens of a choice with which an answer that is collected whole stays within its memory limit. @default any
   * number
   */
  readonly answerTokensMax?: number;
  /** Limit of choices from a worker that takes the body untouched. @default `sampling.n` */
  readonly bodyChoicesMax?: number;
  readonly reasoning?: ReasoningOptions;
  /**
   * Whether to compute the prompt of the next turn, as far as it is known, once this one is answered. @default false
   */
  readonly speculatesPrefill?: boolean;
  /**
   * Whether to hide from the client how much of its prompt was cached: another client may have sent it. @default false
   */
  readonly hidesCache?: boolean;
  /** Fields that the client wants in its response (`nvext.extra_fields`). */
  readonly extraFields: readonly string[];
  /** Body of the client, for models that take it untouched. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** `x-dynamo-meta-*` headers and the like, passed to the worker. */
  readonly metadata: Readonly<Record<string, string>>;
  /** W3C trace context and the client's request id, passed to the worker and to every log line. */
  readonly trace: {
    readonly traceparent?: string;
    readonly tracestate?: string;
    readonly requestId?: string;
    /** Span of the request, if tracing is on; its stages start child spans. It stays in this process. */
    readonly span?: Span;
  };
}

/**
 * Kinds of request by name, which is the `endpoint` label of metrics. `modelType` is the type that a model registers to
 * serve them, and `kind` its name in the SDK. `enginePath` is the route of an OpenAI-compatible server that takes the
 * client's body as it is; `operation` is its name in traces.
 */
export const ENDPOINTS = {
  chat_completions: { modelType: 'Chat', kind: 'chat', operation: 'chat', enginePath: '/v1/chat/completions' },
  completions: {
    modelType: 'Completions',
    kind: 'completions',
    operation: 'text_completion',
    enginePath: '/v1/completions',
  },
  embeddings: { modelType: 'Embedding', kind: 'embeddings', operation: 'embeddings', enginePath: '/v1/embeddings' },
  images: { modelType: 'Images', kind: 'images', operation: 'generate_content', enginePath: '/v1/images/generations' },
  videos: { modelType: 'Videos', kind: 'videos', operation: 'generate_content', enginePath: '/v1/videos' },
  responses: { modelType: 'Chat', kind: 'chat', operation: 'chat', enginePath: undefined },
  anthropic_messages: { modelType: 'Chat', kind: 'chat', operation: 'chat', enginePath: undefined },
  tensor: { modelType: 'TensorBased', kind: 'tensor', operation: 'infer', enginePath: undefined },
} as const;

/** Route family of a request. */
export type Endpoint = keyof typeof ENDPOINTS;

type EndpointRow = (typeof ENDPOINTS)[Endpoint];

/**
 * Kind of a model, as a worker written in code names it.
 *
 * @example
 * const kinds: readonly ModelKind[] = ['chat', 'completions'];
 */
export type ModelKind = EndpointRow['kind'];

/** Registered type of a model by its kind. */
export const MODEL_TYPES = Object.fromEntries(
  Object.values(ENDPOINTS).map(({ kind, modelType }) => [kind, modelType]),
) as Readonly<Record<ModelKind, EndpointRow['modelType']>>; // each row has both

/**
 * Returns the route at which an OpenAI-compatible server takes bodies of `endpoint`, a name from a frontend; undefined
 * if there is none.
 */
export function enginePathOf(endpoint: string): string | undefined {
  // the key was checked
  return Object.hasOwn(ENDPOINTS, endpoint) ? ENDPOINTS[endpoint as Endpoint].enginePath : undefined;
}

/**
 * Id with the parts before and after its UUID: `chatcmpl-`, `cmpl-`, `resp_`, `msg_`; `-<index>` for a prompt in a
 * batch, or the name of a running request, by which other edges find it.
 */
const ID =
  /^(?:[a-z]{1,16}[-_])?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})(?:-\d{1,6})?(?:_([0-9a-f]{40}))?$/i;

/**
 * Returns the part that all ids of one request share: `chatcmpl-<uuid>`, `resp_<uuid without dashes>` and
 * `<uuid>-<index>` of a batch all name the request `<uuid>`. Undefined for an id that no server issued.
 */
export function requestKeyOf(id: string): string | undefined {
  return ID.exec(id)?.[1]?.replaceAll('-', '').toLowerCase();
}

/** Returns the name after the UUID in the id of a running request, in lower case; undefined if there is none. */
export function requestNameOf(id: string): string | undefined {
  return ID.exec(id)?.[2]?.toLowerCase();
}

/** Estimated bytes of UTF-8 per token, used without a tokenizer. */
export const BYTES_PER_TOKEN = 3;

/** Beginning of an annotation that only asks where the request would go. */
const DRY_RUN = 'query_instance_id';

/** Returns whether a request only asks where it would go, if a router can tell. */
export function asksForDryRun(annotations: readonly string[] | null | undefined): boolean {
  return annotations?.some((name) => name.startsWith(DRY_RUN)) === true;
}
