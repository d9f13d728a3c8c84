// The least that Node can do: a bare node:http server that writes ready-made frames, without worker, template or
// tokenizer.
//   node dist/bench-floor.js PORT [MS_PER_TOKEN]
import { createServer, type ServerResponse } from 'node:http';
import { answerWhole, beginStream, endStream, FRAME, readAsked } from './floor-answer.ts';

const port = Number(process.argv[2]);
const msPerToken = Number(process.argv[3] ?? 0);

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
  readAsked(request, ({ tokens, isStreamed }) => {
    if (!isStreamed) {
      answerWhole(response, tokens);
      return;
    }
    beginStream(response);
    if (msPerToken > 0) {
      streams.add({ response, left: tokens, tokens });
      return;
    }
    for (let token = 0; token < tokens; token++) response.write(FRAME);
    endStream(response, tokens);
  });
}).listen(port, '127.0.0.1');
