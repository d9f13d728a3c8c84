import { EVERY_ADDRESS, everyAddress } from '../listen-hosts.ts';
import { edges, listeners } from '../row.ts';

/** Returns the row for the path of a client route. */
const svcPath = (env: string, path: string, what: string) =>
  edges.route({
    names: `${env}_ENV ${env}`,
    note: 'the name with _ENV wins',
    default: path,
    source: 'Dynamo',
    about: `Path of ${what}.`,
  });

/** Rows of "HTTP server and routes". */
export const httpRows = {
  httpHost: listeners.text({
    names: '--http-host DYN_HTTP_HOST',
    allowed: 'IP or host name',
    decide: everyAddress,
    defaultFor: { local: '127.0.0.1' },
    defaultText: `${EVERY_ADDRESS}; local: 127.0.0.1`,
    source: 'Dynamo',
    about: 'Listen address of HTTP and gRPC.',
  }),
  httpPort: listeners.port({
    names: '--http-port DYN_HTTP_PORT',
    note: '0 = any free',
    default: 8000,
    source: 'Dynamo',
    about: 'HTTP listen port.',
  }),
  httpBodyLimitMb: edges.int({
    names: 'DYN_HTTP_BODY_LIMIT_MB',
    range: { min: 1, unit: 'MiB' },
    default: 192,
    source: 'Dynamo',
    about: 'Largest request body, 1 MB = 1024^2 bytes; a larger one gets 413.',
  }),
  httpBodyBudgetMb: edges.int({
    names: 'STATOR_HTTP_BODY_BUDGET_MB',
    range: { min: 1, unit: 'MiB' },
    defaultText: 'a quarter of the heap limit',
    about:
      'Memory of all request bodies that are being read at the same time; further requests get 503 with Retry-After.',
  }),
  httpAnswerLimitMb: edges.int({
    names: 'STATOR_HTTP_ANSWER_LIMIT_MB',
    range: { min: 1, unit: 'MiB' },
    default: 32,
    about: 'Memory of one answer that is collected before it is sent; a request that asks for more gets 400.',
  }),
  httpAnswerBudgetMb: edges.int({
    names: 'STATOR_HTTP_ANSWER_BUDGET_MB',
    range: { min: 1, unit: 'MiB' },
    defaultText: 'a quarter of the heap limit',
    about: 'Memory of all answers that are collected before they are sent; further requests get 503 with Retry-After.',
  }),
  stopMaxBytes: edges.int({
    names: 'STATOR_STOP_MAX_BYTES',
    range: { min: 1, max: 1048576, unit: 'bytes' },
    default: 1024,
    about: 'Longest stop sequence; a longer one gets 400.',
  }),
  httpGracefulShutdownTimeoutSecs: listeners.int({
    names: 'DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS',
    range: { min: 0, unit: 's' },
    default: 5,
    source: 'Dynamo',
    about:
      'Time for running answers to reach their clients after SIGTERM; an answer that is still running then ends with an error.',
  }),
  httpKeepAliveSecs: listeners.int({
    names: 'STATOR_HTTP_KEEP_ALIVE_SECS',
    range: { min: 1, max: 86_400, unit: 's' },
    default: 75,
    about:
      'How long an idle connection stays open for its next request. It must be longer than the idle timeout of a load balancer in front; otherwise some requests meet a closed connection.',
  }),
  httpSvcChatPath: svcPath('DYN_HTTP_SVC_CHAT_PATH', '/v1/chat/completions', 'chat completions'),
  httpSvcCmpPath: svcPath('DYN_HTTP_SVC_CMP_PATH', '/v1/completions', 'completions'),
  httpSvcEmbPath: svcPath('DYN_HTTP_SVC_EMB_PATH', '/v1/embeddings', 'embeddings'),
  httpSvcResponsesPath: svcPath('DYN_HTTP_SVC_RESPONSES_PATH', '/v1/responses', 'responses; sub-paths move with it'),
  httpSvcModelsPath: svcPath('DYN_HTTP_SVC_MODELS_PATH', '/v1/models', 'the model list; sub-paths move with it'),
  httpSvcAnthropicPath: svcPath(
    'DYN_HTTP_SVC_ANTHROPIC_PATH',
    '/v1/messages',
    'Anthropic messages; count_tokens moves with it',
  ),
  httpSvcHealthPath: svcPath('DYN_HTTP_SVC_HEALTH_PATH', '/health', 'the health check'),
  httpSvcLivePath: svcPath('DYN_HTTP_SVC_LIVE_PATH', '/live', 'the liveness check'),
  httpSvcMetricsPath: svcPath('DYN_HTTP_SVC_METRICS_PATH', '/metrics', 'Prometheus metrics'),
  httpSvcConfigMetricsPollIntervalSecs: listeners.decimal({
    names: 'DYN_HTTP_SVC_CONFIG_METRICS_POLL_INTERVAL_SECS',
    range: { above: 0, unit: 's' },
    default: 8,
    about: 'Refresh interval of the model configuration gauges.',
  }),
  httpOverloadStatusCode: edges.int({
    names: 'DYN_HTTP_OVERLOAD_STATUS_CODE',
    range: { min: 400, max: 599 },
    default: 503,
    source: '1.6.1: 529',
    about: 'Status of an overload error on OpenAI routes; Anthropic routes keep 529.',
  }),
  httpPreCommitErrorPeekMs: edges.int({
    names: 'DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS',
    range: { min: 0, unit: 'ms' },
    note: '0 = commit at once',
    default: 2000,
    source: '1.6.1: 0',
    about: 'Longest wait for the first event before the status 200 is sent.',
  }),
  httpSseKeepAliveIntervalMs: edges.int({
    names: 'DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS',
    range: { min: 0, unit: 'ms' },
    note: '0 = off',
    default: 0,
    about:
      'Interval of comments (Anthropic: pings) on idle streams; streams of held requests get one every 10 s in any case.',
  }),
  httpBackendStreamTimeoutSecs: edges.int({
    names: 'DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS',
    range: { min: 0, unit: 's' },
    note: '0 = off',
    default: 0,
    about: 'Longest silence of a backend stream; then the request migrates or ends.',
  }),
  metadataHeader: edges.text({
    names: 'DYN_METADATA_HEADER',
    allowed: 'header prefix',
    default: 'x-dynamo-meta-',
    about: 'Prefix of headers passed on as request metadata.',
  }),
  disableFrontendAdminApi: edges.bool({
    names: 'DYN_DISABLE_FRONTEND_ADMIN_API',
    about: 'Removes /busy_threshold and other admin routes.',
  }),
  consoleRequests: listeners.int({
    names: '--console-requests STATOR_CONSOLE_REQUESTS',
    range: { min: 0, max: 10_000 },
    note: '0 = no console',
    default: 1000,
    about: 'How many of the latest requests the console at /console shows, without their text.',
  }),
  consoleShowPrompts: listeners.bool({
    names: '--console-show-prompts STATOR_CONSOLE_SHOW_PROMPTS',
    about:
      'Keeps the prompts and answers of the last 1,000 requests in memory, up to 8,192 characters each, and shows them in the console.',
  }),
  instancePrices: listeners.instancePrices({
    names: '--instance-prices STATOR_INSTANCE_PRICES',
    defaultText: 'unset = unknown',
    about:
      'What an hour of a machine costs, in US$, for the console: on demand, or in MARKET (spot, reservation, capacity-block).',
  }),
  tokenPrices: listeners.tokenPrices({
    names: '--token-prices STATOR_TOKEN_PRICES',
    defaultText: 'unset = no costs are shown',
    about:
      'What a million tokens of a model cost, in US$, for the console: of input, of output, and of input that workers had cached (default: as other input).',
  }),
  disableFrontendNvext: edges.bool({
    names: 'DYN_DISABLE_FRONTEND_NVEXT',
    about: 'Ignores routing headers, and all of nvext except cache_salt.',
  }),
  ignoreOpenaiFeUnsupportedFields: edges.bool({
    names: 'DYN_IGNORE_OPENAI_FE_UNSUPPORTED_FIELDS',
    about: 'Drops unknown root keys instead of answering 400.',
  }),
  enableForceIncludeUsage: edges.bool({
    names: 'DYN_ENABLE_FORCE_INCLUDE_USAGE',
    about: 'Sets include_usage on every stream.',
  }),
  enableAnthropicApi: edges.bool({
    names: '--enable-anthropic-api DYN_ENABLE_ANTHROPIC_API',
    defaultFor: { local: true },
    source: 'Dynamo',
    about: 'Serves the Anthropic Messages API; the model list takes the shape of that API for clients that ask for it.',
  }),
  stripAnthropicPreamble: edges.bool({
    names: '--strip-anthropic-preamble DYN_STRIP_ANTHROPIC_PREAMBLE',
    default: true,
    about: "Removes a client's billing preamble from the system prompt.",
  }),
  enableStreamingToolDispatch: edges.bool({
    names: '--enable-streaming-tool-dispatch DYN_ENABLE_STREAMING_TOOL_DISPATCH',
    about: 'Adds tool_call_dispatch events to chat streams.',
  }),
  enableStreamingReasoningDispatch: edges.bool({
    names: '--enable-streaming-reasoning-dispatch DYN_ENABLE_STREAMING_REASONING_DISPATCH',
    about: 'Adds one reasoning_dispatch event to chat streams.',
  }),
  interactive: listeners.bool({
    names: '--interactive -i DYN_INTERACTIVE',
    source: 'Dynamo',
    about: 'Text chat in the terminal instead of a server.',
  }),
  corsOrigin: edges.list({
    names: '--cors-origin STATOR_CORS_ORIGIN',
    allowed: 'origins or *',
    defaultText: 'unset = off',
    about: 'Answers CORS preflight for these origins.',
  }),
  responseStore: edges.choice({
    names: '--response-store STATOR_RESPONSE_STORE',
    values: ['on', 'on-request', 'off'],
    default: 'on',
    about: 'When responses are stored; on-request needs store: true.',
  }),
  responseStoreTtlSecs: edges.int({
    names: 'STATOR_RESPONSE_STORE_TTL_SECS',
    range: { min: 60, max: 2592000, unit: 's' },
    default: 86400,
    about: 'Life of a stored response.',
  }),
  responseStoreMaxMb: listeners.int({
    names: 'STATOR_RESPONSE_STORE_MAX_MB',
    range: { min: 1, unit: 'MiB' },
    default: 256,
    about: 'Memory bound of the local response store; the oldest responses leave first.',
  }),
  httpHosts: listeners.list({
    names: '--http-hosts STATOR_HTTP_HOSTS',
    allowed: 'host names or *',
    defaultText: 'unset = none',
    about:
      'Host names beside localhost that requests to a loopback address may carry, such as the name of a tunnel; * = any.',
  }),
  adminKey: edges.secret({
    names: 'STATOR_ADMIN_KEY',
    minLength: 32,
    defaultText: 'unset = routes for operators answer only on loopback',
    about: 'Bearer token that opens the routes for operators to callers on other machines.',
  }),
};
