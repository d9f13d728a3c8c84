import type { ModelType } from '../../../discovery/index.ts';
import { ServeError } from '../../../errors/index.ts';
import { modelNotFound, modelNotReady } from '../../../pipeline/index.ts';
import type { DecodeContext } from '../../../protocol/openai/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import { type InferenceCall, UNKNOWN_MODEL } from '../inference-call.ts';

/** Refuses while the process drains, before the body is read. @throws ServeError 503 */
export function requireService({ lifecycle }: HttpAppDeps): void {
  if (!lifecycle.isTakingRequests) throw new ServeError('service_unavailable', 'Service is not ready');
}

/** An inference route exists once a model of its type was registered. @throws ServeError 404 */
export function requireRoute({ pipeline }: HttpAppDeps, type: ModelType): void {
  for (const model of pipeline.requestable.list()) if (model.card.model_type.includes(type)) return;
  throw modelNotFound(pipeline.requestable.list(), { type });
}

/** The name is registered with that model type; checked after the body. @throws ServeError 404 */
export function requireServed({ pipeline }: HttpAppDeps, name: string, type: ModelType): void {
  if (pipeline.requestable.find(name)?.card.model_type.includes(type) === true) return;
  throw modelNotFound(pipeline.requestable.list(), { name, type, param: 'model' });
}

/**
 * Opens the request's books under its model and lets it pass only if the model can be served now. A name that nobody
 * registered passes: that is told after the body was checked.
 * @throws ServeError `service_unavailable`
 */
export function openForModel(
  call: InferenceCall,
  name: string,
  isStream: boolean,
): { readonly meter: RequestMeter; readonly primaryName: string } {
  const served = call.deps.pipeline.requestable.find(name);
  const meter = call.open(served?.primaryName ?? UNKNOWN_MODEL, isStream ? 'stream' : 'unary');
  if (served !== undefined && !served.readiness.isReady) throw modelNotReady(name);
  return { meter, primaryName: served?.primaryName ?? name };
}

export function decodeContext(
  call: Pick<InferenceCall, 'deps' | 'exchange'> & Partial<Pick<InferenceCall, 'span'>>,
): DecodeContext {
  const { settings, random, logger } = call.deps;
  return {
    headers: call.exchange,
    settings: settings.decode,
    random,
    newId: call.exchange.madeRequestId,
    span: call.span,
    warn: (message) => logger.debug(message),
  };
}
