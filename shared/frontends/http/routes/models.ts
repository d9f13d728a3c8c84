import { ServeError } from '../../../errors/index.ts';
import {
  type ModelReadiness,
  modelNotFound,
  modelNotReady,
  type NamespaceReadiness,
  type ServedModel,
} from '../../../pipeline/index.ts';
import { anthropicModel, anthropicModelList, sendModelsError, wantsAnthropicModels } from '../anthropic/models.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { decodePath } from '../route.ts';
import { sendJson } from '../sinks/send.ts';

const READY_SUFFIX = '/ready';

/** `GET /v1/models`: models that can be served now. */
export function serveModelList(deps: HttpAppDeps, exchange: HttpExchange): void {
  if (!deps.lifecycle.isTakingRequests) {
    sendModelsError(deps, exchange, new ServeError('service_unavailable', 'Service is not ready'));
    return;
  }
  const models = deps.pipeline.models.list().filter((model) => model.readiness.isReady);
  if (wantsAnthropicModels(deps, exchange)) sendJson(exchange, 200, anthropicModelList(models, deps));
  else sendJson(exchange, 200, { object: 'list', data: models.map((model) => modelBody(model, deps)) });
}

/**
 * `GET /v1/models/{id}` and `GET /v1/models/{id}/ready`. Ids may hold slashes, raw or
 * encoded; a model whose own name ends in `/ready` wins over the suffix.
 */
export function serveModel(deps: HttpAppDeps, exchange: HttpExchange): void {
  const id = decodePath(exchange.path.slice(deps.settings.paths.models.length + 1));
  const { models } = deps.pipeline;
  const model = models.known(id);
  if (model !== undefined) {
    const body = wantsAnthropicModels(deps, exchange) ? anthropicModel : modelBody;
    if (model.readiness.isReady) sendJson(exchange, 200, body(model, deps));
    else sendModelsError(deps, exchange, modelNotReady(id));
    return;
  }
  if (id.endsWith(READY_SUFFIX)) serveReadiness(deps, exchange, id.slice(0, -READY_SUFFIX.length));
  else sendModelsError(deps, exchange, modelNotFound(models.list(), { name: id }));
}

/** Readiness of one model: 200 when it can be served, 503 when not, 404 when nobody registered it or has not for a while. */
export function serveReadiness(deps: HttpAppDeps, exchange: HttpExchange, name: string): void {
  const { lifecycle, pipeline } = deps;
  const model = pipeline.models.known(name);
  if (model === undefined) {
    sendModelsError(deps, exchange, modelNotFound(pipeline.models.list(), { name }));
    return;
  }
  const { readiness } = model;
  const isReady = readiness.isReady && lifecycle.isTakingRequests;
  const reason = lifecycle.isTakingRequests ? readiness.reason : (lifecycle.waitsFor ?? 'Service is not ready');
  sendJson(exchange, isReady ? 200 : 503, readinessBody(name, { ...readiness, isReady, reason }));
}

/** Nobody here knows whose a model is: it is this deployment's. */
const OWNER = 'stator';

function modelBody(model: ServedModel, { settings }: HttpAppDeps): object {
  const context = settings.contextWindow ?? model.contextLength;
  return {
    id: model.name,
    object: 'model',
    created: model.createdSecs,
    owned_by: OWNER,
    ...(context === 0 ? {} : { context_window: context }),
    ...(settings.maxOutputTokens === undefined ? {} : { max_output_tokens: settings.maxOutputTokens }),
  };
}

function readinessBody(model: string, readiness: ModelReadiness): object {
  return {
    model,
    ready: readiness.isReady,
    ...(readiness.reason === undefined ? {} : { reason: readiness.reason }),
    namespaces: Object.fromEntries(
      Object.entries(readiness.namespaces).map(([name, namespace]) => [name, namespaceBody(namespace)]),
    ),
  };
}

function namespaceBody(namespace: NamespaceReadiness): object {
  return {
    ready: namespace.isReady,
    ...(namespace.reason === undefined ? {} : { reason: namespace.reason }),
    worker_types: namespace.workerTypes,
    present: Object.keys(namespace.workerTypes),
    missing_worker_types: namespace.missingWorkerTypes,
  };
}
