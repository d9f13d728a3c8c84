import { ServeError, toServeError } from '../../../errors/index.ts';
import { missingModelHint } from '../../../pipeline/index.ts';
import {
  decodeCountTokens,
  decodeMessages,
  estimateTokens,
  MESSAGES_KEYS,
  type MessagesDecodeOptions,
  parseCountTokensBody,
  parseMessagesBody,
} from '../../../protocol/anthropic/index.ts';
import { ignoredKeyLabels } from '../../../protocol/openai/index.ts';
import { answerJson } from '../answers/answer.ts';
import type { HttpAppDeps } from '../deps.ts';
import { decodeContext, requireService } from '../gates.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { RunningUsage } from '../openai/running-usage.ts';
import { readJson } from '../read-json.ts';
import { generate, serveInference } from '../serve-inference.ts';
import { answerMessagesError, anthropicRequestId, newRequestId, refuseMessages, requestIdHeader } from './errors.ts';
import { MessageStream } from './message-stream.ts';
import { MessageUnary } from './message-unary.ts';

/** `POST /v1/messages`. */
export const serveMessages = serveInference({
  endpoint: 'anthropic_messages',
  parse: parseMessagesBody,
  answer: (call, body, { meter, primaryName }) => {
    const { deps } = call;
    const request = decodeMessages(body, decodeContext(call), decodeOptions(deps, body.model));
    deps.metrics.ignoredKeys('anthropic_messages', ignoredKeyLabels(body, MESSAGES_KEYS));
    call.identify(request);
    requireChatModel(deps, body.model);
    const requestId = anthropicRequestId(request.id);
    const names = { id: `msg_${request.id.replaceAll('-', '')}`, requestId, model: primaryName };
    const running = new RunningUsage(meter);
    const estimate = (): number => estimateTokens(body);
    const answer = request.stream
      ? new MessageStream(call, request, names, { running, estimate })
      : new MessageUnary(call, request, names, estimate);
    generate(call, request, answer, { meter: running });
  },
  refuse: (call, error) => {
    const { requestId, deps } = call;
    refuseMessages(call, error, requestId === undefined ? newRequestId(deps.random) : anthropicRequestId(requestId));
  },
});

/**
 * `POST /v1/messages/count_tokens`: the prompt's true length where a tokenizer
 * is known, a guess elsewhere. Never rejects.
 */
export async function serveCountTokens(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const requestId = newRequestId(deps.random);
  try {
    requireService(deps);
    const body = parseCountTokensBody(await readJson(exchange, deps));
    const request = decodeCountTokens(body, decodeContext({ deps, exchange }), decodeOptions(deps, body.model));
    const counted = await deps.pipeline.countTokens(request);
    answerJson(exchange, 200, { input_tokens: counted ?? estimateTokens(body) }, requestIdHeader(requestId));
  } catch (thrown) {
    answerMessagesError(exchange, toServeError(thrown), requestId);
  }
}

function decodeOptions({ settings, pipeline }: HttpAppDeps, model: string): MessagesDecodeOptions {
  const parser = pipeline.requestable.find(model)?.card.runtime_config.reasoning_parser;
  return { stripsPreamble: settings.anthropic.stripsPreamble, hasReasoningParser: parser !== undefined };
}

/** The name is registered for chat; checked after the body. @throws ServeError 404 */
function requireChatModel({ pipeline }: HttpAppDeps, name: string): void {
  if (pipeline.requestable.find(name)?.card.model_type.includes('Chat') === true) return;
  const hint = missingModelHint(pipeline.requestable.list(), { name, type: 'Chat' });
  throw new ServeError('model_not_found', `Model '${name}' not found. ${hint}`, { param: 'model' });
}
