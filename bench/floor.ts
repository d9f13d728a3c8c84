// The least that Node can do: a bare node:http server that writes ready-made frames, without worker, template or
// tokenizer.
//   node dist/bench-floor.js PORT [MS_PER_TOKEN]
import { createServer, type ServerResponse } from 'node:http';

const port = Number(process.argv[2]);
const msPerToken = Number(process.argv[3] ?? 0);

const HEAD =
  '{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null,"logprobs":null}],"created":1,"model":"m","object":"chat.completion.chunk","usage":null}';
const FRAME = `data: ${HEAD}\n\n`;

interface Body {
  readonly stream?: boolean;
  readonly max_tokens?: number;
}

function usage(tokens: number): string {
  return `"usage":{"prompt_tokens":64,"completion_tokens":${tokens},"total_tokens":${64 + tokens}}`;
}

function endStream(response: ServerResponse, tokens: number): void {
  const last = HEAD.replace('"delta":{"content":" word"},"finish_reason":null', '"delta":{},"finish_reason":"length"');
  const total = `{"id":"chatcmpl-0","choices":[],"created":1,"model":"m","object":"chat.completion.chunk",${usage(tokens)}}`;
  response.end(`data: ${last}\n\ndata: ${total}\n\ndata: [DONE]\n\n`);
}

const streams = new Set<{ response: ServerResponse; left: number; tokens: number }>();

function step(): void {
  for (const stream of streams) {
    stream.response.write(FRAME);
    if (--stream.left > 0) continue;
    streams.delete(stream);
    endStream(stream.response, stream.tokens);
  }
}

if (msPerToken > 0) setInterval(step, msPerToken);

createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(parts).toString() || '{}') as Body;
    const tokens = body.max_tokens ?? 16;
    if (body.stream !== true) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        `{"id":"chatcmpl-0","choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"length"}],${usage(tokens)}}`,
      );
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    if (msPerToken > 0) {
      streams.add({ response, left: tokens, tokens });
      return;
    }
    for (let token = 0; token < tokens; token++) response.write(FRAME);
    endStream(response, tokens);
  });
}).listen(port, '127.0.0.1');
