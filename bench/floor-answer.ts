import type { IncomingMessage, ServerResponse } from 'node:http';

const HEAD =
  '{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null,"logprobs":null}],"created":1,"model":"m","object":"chat.completion.chunk","usage":null}';

/** Ready-made event of one token. */
export const FRAME = `data: ${HEAD}\n\n`;

/** Parts of a request that a bare server reads. */
export interface Asked {
  readonly tokens: number;
  readonly isStreamed: boolean;
}

/** Reads a request, and calls `onAsked` when it is whole. */
export function readAsked(request: IncomingMessage, onAsked: (asked: Asked) => void): void {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(parts).toString() || '{}') as { stream?: boolean; max_tokens?: number };
    onAsked({ tokens: body.max_tokens ?? 16, isStreamed: body.stream === true });
  });
}

/** Answers with one body. */
export function answerWhole(response: ServerResponse, tokens: number): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(
    `{"id":"chatcmpl-0","choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"length"}],${usage(tokens)}}`,
  );
}

export function beginStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
}

export function endStream(response: ServerResponse, tokens: number): void {
  const last = HEAD.replace('"delta":{"content":" word"},"finish_reason":null', '"delta":{},"finish_reason":"length"');
  const total = `{"id":"chatcmpl-0","choices":[],"created":1,"model":"m","object":"chat.completion.chunk",${usage(tokens)}}`;
  response.end(`data: ${last}\n\ndata: ${total}\n\ndata: [DONE]\n\n`);
}

function usage(tokens: number): string {
  return `"usage":{"prompt_tokens":64,"completion_tokens":${tokens},"total_tokens":${64 + tokens}}`;
}
