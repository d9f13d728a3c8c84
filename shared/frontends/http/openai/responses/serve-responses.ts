import { ServeError } from '../../../../errors/index.ts';
import {
  COMPACT_KEYS,
  COMPACTION_TRIGGER,
  checkResponsesBody,
  compactBody,
  type DecodedResponses,
  decodeResponses,
  estimateInputTokens,
  type InputItem,
  ignoredKeyLabels,
  inputTokensBody,
  parseCompactBody,
  parseResponsesBody,
  RESPONSES_KEYS,
  type ResponsesBody,
  responseIdOf,
  responsesBody,
  toListedItems,
} from '../../../../protocol/index.ts';
import { decodeContext, generate, requireServed, requireService } from '../../../inference/dialect.ts';
import { CHOSEN_ID, idIsTaken } from '../../../inference/request-tracker.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../exchange/exchange.ts';
import type { BodyRoute } from '../../route.ts';
import { type Inference, readJson, serveInference, tellLeftOut } from '../../serve-inference.ts';
import { namesOf } from '../../sinks/response-names.ts';
import { sendJson } from '../../sinks/send.ts';
import { responseUsage } from './bodies.ts';
import { readCreateEvent } from './create-event.ts';
import { ObjectOutlet, StreamOutlet } from './outlets.ts';
import { gatherItems, isStored, isUserMessage, lookForStored, previousNotFound } from './response-keeper.ts';
import { ResponseSink } from './response-sink.ts';

/** `POST /v1/responses`. */
const serveResponses = serveInference({
  endpoint: 'responses',
  parse: (json, _deps, { memory }) => {
    const { body, generates } = memory === undefined ? { body: json, generates: true } : readCreateEvent(json);
    const parsed = parseResponsesBody(body);
    return { ...parsed, generates, model: parsed.body.model ?? '', stream: parsed.body.stream };
  },
  start: async (inference, parsed, { meter, primaryName: model }) => {
    const { deps, exchange, owner } = inference;
    const { memory } = exchange;
    checkResponsesBody(parsed.body);
    deps.metrics.ignoredKeys('responses', ignoredKeyLabels(parsed.body, RESPONSES_KEYS));
    requireServed(inference, parsed.model, 'responses');
    const items = await gatherItems(deps, exchange, parsed);
    const stores = isStored(deps, parsed.body);
    const context = decodeContext(inference, parsed.model);
    const decoded = decodeResponses(parsed.body, { ...items, isStored: stores }, context);
    tellLeftOut(inference, 'responses', context.leftOut);
    const { request, showsSummary } = decoded;
    const id = responseIdOf(request.id);
    await requireUnstored(inference, id);
    inference.identify(request);
    const sink = new ResponseSink({
      inference,
      decoded,
      names: namesOf(inference, request.stream, id, model),
      storedId: id,
      outlet: request.stream ? new StreamOutlet(inference, showsSummary) : new ObjectOutlet(inference),
      kept:
        stores || memory !== undefined
          ? { id, owner, items: [...items.earlier, ...items.own], memory: stores ? undefined : memory }
          : undefined,
    });
    if (!parsed.generates) sink.end({ promptTokens: 0, completionTokens: 0 }, true);
    else generate(inference, request, sink, { meter, isWritten: false }); // a stored answer is kept until it is whole
  },
});

export const responses: BodyRoute = {
  serve: serveResponses,
  body: {
    name: 'ResponseRequest',
    ...responsesBody,
    example: ({ Chat: model }) => ({ model, input: 'What are you?', max_output_tokens: 64 }),
  },
};

/**
 * Checks that the id of a response is not in the store.
 * @throws ServeError `invalid_value` if the client chose the id of a stored response, `service_unavailable`.
 */
async function requireUnstored({ deps, exchange }: Inference, id: string): Promise<void> {
  if (exchange.header(CHOSEN_ID) === undefined || deps.responseStore === undefined) return;
  if ((await lookForStored(deps, id, exchange)) !== undefined) throw idIsTaken();
}

/** `POST /v1/responses/input_tokens`: estimates the tokens, without reading the model. */
async function serveInputTokens(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  requireService(deps);
  const json = await readJson(exchange, deps);
  sendJson(exchange, 200, { object: 'response.input_tokens', input_tokens: estimateInputTokens(json) });
}

export const inputTokens: BodyRoute = {
  serve: serveInputTokens,
  body: {
    name: 'InputTokensRequest',
    ...inputTokensBody,
    example: ({ Chat: model }) => ({ model, input: 'What are you?' }),
  },
};

/**
 * `POST /v1/responses/compact`: lets the model summarize the conversation. The response holds what replaces the
 * conversation: the user's messages, and the summary as one item.
 */
const serveCompact = serveInference({
  endpoint: 'responses',
  parse: async (json, deps, exchange) => {
    const parsed = parseCompactBody(json);
    deps.metrics.ignoredKeys(
      'responses',
      ignoredKeyLabels(json.value as Readonly<Record<string, unknown>>, COMPACT_KEYS),
    );
    return { ...parsed, model: parsed.body.model ?? (await modelOfPrevious(deps, parsed.body, exchange)) };
  },
  isStream: () => false,
  start: async (inference, { model, ...parsed }, { meter, primaryName }) => {
    const { deps, exchange } = inference;
    requireServed(inference, model, 'responses');
    if (parsed.items.length === 0 && parsed.body.previous_response_id == null) throw nothingToCompact();
    const { earlier, own } = await gatherItems(deps, exchange, parsed);
    const source = { earlier, own: [...own, COMPACTION_TRIGGER], isStored: false };
    const context = decodeContext(inference, model);
    const decoded = decodeResponses({ ...parsed.body, model }, source, context);
    tellLeftOut(inference, 'responses', context.leftOut);
    inference.identify(decoded.request);
    const sink = compaction(inference, decoded, primaryName, [...earlier, ...own].filter(isUserMessage));
    generate(inference, decoded.request, sink, { meter, isWritten: false });
  },
});

export const compact: BodyRoute = {
  serve: serveCompact,
  body: {
    name: 'CompactRequest',
    ...compactBody,
    example: ({ Chat: model }) => ({ model, input: 'What are you?' }),
  },
};

/**
 * Returns the compaction in the published shape.
 * @param said messages of the user, which stay unchanged before the summary
 */
function compaction(
  inference: Inference,
  decoded: DecodedResponses,
  model: string,
  said: readonly InputItem[],
): ResponseSink {
  const id = responseIdOf(decoded.request.id);
  const created = inference.createdSecs;
  return new ResponseSink({
    inference,
    decoded,
    names: { id, created, model },
    storedId: id,
    outlet: new ObjectOutlet(inference),
    kept: undefined,
    compose: ({ output, usage }) => ({
      id,
      object: 'response.compaction',
      created_at: created,
      output: [...toListedItems(said, id), ...output],
      usage: usage === undefined ? null : responseUsage(usage),
    }),
  });
}

function nothingToCompact(): ServeError {
  return new ServeError('missing_required_parameter', 'missing field `input` or `previous_response_id`', {
    param: 'input',
  });
}

/**
 * Returns the model of a conversation that does not name one: the model of the response that it follows.
 * @throws ServeError `missing_required_parameter`, `previous_response_not_found`, `service_unavailable`.
 */
async function modelOfPrevious(
  deps: HttpAppDeps,
  { previous_response_id: id }: ResponsesBody,
  exchange: HttpExchange,
): Promise<string> {
  if (id == null) throw new ServeError('missing_required_parameter', 'missing field `model`', { param: 'model' });
  const stored = await lookForStored(deps, id, exchange);
  if (stored === undefined) throw previousNotFound(id);
  return String(stored.response.model);
}
