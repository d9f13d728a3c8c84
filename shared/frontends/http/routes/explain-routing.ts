import { ServeError, toServeError } from '../../../errors/index.ts';
import type { GenerationRequest } from '../../../protocol/generation/index.ts';
import type { JsonBody } from '../../../protocol/json/index.ts';
import { decodeChat, decodeCompletions, parseChatBody, parseCompletionsBody } from '../../../protocol/openai/index.ts';
import { decodeContext } from '../../inference/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { readJson } from '../read-json.ts';
import { decodePath, shownId } from '../route.ts';
import { sendError, sendJson } from '../sinks/send.ts';
import { EXPLAIN_PATH } from './paths.ts';

const UUID = /([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})(-\d+)?/i;

/** `GET /router/explain/{id}`: why one of the last requests went to its worker. */
export async function serveExplained(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = decodePath(exchange.path.slice(EXPLAIN_PATH.length + 1));
  const explainer = requireExplainer(deps);
  for (const requestId of requestIdsOf(id)) {
    const explanation = await explainer.explained(requestId);
    if (explanation === undefined) continue;
    sendJson(exchange, 200, explanation);
    return;
  }
  const asked = 'asked for is the response id (chatcmpl-..., cmpl-..., resp_..., msg_...), not an x-request-id';
  const message = `No decision is kept for the id ${shownId(id)}: only the last ones are, and ${asked}`;
  const error = new ServeError('not_found', message);
  sendError(exchange, error, deps.settings.overloadStatus);
}

/** `POST /router/explain`: where the request of a chat or completions body would go now. Nothing is sent or booked. */
export async function serveExplain(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  try {
    const explainer = requireExplainer(deps);
    const json = await readJson(exchange, deps);
    sendJson(exchange, 200, await explainer.explain(decode(json, deps, exchange)));
  } catch (thrown) {
    sendError(exchange, toServeError(thrown), deps.settings.overloadStatus);
  }
}

function requireExplainer({ explainer }: HttpAppDeps): NonNullable<HttpAppDeps['explainer']> {
  if (explainer !== undefined) return explainer;
  throw new ServeError('not_implemented', 'Decisions can be explained in router mode kv only: --router-mode kv');
}

/** A body with messages is a chat; of a batch of prompts the first counts. */
function decode(json: JsonBody, deps: HttpAppDeps, exchange: HttpExchange): GenerationRequest {
  const context = decodeContext({ deps, exchange });
  const isChat = typeof json.value === 'object' && json.value !== null && 'messages' in json.value;
  if (isChat) return decodeChat(parseChatBody(json), context).request;
  return decodeCompletions(parseCompletionsBody(json), context).requests[0]!; // a batch has at least one prompt
}

/** What a request may be known as inside: by the id as it is, or by the one that its response id was made from. */
function requestIdsOf(id: string): readonly string[] {
  const [found, ...parts] = UUID.exec(id) ?? [];
  if (found === undefined) return [id];
  const uuid = parts.slice(0, 5).join('-').toLowerCase();
  return [...new Set([id, `${uuid}${parts[5] ?? ''}`, uuid, `${uuid}-0`])];
}
