import { toServeError } from '../../../errors/index.ts';
import { decodeChat, parseChatBody } from '../../../protocol/openai/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { InferenceCall } from '../inference-call.ts';
import { readJson } from '../read-json.ts';
import { ChatStream } from './chat-stream.ts';
import { ChatUnary } from './chat-unary.ts';
import { decodeContext, openForModel, requireRoute, requireServed, requireService } from './gates.ts';
import { RunningUsage } from './running-usage.ts';

/** `POST /v1/chat/completions`. Answers through the exchange's sink; never rejects. */
export async function serveChat(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const call = new InferenceCall(deps, exchange, 'chat_completions');
  try {
    requireService(deps);
    requireRoute(deps, 'Chat');
    const json = await readJson(exchange, deps);
    const body = parseChatBody(json);
    const { meter, primaryName } = openForModel(call, body.model, body.stream === true);
    const { request, ...reporting } = decodeChat(body, decodeContext(call));
    call.identify(request);
    requireServed(deps, body.model, 'Chat');
    const names = {
      id: `chatcmpl-${request.id}`,
      created: Math.floor(call.receivedMs / 1000),
      model: primaryName,
    };
    const running = reporting.isContinuous ? new RunningUsage(meter) : undefined;
    const answer = request.stream
      ? new ChatStream(call, request, names, reporting, running)
      : new ChatUnary(call, request, names);
    const { signal } = call.watch(answer);
    const sink = request.stream ? answer : call.kept(answer);
    deps.pipeline.generate(request, sink, { signal, meter: running ?? meter });
  } catch (thrown) {
    call.refuse(toServeError(thrown));
  }
}
