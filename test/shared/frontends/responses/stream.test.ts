import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { finish, tell } from '../../../support/generation-events.ts';
import { defaultHttpSettings } from '../../../support/http-settings.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { args, brief, call, eventsOf, openBed, say, stop, think, USAGE } from './responses-bed.ts';

const last = (events: readonly JsonObject[]) => events.at(-1)?.response as JsonObject;
const firstOf = (events: readonly JsonObject[]) => events[0]!.response as JsonObject;
const outputOf = (events: readonly JsonObject[]) => last(events).output as readonly JsonObject[];
const FUNCTION = { type: 'function', name: 'f', parameters: { type: 'object' } };

describe('a responses stream', () => {
  it('opens, tells each text, and closes in the published order', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'He');
      say(sink, 'llo');
      stop(sink);
    });
    const events = await bed.events();
    expect(events.map(brief)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta "He"',
      'response.output_text.delta "llo"',
      'response.output_text.done "Hello"',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect(events[0]?.response).toMatchObject({ status: 'in_progress', output: [], usage: null, completed_at: null });
    expect(last(events)).toMatchObject({
      id: firstOf(events).id,
      status: 'completed',
      usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
    });
    expect(outputOf(events)).toEqual([(events[8] as JsonObject).item]);
  });

  it('is byte for byte one frame a text, and ends with [DONE]', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'a"\n\u2028');
      stop(sink);
    });
    const text = await (await bed.create({ stream: true })).text();
    const id = /"item_id":"(msg_[0-9a-f]{37})"/.exec(text)?.[1];
    expect(text).toContain(
      'event: response.output_text.delta\n' +
        `data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"${id}","output_index":0,` +
        `"content_index":0,"delta":"a\\"\\n\u2028","logprobs":[]}\n\n`,
    );
    expect(text).toMatch(/\n\nevent: response\.completed\ndata: [^\n]+\n\ndata: \[DONE\]\n\n$/);
  });

  it('tells reasoning as an item of its own in front of the message', async () => {
    const bed = openBed(({ sink }) => {
      think(sink, 'be');
      think(sink, 'cause');
      say(sink, 'Hi');
      stop(sink);
    });
    const events = await bed.events();
    expect(events.map(brief).slice(2, 9)).toEqual([
      'response.output_item.added',
      'response.content_part.added',
      'response.reasoning_text.delta "be"',
      'response.reasoning_text.delta "cause"',
      'response.reasoning_text.done "because"',
      'response.content_part.done',
      'response.output_item.done',
    ]);
    expect(outputOf(events)).toMatchObject([
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'because' }], status: 'completed' },
      { type: 'message', content: [{ text: 'Hi' }] },
    ]);
  });

  it('tells reasoning as a summary too when that was asked for', async () => {
    const bed = openBed(({ sink }) => {
      think(sink, 'why');
      stop(sink);
    });
    const events = await bed.events({ reasoning: { summary: 'auto' } });
    expect(events.map(brief).slice(3, 11)).toEqual([
      'response.content_part.added',
      'response.reasoning_summary_part.added',
      'response.reasoning_text.delta "why"',
      'response.reasoning_summary_text.delta "why"',
      'response.reasoning_text.done "why"',
      'response.content_part.done',
      'response.reasoning_summary_text.done "why"',
      'response.reasoning_summary_part.done',
    ]);
    expect(outputOf(events)[0]).toMatchObject({ summary: [{ type: 'summary_text', text: 'why' }] });
  });

  it('streams the arguments of calls as they come, one item a call, in the order of generation', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'Let me look.');
      call(sink, 0, 'f');
      args(sink, 0, '{"a"');
      args(sink, 0, ':1}');
      call(sink, 1, 'f');
      args(sink, 1, '{}');
      stop(sink, 'tool_calls');
    });
    const events = await bed.events({ tools: [FUNCTION] });
    expect(events.map(brief).slice(8)).toEqual([
      'response.output_item.added',
      'response.function_call_arguments.delta "{\\"a\\""',
      'response.function_call_arguments.delta ":1}"',
      'response.function_call_arguments.done "{\\"a\\":1}"',
      'response.output_item.done',
      'response.output_item.added',
      'response.function_call_arguments.delta "{}"',
      'response.function_call_arguments.done "{}"',
      'response.output_item.done',
      'response.completed',
    ]);
    expect(outputOf(events)).toMatchObject([
      { type: 'message' },
      { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{"a":1}', status: 'completed' },
      { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}', status: 'completed' },
    ]);
  });

  it('tells the input of a custom tool as text, not as the JSON around it', async () => {
    const bed = openBed(({ sink }) => {
      call(sink, 0, 'patch');
      for (const piece of ['{"in', 'put": "*** a\\', 'n', '\\u00e', '9"}']) args(sink, 0, piece);
      stop(sink, 'tool_calls');
    });
    const events = await bed.events({ tools: [{ type: 'custom', name: 'patch' }] });
    expect(events.map(brief).slice(3)).toEqual([
      'response.custom_tool_call_input.delta "*** a"',
      'response.custom_tool_call_input.delta "\\n"',
      'response.custom_tool_call_input.delta "é"',
      'response.custom_tool_call_input.done "*** a\\né"',
      'response.output_item.done',
      'response.completed',
    ]);
    expect(outputOf(events)).toMatchObject([{ type: 'custom_tool_call', call_id: 'call_0', input: '*** a\né' }]);
  });

  it('ends as incomplete at a length stop, with the open item incomplete', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'a');
      stop(sink, 'length');
    });
    const events = await bed.events();
    expect(events.at(-1)?.type).toBe('response.incomplete');
    expect(last(events)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      completed_at: null,
    });
    expect(outputOf(events)).toMatchObject([{ status: 'incomplete' }]);
  });

  it('has a status for a failure before the first word, and an event for one after it', async () => {
    const early = openBed(({ sink }) => sink.fail(new ServeError('rate_limit_exceeded', 'slow down')));
    const refused = await early.create({ stream: true });
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ error: { code: 'rate_limit_exceeded', message: 'slow down' } });

    const late = openBed(({ sink }) => {
      say(sink, 'a');
      sink.fail(new ServeError('internal_error', 'Internal server error'));
    });
    const events = await late.events();
    expect(events.map((event) => event.type).slice(4)).toEqual([
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.failed',
    ]);
    expect(last(events)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: 'Internal server error' },
      output: [{ status: 'incomplete' }],
    });
  });

  it.each([
    ['before the first word', 0],
    ['after one', 5],
  ])('tells by an event, %s, that the prompt is too long: codex shortens a thread only then', async (_when, before) => {
    const bed = openBed(({ sink }) => {
      if (before > 0) say(sink, 'a');
      sink.fail(new ServeError('context_length_exceeded', 'too long', { param: 'input' }));
    });
    const response = await bed.create({ stream: true });
    expect(response.status).toBe(200);
    const events = eventsOf(await response.text());
    expect(events.map((event) => event.type).slice(0, 2)).toEqual(['response.created', 'response.in_progress']);
    expect(last(events)).toMatchObject({
      status: 'failed',
      error: { code: 'context_length_exceeded', message: 'too long' },
    });
    expect(events.at(-1)).toMatchObject({ type: 'response.failed' });
    const whole = await bed.create({});
    expect(whole.status).toBe(400);
    expect(await whole.json()).toMatchObject({ error: { code: 'context_length_exceeded', param: 'input' } });
  });

  it('commits after two silent seconds, and then tells a failure as an event', async () => {
    const clock = new VirtualClock();
    const bed = openBed(() => {}, { clock });
    const answer = bed.create({ stream: true });
    const { sink } = await bed.pipeline.call(0);
    await clock.advance(2000);
    sink.fail(new ServeError('service_unavailable', 'Service temporarily unavailable'));
    const response = await answer;
    expect(response.status).toBe(200);
    const events = eventsOf(await response.text());
    expect(events.map((event) => event.type)).toEqual(['response.created', 'response.in_progress', 'response.failed']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('carries log probabilities when they are included', async () => {
    const token = { tokenId: 1, token: 'a', bytes: [97], logprob: -0.1, top: [] };
    const bed = openBed(({ sink }) => {
      tell(sink, { kind: 'delta', choice: 0, text: 'a', tokenIds: [], logprobs: [token] });
      tell(sink, finish({ logprobs: [{ ...token, token: '', bytes: null }] }));
      sink.end(USAGE, true);
    });
    const events = await bed.events({ include: ['message.output_text.logprobs'], top_logprobs: 3 });
    expect(bed.pipeline.calls[0]?.request.output.logprobs).toBe(3);
    expect(events[4]).toMatchObject({
      delta: 'a',
      logprobs: [{ token: 'a', bytes: [97], logprob: -0.1, top_logprobs: [] }],
    });
    expect(events[5]?.logprobs).toEqual([{ token: 'a', bytes: [97], logprob: -0.1, top_logprobs: [] }]);
    expect(last(events).top_logprobs).toBe(3);
  });

  it('kills the work when the client leaves, and writes nothing more', async () => {
    const bed = openBed(({ sink }) => say(sink, 'a'));
    const response = await bed.create({ stream: true });
    await response.body?.cancel();
    const { options, sink } = await bed.pipeline.call(0);
    expect(options.signal.aborted).toBe(true);
    say(sink, 'b');
    sink.end(USAGE, true);
    expect(bed.test.lines.at(-1)?.fields).toMatchObject({ status: 499, error_type: 'cancelled' });
  });

  it('fails rather than lose arguments of a call that was told as complete', async () => {
    const bed = openBed(({ sink }) => {
      call(sink, 0, 'f');
      call(sink, 1, 'f');
      args(sink, 0, '{}');
    });
    const events = await bed.events({ tools: [FUNCTION] });
    expect(events.at(-1)?.type).toBe('response.failed');
  });

  it('turns chat chunks of a worker that takes bodies untouched into the same events', async () => {
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      kind: 'body' as const,
      body: { object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] },
    });
    const piece = (text: string) => ({ index: 0, id: 'c1', function: { name: 'f', arguments: text } });
    const bed = openBed(({ sink }) => {
      tell(sink, chunk({ role: 'assistant', reasoning_content: 'hm' }));
      tell(sink, chunk({ content: 'Hi' }));
      tell(sink, chunk({ tool_calls: [piece('{')] }));
      tell(sink, chunk({ tool_calls: [piece('}')] }));
      tell(sink, chunk({}, 'tool_calls'));
      sink.end(USAGE, true);
    });
    const events = await bed.events({ tools: [FUNCTION] });
    expect(outputOf(events)).toMatchObject([
      { type: 'reasoning', content: [{ text: 'hm' }] },
      { type: 'message', content: [{ text: 'Hi' }] },
      { type: 'function_call', call_id: 'c1', arguments: '{}' },
    ]);
    expect(last(events).status).toBe('completed');
  });

  it('waits for the store before it says that it is complete', async () => {
    const order: string[] = [];
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const responseStore = {
      put: async () => {
        await gate;
        order.push('stored');
      },
      get: async () => undefined,
      delete: async () => false,
      close: () => {},
    };
    const bed = openBed(
      ({ sink }) => {
        say(sink, 'a');
        stop(sink);
      },
      { responseStore, settings: { ...defaultHttpSettings } },
    );
    const text = (await bed.create({ stream: true })).text().then((whole) => {
      order.push('read');
      return whole;
    });
    release();
    expect(await text).toContain('response.completed');
    expect(order).toEqual(['stored', 'read']);
  });
});

describe('calls that a worker mixes', () => {
  const body = (delta: object, finish_reason: string | null = null) => ({
    kind: 'body' as const,
    body: { choices: [{ index: 0, delta, finish_reason }] },
  });
  const named = (index: number, name: string) => ({ index, id: `call_${name}`, function: { name, arguments: '' } });
  const grown = (index: number, text: string) => body({ tool_calls: [{ index, function: { arguments: text } }] });

  it('are streamed one after the other, each closed before the next is opened', async () => {
    const bed = openBed(({ sink }) => {
      tell(sink, body({ tool_calls: [named(0, 'a'), named(1, 'b'), named(2, 'c')] }));
      for (const event of [grown(1, '{"x"'), grown(0, '{"y":'), grown(1, ':1}'), grown(0, '2}'), grown(2, '{}')]) {
        tell(sink, event);
      }
      tell(sink, body({}, 'tool_calls'));
      sink.end(USAGE, true);
    });
    const calls = (await bed.events()).filter(({ type }) => !/created|in_progress/.test(String(type)));
    expect(calls.map(({ type, output_index: at }) => `${String(type).split('.').slice(-2).join('.')} ${at}`)).toEqual([
      'output_item.added 0',
      'function_call_arguments.delta 0',
      'function_call_arguments.delta 0',
      'function_call_arguments.done 0',
      'output_item.done 0',
      'output_item.added 1',
      'function_call_arguments.delta 1',
      'function_call_arguments.done 1',
      'output_item.done 1',
      'output_item.added 2',
      'function_call_arguments.delta 2',
      'function_call_arguments.done 2',
      'output_item.done 2',
      'response.completed undefined',
    ]);
    const { output } = calls.at(-1)!.response as JsonObject;
    expect((output as readonly JsonObject[]).map((item) => item.arguments)).toEqual(['{"y":2}', '{"x":1}', '{}']);
  });
});
