import { type ServeError, toServeError } from '../../errors/index.ts';
import type { Endpoint, GenerationRequest, GenerationSink } from '../../protocol/generation/index.ts';
import type { JsonBody } from '../../protocol/openai/index.ts';
import type { RequestMeter } from '../../telemetry/index.ts';
import type { HttpAppDeps } from './deps.ts';
import { type OpenedModel, openForModel, requireRoute, requireService } from './gates.ts';
import type { HttpExchange } from './hosts/exchange.ts';
import { type Abandonable, Inference } from './inference.ts';
import { readJson } from './read-json.ts';
import type { Serve } from './route.ts';

/** What every body of an inference request says. */
interface Asked {
  readonly model: string;
  readonly stream?: boolean | null | undefined;
}

/** What a dialect adds to the steps that every inference request takes. What its functions throw is answered by `refuse`. */
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
