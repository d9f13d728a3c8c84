import { endOfTurn } from '../../concurrency/index.ts';
import { ServeError, toServeError } from '../../errors/index.ts';
import { modelNotFound, servesType } from '../../pipeline/index.ts';
import {
  ENDPOINTS,
  type Endpoint,
  type JsonBody,
  type LeftOut,
  parseJsonBody,
  parseLargeJsonBody,
} from '../../protocol/index.ts';
import { modelsShown, notListed, type OpenedModel, openForModel, requireService } from '../inference/dialect.ts';
import { RequestTracker } from '../inference/request-tracker.ts';
import type { HttpAppDeps } from './deps.ts';
import { BodyIntake } from './exchange/body-intake.ts';
import type { HttpExchange } from './exchange/exchange.ts';
import type { Serve } from './route.ts';
import { sendError } from './sinks/send.ts';

/** Fields of every body of an inference request. */
interface Asked {
  readonly model: string;
  readonly stream?: boolean | null | undefined;
}

/** A dialect's part in the steps that every inference request takes. `refuse` sends what its functions throw. */
interface InferenceRoute<Body extends Asked> {
  readonly endpoint: Endpoint;
  /**
   * Whether the route is 404, whatever the body is, until a model that serves `endpoint` is registered. @default false
   */
  readonly isOffWithoutModel?: boolean;
  /** Reads the body. @default as JSON */
  readonly read?: (exchange: HttpExchange, deps: HttpAppDeps) => Promise<JsonBody>;
  readonly parse: (json: JsonBody, deps: HttpAppDeps, exchange: HttpExchange) => Body | Promise<Body>;
  /** Returns whether the answer is a stream. @default `stream` of the body */
  readonly isStream?: (body: Body) => boolean;
  /** Decodes the body, identifies the request, and hands it to the pipeline with a sink that writes to the exchange. */
  readonly start: (inference: Inference, body: Body, model: OpenedModel) => void | Promise<void>;
  /** Sends a failure. @default in OpenAI's envelope */
  readonly refuse?: (inference: Inference, error: ServeError) => void;
}

/** Returns a handler of inference requests, which never rejects. */
export function serveInference<Body extends Asked>(route: InferenceRoute<Body>): Serve {
  const { endpoint, isOffWithoutModel = false, read = readJson, parse, start } = route;
  const isStream = route.isStream ?? (({ stream }) => stream === true);
  const refuse = route.refuse ?? ((inference, error) => inference.refuse(error));
  return async (deps, exchange) => {
    const inference = new Inference(deps, exchange, endpoint);
    try {
      requireService(deps);
      if (isOffWithoutModel && deps.pipeline.models.isPart !== true && !hasModelFor(deps, endpoint))
        throw await notServed(inference, endpoint, read);
      const body = await parse(await read(exchange, deps), deps, exchange);
      if (deps.lookUp !== undefined) await deps.lookUp(body.model);
      await start(inference, body, openForModel(inference, body.model, isStream(body)));
    } catch (thrown) {
      refuse(inference, toServeError(thrown));
    }
  };
}

/** Returns whether a model is registered that serves `endpoint`. */
function hasModelFor({ pipeline }: HttpAppDeps, endpoint: Endpoint): boolean {
  const type = ENDPOINTS[endpoint].modelType;
  return pipeline.requestable.list().some((model) => servesType(model, type));
}

/** Returns the 404 of a route without a model. The body may be anything; the error names the model if the body does. */
async function notServed(
  { deps, exchange }: Inference,
  endpoint: Endpoint,
  read: (exchange: HttpExchange, deps: HttpAppDeps) => Promise<JsonBody>,
): Promise<ServeError> {
  const named = await read(exchange, deps).then(
    ({ value }) => (value as { readonly model?: unknown } | null)?.model,
    () => undefined, // a body that cannot be read names no model
  );
  const name = typeof named === 'string' ? named : undefined;
  const type = ENDPOINTS[endpoint].modelType;
  const param = name === undefined ? undefined : 'model';
  return modelNotFound(modelsShown(deps, exchange), { ...notListed(deps), name, type, param });
}

/** Sends a failure in the dialect's own form, and returns the status. */
type Refusal = (inference: Inference, error: ServeError) => number;

/** Tracks one inference request that came by HTTP. */
export class Inference extends RequestTracker<HttpExchange, HttpAppDeps> {
  /** Ends a request whose handler failed: before there was a sink, or through a bug while the sink was writing. */
  refuse(error: ServeError, refusal: Refusal = refuseInOpenAi): void {
    this.breakOff(error);
    this.fail(error, refusal(this, error));
  }
}

/** Tells the client and operators which parts of the request the model does not get. */
export function tellLeftOut({ deps, exchange }: Inference, endpoint: Endpoint, leftOut: LeftOut): void {
  warnOfLeftOut(exchange, leftOut);
  if (leftOut.warning !== undefined) deps.metrics.leftOut(endpoint, leftOut.kinds);
}

/** Tells only the client, for routes that generate nothing: operators count requests to models. */
export function warnOfLeftOut(exchange: HttpExchange, { warning }: LeftOut): void {
  if (warning !== undefined) exchange.announce({ warning });
}

function refuseInOpenAi({ exchange, deps }: Inference, error: ServeError): number {
  return sendError(exchange, error, deps.settings.overloadStatus);
}

/** Reads a body and hands it to `use`. The bytes count against the room for bodies until `use` has ended. */
export async function withBody<T>(
  exchange: HttpExchange,
  { settings, bodies }: Pick<HttpAppDeps, 'settings' | 'bodies'>,
  use: (bytes: Uint8Array) => T | Promise<T>,
): Promise<T> {
  const intake = new BodyIntake(settings.bodyLimitBytes, bodies, exchange.header('content-encoding'));
  try {
    await exchange.readBody(intake);
    return await use(await intake.finish());
  } finally {
    intake.release();
  }
}

/**
 * Checks the content type, reads the body and parses it, in this order.
 * @throws ServeError `unsupported_media_type`, `request_too_large`, `server_overloaded`, `invalid_json`,
 * `invalid_value`.
 */
export async function readJson(
  exchange: HttpExchange,
  deps: Pick<HttpAppDeps, 'settings' | 'bodies'>,
): Promise<JsonBody> {
  if (!isJsonType(exchange.header('content-type'))) {
    throw new ServeError('unsupported_media_type', 'Expected request with Content-Type application/json');
  }
  return withBody(exchange, deps, parse);
}

async function parse(bytes: Uint8Array): Promise<JsonBody> {
  await endOfTurn();
  if (bytes.length < LARGE_BYTES) return parseJsonBody(bytes);
  const json = await parseLargeJsonBody(bytes, endOfTurn);
  await endOfTurn(); // so that the caller continues in another turn
  return json;
}

/**
 * Bytes from which a body is parsed in several turns. `JSON.parse` reads a smaller one, such as 100,000 ids, within 5
 * ms.
 */
const LARGE_BYTES = 768 * 1024;

const JSON_TYPE = /^\s*application\/(?:json|[^\s;/]+\+json)\s*(?:;|$)/i;

function isJsonType(contentType: string | undefined): boolean {
  return contentType === 'application/json' || (contentType !== undefined && JSON_TYPE.test(contentType));
}
