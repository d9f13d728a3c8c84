import { describe, expect, it } from 'vitest';
import type { Engine } from '../../../../shared/engines/index.ts';
import { createMultimodalEngine, type MultimodalOptions } from '../../../../shared/engines/media/multimodal-engine.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import type { EngineOutput, EngineRequest } from '../../../../shared/protocol/index.ts';
import { chatRequest, RecordingSink } from '../recording-sink.ts';

const IMAGE = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
const CLIP = { type: 'video_url', video_url: { url: 'data:video/mp4;base64,AAAA' } };
const CHAT = {
  model: 'm',
  temperature: 0.5,
  stream: true,
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'What is' }, IMAGE, { type: 'text', text: 'this?' }] },
    { role: 'user', content: [CLIP] },
  ],
};
const EC = { ec_transfer_params: { hash0: { peer: 'e1', port: 7 } } };

/** Answers every chat with `answer`, and keeps what it was asked. */
function vllm(answer: EngineOutput = { body: EC, finish_reason: 'length' }, isHealthy = true) {
  const asked: EngineRequest[] = [];
  const engine = {
    kind: 'vllm',
    generate: (request, sink) => {
      asked.push(request);
      sink.output(answer);
      sink.end();
    },
    health: async () => {
      if (!isHealthy) throw workerError('Unavailable', 'the engine is ill');
    },
    load: () => [],
  } as Pick<Engine, 'kind' | 'generate' | 'health' | 'load'> as Engine;
  return { engine, asked };
}

async function ask(
  engine: Engine,
  options: Partial<MultimodalOptions>,
  fields: Partial<EngineRequest> = {},
  body = CHAT,
) {
  const sink = new RecordingSink();
  const wrapped = createMultimodalEngine(engine, { accepts: true, isEncoder: false, ...options });
  wrapped.generate({ ...chatRequest(body), ...fields }, sink, new AbortController().signal);
  await sink.closed;
  return sink;
}

const bodyOf = (request: EngineRequest | undefined) =>
  request?.input.kind === 'text' ? request.input.body : undefined;

describe('a vLLM that takes media', () => {
  it('gets the chat as it came, and what an encode worker has made of its media', async () => {
    const { engine, asked } = vllm();
    await ask(engine, {}, { encoderResult: EC });
    expect(bodyOf(asked[0])).toEqual({ ...CHAT, ...EC });
    await ask(engine, {});
    expect(bodyOf(asked[1])).toEqual(CHAT);
    await ask(engine, {}, { encoderResult: { other: 1 } });
    expect(bodyOf(asked[2])).toEqual(CHAT);
  });

  it('gets the text of messages with media inside the template, and no other', async () => {
    const { engine, asked } = vllm();
    await ask(engine, { promptTemplate: 'USER: <image>\n<prompt> ASSISTANT:' });
    expect(bodyOf(asked[0])?.messages).toEqual([
      CHAT.messages[0],
      { role: 'user', content: [IMAGE, { type: 'text', text: 'USER: <image>\nWhat is\nthis? ASSISTANT:' }] },
      { role: 'user', content: [CLIP, { type: 'text', text: 'USER: <image>\n ASSISTANT:' }] },
    ]);
  });

  it('takes a text with patterns of replacement as it is', async () => {
    const { engine, asked } = vllm();
    const messages = [{ role: 'user', content: [IMAGE, { type: 'text', text: '$& $1 <prompt>' }] }];
    await ask(engine, { promptTemplate: '[<prompt>]' }, {}, { ...CHAT, messages } as unknown as typeof CHAT);
    expect(bodyOf(asked[0])?.messages).toMatchObject([{ content: [IMAGE, { text: '[$& $1 <prompt>]' }] }]);
  });
});

describe('a vLLM that takes no media', () => {
  it('refuses them by their place, and serves what is text', async () => {
    const { engine, asked } = vllm();
    const sink = await ask(engine, { accepts: false });
    expect(sink.error).toMatchObject({
      code: 'invalid_value',
      param: 'messages[1].content[1].image_url.url',
      message: expect.stringContaining('--enable-multimodal'),
    });
    expect(asked).toEqual([]);
    const plain = { ...CHAT, messages: CHAT.messages.slice(0, 1) };
    await ask(engine, { accepts: false }, {}, plain);
    expect(bodyOf(asked[0])).toEqual(plain);
  });
});

describe('a vLLM that encodes for others', () => {
  it('gets the media alone, and its result comes as one terminal output without tokens', async () => {
    const { engine, asked } = vllm();
    const sink = await ask(engine, { isEncoder: true });
    expect(bodyOf(asked[0])).toEqual({
      model: 'm',
      messages: [{ role: 'user', content: [IMAGE, CLIP] }],
      max_tokens: 1,
      stream: false,
    });
    expect(sink.outputs).toEqual([{ index: 0, finish_reason: 'stop', encoder_result: EC }]);
  });

  it('has an empty result where its connector says nothing', async () => {
    const sink = await ask(vllm({ body: { ec_transfer_params: null } }).engine, { isEncoder: true });
    expect(sink.outputs).toEqual([{ index: 0, finish_reason: 'stop', encoder_result: {} }]);
  });

  it('is asked for its health alone by health checks', async () => {
    const { engine, asked } = vllm();
    const probe = { isHealthCheck: true };
    expect((await ask(engine, { isEncoder: true }, probe)).outputs).toEqual([{ index: 0, finish_reason: 'stop' }]);
    expect(asked).toEqual([]);
    expect((await ask(vllm(undefined, false).engine, { isEncoder: true }, probe)).error).toBeDefined();
  });

  it('refuses a request without media', async () => {
    const plain = { ...CHAT, messages: CHAT.messages.slice(0, 1) };
    expect((await ask(vllm().engine, { isEncoder: true }, {}, plain)).error).toMatchObject({ code: 'invalid_value' });
  });
});
