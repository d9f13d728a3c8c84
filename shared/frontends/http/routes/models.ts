import {
  type ModelReadiness,
  modelNotFound,
  modelNotReady,
  type NamespaceReadiness,
  type ServedModel,
} from '../../../pipeline/index.ts';
import { knowsNothing, modelsShown, notListed, requireService } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { type Access, decodePath, pathBelow } from '../route.ts';
import type { HttpSettings } from '../settings.ts';
import { sendJson } from '../sinks/send.ts';

const READY_SUFFIX = '/ready';

/** Returns the access of a path below the models. Readiness is for probes, which have no keys. */
export function modelAccess(path: string): Access {
  return path.endsWith(READY_SUFFIX) ? 'open' : 'key';
}

/** `GET /v1/models`: lists the models that can be served now. */
export async function serveModelList(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  if (deps.lookUp !== undefined) await deps.lookUp(undefined);
  requireService(deps);
  const models = modelsShown(deps, exchange, 'models').filter(({ readiness }) => readiness.isReady);
  if (wantsAnthropicModels(deps, exchange)) sendJson(exchange, 200, anthropicModelList(models, deps));
  else {
    const data = models.map((model) => modelBody(model, deps, exchange));
    sendJson(exchange, 200, { object: 'list', data, ...catalogOfCodex(exchange) });
  }
}

/**
 * Returns the catalog that codex reads: it takes a list without `models` for broken, logs an error at each start, and
 * some of its releases then never ask the model. Its entries are prompts and settings for OpenAI's own models, so
 * there are none; codex then keeps its defaults.
 */
function catalogOfCodex({ query }: HttpExchange): { readonly models?: readonly [] } {
  return new URLSearchParams(query).has('client_version') ? { models: [] } : {};
}

/**
 * `GET /v1/models/{id}` and `GET /v1/models/{id}/ready`. Ids may have slashes, raw or encoded. A model whose own name
 * ends in `/ready` wins over the suffix.
 */
export async function serveModel(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = decodePath(exchange.path.slice(pathBelow(deps.settings.paths.models).length + 1));
  if (deps.lookUp !== undefined) await deps.lookUp(id);
  const model = deps.pipeline.models.known(id);
  if (model !== undefined && exchange.grant.allowsModel(model.name, model.primaryName)) {
    if (!model.readiness.isReady) throw modelNotReady(id);
    const body = wantsAnthropicModels(deps, exchange) ? anthropicModel : modelBody;
    sendJson(exchange, 200, body(model, deps, exchange));
  } else if (id.endsWith(READY_SUFFIX)) await serveReadiness(deps, exchange, id.slice(0, -READY_SUFFIX.length));
  else {
    requireService(deps);
    throw modelNotFound(modelsShown(deps, exchange, 'models'), { name: id, ...notListed(deps) });
  }
}

/**
 * Sends the readiness of one model: 200 if it can be served, 503 if not, 404 if no worker has registered it for a
 * while.
 */
export async function serveReadiness(deps: HttpAppDeps, exchange: HttpExchange, name: string): Promise<void> {
  const { lifecycle, pipeline } = deps;
  if (deps.lookUp !== undefined) await deps.lookUp(name);
  const model = pipeline.models.known(name);
  if (model === undefined && lifecycle.isNew && pipeline.models.list().length === 0 && knowsNothing(deps)) {
    const reason = 'Service has just started and knows no model yet';
    sendJson(exchange, 503, readinessBody(name, { isReady: false, reason, namespaces: {} }), { 'retry-after': '1' });
    return;
  }
  if (model === undefined) {
    throw modelNotFound(modelsShown(deps, exchange, 'models'), { name, ...notListed(deps) });
  }
  const { readiness } = model;
  const isReady = readiness.isReady && lifecycle.isTakingRequests;
  const reason = lifecycle.isTakingRequests ? readiness.reason : (lifecycle.waitsFor ?? 'Service is not ready');
  sendJson(exchange, isReady ? 200 : 503, readinessBody(name, { ...readiness, isReady, reason }));
}

/** Returns the limits of a model, in tokens. Unknown limits are left out. */
function limitsOf({ contextLength }: ServedModel, { contextWindow = contextLength, maxOutputTokens }: HttpSettings) {
  return { context: contextWindow === 0 ? undefined : contextWindow, output: maxOutputTokens };
}

/** Owner of every model: the name of this server, because it does not know another. */
const OWNER = 'stator';

function modelBody(model: ServedModel, { settings }: HttpAppDeps, { grant }: HttpExchange): object {
  const { baseModel } = model;
  const { context, output } = limitsOf(model, settings);
  return {
    id: model.name,
    object: 'model',
    created: model.createdSecs,
    owned_by: OWNER,
    root: model.primaryName,
    parent: baseModel !== undefined && grant.allowsModel(baseModel, baseModel) ? baseModel : null,
    max_model_len: context,
    context_window: context,
    max_output_tokens: output,
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

/** Returns whether the client speaks Anthropic's dialect and that dialect is on. */
export function wantsAnthropicModels({ settings }: HttpAppDeps, exchange: HttpExchange): boolean {
  return settings.anthropic.isEnabled && exchange.header('anthropic-version') !== undefined;
}

/** Returns a model in Anthropic's shape. */
function anthropicModel(model: ServedModel, { settings }: HttpAppDeps): object {
  const { context, output } = limitsOf(model, settings);
  return {
    id: model.name,
    display_name: model.name,
    type: 'model',
    created_at: `${new Date(model.createdSecs * 1000).toISOString().slice(0, 19)}Z`,
    max_input_tokens: context,
    max_tokens: output,
  };
}

/** Returns every model on one page. */
function anthropicModelList(models: readonly ServedModel[], deps: HttpAppDeps): object {
  return {
    data: models.map((model) => anthropicModel(model, deps)),
    has_more: false,
    first_id: models[0]?.name ?? null,
    last_id: models.at(-1)?.name ?? null,
  };
}
