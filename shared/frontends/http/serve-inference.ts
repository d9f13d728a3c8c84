import { type ServeError, toServeError } from '../../errors/index.ts';
import { modelNotFound } from '../../pipeline/index.ts';
import { ENDPOINTS, type Endpoint } from '../../protocol/generation/index.ts';
import type { JsonBody } from '../../protocol/json/index.ts';
import { type OpenedModel, openForModel, requireService } from '../inference/index.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './hosts/exchange.ts';
import { Inference } from './inference.ts';
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

/** Some inference routes exist once a model that serves them was registered. @throws ServeError 404 */
function requireRoute({ pipeline }: HttpAppDeps, endpoint: Endpoint): void {
  const type = ENDPOINTS[endpoint].modelType;
  for (const model of pipeline.requestable.list()) if (model.card.model_type.includes(type)) return;
  throw modelNotFound(pipeline.requestable.list(), { type });
}
