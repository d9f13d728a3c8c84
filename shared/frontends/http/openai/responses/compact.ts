import { ServeError } from '../../../../errors/index.ts';
import {
  COMPACT_KEYS,
  COMPACTION_TRIGGER,
  type DecodedResponses,
  decodeResponses,
  type InputItem,
  ignoredKeyLabels,
  parseCompactBody,
  type ResponsesBody,
  responseIdOf,
  toListedItems,
} from '../../../../protocol/openai/index.ts';
import { decodeContext, generate, requireServed } from '../../../inference/index.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import type { Inference } from '../../inference.ts';
import { serveInference } from '../../serve-inference.ts';
import { responseUsage } from './bodies.ts';
import { ObjectOutlet } from './outlets.ts';
import { gatherItems, isUserMessage, lookForStored } from './response-keeper.ts';
import { ResponseSink } from './response-sink.ts';

/**
 * `POST /v1/responses/compact`: lets the model sum the conversation up, and sends what takes its place: what the user
 * said, and the summary as one item.
 */
export const serveCompact = serveInference({
  endpoint: 'responses',
  parse: async (json, deps, exchange) => {
    const parsed = parseCompactBody(json);
    deps.metrics.ignoredKeys(
      'responses',
      ignoredKeyLabels(json.value as Readonly<Record<string, unknown>>, COMPACT_KEYS),
    );
    return { ...parsed, model: parsed.body.model ?? (await defaultModel(deps, parsed.body, exchange)) };
  },
  isStream: () => false,
  start: async (inference, { model, ...parsed }, { meter, primaryName }) => {
    const { deps, exchange } = inference;
    requireServed(deps, model, 'responses');
    if (parsed.items.length === 0 && parsed.body.previous_response_id == null) throw nothingToCompact();
    const { earlier, own } = await gatherItems(deps, exchange, parsed);
    const source = { earlier, own: [...own, COMPACTION_TRIGGER], isStored: false };
    const decoded = decodeResponses({ ...parsed.body, model }, source, decodeContext(inference));
    inference.identify(decoded.request);
    const sink = compaction(inference, decoded, primaryName, [...earlier, ...own].filter(isUserMessage));
    generate(inference, decoded.request, sink, { meter, isWritten: false });
  },
});

/** The response in the published shape. @param said what the user said: kept as it is, before the summary */
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
    outlet: new ObjectOutlet(inference, {}),
    kept: undefined,
    onOver: () => {},
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
 * The model of a conversation that names none: the one that answered last, else the only one that chats.
 * @throws ServeError `missing_required_parameter` when neither says it
 */
async function defaultModel(
  { pipeline, ...deps }: HttpAppDeps,
  { previous_response_id: id }: ResponsesBody,
  exchange: HttpExchange,
): Promise<string> {
  const stored = id == null ? undefined : await lookForStored({ pipeline, ...deps }, id, exchange);
  if (typeof stored?.response.model === 'string') return stored.response.model;
  const chats = pipeline.requestable.list().filter(({ card }) => card.model_type.includes('Chat'));
  const names = new Set(chats.map(({ primaryName }) => primaryName));
  const [only] = names;
  if (only !== undefined && names.size === 1) return only;
  const message = `missing field \`model\`: ${names.size} models chat here, so that one must be named`;
  throw new ServeError('missing_required_parameter', message, { param: 'model' });
}
