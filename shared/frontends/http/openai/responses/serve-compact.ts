import { ServeError, toServeError } from '../../../../errors/index.ts';
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
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import { InferenceCall } from '../../inference-call.ts';
import { readJson } from '../../read-json.ts';
import { decodeContext, openForModel, requireServed, requireService } from '../gates.ts';
import { responseUsage } from './response-body.ts';
import { gatherItems, isUserMessage, lookForStored } from './response-keeper.ts';
import { ResponsesAnswer } from './responses-answer.ts';
import { ResponsesUnary } from './responses-unary.ts';

/**
 * `POST /v1/responses/compact`: lets the model sum the conversation up, and answers with what takes its place: what the user
 * said, and the summary as one item. Never rejects.
 */
export async function serveCompact(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const call = new InferenceCall(deps, exchange, 'responses');
  try {
    requireService(deps);
    const json = await readJson(exchange, deps);
    const parsed = parseCompactBody(json);
    deps.metrics.ignoredKeys(
      'responses',
      ignoredKeyLabels(json.value as Readonly<Record<string, unknown>>, COMPACT_KEYS),
    );
    const model = parsed.body.model ?? (await defaultModel(deps, parsed.body, exchange.sink.closed));
    const { meter, primaryName } = openForModel(call, model, false);
    requireServed(deps, model, 'Chat');
    if (parsed.items.length === 0 && parsed.body.previous_response_id == null) throw nothingToCompact();
    const { earlier, own } = await gatherItems(deps, exchange, parsed);
    const source = { earlier, own: [...own, COMPACTION_TRIGGER], isStored: false };
    const decoded = decodeResponses({ ...parsed.body, model }, source, decodeContext(call));
    call.identify(decoded.request);
    const answer = compaction(call, decoded, primaryName, [...earlier, ...own].filter(isUserMessage));
    const { signal } = call.watch(answer);
    deps.pipeline.generate(decoded.request, call.kept(answer), { signal, meter });
  } catch (thrown) {
    call.refuse(toServeError(thrown));
  }
}

/** The answer in the published shape. @param said what the user said: kept as it is, before the summary */
function compaction(
  call: InferenceCall,
  decoded: DecodedResponses,
  model: string,
  said: readonly InputItem[],
): ResponsesAnswer {
  const id = responseIdOf(decoded.request.id);
  const created = Math.floor(call.receivedMs / 1000);
  return new ResponsesAnswer({
    call,
    decoded,
    names: { id, created, model },
    outlet: new ResponsesUnary(call, {}),
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
  signal: AbortSignal,
): Promise<string> {
  const stored = id == null ? undefined : await lookForStored({ pipeline, ...deps }, id, signal);
  if (typeof stored?.response.model === 'string') return stored.response.model;
  const chats = pipeline.requestable.list().filter(({ card }) => card.model_type.includes('Chat'));
  const names = new Set(chats.map(({ primaryName }) => primaryName));
  const [only] = names;
  if (only !== undefined && names.size === 1) return only;
  const message = `missing field \`model\`: ${names.size} models chat here, so that one must be named`;
  throw new ServeError('missing_required_parameter', message, { param: 'model' });
}
