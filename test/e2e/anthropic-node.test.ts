import Anthropic, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from '@anthropic-ai/sdk';
import { beforeAll, describe, expect, it } from 'vitest';
import { waitUntil } from '../support/index.ts';
import { failureOf, OVERLOADED, promptFor, useRelay, useScriptedServer } from './client-bed.ts';
import type { ClientScript } from './client-scripts.ts';

const WEATHER: Anthropic.Tool = {
  name: 'get_weather',
  description: 'Weather of a place',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

const server = useScriptedServer();
let client: Anthropic;

beforeAll(() => {
  client = clientOf(server.url);
});

function clientOf(baseURL: string, maxRetries = 0): Anthropic {
  return new Anthropic({ baseURL, apiKey: 'none', maxRetries });
}

/** A request to which the engine plays `script`. */
function question(script: ClientScript, model = 'plain') {
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: promptFor(script) }];
  return { model, max_tokens: 200, messages };
}

describe('the official Anthropic client', () => {
  it('gets a message', async () => {
    const message = await client.messages.create(question('hello'));
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'plain',
      content: [{ type: 'text', text: 'Hello there!' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { output_tokens: 13, cache_read_input_tokens: 0 },
    });
    expect(message._request_id).toBe(message.id.replace('msg_', 'req_'));
  });

  it('streams the same message, event by event and with its own helper', async () => {
    const whole = await client.messages.create(question('hello'));
    const types: string[] = [];
    for await (const event of await client.messages.create({ ...question('hello'), stream: true }))
      types.push(event.type);
    expect(types).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const texts: string[] = [];
    const stream = client.messages.stream(question('hello')).on('text', (text) => texts.push(text));
    const final = await stream.finalMessage();
    expect(texts).toEqual(['Hello', ' there', '!']);
    const { id: _id, ...same } = whole; // what is not enumerable, like _request_id, stays behind
    expect(final).toMatchObject(same);
  });

  it('stops at a stop sequence, which does not show', async () => {
    const message = await client.messages.create({ ...question('hello'), stop_sequences: ['the'] });
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'Hello ' }],
      stop_reason: 'stop_sequence',
      stop_sequence: 'the',
    });
  });

  it('reads thoughts before the answer', async () => {
    const final = await client.messages.stream(question('think', 'r.qwen3')).finalMessage();
    expect(final.content).toEqual([
      { type: 'thinking', thinking: 'plan it', signature: 'erased' },
      { type: 'text', text: '\n\nHi' },
    ]);
  });

  it('is answered in the schema it asks for', async () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer' } },
      required: ['n'],
      additionalProperties: false,
    };
    const message = await client.messages.create({
      ...question('json'),
      output_config: { format: { type: 'json_schema', schema } },
    });
    expect(message.content).toEqual([{ type: 'text', text: '{"n": 7}' }]);
    expect(server.last?.request.sampling.guided_decoding).toEqual({ json: schema });
  });

  it('counts the tokens that a message then costs', async () => {
    const asked = { ...question('hello'), system: 'Be brief', tools: [WEATHER] };
    const { max_tokens: _budget, ...counted } = asked;
    const { input_tokens } = await client.messages.countTokens(counted);
    expect((await client.messages.create(asked)).usage.input_tokens).toBe(input_tokens);
  });

  it('lists and retrieves models', async () => {
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toContain('plain');
    expect(await client.models.retrieve('plain')).toMatchObject({ type: 'model', max_input_tokens: 4096 });
  });
});

describe('tools of the official Anthropic client', () => {
  const asked = (messages: Anthropic.MessageParam[]) => ({
    model: 't.hermes',
    max_tokens: 200,
    tools: [WEATHER],
    messages,
  });

  it.each([false, true])('go round: a call, its result, an answer (streamed: %s)', async (isStreamed) => {
    const ask = async (messages: Anthropic.MessageParam[]) =>
      isStreamed ? client.messages.stream(asked(messages)).finalMessage() : client.messages.create(asked(messages));
    const turns: Anthropic.MessageParam[] = [{ role: 'user', content: 'Weather? [[s:call]]' }];
    const first = await ask(turns);
    expect(first.stop_reason).toBe('tool_use');
    expect(first.content).toMatchObject([
      { type: 'text', text: 'Let me look. ' },
      { type: 'tool_use', name: 'get_weather', input: { city: 'Paris' } },
    ]);
    const call = first.content.find((block) => block.type === 'tool_use');
    expect(call?.id).toMatch(/^toolu_/);
    turns.push(
      { role: 'assistant', content: first.content },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: call?.id ?? '', content: [{ type: 'text', text: '21 degrees' }] },
          { type: 'text', text: 'So? [[s:answer]]' },
        ],
      },
    );
    const second = await ask(turns);
    expect(second).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text', text: 'It is warm.' }] });
    expect(server.last?.prompt).toContain(
      'Let me look. <call>get_weather {"city":"Paris"}</call><|im_end|>\n<|im_start|>tool\n21 degrees<|im_end|>\n',
    );
  });

  it('stream their input as it is produced', async () => {
    const pieces: string[] = [];
    const stream = client.messages
      .stream(asked([{ role: 'user', content: 'Weather? [[s:call]]' }]))
      .on('inputJson', (piece) => pieces.push(piece));
    await stream.finalMessage();
    expect(pieces.length).toBeGreaterThan(1);
    expect(JSON.parse(pieces.join(''))).toEqual({ city: 'Paris' });
  });
});

describe('the errors of the official Anthropic client', () => {
  it.each([
    ['a field that is wrong', { temperature: 9 }, BadRequestError, 400, 'invalid_request_error'],
    ['a model without workers', { model: 'claude' }, NotFoundError, 404, 'not_found_error'],
    ['a prompt over the context', { model: 'ctx64' }, BadRequestError, 400, 'invalid_request_error'],
  ] as const)('tell %s, streamed and not', async (_what, fields, kind, status, type) => {
    const long = 'x'.repeat(64);
    for (const stream of [false, true]) {
      const error = await failureOf(client.messages.create({ ...question('hello'), system: long, ...fields, stream }));
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status, type, requestID: expect.stringMatching(/^req_/) });
    }
  });

  it.each([
    ['full', InternalServerError, 529, 'overloaded_error'],
    ['limited', RateLimitError, 429, 'rate_limit_error'],
    ['refused', AuthenticationError, 401, 'authentication_error'],
    ['broken', InternalServerError, 500, 'api_error'],
  ] as const)('tell a worker that is %s', async (script, kind, status, type) => {
    for (const stream of [false, true]) {
      const error = await failureOf(client.messages.create({ ...question(script), stream }));
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status, type });
    }
  });

  it('come out of a stream in which they happen', async () => {
    const texts: string[] = [];
    const stream = client.messages.stream(question('breaks')).on('text', (text) => texts.push(text));
    const error = await failureOf(stream.finalMessage());
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: undefined, type: 'api_error' });
    expect(texts).toEqual(['Hello']);
  });
});

describe('a request of the official Anthropic client that is aborted', () => {
  const wasFreed = () => server.last?.wasCancelled === true;

  it('frees its worker in mid-stream', async () => {
    const stream = await client.messages.create({ ...question('endless'), stream: true });
    for await (const event of stream) if (event.type === 'content_block_delta') stream.controller.abort();
    await waitUntil(wasFreed, { what: 'a free worker' });
  });

  it('frees its worker before any answer', async () => {
    const before = server.seen.length;
    const leaving = new AbortController();
    const answer = failureOf(client.messages.create(question('endless'), { signal: leaving.signal }));
    await waitUntil(() => server.seen.length > before, { what: 'the request to reach the worker' });
    leaving.abort();
    expect(await answer).toBeInstanceOf(APIUserAbortError);
    await waitUntil(wasFreed, { what: 'a free worker' });
  });
});

describe('the retries of the official Anthropic client', () => {
  const relay = useRelay(() => server.url);

  it('get past an overload, and give up with InternalServerError', async () => {
    const patient = clientOf(relay.url, 2);
    relay.refuseNext(2, OVERLOADED);
    const message = await patient.messages.create(question('hello'));
    expect(message.stop_reason).toBe('end_turn');
    expect(relay.attempts).toBe(3);
    relay.refuseNext(3, OVERLOADED);
    const error = await failureOf(patient.messages.create(question('hello')));
    expect(error).toBeInstanceOf(InternalServerError);
    expect(error).toMatchObject({ status: 529, type: 'overloaded_error' });
  });
});
