import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import type { GenerationSink } from '../../../../shared/protocol/index.ts';
import type { Frame, JsonObject } from '../../../support/dynamo-http/records.ts';
import { finish, reasoning, tell, toolArguments, toolCall } from '../../../support/generation-events.ts';
import { answer, dataOf, frames, message, USAGE } from './messages-bed.ts';

describe('a Messages object', () => {
  it('has the blocks in the order of generation', async () => {
    const { text, response } = await answer({}, ({ sink }) => {
      tell(sink, reasoning('hmm'));
      sink.text(0, 'Let me ', 2);
      sink.text(0, 'look.', 1);
      tell(sink, toolCall(0, 'get_time'));
      tell(sink, toolArguments(0, '{"tz":'));
      tell(sink, toolArguments(0, '"UTC"}'));
      tell(sink, finish({ reason: 'tool_calls' }));
      sink.end(USAGE, true);
    });
    const body = JSON.parse(text) as JsonObject;
    expect(response.headers.get('request-id')).toBe(String(body.id).replace('msg_', 'req_'));
    expect(body).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: 'message',
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hmm', signature: 'erased' },
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: expect.stringMatching(/^toolu_[0-9a-f]{32}$/), name: 'get_time', input: { tz: 'UTC' } },
      ],
      model: 'm',
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 20, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 10 },
    });
  });

  it('has one empty text when nothing was said', async () => {
    const body = await message({}, ({ sink }) => {
      tell(sink, finish());
      sink.end(USAGE, true);
    });
    expect(body.content).toEqual([{ type: 'text', text: '' }]);
  });

  it.each([
    ['text', finish({ text: 'Sure' })],
    ['an end of the turn', finish({ reason: 'stop' })],
    ['a tool call', toolCall(0, 'get_time')],
    ['reasoning', reasoning('hmm')],
    ['a body of the engine', { kind: 'body', body: { choices: [{ message: { content: 'Sure' } }] } } as const],
  ])('is empty and at its limit with max_tokens 0, though the worker sent %s', async (_what, event) => {
    const body = await message({ max_tokens: 0 }, ({ sink }) => {
      tell(sink, event);
      sink.end({ ...USAGE, completionTokens: 1 }, true);
    });
    expect(body).toMatchObject({ type: 'message', content: [], stop_reason: 'max_tokens', stop_sequence: null });
    expect(body.usage).toEqual({
      input_tokens: 20,
      output_tokens: 0,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 10,
    });
  });

  it('is a failure with max_tokens 0 if the worker sent nothing', async () => {
    const { response } = await answer({ max_tokens: 0 }, ({ sink }) => sink.end(USAGE, true));
    expect(response.status).toBe(500);
  });

  it.each([
    ['', {}],
    ['{"a":1}', { a: 1 }],
    ['{"tz": "U', { INVALID_JSON: '{"tz": "U' }],
    ['[1]', { INVALID_JSON: '[1]' }],
  ])('gives the arguments %j as %j, never repaired', async (text, input) => {
    const body = await message({}, ({ sink }) => {
      tell(sink, toolCall(0, 'f'));
      tell(sink, toolArguments(0, text));
      tell(sink, finish({ reason: 'length' }));
      sink.end(USAGE, true);
    });
    expect(body).toMatchObject({ stop_reason: 'max_tokens', content: [{ type: 'tool_use', input }] });
  });

  it('is a failure when the worker sent nothing at all', async () => {
    const { response } = await answer({}, ({ sink }) => sink.end(USAGE, false));
    expect(response.status).toBe(500);
  });

  it.each([
    ['rate_limit_exceeded', 429, 'rate_limit_error'],
    ['service_unavailable', 503, 'overloaded_error'],
    ['server_overloaded', 529, 'overloaded_error'],
    ['internal_error', 500, 'api_error'],
    ['deadline_exceeded', 504, 'api_error'],
  ] as const)('tells %s as %i %s, whatever OpenAI clients get', async (code, status, type) => {
    const { response, text } = await answer({}, ({ sink }) => sink.fail(new ServeError(code, 'why')), {
      settings: { overloadStatus: 418 },
    });
    expect(response.status).toBe(status);
    expect(JSON.parse(text)).toMatchObject({ type: 'error', error: { type, message: 'why' } });
  });
});

describe('a prompt that is too long', () => {
  it.each([
    ['prompt is too long: 200 tokens > 100 maximum', 'prompt is too long: 200 tokens > 100 maximum'],
    ['Prompt is too long (200)', 'Prompt is too long (200)'],
    ['the context length is 100', 'prompt is too long: the context length is 100'],
  ])('turns %j into %j, because clients compact a conversation only on these words', async (message, told) => {
    const { response, text } = await answer({}, ({ sink }) =>
      sink.fail(new ServeError('context_length_exceeded', message)),
    );
    expect(response.status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({ error: { type: 'invalid_request_error', message: told } });
  });
});

type Step =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'tool'; readonly name: string; readonly pieces: readonly string[] };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('text' as const), text: fc.string({ unit: 'binary' }) }),
  fc.record({ kind: fc.constant('reasoning' as const), text: fc.string({ unit: 'binary' }) }),
  fc.record({
    kind: fc.constant('tool' as const),
    name: fc.string({ minLength: 1 }),
    pieces: fc.oneof(fc.array(fc.string()), fc.constant(['{"a', '":', '1}'])),
  }),
);

function play(steps: readonly Step[], sink: GenerationSink): void {
  let calls = 0;
  for (const one of steps) {
    if (one.kind === 'text') sink.text(0, one.text, 1);
    else if (one.kind === 'reasoning') tell(sink, reasoning(one.text));
    else {
      const index = calls++;
      tell(sink, toolCall(index, one.name));
      for (const piece of one.pieces) tell(sink, toolArguments(index, piece));
    }
  }
  tell(sink, finish());
  sink.end(USAGE, true);
}

/** Puts the blocks of a stream together as clients do. */
function fold(seen: readonly Frame[]): readonly JsonObject[] {
  const blocks: Record<string, unknown>[] = [];
  for (const frame of seen) {
    const { type, index, content_block: block, delta } = dataOf(frame);
    if (type === 'content_block_start') blocks.push({ ...(block as JsonObject), index, input: '' });
    if (type !== 'content_block_delta') continue;
    const target = blocks.at(-1);
    expect(target?.index).toBe(index);
    const { type: _delta, ...grown } = delta as JsonObject;
    for (const [key, value] of Object.entries(grown)) {
      const field = key === 'partial_json' ? 'input' : key;
      if (target !== undefined) target[field] = `${target[field]}${value}`;
    }
  }
  return blocks.map(({ index: _index, ...block }) => {
    if (block.type === 'tool_use') return { ...block, id: 'ID', input: inputOf(String(block.input)) };
    const { input: _input, ...rest } = block;
    return rest;
  }) as readonly JsonObject[];
}

function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // the text itself is told
  }
  return { INVALID_JSON: text };
}

describe('any answer', () => {
  it('is the same as an object and as a stream put together', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        const body = await message({}, ({ sink }) => play(steps, sink));
        const streamed = fold(await frames({}, ({ sink }) => play(steps, sink)));
        const whole = (body.content as readonly JsonObject[]).map((block) =>
          block.type === 'tool_use' ? { ...block, id: 'ID' } : block,
        );
        expect(streamed.length === 0 ? [{ type: 'text', text: '' }] : streamed).toEqual(whole);
      }),
      { numRuns: 150 },
    );
  });
});
