import { toServeError } from '../../../errors/index.ts';
import { type DecodedEmbeddings, decodeEmbeddings, parseEmbeddingsBody } from '../../../protocol/openai/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { InferenceCall } from '../inference-call.ts';
import { readJson } from '../read-json.ts';
import { EmbeddingsAnswer } from './embeddings-answer.ts';
import { decodeContext, openForModel, requireServed, requireService } from './gates.ts';

/** Inputs of one batch that are with workers at a time; the others wait for one of them to end. */
const IN_FLIGHT_MAX = 64;

/** `POST /v1/embeddings`. Answers through the exchange's sink; never rejects. */
export async function serveEmbeddings(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const call = new InferenceCall(deps, exchange, 'embeddings');
  try {
    requireService(deps);
    const json = await readJson(exchange, deps);
    const body = parseEmbeddingsBody(json);
    const { meter, primaryName } = openForModel(call, body.model, false);
    const isPassedOn = deps.pipeline.requestable.find(body.model)?.card.model_input === 'Text';
    const decoded = decodeEmbeddings(body, isPassedOn, decodeContext(call));
    call.identify(decoded.requests[0]!); // a batch has at least one input
    requireServed(deps, body.model, 'Embedding');
    embedAll(call, decoded, primaryName, meter);
  } catch (thrown) {
    call.refuse(toServeError(thrown));
  }
}

/** Starts the inputs of the batch under one signal, each as soon as there is room for it. */
function embedAll(call: InferenceCall, decoded: DecodedEmbeddings, model: string, meter: RequestMeter): void {
  let next = 0;
  const startNext = (): void => {
    const index = next++;
    const request = decoded.requests[index];
    if (request === undefined || work.signal.aborted) return;
    call.deps.pipeline.generate(request, call.kept(answer.input(index, startNext)), { signal: work.signal, meter });
  };
  const answer = new EmbeddingsAnswer(call, decoded, model, () => work.cancel());
  const work = call.watch(answer);
  for (let started = 0; started < IN_FLIGHT_MAX; started++) startNext();
}
