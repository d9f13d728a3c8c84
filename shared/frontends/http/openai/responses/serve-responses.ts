import { type ServeError, toServeError } from '../../../../errors/index.ts';
import {
  checkResponsesBody,
  type DecodedResponses,
  decodeResponses,
  estimateInputTokens,
  type InputItem,
  ignoredKeyLabels,
  parseResponsesBody,
  RESPONSES_KEYS,
  responseIdOf,
} from '../../../../protocol/openai/index.ts';
import type { RequestMeter } from '../../../../telemetry/index.ts';
import { answerError, answerJson } from '../../answers/answer.ts';
import { SseStream } from '../../answers/sse-stream.ts';
import { objectText } from '../../answers/written-answer.ts';
import type { HttpAppDeps } from '../../deps.ts';
import { decodeContext, requireServed, requireService } from '../../gates.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import { CHOSEN_ID, type InferenceCall, idIsTaken } from '../../inference-call.ts';
import { readJson } from '../../read-json.ts';
import type { Serve } from '../../route.ts';
import { generate, serveInference } from '../../serve-inference.ts';
import { ItemFrames } from './item-frames.ts';
import { ANYBODY, gatherItems, isStored, lookForStored } from './response-keeper.ts';
import { ResponsesAnswer } from './responses-answer.ts';
import { type FinalEvent, type ResponsesOutlet, ResponsesUnary } from './responses-unary.ts';
import type { RunningResponse, RunningResponses } from './serve-stored.ts';

/** `POST /v1/responses`. */
export function serveResponses(running: RunningResponses): Serve {
  return serveInference({
    endpoint: 'responses',
    parse: (json) => {
      const parsed = parseResponsesBody(json);
      return { ...parsed, model: parsed.body.model ?? '', stream: parsed.body.stream };
    },
    answer: async (call, parsed, { meter, primaryName }) => {
      const { deps, exchange } = call;
      checkResponsesBody(parsed.body);
      deps.metrics.ignoredKeys('responses', ignoredKeyLabels(parsed.body, RESPONSES_KEYS));
      requireServed(deps, parsed.model, 'responses');
      const items = await gatherItems(deps, exchange, parsed);
      const stores = isStored(deps, parsed.body);
      const decoded = decodeResponses(parsed.body, { ...items, isStored: stores }, decodeContext(call));
      await requireUnstored(call, responseIdOf(decoded.request.id));
      call.identify(decoded.request);
      const kept = stores ? [...items.earlier, ...items.own] : undefined;
      start({ call, decoded, model: primaryName, meter, kept, running });
    },
  });
}

/** @throws ServeError `invalid_value` when the client chose the id of a stored response, `service_unavailable`. */
async function requireUnstored({ deps, exchange }: InferenceCall, id: string): Promise<void> {
  if (exchange.header(CHOSEN_ID) === undefined || deps.responseStore === undefined) return;
  if ((await lookForStored(deps, id, exchange.sink.closed)) !== undefined) throw idIsTaken();
}

/** `POST /v1/responses/input_tokens`: an estimate, without a look at the model. */
export async function serveInputTokens(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  try {
    requireService(deps);
    const json = await readJson(exchange, deps);
    answerJson(exchange, 200, { object: 'response.input_tokens', input_tokens: estimateInputTokens(json) });
  } catch (thrown) {
    answerError(exchange, toServeError(thrown), deps.settings.overloadStatus);
  }
}

interface Start {
  readonly call: InferenceCall;
  readonly decoded: DecodedResponses;
  readonly model: string;
  readonly meter: RequestMeter;
  readonly kept: readonly InputItem[] | undefined;
  readonly running: RunningResponses;
}

/** Opens the answer, makes it cancellable by its id, and hands the request to the pipeline. */
function start({ call, decoded, model, meter, kept, running }: Start): void {
  const { request } = decoded;
  const id = responseIdOf(request.id);
  const headers = warningHeader(decoded.droppedTools);
  const outlet = request.stream
    ? new ResponsesStream(call, headers, decoded.showsSummary)
    : new ResponsesUnary(call, headers);
  const answer = new ResponsesAnswer({
    call,
    decoded,
    names: { id, created: call.createdSecs, model },
    outlet,
    kept: kept === undefined ? undefined : { id, items: kept },
    onOver: () => running.remove(id, entry),
  });
  const entry: RunningResponse = { owner: ANYBODY, snapshot: () => answer.snapshot(), recorded: answer.recorded };
  running.add(id, entry);
  generate(call, request, answer, { meter, isWritten: false }); // what is stored is kept whole
}

/** Tells which tools the model was not told of. */
function warningHeader(dropped: readonly string[]): Readonly<Record<string, string>> {
  if (dropped.length === 0) return {};
  const names = dropped.map((type) => type.replaceAll(/[^\w.-]/g, '?')).join(', ');
  return { warning: `299 - "hosted tools are not supported and were dropped: ${names}"` };
}

/** An answer as events. */
class ResponsesStream implements ResponsesOutlet {
  readonly observer: ItemFrames;
  readonly needsItem = false;
  readonly #out: SseStream;

  constructor(call: InferenceCall, headers: Readonly<Record<string, string>>, showsSummary: boolean) {
    const out = new SseStream(call, headers);
    this.#out = out;
    this.observer = new ItemFrames((frame, isKnownAscii) => out.write(frame, isKnownAscii), showsSummary);
  }

  get isBegun(): boolean {
    return this.#out.isCommitted;
  }

  /** Both events wait with the head: until something was generated, a failure still has its status. */
  begin(body: string): void {
    this.#out.annotate(this.observer.response('response.created', body));
    this.#out.annotate(this.observer.response('response.in_progress', body));
  }

  annotate(frame: string): void {
    this.#out.annotate(frame);
  }

  finish(event: FinalEvent, body: object, nvext: Iterable<string>): undefined {
    this.#out.close(this.observer.response(event, objectText(body, nvext)));
  }

  refuse(error: ServeError): void {
    this.#out.fail(error);
  }

  abandon(): void {
    this.#out.abandon();
  }
}
