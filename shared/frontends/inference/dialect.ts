import { ServeError } from '../../errors/index.ts';
import { modelNotFound, modelNotReady, type ServedModel, servesType } from '../../pipeline/index.ts';
import {
  type DecodeContext,
  ENDPOINTS,
  type Endpoint,
  type GenerationRequest,
  type GenerationSink,
  LeftOut,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  type Usage,
} from '../../protocol/index.ts';
import type { RequestMeter } from '../../telemetry/index.ts';
import type { InferenceDeps, TrackedExchange } from './deps.ts';
import type { Abandonable } from './lifecycle.ts';
import { type RequestTracker, UNKNOWN_MODEL } from './request-tracker.ts';

/* The steps that every inference request takes, whatever its dialect. */

/**
 * Hands one request to the pipeline. An answer that is not written as it comes takes room until it is whole.
 * @throws ServeError `server_overloaded` if there is no room
 */
export function generate(
  inference: RequestTracker,
  request: GenerationRequest,
  sink: Abandonable & GenerationSink,
  { meter, isWritten = request.stream }: { readonly meter: RequestMeter; readonly isWritten?: boolean },
): void {
  const signal = inference.watch(sink);
  const kept = isWritten ? sink : inference.kept(sink);
  inference.deps.pipeline.generate(request, inference.shown(request, kept), { signal, meter });
}

/** How long a client must wait before it asks a process again that drains or has just started. */
const RETRY_MS = 1000;

/**
 * Refuses requests while the process drains, waits for its first workers, or has just started and knows no model yet.
 * Called before the body is read. @throws ServeError 503
 */
export function requireService({ lifecycle, pipeline }: Pick<InferenceDeps, 'lifecycle' | 'pipeline'>): void {
  if (!lifecycle.isTakingRequests) {
    throw new ServeError('service_unavailable', 'Service is not ready', { retryAfterMs: RETRY_MS });
  }
  if (!lifecycle.isNew || pipeline.requestable.list().length > 0 || !knowsNothing({ pipeline })) return;
  const message = 'Service has just started and knows no model yet. Please retry shortly.';
  throw new ServeError('service_unavailable', message, { retryAfterMs: RETRY_MS });
}

/**
 * Checks that the key may use a model. @throws ServeError `insufficient_permissions`, whether the model exists or not
 */
export function requireAllowed({ grant }: Pick<TrackedExchange, 'grant'>, name: string, primaryName = name): void {
  if (grant.allowsModel(name, primaryName)) return;
  const message = `Key ${grant.key?.id} may not use model '${name}'`;
  throw new ServeError('insufficient_permissions', message, { param: 'model' });
}

/** Whether the process knows nothing yet of models that it does not list: it sees all models, and refuses none. */
export function knowsNothing({ pipeline: { models } }: Pick<InferenceDeps, 'pipeline'>): boolean {
  return models.isPart !== true && (models.refused?.().length ?? 0) === 0;
}

/** Returns what is known of models that are not listed, for the error of an unknown name. */
export function notListed({ pipeline: { models } }: Pick<InferenceDeps, 'pipeline'>) {
  return { isPart: models.isPart, refused: models.refused?.() };
}

/** Checks, after the body, that the name is registered as a model that serves `endpoint`. @throws ServeError 404 */
export function requireServed(
  {
    deps,
    exchange,
  }: { readonly deps: Pick<InferenceDeps, 'pipeline'>; readonly exchange: Pick<TrackedExchange, 'grant'> },
  name: string,
  endpoint: Endpoint,
): void {
  const type = ENDPOINTS[endpoint].modelType;
  const model = deps.pipeline.requestable.find(name);
  if (model !== undefined && servesType(model, type)) return;
  const { isPart, refused } = notListed(deps);
  throw modelNotFound(modelsShown(deps, exchange), { name, type, param: 'model', isPart, refused });
}

/**
 * Returns the models that a client may see: a key does not learn of models that it may not use.
 * @param directory `requestable` = as a request finds them, `models` = as they are
 */
export function modelsShown(
  { pipeline }: Pick<InferenceDeps, 'pipeline'>,
  { grant }: Pick<TrackedExchange, 'grant'>,
  directory: 'requestable' | 'models' = 'requestable',
): readonly ServedModel[] {
  return pipeline[directory].list().filter(({ name, primaryName }) => grant.allowsModel(name, primaryName));
}

/** Model of a request whose meter runs. */
export interface OpenedModel {
  readonly meter: RequestMeter;
  /** Name that the worker registered; the client's may be an alias. */
  readonly primaryName: string;
  readonly isStream: boolean;
}

/**
 * Starts the meter of the request under its model, and refuses the request if the model cannot be served now. A name
 * that no worker registered passes: the client learns of it after its body was checked.
 * @throws ServeError `service_unavailable`, `insufficient_permissions`
 */
export function openForModel(inference: RequestTracker, name: string, isStream: boolean): OpenedModel {
  const served = inference.deps.pipeline.requestable.find(name);
  requireAllowed(inference.exchange, name, served?.primaryName);
  inference.spans?.named(name, served?.primaryName);
  const meter = inference.open(served?.primaryName ?? UNKNOWN_MODEL, isStream ? 'stream' : 'unary');
  if (served !== undefined && !served.readiness.isReady) throw modelNotReady(name);
  return { meter, primaryName: served?.primaryName ?? name, isStream };
}

/**
 * Returns what decoding a request needs. @param model the model of a chat; undefined for requests that are no
 * conversation
 */
export function decodeContext(
  inference: Pick<RequestTracker, 'deps' | 'exchange'> & Partial<Pick<RequestTracker, 'spans'>>,
  model?: string,
): DecodeContext {
  const { settings, random, logger } = inference.deps;
  const { key, owner } = inference.exchange.grant;
  const { cacheIsolation = 'figures' } = settings;
  return {
    headers: inference.exchange,
    settings: settings.decode,
    random,
    newId: inference.exchange.madeRequestId,
    span: inference.spans?.operation,
    isBlind: model !== undefined && isBlind(inference.deps, model),
    leftOut: new LeftOut(),
    ...(key && { owner, ...(cacheIsolation !== 'off' && { isolation: cacheIsolation }) }),
    warn: (message) => logger.debug(message),
  };
}

/**
 * Returns whether workers of a model get prompts only as tokens. Workers that read chats, or send media to an encoder,
 * do not.
 */
function isBlind({ pipeline }: Pick<InferenceDeps, 'pipeline'>, name: string): boolean {
  const model = pipeline.requestable.find(name);
  const card = model?.card;
  if (card?.model_input !== 'Tokens' || model?.passesChats === true) return false;
  return card.runtime_config.media_chats !== true && card.runtime_config.route_to_encoder !== true;
}

/**
 * Writes the answer to one inference request, and ends it exactly once: with its end, a failure, or the leaving of the
 * client. It leaves out every event that its subclass has no method for.
 */
export abstract class DialectSink<Tracker extends RequestTracker = RequestTracker>
  implements GenerationSink, Abandonable
{
  readonly inference: Tracker;
  #isOver = false;

  constructor(inference: Tracker) {
    this.inference = inference;
  }

  /** Whether the answer has ended, so that nothing more is written. */
  get isOver(): boolean {
    return this.#isOver;
  }

  abstract end(usage: Usage, finished: boolean): void;

  text(_choice: number, _text: string, _tokenCount: number): void {}

  delta({ choice, text }: TextDelta): void {
    this.text(choice, text, 0);
  }

  finish({ choice, text }: TextFinish): void {
    this.text(choice, text, 0);
  }

  reasoning(_choice: number, _text: string): void {}
  toolCall(_choice: number, _index: number, _id: string, _name: string): void {}
  toolArguments(_choice: number, _index: number, _text: string): void {}
  annotation(_name: string, _value: string): void {}
  worker(_workers: ServingWorkers): void {}

  routed(_workers: ServingWorkers, _tokenIds: readonly number[]): void {
    const says = 'only chat completions and completions support query_instance_id';
    this.fail(new ServeError('unsupported_parameter', says, { param: 'nvext.annotations' }));
  }

  engineData(_data: Readonly<Record<string, unknown>>): void {}
  body(_body: unknown): void {}

  fail(error: ServeError): void {
    if (this.close()) this.tell(error);
  }

  abandon(): void {
    this.close();
  }

  isBlocked(): boolean {
    return this.inference.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.inference.exchange.sink.onUnblocked(callback);
  }

  /** Tells the client of a failure, in its dialect. */
  protected abstract tell(error: ServeError): void;

  /** Ends the answer, so that later events are ignored. Returns false if it had ended already. */
  protected close(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    return true;
  }
}
