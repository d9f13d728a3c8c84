import { toServeError } from '../../../../errors/index.ts';
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
import {
  CHOSEN_ID,
  decodeContext,
  generate,
  idIsTaken,
  requireServed,
  requireService,
} from '../../../inference/index.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import type { Inference } from '../../inference.ts';
import { readJson } from '../../read-json.ts';
import type { Serve } from '../../route.ts';
import { serveInference } from '../../serve-inference.ts';
import { sendError, sendJson } from '../../sinks/send.ts';
import { StreamNames } from '../wire.ts';
import { serveCompact } from './compact.ts';
import { ObjectOutlet, StreamOutlet } from './outlets.ts';
import { gatherItems, isStored, lookForStored } from './response-keeper.ts';
import { ResponseSink } from './response-sink.ts';
import {
  type RunningResponse,
  RunningResponses,
  serveInputItems,
  serveResponseCancel,
  serveStoredResponse,
} from './stored.ts';

/** What answers below the path of the Responses API. */
interface ResponsesHandlers {
  readonly create: Serve;
  readonly countInput: Serve;
  readonly compact: Serve;
  readonly stored: Serve;
  readonly cancel: Serve;
  readonly items: Serve;
}

/** @param path where the API stands, without a slash at its end */
export function responsesHandlers(path: string): ResponsesHandlers {
  const running = new RunningResponses();
  /** The id in a path that matched: what stands between the API's path and the next slash. */
  const idOf = (exchange: HttpExchange): string => exchange.path.slice(path.length + 1).split('/')[0]!;
  return {
    create: serveResponses(running),
    countInput: serveInputTokens,
    compact: serveCompact,
    stored: (deps, exchange) => serveStoredResponse(deps, exchange, idOf(exchange), running),
    cancel: (deps, exchange) => serveResponseCancel(deps, exchange, idOf(exchange), running),
    items: (deps, exchange) => serveInputItems(deps, exchange, idOf(exchange)),
  };
}

/** `POST /v1/responses`. */
function serveResponses(running: RunningResponses): Serve {
  return serveInference({
    endpoint: 'responses',
    parse: (json) => {
      const parsed = parseResponsesBody(json);
      return { ...parsed, model: parsed.body.model ?? '', stream: parsed.body.stream };
    },
    start: async (inference, parsed, { meter, primaryName }) => {
      const { deps, exchange } = inference;
      checkResponsesBody(parsed.body);
      deps.metrics.ignoredKeys('responses', ignoredKeyLabels(parsed.body, RESPONSES_KEYS));
      requireServed(deps, parsed.model, 'responses');
      const items = await gatherItems(deps, exchange, parsed);
      const stores = isStored(deps, parsed.body);
      const decoded = decodeResponses(parsed.body, { ...items, isStored: stores }, decodeContext(inference));
      await requireUnstored(inference, responseIdOf(decoded.request.id));
      inference.identify(decoded.request);
      const kept = stores ? [...items.earlier, ...items.own] : undefined;
      open({ inference, decoded, model: primaryName, meter, kept, running });
    },
  });
}

/** @throws ServeError `invalid_value` when the client chose the id of a stored response, `service_unavailable`. */
async function requireUnstored({ deps, exchange }: Inference, id: string): Promise<void> {
  if (exchange.header(CHOSEN_ID) === undefined || deps.responseStore === undefined) return;
  if ((await lookForStored(deps, id, exchange)) !== undefined) throw idIsTaken();
}

/** `POST /v1/responses/input_tokens`: an estimate, without a look at the model. */
async function serveInputTokens(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  try {
    requireService(deps);
    const json = await readJson(exchange, deps);
    sendJson(exchange, 200, { object: 'response.input_tokens', input_tokens: estimateInputTokens(json) });
  } catch (thrown) {
    sendError(exchange, toServeError(thrown), deps.settings.overloadStatus);
  }
}

interface Opening {
  readonly inference: Inference;
  readonly decoded: DecodedResponses;
  readonly model: string;
  readonly meter: RequestMeter;
  readonly kept: readonly InputItem[] | undefined;
  readonly running: RunningResponses;
}

/** Opens the response, makes it cancellable by its id, and hands the request to the pipeline. */
function open({ inference, decoded, model, meter, kept, running }: Opening): void {
  const { request } = decoded;
  const id = responseIdOf(request.id);
  const headers = warningHeader(decoded.droppedTools);
  const outlet = request.stream
    ? new StreamOutlet(inference, headers, decoded.showsSummary)
    : new ObjectOutlet(inference, headers);
  const sink = new ResponseSink({
    inference,
    decoded,
    names: request.stream ? new StreamNames(inference, id, model) : { id, created: inference.createdSecs, model },
    storedId: id,
    outlet,
    kept: kept === undefined ? undefined : { id, owner: inference.owner, items: kept },
    onOver: () => running.remove(id, entry),
  });
  const entry: RunningResponse = { owner: inference.owner, snapshot: () => sink.snapshot(), recorded: sink.recorded };
  running.add(id, entry);
  generate(inference, request, sink, { meter, isWritten: false }); // what is stored is kept whole
}

/** Tells which tools the model was not told of. */
function warningHeader(dropped: readonly string[]): Readonly<Record<string, string>> {
  if (dropped.length === 0) return {};
  const names = dropped.map((type) => type.replaceAll(/[^\w.-]/g, '?')).join(', ');
  return { warning: `299 - "hosted tools are not supported and were dropped: ${names}"` };
}
