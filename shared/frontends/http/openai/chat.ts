import { decodeChat, parseChatBody } from '../../../protocol/openai/index.ts';
import { decodeContext, requireServed } from '../gates.ts';
import { generate, serveInference } from '../serve-inference.ts';
import { ChatStream } from './chat-stream.ts';
import { ChatUnary } from './chat-unary.ts';
import { RunningUsage } from './running-usage.ts';

/** `POST /v1/chat/completions`. */
export const serveChat = serveInference({
  endpoint: 'chat_completions',
  isOffWithoutModel: true,
  parse: parseChatBody,
  answer: (call, body, { meter, primaryName }) => {
    const { request, ...reporting } = decodeChat(body, decodeContext(call));
    call.identify(request);
    requireServed(call.deps, body.model, 'chat_completions');
    const names = { id: `chatcmpl-${request.id}`, created: call.createdSecs, model: primaryName };
    const running = reporting.isContinuous ? new RunningUsage(meter) : undefined;
    const answer = request.stream
      ? new ChatStream(call, request, names, reporting, running)
      : new ChatUnary(call, request, names);
    generate(call, request, answer, { meter: running ?? meter });
  },
});
