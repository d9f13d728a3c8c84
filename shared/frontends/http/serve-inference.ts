import { ServeError, toServeError } from '../../errors/index.ts';
import { modelNotFound, modelNotReady } from '../../pipeline/index.ts';
import {
  ENDPOINTS,
  type Endpoint,
  type GenerationRequest,
  type GenerationSink,
} from '../../protocol/generation/index.ts';
import type { DecodeContext, JsonBody } from '../../protocol/openai/index.ts';
import type { RequestMeter } from '../../telemetry/index.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './hosts/exchange.ts';
import { type Abandonable, Inference, UNKNOWN_MODEL } from './inference.ts';
import { readJson } from './read-json.ts';
import type { Serve } from './route.ts';

/** What every body of an inference request says. */
interface Asked {
  readonly model: string;
  readonly stream?: boolean | null | undefined;
}

/** What a dialect adds to the steps that every inference request takes. What its functions throw is told by `refuse`. */
export interface InferenceRoute<Body extends Asked> {
  readonly endpoint: Endpoint;
  /** Not found, before the body is read, until a model that serves `endpoint` was registered. @default false */
  readonly isOffWithoutModel?: boolean;
  /** @default a JSON body */
  readonly read?: (exchange: HttpExchange, deps: HttpAppDeps) => Promise<JsonBody>;
  readonly parse: (json: JsonBody, deps: HttpAppDeps, exchange: HttpExchange) => Body | Promise<Body>;
  /** @default as the body says */
  readonly isStream?: (body: Body) => boolean;
  /** Decodes the body, identifies the request, and hands it to the pipeline with a sink that writes to the exchange. */
  readonly start: (inference: Inference, body: Body, model: OpenedModel) => void | Promise<void>;
  /** @default OpenAI's envelope */
  readonly refuse?: (inference: Inference, error: ServeError) => void;
}

/** A handler of inference requests; it never rejects. */
export function serveInference<Body extends Asked>(route: InferenceRoute<Body>): Serve {
  const { endpoint, isOffWithoutModel = false, read = readJson, parse, start } = route;
  const isStream = route.isStream ?? (({ stream }) => stream === true);
  const refuse = route.refuse ?? ((inference, error) => inference.refuse(error));
  return async (deps, exchange) => {
    const inference = new Inference(deps, exchange, endpoint);
    try {
      requireService(deps);
      if (isOffWithoutModel) requireRoute(deps, endpoint);
      const body = await parse(await read(exchange, deps), deps, exchange);
      await start(inference, body, openForModel(inference, body.model, isStream(body)));
    } catch (thrown) {
      refuse(inference, toServeError(thrown));
    }
  };
}

/**
 * Hands one request to the pipeline. An answer that is not written as it comes takes room until it is whole.
 * @throws ServeError `server_overloaded` where there is none
 */
export function generate(
  inference: Inference,
  request: GenerationRequest,
  sink: Abandonable & GenerationSink,
  { meter, isWritten = request.stream }: { readonly meter: RequestMeter; readonly isWritten?: boolean },
): void {
  const { signal } = inference.watch(sink);
  inference.deps.pipeline.generate(request, isWritten ? sink : inference.kept(sink), { signal, meter });
}

/** Refuses while the process drains, before the body is read. @throws ServeError 503 */
export function requireService({ lifecycle }: HttpAppDeps): void {
  if (!lifecycle.isTakingRequests) throw new ServeError('service_unavailable', 'Service is not ready');
}

/** @throws ServeError `insufficient_permissions`, whether there is such a model or not */
export function requireAllowed({ grant }: Pick<HttpExchange, 'grant'>, name: string, primaryName = name): void {
  if (grant.allowsModel(name, primaryName)) return;
  const message = `Key ${grant.key?.id} may not use model '${name}'`;
  throw new ServeError('insufficient_permissions', message, { param: 'model' });
}

/** Some inference routes exist once a model that serves them was registered. @throws ServeError 404 */
function requireRoute({ pipeline }: HttpAppDeps, endpoint: Endpoint): void {
  const type = ENDPOINTS[endpoint].modelType;
  for (const model of pipeline.requestable.list()) if (model.card.model_type.includes(type)) return;
  throw modelNotFound(pipeline.requestable.list(), { type });
}

/** The name is registered as a model that serves `endpoint`; checked after the body. @throws ServeError 404 */
export function requireServed({ pipeline }: HttpAppDeps, name: string, endpoint: Endpoint): void {
  const type = ENDPOINTS[endpoint].modelType;
  if (pipeline.requestable.find(name)?.card.model_type.includes(type) === true) return;
  throw modelNotFound(pipeline.requestable.list(), { name, type, param: 'model' });
}

/** The model of a request whose books are open. */
interface OpenedModel {
  readonly meter: RequestMeter;
  /** As the worker registered it; the name may be an alias. */
  readonly primaryName: string;
  readonly isStream: boolean;
}

/**
 * Opens the request's books under its model and lets it pass only if the model can be served now. A name that nobody
 * registered passes: that is told after the body was checked.
 * @throws ServeError `service_unavailable`, `insufficient_permissions`
 */
function openForModel(inference: Inference, name: string, isStream: boolean): OpenedModel {
  const served = inference.deps.pipeline.requestable.find(name);
  requireAllowed(inference.exchange, name, served?.primaryName);
  const meter = inference.open(served?.primaryName ?? UNKNOWN_MODEL, isStream ? 'stream' : 'unary');
  if (served !== undefined && !served.readiness.isReady) throw modelNotReady(name);
  return { meter, primaryName: served?.primaryName ?? name, isStream };
}

export function decodeContext(
  inference: Pick<Inference, 'deps' | 'exchange'> & Partial<Pick<Inference, 'span'>>,
): DecodeContext {
  const { settings, random, logger } = inference.deps;
  const { key, owner } = inference.exchange.grant;
  const { cacheIsolation = 'figures' } = settings;
  return {
    headers: inference.exchange,
    settings: settings.decode,
    random,
    newId: inference.exchange.madeRequestId,
    span: inference.span,
    ...(key && { owner, ...(cacheIsolation !== 'off' && { isolation: cacheIsolation }) }),
    warn: (message) => logger.debug(message),
  };
}
