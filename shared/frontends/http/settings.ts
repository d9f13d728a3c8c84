import { getHeapStatistics } from 'node:v8';
import type { EdgeSettings } from '../../config/index.ts';
import { isLoopback } from '../../planes/index.ts';

const MEBIBYTE = 1024 * 1024;

/**
 * A body takes about twice its size while it is read, and what it says about as much again; an answer as much again as text at
 * its end: a quarter for each leaves room for the rest.
 */
export function budgetBytes(settingMb: number | undefined): number {
  return settingMb === undefined ? Math.floor(getHeapStatistics().heap_size_limit / 4) : settingMb * MEBIBYTE;
}

/** Everything about the HTTP surface that an operator can set. Times in milliseconds. */
export type HttpSettings = ReturnType<typeof httpSettings>;

/** What the settings say of the HTTP surface. */
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

/** One answer may take all of the room for answers, and no more. */
function answerLimitBytes(settings: EdgeSettings): number {
  return Math.min(settings.httpAnswerLimitMb * MEBIBYTE, budgetBytes(settings.httpAnswerBudgetMb));
}

/** Off loopback, clients call the server by names that nobody here knows. */
function hostsOf({ httpHost, httpHosts = [] }: EdgeSettings): readonly string[] | undefined {
  if (httpHost === undefined || !isLoopback(httpHost) || httpHosts.includes('*')) return undefined;
  return httpHosts.map((name) => name.toLowerCase());
}

/** A container that is a router alone, or speaks gRPC instead, answers health, metrics and operators. */
function servesClients({ roles = [], kserveGrpcServer }: EdgeSettings): boolean {
  return kserveGrpcServer !== true && (roles.length === 0 || roles.includes('http'));
}
