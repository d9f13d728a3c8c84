import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { spawnProgram } from '../support/index.ts';
import { promptFor, useScriptedServer } from './client-bed.ts';
import type { ClientScript } from './client-scripts.ts';

/* Clients give back what they were answered, and what other servers answered them: nothing of it stops a conversation. */

const server = useScriptedServer();
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(() => {
  openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
});

const MODEL = 't.hermes';
const INPUT = '*** Begin\nsay "hi"';
const CUT = '{"city": "Par';
const PARAMETERS = { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] };
const dropped = (type: string) => `299 - "hosted tools are not supported and were dropped: ${type}"`;
const prompt = () => server.last?.prompt;

describe.each([false, true])('what the official OpenAI client gives back to a chat, streamed: %s', (stream) => {
  const tools: OpenAI.ChatCompletionTool[] = [
    { type: 'custom', custom: { name: 'patch', format: { type: 'text' } } },
    { type: 'function', function: { name: 'get_weather', parameters: PARAMETERS } },
  ];
  const user = (script: ClientScript) => ({ role: 'user' as const, content: promptFor(script) });

  interface Answer {
    readonly message: OpenAI.ChatCompletionAssistantMessageParam;
    readonly finish: string;
    readonly warning: string | null;
  }

  async function ask(
    messages: OpenAI.ChatCompletionMessageParam[],
    more: Partial<OpenAI.ChatCompletionCreateParams> = {},
  ): Promise<Answer> {
    const asked = { model: MODEL, messages, tools, ...more };
    if (!stream) {
      const { data, response } = await openai.chat.completions.create({ ...asked, stream }).withResponse();
      const [{ message, finish_reason: finish }] = data.choices as [OpenAI.ChatCompletion.Choice];
      return { message, finish, warning: response.headers.get('warning') };
    }
    const { data, response } = await openai.chat.completions.create({ ...asked, stream }).withResponse();
    const message: Record<string, unknown> = {};
    let finish = '';
    for await (const { choices } of data) {
      for (const { delta, finish_reason } of choices) {
        gather(message, delta as object);
        finish = finish_reason ?? finish;
      }
    }
    for (const call of (message.tool_calls as Record<string, unknown>[] | undefined) ?? []) delete call.index;
    return { message: message as never, finish, warning: response.headers.get('warning') };
  }

  it('is the call of a custom tool, and its result', async () => {
    const { finish, message } = await ask([user('custom_call')]);
    expect(finish).toBe('tool_calls');
    const [call] = message.tool_calls ?? [];
    expect(call).toEqual({ id: expect.any(String), type: 'custom', custom: { name: 'patch', input: INPUT } });
    const result = { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'patched it' };
    const next = await ask([user('custom_call'), message, result, user('answer')]);
    expect(next.message.content).toBe('It is warm.');
    expect(prompt()).toContain(`patch ${JSON.stringify({ input: INPUT })}`);
    expect(prompt()).toContain('patched it');
  });

  it('is a call whose arguments were cut', async () => {
    const { finish, message } = await ask([user('cut_call')]);
    expect(finish).toBe('length');
    expect(message.tool_calls).toMatchObject([{ function: { name: 'get_weather', arguments: CUT } }]);
    const next = await ask([user('cut_call'), message, user('answer')]);
    expect(next.message.content).toBe('It is warm.');
    expect(prompt()).toContain('"Par');
  });

  it('is beside a hosted tool that no part of Stator runs', async () => {
    const hosted = { type: 'web_search' } as unknown as OpenAI.ChatCompletionTool; // of OpenAI's own servers
    const first = await ask([user('call')], { tools: [...tools, hosted] });
    expect([first.finish, first.warning]).toEqual(['tool_calls', dropped('web_search')]);
    const [call] = first.message.tool_calls ?? [];
    const result = { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'warm' };
    const next = await ask([user('call'), first.message, result, user('answer')], { tools: [hosted] });
    expect([next.message.content, next.warning]).toEqual(['It is warm.', dropped('web_search')]);
  });
});

/** Adds what a chunk says, as clients do: texts grow, and calls by their index. */
function gather(into: Record<string, unknown>, from: object): void {
  for (const [key, value] of Object.entries(from)) {
    const known = into[key];
    if (Array.isArray(value)) {
      into[key] ??= [];
      const list = into[key] as Record<string, unknown>[];
      for (const part of value as { index: number }[]) {
        list[part.index] ??= {};
        gather(list[part.index]!, part);
      }
    } else if (typeof value === 'object' && value !== null) {
      into[key] ??= {};
      gather(into[key] as Record<string, unknown>, value);
    } else if (typeof known === 'string' && typeof value === 'string') into[key] = known + value;
    else into[key] = value;
  }
}

describe.each([false, true])('what the official OpenAI client gives back to Responses, streamed: %s', (stream) => {
  const tools: OpenAI.Responses.Tool[] = [
    { type: 'custom', name: 'patch' },
    { type: 'function', name: 'get_weather', parameters: PARAMETERS, strict: null },
  ];
  const user = (script: ClientScript) => ({ role: 'user' as const, content: promptFor(script) });

  async function ask(input: OpenAI.Responses.ResponseInput, more: Partial<OpenAI.Responses.ResponseCreateParams> = {}) {
    const asked = { model: MODEL, input, tools, store: false, ...more };
    if (stream) return openai.responses.stream(asked as never).finalResponse();
    return openai.responses.create({ ...asked, stream: false });
  }

  it('is the call of a custom tool, and its result', async () => {
    const { output } = await ask([user('custom_call')]);
    const [call] = output as [OpenAI.Responses.ResponseCustomToolCall];
    expect(call).toMatchObject({ name: 'patch', input: INPUT });
    const result = { type: 'custom_tool_call_output' as const, call_id: call.call_id, output: 'patched it' };
    const next = await ask([user('custom_call'), ...(output as never[]), result, user('answer')]);
    expect(next.output_text).toBe('It is warm.');
    expect(prompt()).toContain('patched it');
  });

  it('is a call whose arguments were cut', async () => {
    const { output, status, incomplete_details: why } = await ask([user('cut_call')]);
    expect([status, why]).toEqual(['incomplete', { reason: 'max_output_tokens' }]);
    expect(output).toMatchObject([{ type: 'function_call', arguments: CUT }]);
    const next = await ask([user('cut_call'), ...(output as never[]), user('answer')]);
    expect(next.output_text).toBe('It is warm.');
    expect(prompt()).toContain('"Par');
  });

  it('is what a hosted tool of another server found', async () => {
    const found: OpenAI.Responses.ResponseInput = [
      {
        type: 'web_search_call',
        id: 'ws_1',
        status: 'completed',
        action: { type: 'search', query: 'weather in Paris' },
      },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAA' },
      { type: 'compaction', id: 'cmp_1', encrypted_content: 'gAAAA' },
    ];
    const next = await ask([user('hello'), ...found, user('answer')], { tools: [...tools, { type: 'web_search' }] });
    expect(next.output_text).toBe('It is warm.');
    expect(prompt()).toContain('weather in Paris');
  });
});

describe.each([false, true])('what the official Anthropic client gives back, streamed: %s', (stream) => {
  const tools: Anthropic.Messages.ToolUnion[] = [
    { name: 'get_weather', input_schema: PARAMETERS },
    { name: 'patch', input_schema: { type: 'object', properties: { input: { type: 'string' } } } },
  ];
  const user = (script: ClientScript): Anthropic.MessageParam => ({ role: 'user', content: promptFor(script) });

  async function ask(
    messages: Anthropic.MessageParam[],
    more: Partial<Anthropic.MessageCreateParamsNonStreaming> = {},
  ) {
    const asked = { model: MODEL, max_tokens: 200, messages, tools, ...more };
    return stream ? anthropic.messages.stream(asked).finalMessage() : anthropic.messages.create(asked);
  }

  const answer = [{ type: 'text', text: 'It is warm.' }];

  it('is the call of a tool, and its result with a picture', async () => {
    const { content, stop_reason: stop } = await ask([user('custom_call')]);
    expect([stop, content]).toMatchObject(['tool_use', [{ type: 'tool_use', name: 'patch', input: { input: INPUT } }]]);
    const [call] = content as [Anthropic.ToolUseBlock];
    const result: Anthropic.ToolResultBlockParam = {
      type: 'tool_result',
      tool_use_id: call.id,
      content: [
        { type: 'text', text: 'patched it' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
      ],
    };
    const turn: Anthropic.MessageParam = {
      role: 'user',
      content: [result, { type: 'text', text: promptFor('answer') }],
    };
    const next = await ask([user('custom_call'), { role: 'assistant', content }, turn]);
    expect(next.content).toEqual(answer);
    expect(prompt()).toContain('patched it');
    expect(prompt()).toContain('[a picture was left out: this model takes text only]');
  });

  it('is a call whose arguments were cut', async () => {
    const { content, stop_reason: stop } = await ask([user('cut_call')]);
    expect([stop, content]).toMatchObject(['max_tokens', [{ type: 'tool_use', name: 'get_weather' }]]);
    const next = await ask([user('cut_call'), { role: 'assistant', content }, user('answer')]);
    expect(next.content).toEqual(answer);
    if (!stream) expect(prompt()).toContain('Par'); // the helper for streams drops a text that has no end
  });

  it('is what a hosted tool of another server found', async () => {
    const content: Anthropic.ContentBlockParam[] = [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'weather in Paris' } },
      {
        type: 'web_search_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: [{ type: 'web_search_result', title: 'Warm', url: 'https://a.example', encrypted_content: 'x' }],
      },
      { type: 'text', text: 'It was warm.' },
    ];
    const hosted: Anthropic.Messages.ToolUnion = { type: 'web_search_20250305', name: 'web_search' };
    const history = [user('hello'), { role: 'assistant' as const, content }, user('answer')];
    const next = await ask(history, { tools: [...tools, hosted] });
    expect(next.content).toEqual(answer);
    expect(prompt()).toContain('weather in Paris');
    const { response } = await anthropic.messages
      .countTokens({ model: MODEL, messages: history, tools: [hosted] })
      .withResponse();
    expect(response.headers.get('warning')).toBe(dropped('web_search_20250305'));
  });
});

const SCRIPT = fileURLToPath(new URL('./replay_client.py', import.meta.url));
const PYTHON = process.env.STATOR_TEST_PYTHON ?? '';

describe.runIf(PYTHON !== '')('what the official Python clients give back', () => {
  it('is taken in every dialect, streamed and not', async () => {
    const script = spawnProgram(PYTHON, [SCRIPT, server.url]);
    expect(await script.exited, script.stderr()).toBe(0);
    const replayed = (type: string) => ({ answer: 'It is warm.', streamed: 'It is warm.', warning: dropped(type) });
    expect(JSON.parse(script.stdout())).toMatchObject({
      chat: {
        custom_call: { call: { type: 'custom', custom: { name: 'patch', input: INPUT } }, ...replayed('web_search') },
        cut_call: { call: { function: { arguments: CUT } }, ...replayed('web_search') },
      },
      responses: {
        custom_call: { call: { type: 'custom_tool_call', input: INPUT }, ...replayed('web_search') },
        cut_call: { call: { type: 'function_call', arguments: CUT }, ...replayed('web_search') },
      },
      messages: {
        custom_call: { call: { name: 'patch', input: { input: INPUT } }, ...replayed('web_search_20250305') },
        cut_call: { call: { name: 'get_weather' }, ...replayed('web_search_20250305') },
      },
    });
  });
});
