import {
  countTokensSchema,
  decodeCountTokens,
  estimatePromptTokens,
  parseCountTokensBody,
} from '../../../protocol/index.ts';
import { decodeContext, requireAllowed, requireService } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import type { BodyRoute } from '../route.ts';
import { readJson, warnOfLeftOut } from '../serve-inference.ts';
import { sendJson } from '../sinks/send.ts';
import { decodeOptions } from './messages.ts';
import { newRequestId, requestIdHeader } from './wire.ts';

/**
 * `POST /v1/messages/count_tokens`: the exact length of the prompt if its tokenizer is known, otherwise an estimate.
 */
async function serveCountTokens(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  requireService(deps);
  const body = parseCountTokensBody(await readJson(exchange, deps));
  await deps.lookUp?.(body.model);
  requireAllowed(exchange, body.model, deps.pipeline.requestable.find(body.model)?.primaryName);
  const context = decodeContext({ deps, exchange }, body.model);
  const request = decodeCountTokens(body, context, decodeOptions(deps, body.model));
  warnOfLeftOut(exchange, context.leftOut);
  const counted = await deps.pipeline.countTokens(request);
  const headers = requestIdHeader(newRequestId(deps.random));
  sendJson(exchange, 200, { input_tokens: counted ?? estimatePromptTokens(request.prompt) }, headers);
}

export const countTokens: BodyRoute = {
  serve: serveCountTokens,
  body: {
    name: 'CountTokensRequest',
    schema: countTokensSchema,
    example: ({ Chat: model }) => ({ model, messages: [{ role: 'user', content: 'What are you?' }] }),
  },
};
