import { type DecodedEmbeddings, decodeEmbeddings, parseEmbeddingsBody } from '../../../protocol/openai/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import { decodeContext, requireServed } from '../gates.ts';
import type { InferenceCall } from '../inference-call.ts';
import { serveInference } from '../serve-inference.ts';
import { EmbeddingsAnswer } from './embeddings-answer.ts';

/** Inputs of one batch that are with workers at a time; the others wait for one of them to end. */
const IN_FLIGHT_MAX = 64;

/** `POST /v1/embeddings`. */
export const serveEmbeddings = serveInference({
  endpoint: 'embeddings',
  parse: parseEmbeddingsBody,
  answer: (call, body, { meter, primaryName }) => {
    const isPassedOn = call.deps.pipeline.requestable.find(body.model)?.card.model_input === 'Text';
    const decoded = decodeEmbeddings(body, isPassedOn, decodeContext(call));
    call.identify(decoded.requests[0]!); // a batch has at least one input
    requireServed(call.deps, body.model, 'embeddings');
    embedAll(call, decoded, primaryName, meter);
  },
});

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
