import { ServeError } from '../../errors/index.ts';
import { modelNotFound, modelNotReady } from '../../pipeline/index.ts';
import { ENDPOINTS, type Endpoint } from '../../protocol/generation/index.ts';
import type { DecodeContext } from '../../protocol/openai/index.ts';
import type { RequestMeter } from '../../telemetry/index.ts';
import type { HttpAppDeps } from './deps.ts';
import { type Inference, UNKNOWN_MODEL } from './inference.ts';

/** Refuses while the process drains, before the body is read. @throws ServeError 503 */
export function requireService({ lifecycle }: HttpAppDeps): void {
  if (!lifecycle.isTakingRequests) throw new ServeError('service_unavailable', 'Service is not ready');
}

/** Some inference routes exist once a model that serves them was registered. @throws ServeError 404 */
export function requireRoute({ pipeline }: HttpAppDeps, endpoint: Endpoint): void {
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
export interface OpenedModel {
  readonly meter: RequestMeter;
  /** As the worker registered it; the name may be an alias. */
  readonly primaryName: string;
  readonly isStream: boolean;
}

/**
 * Opens the request's books under its model and lets it pass only if the model can be served now. A name that nobody
 * registered passes: that is told after the body was checked.
 * @throws ServeError `service_unavailable`
 */
export function openForModel(inference: Inference, name: string, isStream: boolean): OpenedModel {
  const served = inference.deps.pipeline.requestable.find(name);
  const meter = inference.open(served?.primaryName ?? UNKNOWN_MODEL, isStream ? 'stream' : 'unary');
  if (served !== undefined && !served.readiness.isReady) throw modelNotReady(name);
  return { meter, primaryName: served?.primaryName ?? name, isStream };
}

export function decodeContext(
  inference: Pick<Inference, 'deps' | 'exchange'> & Partial<Pick<Inference, 'span'>>,
): DecodeContext {
  const { settings, random, logger } = inference.deps;
  return {
    headers: inference.exchange,
    settings: settings.decode,
    random,
    newId: inference.exchange.madeRequestId,
    span: inference.span,
    warn: (message) => logger.debug(message),
  };
}
