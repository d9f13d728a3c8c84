import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const IMAGE = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
/** As engines get it: both must find the same encoding under its name. */
const KNOWN = { ...IMAGE, uuid: createHash('sha256').update(IMAGE.image_url.url).digest('hex') };
const CHAT = {
  model: 'eyes',
  messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, IMAGE] }],
};
const EC = { ec_transfer_params: { hash0: { peer_host: '10.0.0.7', peer_port: 5 } } };
const SEES = ['--engine=vllm', '--enable-multimodal'];

/** The server of a vLLM that takes chats, as a script. */
class ScriptedVllm {
  readonly asked: Record<string, unknown>[] = [];
  /** Chats whose caller has hung up. */
  dropped = 0;
  answer: object = {};
  holds = false;
  readonly #server: Server = createServer((request, response) => void this.#serve(request, response));

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `--engine-url=http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/v1/models') return sendJson(response, { data: [{ id: 'eyes', max_model_len: 4096 }] });
    if (request.url !== '/v1/chat/completions') return sendJson(response, {});
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    this.asked.push(JSON.parse(Buffer.concat(parts).toString()));
    response.once('close', () => {
      if (!response.writableEnded) this.dropped++;
    });
    if (this.holds) return;
    const choices = [{ index: 0, message: { role: 'assistant', content: 'a cat' }, finish_reason: 'stop' }];
    sendJson(response, { id: 'x', object: 'chat.completion', created: 1, model: 'eyes', choices, ...this.answer });
  }
}

function sendJson(response: ServerResponse, body: object): void {
  response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
}

describe('media with an encode worker', () => {
  const fleet = useFleet();
  const encoder = new ScriptedVllm();
  const engine = new ScriptedVllm();
  let frontend: StatorProcess;
  let encodeWorker: StatorProcess;

  beforeAll(async () => {
    frontend = await fleet.frontend();
    encoder.answer = EC;
    await fleet.worker([...SEES, await engine.start(), '--route-to-encoder']);
    encodeWorker = await fleet.worker([...SEES, await encoder.start(), '--multimodal-encode-worker']);
    await fleet.untilWorkers(frontend, 2, 'eyes');
  });

  beforeEach(() => {
    for (const { asked } of [encoder, engine]) asked.length = 0;
    encoder.holds = false;
  });

  afterAll(() => {
    encoder.stop();
    engine.stop();
  });

  const ask = (): Promise<Response> => postJson(`${frontend.url}/v1/chat/completions`, CHAT);

  it('goes there first, and the result with the media to the engine that answers', async () => {
    await waitUntil(async () => (await ask()).status === 200 && encoder.asked.length > 0);
    expect(encoder.asked[0]).toEqual({
      model: 'eyes',
      messages: [{ role: 'user', content: [KNOWN] }],
      max_tokens: 1,
      stream: false,
    });
    const content = [{ type: 'text', text: 'What is this?' }, KNOWN];
    expect(engine.asked.at(-1)).toMatchObject({ messages: [{ role: 'user', content }], ...EC });
  });

  it('stops there when the client leaves', async () => {
    encoder.holds = true;
    const client = new AbortController();
    const gone = fetch(`${frontend.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(CHAT),
      signal: client.signal,
    });
    await waitUntil(() => encoder.asked.length > 0);
    client.abort();
    await expect(gone).rejects.toThrow();
    await waitUntil(() => encoder.dropped === 1);
    expect(engine.asked).toEqual([]);
  });

  it('is encoded by the engine that answers when the encode worker is gone', async () => {
    await encodeWorker.kill();
    const response = await ask();
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'a cat' } }] });
    expect(engine.asked).toHaveLength(1);
    expect(engine.asked[0]).not.toHaveProperty('ec_transfer_params');
  });
});

describe('media without --enable-multimodal', () => {
  const fleet = useFleet();
  const engine = new ScriptedVllm();
  afterAll(() => engine.stop());

  it('are refused by their place in the request', async () => {
    const frontend = await fleet.frontend();
    await fleet.worker(['--engine=vllm', '--use-vllm-tokenizer', await engine.start()]);
    await fleet.untilWorkers(frontend, 1, 'eyes');
    const response = await postJson(`${frontend.url}/v1/chat/completions`, CHAT);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringContaining('--enable-multimodal'), param: 'messages[0].content[1].image_url.url' },
    });
    expect(engine.asked).toEqual([]);
  });
});
