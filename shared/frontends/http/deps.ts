import type { EndpointRecord } from '../../discovery/index.ts';
import type { CacheClearer, RequestCanceller, RoutingExplainer } from '../../pipeline/index.ts';
import type { OpenAiDecodeSettings } from '../../protocol/openai/index.ts';
import type { ResponseStore } from '../../responses/index.ts';
import type { FrontendMetrics } from '../../telemetry/index.ts';
import type { ByteBudget, InferenceDeps } from '../inference/index.ts';
import type { DispatchSettings } from './openai/dispatch-events.ts';

/** The part of the frontend's metrics that HTTP handlers count on. */
export type FrontendMetricsPort = Pick<
  FrontendMetrics,
  | 'startRequest'
  | 'embedded'
  | 'rejected'
  | 'cancelled'
  | 'disconnected'
  | 'failed'
  | 'limitReached'
  | 'ignoredKeys'
  | 'contentType'
  | 'render'
>;

/** What the HTTP app works with. */
export interface HttpAppDeps extends InferenceDeps {
  readonly metrics: FrontendMetricsPort;
  readonly settings: HttpSettings;
  /** Room for the bodies that are being read, of all requests of the process. */
  readonly bodies: ByteBudget;
  /** Where responses are kept; undefined = nowhere. */
  readonly responseStore: ResponseStore | undefined;
  /** What `/health` lists, from memory: the same list until one comes or goes. */
  readonly instances: () => readonly EndpointRecord[];
  /** Empties the workers' caches; absent = nobody can be asked. */
  readonly caches?: Pick<CacheClearer, 'clear'> | undefined;
  /** Ends requests of other edges; absent = only those of this process can be ended. */
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  /** Says why requests go where they go; absent in modes that know nothing of caches. */
  readonly explainer?: Pick<RoutingExplainer, 'explained' | 'explain'> | undefined;
}

/** Where the routes are (`DYN_HTTP_SVC_*_PATH_ENV`). */
export interface HttpPaths {
  readonly chat: string;
  readonly completions: string;
  readonly embeddings: string;
  readonly responses: string;
  readonly models: string;
  /** Anthropic's; `count_tokens` stands below it. */
  readonly messages: string;
  readonly health: string;
  readonly live: string;
  readonly metrics: string;
}

/** Everything about the HTTP surface that an operator can set. Times in milliseconds. */
export interface HttpSettings {
  readonly paths: HttpPaths;
  /** `DYN_HTTP_BODY_LIMIT_MB`, in bytes. @default 192 MiB */
  readonly bodyLimitBytes: number;
  /** `STATOR_HTTP_ANSWER_LIMIT_MB`, in bytes. @default 32 MiB */
  readonly answerLimitBytes: number;
  /** Status of `server_overloaded` (`DYN_HTTP_OVERLOAD_STATUS_CODE`). @default 503 */
  readonly overloadStatus: number;
  /** How long a stream's status waits for the first event (`DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS`). 0 = not. @default 2000 */
  readonly peekMs: number;
  /** Longest silence of a stream before a comment is sent (`DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS`). 0 = off. @default 0 */
  readonly keepAliveMs: number;
  /** `context_window` of every listed model (`DYN_CONTEXT_WINDOW`). @default the model's own */
  readonly contextWindow: number | undefined;
  /** `max_output_tokens` of every listed model (`DYN_MAX_OUTPUT_TOKENS`). @default not shown */
  readonly maxOutputTokens: number | undefined;
  /** Name of the reasoning text in chunks and objects (`--reasoning-field-name`). @default 'reasoning_content' */
  readonly reasoningField: 'reasoning_content' | 'reasoning';
  /** Requests of clients are served, not only health, metrics and operators. @default true */
  readonly servesClients?: boolean | undefined;
  /** `/busy_threshold` and other routes for operators exist (not `DYN_DISABLE_FRONTEND_ADMIN_API`). @default true */
  readonly hasAdminRoutes: boolean;
  /** Whoever shows it may use those routes from anywhere (`STATOR_ADMIN_KEY`). @default nobody: they are served on loopback alone */
  readonly adminKey?: string | undefined;
  /** `/metrics` is for operators and keys with the scope (`STATOR_METRICS_AUTH`). @default false: everybody */
  readonly metricsAuth?: boolean | undefined;
  /** The API's page and document are for operators and keys (`STATOR_DOCS_AUTH`). @default false: everybody */
  readonly docsAuth?: boolean | undefined;
  /** What the answer to one owner tells of what others sent (`STATOR_CACHE_ISOLATION`). @default 'figures' */
  readonly cacheIsolation?: 'figures' | 'blocks' | 'off' | undefined;
  /** Names that `Host` may have, beside those of this machine, where only this machine is listened to. @default any */
  readonly hosts?: readonly string[] | undefined;
  /** Origins whose web pages may use the API (`--cors-origin`); `*` = all. @default none */
  readonly corsOrigins: readonly string[];
  /** When responses of the Responses API are stored (`--response-store`); off = there is no store. @default 'on' */
  readonly responseStore: 'on' | 'on-request';
  readonly anthropic: AnthropicSettings;
  readonly dispatch: DispatchSettings;
  readonly decode: OpenAiDecodeSettings;
}

/** How Anthropic's dialect is served. */
interface AnthropicSettings {
  /** Its routes exist, and the model list speaks it when asked (`--enable-anthropic-api`). @default false */
  readonly isEnabled: boolean;
  /** Leave a client's billing preamble out of system prompts (`--strip-anthropic-preamble`). @default true */
  readonly stripsPreamble: boolean;
}

export const defaultHttpPaths: HttpPaths = Object.freeze({
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
  responses: '/v1/responses',
  models: '/v1/models',
  messages: '/v1/messages',
  health: '/health',
  live: '/live',
  metrics: '/metrics',
});

export const defaultHttpSettings: HttpSettings = Object.freeze({
  paths: defaultHttpPaths,
  bodyLimitBytes: 192 * 1024 * 1024,
  answerLimitBytes: 32 * 1024 * 1024,
  overloadStatus: 503,
  peekMs: 2000,
  keepAliveMs: 0,
  contextWindow: undefined,
  maxOutputTokens: undefined,
  reasoningField: 'reasoning_content',
  hasAdminRoutes: true,
  corsOrigins: [],
  anthropic: Object.freeze({ isEnabled: false, stripsPreamble: true }),
  dispatch: Object.freeze({ toolCalls: false, reasoning: false }),
  responseStore: 'on',
  decode: Object.freeze({
    ignoresUnknownKeys: false,
    isNvextDisabled: false,
    forcesUsage: false,
    metadataHeaderPrefix: 'x-dynamo-meta-',
    stopBytesMax: 1024,
    answerBytesMax: 32 * 1024 * 1024,
  }),
});
