import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import type { GenerationSink } from '../../../../shared/protocol/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { tell } from '../../../support/generation-events.ts';
import { faultsOf, faultsOfEvents, responseRules } from '../../../support/open-responses.ts';
import { args, call, openBed, say, stop, think } from './responses-bed.ts';

/* What Open Responses demands of every answer, whatever the client asks for and whatever the model writes. */

const PLAYS: Readonly<Record<string, (sink: GenerationSink) => void>> = {
  'a text': (sink) => {
    say(sink, 'Hel');
    say(sink, 'lo');
    stop(sink);
  },
  'reasoning, a text and two calls': (sink) => {
    think(sink, 'Hm, ');
    think(sink, 'weather.');
    say(sink, 'Looking.');
    call(sink, 0, 'get_weather');
    args(sink, 0, '{"city":');
    args(sink, 0, '"Oslo"}');
    call(sink, 1, 'get_weather');
    args(sink, 1, '{}');
    stop(sink, 'tool_calls');
  },
  'a text that was cut': (sink) => {
    say(sink, 'Once upon');
    stop(sink, 'length');
  },
  'a call that was cut': (sink) => {
    call(sink, 0, 'get_weather');
    args(sink, 0, '{"ci');
    stop(sink, 'length');
  },
  'filtered reasoning': (sink) => {
    think(sink, 'Hm');
    stop(sink, 'content_filter');
  },
};

const TOOL = { type: 'function', name: 'get_weather' };
const ALLOWED = { type: 'allowed_tools', tools: [{ type: 'function', name: 'get_weather' }] };
const SCHEMA = { type: 'json_schema', name: 'city', schema: { type: 'object' } };
const LOGPROBS = { include: ['message.output_text.logprobs'], top_logprobs: 1 };

const REQUESTS: Readonly<Record<string, object>> = {
  'nothing else': {},
  'a tool that has only a name': { tools: [TOOL] },
  'a tool with every field': { tools: [{ ...TOOL, description: 'd', parameters: { type: 'object' }, strict: false }] },
  'a named tool': { tools: [TOOL], tool_choice: { type: 'function', name: 'get_weather' } },
  'allowed tools without a mode': { tools: [TOOL], tool_choice: ALLOWED },
  'allowed tools with a mode': { tools: [TOOL], tool_choice: { ...ALLOWED, mode: 'required' } },
  'JSON by a schema': { text: { format: SCHEMA } },
  'JSON by a strict schema': { text: { format: { ...SCHEMA, description: 'd', strict: true }, verbosity: 'low' } },
  'JSON of any kind': { text: { format: { type: 'json_object' } } },
  'an effort of reasoning': { reasoning: { effort: 'low' } },
  'a summary of reasoning': { reasoning: { summary: 'auto' } },
  'log probabilities': LOGPROBS,
  penalties: { presence_penalty: 0.5, frequency_penalty: -0.5 },
  'limits and labels': {
    ...{ max_output_tokens: 16, max_tool_calls: 2, metadata: { a: 'b' }, truncation: 'auto', store: false },
    ...{ service_tier: 'flex', safety_identifier: 's', prompt_cache_key: 'k', instructions: 'Be brief.' },
  },
  'null in every field that may be null': {
    ...{ tools: null, tool_choice: null, metadata: null, text: null, temperature: null, top_p: null },
    ...{ presence_penalty: null, frequency_penalty: null, parallel_tool_calls: null, stream_options: null },
    ...{ max_output_tokens: null, max_tool_calls: null, reasoning: null, instructions: null, top_logprobs: null },
    ...{ previous_response_id: null, prompt_cache_key: null, safety_identifier: null },
  },
};

/** Returns what is wrong with the answer of a model to a client that sends `fields`: whole, streamed, and stored. */
async function faultsOfAnswer(play: (sink: GenerationSink) => void, fields: object): Promise<readonly string[]> {
  const bed = openBed(({ sink }) => play(sink));
  const events = await bed.events(fields);
  const { id, store } = events.at(-1)!.response as JsonObject;
  const whole = faultsOf(responseRules, await bed.object(fields));
  if (store !== true) return [...whole, ...faultsOfEvents(events)];
  const stored = await bed.send('GET', `/v1/responses/${String(id)}`);
  return [...whole, ...faultsOfEvents(events), ...faultsOf(responseRules, await stored.json())];
}

describe('an answer by the rules of Open Responses', () => {
  it.each(Object.keys(REQUESTS))('is whole for %s, whatever the model writes', async (asked) => {
    for (const [played, play] of Object.entries(PLAYS)) {
      expect(await faultsOfAnswer(play, REQUESTS[asked]!), played).toEqual([]);
    }
  });

  it('is whole when the worker fails in the middle of a stream', async () => {
    const bed = openBed(({ sink }) => {
      think(sink, 'Hm');
      say(sink, 'Hel');
      sink.fail(new ServeError('internal_error', 'Internal server error'));
    });
    const events = await bed.events();
    expect(faultsOfEvents(events)).toEqual([]);
    expect(events.at(-1)).toMatchObject({ type: 'response.failed', response: { status: 'failed' } });
  });

  it('has log probabilities with bytes, in each delta and in the whole text', async () => {
    const other = { tokenId: 2, token: 'Ha', bytes: [72, 97], logprob: -2 };
    const token = { tokenId: 1, token: 'Hi', bytes: [72, 105], logprob: -0.1, top: [other] };
    const bed = openBed(({ sink }) => {
      tell(sink, { kind: 'delta', choice: 0, text: 'Hi', tokenIds: [1], logprobs: [token] });
      stop(sink);
    });
    const events = await bed.events(LOGPROBS);
    expect(faultsOfEvents(events)).toEqual([]);
    const shown = { token: 'Hi', bytes: [72, 105], logprob: -0.1 };
    const top_logprobs = [{ token: 'Ha', bytes: [72, 97], logprob: -2 }];
    expect(events[4]).toMatchObject({ type: 'response.output_text.delta', logprobs: [{ ...shown, top_logprobs }] });
  });

  it('has the log probabilities of workers that take bodies untouched', async () => {
    const entry = (token: string, bytes: readonly number[] | null) => ({
      ...{ token, bytes, logprob: -0.1 },
      top_logprobs: [{ token, bytes, logprob: -0.1 }],
    });
    const chunk = (delta: object, content: readonly object[]) => ({
      kind: 'body' as const,
      body: { object: 'chat.completion.chunk', choices: [{ index: 0, delta, logprobs: { content } }] },
    });
    const bed = openBed(({ sink }) => {
      tell(sink, chunk({ reasoning_content: 'Hm' }, [entry('Hm', null)])); // not part of the message
      tell(sink, chunk({ content: '' }, [entry('\u{fffd}', [0xc3])])); // the first byte of a character
      tell(sink, chunk({ content: '\u00e9' }, [entry('\u{fffd}', [0xa9])]));
      tell(sink, chunk({ content: 'a' }, [entry('a', null), { token: 5 }]));
      stop(sink);
    });
    const events = await bed.events(LOGPROBS);
    expect(faultsOfEvents(events)).toEqual([]);
    const { output } = events.at(-1)!.response as { readonly output: readonly JsonObject[] };
    expect(output).toMatchObject([
      { type: 'reasoning' },
      {
        type: 'message',
        content: [{ text: '\u00e9a', logprobs: [{ bytes: [0xc3] }, { bytes: [0xa9] }, { token: 'a', bytes: [97] }] }],
      },
    ]);
  });
});

describe('what an answer repeats of its request', () => {
  it.each([
    ['a tool', { tools: [TOOL] }, { tools: [{ ...TOOL, description: null, parameters: null, strict: true }] }],
    ['allowed tools', { tools: [TOOL], tool_choice: ALLOWED }, { tool_choice: { ...ALLOWED, mode: 'auto' } }],
    ['a schema', { text: { format: SCHEMA } }, { text: { format: { ...SCHEMA, description: null, strict: false } } }],
    ['an effort', { reasoning: { effort: 'low' } }, { reasoning: { effort: 'low', summary: null } }],
    ['no reasoning', {}, { reasoning: null }],
    ['a bound of tool calls', { max_tool_calls: 3 }, { max_tool_calls: 3 }],
    ['penalties', { presence_penalty: 1.5, frequency_penalty: -2 }, { presence_penalty: 1.5, frequency_penalty: -2 }],
    ['no penalties', {}, { presence_penalty: 0, frequency_penalty: 0 }],
  ])('is complete for %s', async (_what, asked, repeated) => {
    const bed = openBed(({ sink }) => PLAYS['a text']!(sink));
    expect(await bed.object(asked)).toMatchObject(repeated);
  });

  it('has penalties that the worker got, and is refused for others', async () => {
    const bed = openBed(({ sink }) => PLAYS['a text']!(sink));
    await bed.object({ presence_penalty: 1.5, frequency_penalty: -2 });
    expect(bed.pipeline.calls[0]?.request.sampling).toMatchObject({ presence_penalty: 1.5, frequency_penalty: -2 });
    for (const param of ['presence_penalty', 'frequency_penalty']) {
      const refusal = await bed.create({ [param]: 2.5 });
      expect(refusal.status).toBe(400);
      expect(await refusal.json()).toMatchObject({ error: { code: 'invalid_value', param } });
    }
  });
});

describe('a request by the rules of Open Responses', () => {
  it.each([
    ['has none', {}],
    ['has null', { input: null }],
    ['has an empty list', { input: [] }],
  ])('may follow a response without input: it %s', async (_what, input) => {
    const bed = openBed(({ sink }) => PLAYS['a text']!(sink));
    const { id } = await bed.object({ input: 'Count.' });
    const next = { model: 'm', previous_response_id: id, ...input };
    const answer = await bed.send('POST', '/v1/responses', next);
    expect(answer.status).toBe(200);
    expect(bed.pipeline.calls[1]?.request.prompt).toMatchObject({
      messages: [
        { role: 'user', content: 'Count.' },
        { role: 'assistant', content: 'Hello' },
      ],
    });
  });

  it.each([
    ['no input', {}, 'missing_required_parameter'],
    ['null', { input: null }, 'invalid_value'],
    ['an empty list', { input: [] }, 'invalid_value'],
  ])('needs input if it follows none: it is refused with %s', async (_what, input, code) => {
    const bed = openBed(({ sink }) => stop(sink));
    const answer = await bed.send('POST', '/v1/responses', { model: 'm', ...input });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: { code, param: 'input' } });
  });

  it.each([true, false])(
    'names the field of the client when a worker refuses a medium (streamed: %s)',
    async (stream) => {
      const param = 'messages[0].content[0].image_url.url';
      const bed = openBed(({ sink }) =>
        sink.fail(new ServeError('invalid_value', 'a media URL is private', { param })),
      );
      const answer = await bed.create({ stream });
      expect(answer.status).toBe(400);
      expect(await answer.json()).toMatchObject({ error: { message: 'a media URL is private', param: 'input' } });
    },
  );
});
