import type { HttpSettings } from '../../../shared/frontends/http/index.ts';
import { isLoopback } from '../../../shared/planes/request/index.ts';
import type { FrontendSettings, HostSettings } from './frontend.ts';

/** What the settings say of the HTTP surface. */
export function httpSettings(settings: FrontendSettings & HostSettings): HttpSettings {
  return {
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
    bodyLimitBytes: settings.httpBodyLimitMb * 1024 * 1024,
    overloadStatus: settings.httpOverloadStatusCode,
    peekMs: settings.httpPreCommitErrorPeekMs,
    keepAliveMs: settings.httpSseKeepAliveIntervalMs,
    contextWindow: settings.contextWindow,
    maxOutputTokens: settings.maxOutputTokens,
    reasoningField: settings.reasoningFieldName,
    responseStore: settings.responseStore === 'on-request' ? 'on-request' : 'on',
    hasAdminRoutes: !settings.disableFrontendAdminApi,
    adminKey: settings.adminKey,
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
    },
  };
}

/** Off loopback, clients call the server by names that nobody here knows. */
function hostsOf({ httpHost, httpHosts = [] }: HostSettings): readonly string[] | undefined {
  if (httpHost === undefined || !isLoopback(httpHost) || httpHosts.includes('*')) return undefined;
  return httpHosts.map((name) => name.toLowerCase());
}
