// The least that Node can do before workers of Dynamo: a bare node:http server that writes one ready-made frame for
// each item of their answers. It cuts the bytes of a worker into items and counts them, but decodes none.
//   node dist/bench-mixed-floor.js PORT DISCOVERY_FOLDER
import { randomInt, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { encodePayload } from '../shared/planes/request/dynamo/codec.ts';
import { requestMessage } from '../shared/planes/request/dynamo/message.ts';
import { RecordCutter } from '../shared/planes/request/dynamo/record-cutter.ts';
import { readShared } from '../shared/planes/request/dynamo/shared-reads.ts';
import { TwoPartRules, twoPartMessage } from '../shared/planes/request/dynamo/two-part.ts';
import { answerWhole, beginStream, endStream, FRAME, readAsked } from './floor-answer.ts';

const [, , port, discoveryFolder = ''] = process.argv;
const MESSAGE_BYTES_MAX = 1 << 20;
const WORKERS = 2;
const PROMPT_TOKENS = 64;

/** Receives one answer of a worker. */
interface Answer {
  item(): void;
  end(): void;
}

interface Upstream {
  readonly path: string;
  readonly socket: Socket;
}

const answers = new Map<string, Answer>();
let upstreams: readonly Upstream[] = [];
let requests = 0;

const home = createTcpServer({ noDelay: true, allowHalfOpen: true, pauseOnConnect: true }, (accepted) => {
  let answer: Answer | undefined;
  const rules = new TwoPartRules(MESSAGE_BYTES_MAX, (bytes, headerStart, bodyStart, end) => {
    if (answer === undefined) answer = claim(bytes.toString('utf8', headerStart, bodyStart));
    else if (end > bodyStart) answer.item();
    else if (bytes.toString('utf8', headerStart, bodyStart) === '"sentinel"') {
      socket.end();
      answer.end();
    }
  });
  const cutter = new RecordCutter(rules);
  const socket = readShared(accepted, (bytes) => cutter.push(bytes));
  socket.on('error', () => {}); // 'close' follows
});
home.listen(0, '127.0.0.1');

function claim(header: string): Answer | undefined {
  const { subject } = JSON.parse(header) as { readonly subject: string };
  const answer = answers.get(subject);
  answers.delete(subject);
  return answer;
}

/** Returns connections to all workers, or none before they have all registered. */
function connected(): readonly Upstream[] {
  if (upstreams.length === WORKERS) return upstreams;
  const folder = join(discoveryFolder, 'v1', 'instances');
  const places = new Set<string>();
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    if (!name.includes('generate')) continue;
    const record = JSON.parse(readFileSync(join(folder, name), 'utf8')) as { transport: { tcp: string } };
    places.add(record.transport.tcp);
  }
  if (places.size < WORKERS) return [];
  upstreams = [...places].map((place) => {
    const [, host = '', workerPort, path = ''] = /^(.+?):(\d+)\/(.+)$/.exec(place) ?? [];
    return { path, socket: connect({ host, port: Number(workerPort), noDelay: true }).resume() };
  });
  return upstreams;
}

/** Asks a worker for `tokens` tokens after a prompt that no other request has. */
function ask({ path, socket }: Upstream, tokens: number, answer: Answer): void {
  const id = randomUUID();
  answers.set(id, answer);
  const address = `127.0.0.1:${(home.address() as AddressInfo).port}`;
  const info = JSON.stringify({ address, subject: id, context: id, stream_type: 'response' });
  const control = {
    id,
    request_type: 'single_in',
    response_type: 'many_out',
    payload_codec: 'msgpack',
    connection_info: { transport: 'tcp_server', info },
  };
  const record = {
    model: 'bench',
    token_ids: Array.from({ length: PROMPT_TOKENS }, () => randomInt(10_000)),
    stop_conditions: { max_tokens: tokens, ignore_eos: true },
    sampling_options: {},
    output_options: {},
    eos_token_ids: [],
    annotations: [],
  };
  const payload = twoPartMessage(Buffer.from(JSON.stringify(control)), encodePayload('msgpack', record));
  for (const piece of requestMessage({ path, headers: { 'request-id': id }, payload }, MESSAGE_BYTES_MAX))
    socket.write(piece);
}

createServer((request, response) => {
  readAsked(request, ({ tokens, isStreamed }) => {
    const all = connected();
    const upstream = all[requests++ % all.length];
    if (upstream === undefined) {
      response.writeHead(503).end();
      return;
    }
    let received = 0;
    ask(upstream, tokens, {
      item() {
        if (received === tokens) return; // the last items have no token
        if (received++ === 0 && isStreamed) beginStream(response);
        if (isStreamed) response.write(FRAME);
      },
      end() {
        if (isStreamed) endStream(response, received);
        else answerWhole(response, received);
      },
    });
  });
}).listen(Number(port), '127.0.0.1');
