import type { Span } from '../../telemetry/index.ts';
import type { RequestTerms } from './engine-request.ts';

/** `request_type` label of metrics. */
export type RequestType = 'unary' | 'stream';

/** A chat message in OpenAI's shape, which is also what chat templates expect. */
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

/** What the prompt is made from. */
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
  /** Split reasoning from content when the model has a parser. Default true. */
  readonly separate?: boolean;
}

/**
 * One request in the product's own terms: what every dialect decodes to and all that the pipeline knows.
 * One prompt; a batch of prompts is several requests with one parent signal.
 */
export interface GenerationRequest extends RequestTerms {
  readonly endpoint: Endpoint;
  readonly stream: boolean;
  readonly prompt: PromptInput;
  /** Most tokens of a choice with which an answer that is kept until it is whole stays within its room. @default any number */
  readonly answerTokensMax?: number;
  /** Choices with which a worker that takes the body untouched may answer. @default `sampling.n` */
  readonly bodyChoicesMax?: number;
  readonly reasoning?: ReasoningOptions;
  /** The prompt of the next turn is to be computed, as far as it is known, once this one is answered. @default false */
  readonly speculatesPrefill?: boolean;
  /** The client is not told how much of its prompt was cached: others may have sent it. @default false */
  readonly hidesCache?: boolean;
  /** `nvext.extra_fields`: what the client wants to read back. */
  readonly extraFields: readonly string[];
  /** The client's body, for models that take it untouched. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** `x-dynamo-meta-*` headers and the like, passed to the worker. */
  readonly metadata: Readonly<Record<string, string>>;
  /** W3C trace context and the client's request id, passed to the worker and to every log line. */
  readonly trace: {
    readonly traceparent?: string;
    readonly tracestate?: string;
    readonly requestId?: string;
    /** Our span of the request, where spans are made; its parts begin from it. Stays in this process. */
    readonly span?: Span;
  };
}

/**
 * The kinds of request, by their name in the `endpoint` label of metrics. `modelType` is what a model registers as to serve
 * them, and `kind` what the SDK calls that; `enginePath` is where an OpenAI-compatible server takes the client's body as it is;
 * `operation` is its name in traces.
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

/** What a model answers, as a worker made of code says it. */
export type ModelKind = EndpointRow['kind'];

/** What a model registers as, by its kind. */
export const MODEL_TYPES = Object.fromEntries(
  Object.values(ENDPOINTS).map(({ kind, modelType }) => [kind, modelType]),
) as Readonly<Record<ModelKind, EndpointRow['modelType']>>; // each row has both

/** Where an OpenAI-compatible server takes bodies of `endpoint`, a name that a frontend sent; undefined where it takes none. */
export function enginePathOf(endpoint: string): string | undefined {
  return Object.hasOwn(ENDPOINTS, endpoint) ? ENDPOINTS[endpoint as Endpoint].enginePath : undefined; // it has it
}

/**
 * What comes before and after the UUID: `chatcmpl-`, `cmpl-`, `resp_`, `msg_`; `-<index>` of a prompt in a batch, or the name of
 * a running request, by which other edges find it.
 */
const ID =
  /^(?:[a-z]{1,16}[-_])?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})(?:-\d{1,6})?(?:_([0-9a-f]{40}))?$/i;

/**
 * What all ids of one request have in common: `chatcmpl-<uuid>`, `resp_<uuid without dashes>` and `<uuid>-<index>` of a batch
 * all name the request `<uuid>`. Undefined for what no server has given.
 */
export function requestKeyOf(id: string): string | undefined {
  return ID.exec(id)?.[1]?.replaceAll('-', '').toLowerCase();
}

/** What the id of a running request has behind its UUID, lower case; undefined when it has nothing there. */
export function requestNameOf(id: string): string | undefined {
  return ID.exec(id)?.[2]?.toLowerCase();
}

/** Bytes of UTF-8 that a token stands for where no tokenizer can tell. */
export const BYTES_PER_TOKEN = 3;

/** Begins an annotation that asks where the request would go, and for nothing else. */
const DRY_RUN = 'query_instance_id';

/** Whether a request asks where it would go, where a router can say so. */
export function asksForDryRun(annotations: readonly string[] | null | undefined): boolean {
  return annotations?.some((name) => name.startsWith(DRY_RUN)) === true;
}
