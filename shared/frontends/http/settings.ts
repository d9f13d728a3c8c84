import { getHeapStatistics } from 'node:v8';
import type { EdgeSettings } from '../../config/index.ts';
import { isLoopback } from '../../planes/index.ts';

const MEBIBYTE = 1024 * 1024;

/**
 * Share of the memory for bodies, and for answers. A body takes about twice its size while it is read, and its values
 * about as much again. An answer takes as much again when it becomes text at its end. So a quarter for each leaves room
 * for the rest.
 */
export function budgetBytes(settingMb: number | undefined): number {
  return settingMb === undefined ? Math.floor(getHeapStatistics().heap_size_limit / 4) : settingMb * MEBIBYTE;
}

/** Settings of the HTTP surface. Times in milliseconds. */
export type HttpSettings = ReturnType<typeof httpSettings>;

/** Returns the settings of the HTTP surface. */
export function httpSettings(settings: EdgeSettings) {
  const answerBytesMax = answerLimitBytes(settings);
  return {
    servesClients: servesClients(settings),
    paths: {
      chat: settings.httpSvcChatPath,
      completions: settings.httpSvcCmpPath,
      embeddings: settings.httpSvcEmbPath,
      responses: settings.httpSvcResponsesPath,
      models: settings.httpSvcModelsPath,
      messages: settings.httpSvcAnthropicPath,
      health: settings.httpSvcHealthPath,
      live: settings.httpSvcLivePath,
      metrics: settings.httpSvcMetricsPath,
    },
    bodyLimitBytes: settings.httpBodyLimitMb * MEBIBYTE,
    answerLimitBytes: answerBytesMax,
    overloadStatus: settings.httpOverloadStatusCode,
    peekMs: settings.httpPreCommitErrorPeekMs,
    keepAliveMs: settings.httpSseKeepAliveIntervalMs,
    contextWindow: settings.contextWindow,
    maxOutputTokens: settings.maxOutputTokens,
    reasoningField: settings.reasoningFieldName,
    responseStore: settings.responseStore === 'on-request' ? 'on-request' : 'on',
    hasAdminRoutes: !settings.disableFrontendAdminApi,
    hasConsole: consoleRequests(settings) > 0,
    adminKey: settings.adminKey,
    metricsAuth: settings.metricsAuth,
    docsAuth: settings.docsAuth,
    cacheIsolation: settings.cacheIsolation,
    hosts: hostsOf(settings),
    corsOrigins: settings.corsOrigin ?? [],
    anthropic: { isEnabled: settings.enableAnthropicApi, stripsPreamble: settings.stripAnthropicPreamble },
    dispatch: {
      toolCalls: settings.enableStreamingToolDispatch,
      reasoning: settings.enableStreamingReasoningDispatch,
    },
    decode: {
      ignoresUnknownKeys: settings.ignoreOpenaiFeUnsupportedFields,
      isNvextDisabled: settings.disableFrontendNvext,
      forcesUsage: settings.enableForceIncludeUsage,
      metadataHeaderPrefix: settings.metadataHeader.toLowerCase(),
      stopBytesMax: settings.stopMaxBytes,
      answerBytesMax,
    },
  };
}

/**
 * Returns how many requests the console remembers; 0 = there is no console, as in a process without operators' routes.
 */
export function consoleRequests(settings: EdgeSettings): number {
  const kept = 'consoleRequests' in settings ? settings.consoleRequests : undefined;
  return settings.disableFrontendAdminApi ? 0 : (kept ?? 0);
}

/** Returns the largest answer: one answer may take all of the room for answers. */
function answerLimitBytes(settings: EdgeSettings): number {
  return Math.min(settings.httpAnswerLimitMb * MEBIBYTE, budgetBytes(settings.httpAnswerBudgetMb));
}

/** Returns the host names that requests may use; undefined off loopback, where the server's names are unknown to it. */
function hostsOf({ httpHost, httpHosts = [] }: EdgeSettings): readonly string[] | undefined {
  if (httpHost === undefined || !isLoopback(httpHost) || httpHosts.includes('*')) return undefined;
  return httpHosts.map((name) => name.toLowerCase());
}

/** Settings of a container that is only a router, or speaks gRPC instead: it answers health, metrics and operators. */
function servesClients({ roles = [], kserveGrpcServer }: EdgeSettings): boolean {
  return kserveGrpcServer !== true && (roles.length === 0 || roles.includes('http'));
}
