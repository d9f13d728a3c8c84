import { describe, expect, it } from 'vitest';
import type { GenerationSink } from '../../../shared/protocol/index.ts';
import type { JsonObject } from '../../support/dynamo-http/records.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import { createTestApp } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const CUSTOM = { type: 'custom', custom: { name: 'patch', description: 'Applies a patch.' } };
const FUNCTION = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };
const MESSAGES = [{ role: 'user', content: 'hi' }];

async function send(
  path: string,
  fields: object,
  play: (sink: GenerationSink) => void = (sink) => playTexts(sink, ['a']),
) {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => play(sink));
  const settings = { ...defaultHttpSettings, dispatch: { toolCalls: true, reasoning: false } };
  const { app } = createTestApp({ pipeline, settings });
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', ...fields }),
    }),
  );
  return {
    status: response.status,
    warning: response.headers.get('warning'),
    text: await response.text(),
    request: pipeline.calls[0]?.request,
  };
}

const chat = (fields: object, play?: (sink: GenerationSink) => void) =>
  send('/v1/chat/completions', { messages: MESSAGES, tools: [CUSTOM, FUNCTION], ...fields }, play);

interface Said {
  readonly name: string;
  readonly text: string;
}

/** A worker whose calls come in pieces of `size` characters, read from its tokens. */
const fromTokens = (calls: readonly Said[], size: number) => (sink: GenerationSink) => {
  for (const [index, { name, text }] of calls.entries()) {
    sink.toolCall(0, index, `call_${index}`, name);
    for (const piece of pieces(text, size)) sink.toolArguments(0, index, piece);
  }
  sink.finish({ choice: 0, text: '', tokenIds: [], reason: 'tool_calls' });
  sink.end({ promptTokens: 3, completionTokens: 9 }, true);
};

/** The same from a worker that answers chunks of chats. */
const fromBodies = (calls: readonly Said[], size: number) => (sink: GenerationSink) => {
  const tell = (delta: object, reason: string | null = null) =>
    sink.body({ choices: [{ index: 0, delta, finish_reason: reason, logprobs: null }] });
  tell({ role: 'assistant', content: null });
  for (const [index, { name, text }] of calls.entries()) {
    tell({ tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name, arguments: '' } }] });
    for (const piece of pieces(text, size)) tell({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  tell({}, 'tool_calls');
  sink.end({ promptTokens: 3, completionTokens: 9 }, true);
};

function pieces(text: string, size: number): readonly string[] {
  return text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
}

/** The calls of a stream put together as clients do. */
function callsOf(frames: string): readonly object[] {
  const calls: JsonObject[] = [];
  for (const { data } of parseFrames(frames)) {
    const [choice] = ((data as JsonObject | undefined)?.choices ?? []) as readonly JsonObject[];
    for (const part of ((choice?.delta as JsonObject | undefined)?.tool_calls ?? []) as readonly JsonObject[]) {
      grow(calls, part);
    }
  }
  return calls;
}

function grow(calls: JsonObject[], { index, ...part }: JsonObject): void {
  const known = calls[Number(index)];
  if (known === undefined) {
    calls[Number(index)] = structuredClone(part);
    return;
  }
  for (const kind of ['custom', 'function']) {
    const added = part[kind] as Record<string, string> | undefined;
    const grown = known[kind] as Record<string, string>;
    for (const [key, text] of Object.entries(added ?? {})) grown[key] += text;
  }
}

const CALLS: readonly (readonly [what: string, written: string, input: string])[] = [
  ['the one text', '{"input":"*** Begin\\n\\u00e9 \\"x\\""}', '*** Begin\né "x"'],
  ['spaces around it', ' { "input" : "a" } ', 'a'],
  ['no text', '{"input":""}', ''],
  ['arguments of another shape', '{"patch":"a"}', '{"patch":"a"}'],
  ['no JSON', '*** Begin', '*** Begin'],
  ['arguments that are cut in their opening', '{"inp', '{"inp'],
  ['arguments that are cut', '{"input":"ab', 'ab'],
];

describe.each([
  ['tokens', fromTokens],
  ['chunks', fromBodies],
])('the call of a custom tool by a worker of %s', (_what, worker) => {
  it.each(CALLS)('appears in the answer as a custom call: %s', async (_case, written, input) => {
    const calls = [
      { name: 'look', text: '{"a":1}' },
      { name: 'patch', text: written },
      { name: 'patch', text: '{"input":"second"}' },
    ];
    const told = [
      { id: 'call_0', type: 'function', function: { name: 'look', arguments: '{"a":1}' } },
      { id: 'call_1', type: 'custom', custom: { name: 'patch', input } },
      { id: 'call_2', type: 'custom', custom: { name: 'patch', input: 'second' } },
    ];
    for (const size of [1, 3, 999]) {
      const whole = JSON.parse((await chat({}, worker(calls, size))).text);
      expect(whole.choices[0]).toMatchObject({ finish_reason: 'tool_calls' });
      expect(whole.choices[0].message.tool_calls).toEqual(told);
      const { text } = await chat({ stream: true }, worker(calls, size));
      expect(callsOf(text)).toEqual(told);
      expect(text).toContain('"finish_reason":"tool_calls"');
    }
  });

  it('is that of a function where the tool is one', async () => {
    const calls = [{ name: 'patch', text: '{"input":"a"}' }];
    const tools = [{ type: 'function', function: { name: 'patch' } }];
    const { text } = await chat({ tools, stream: true }, worker(calls, 4));
    expect(callsOf(text)).toEqual([
      { id: 'call_0', type: 'function', function: { name: 'patch', arguments: '{"input":"a"}' } },
    ]);
  });
});

it('tells the call of a custom tool as custom in side events', async () => {
  const { text } = await chat({ stream: true }, fromTokens([{ name: 'patch', text: '{"input":"a"}' }], 2));
  const event = parseFrames(text).find(({ event: name }) => name === 'tool_call_dispatch');
  expect(event?.data).toMatchObject({ tool_call: { type: 'custom', custom: { name: 'patch', input: 'a' } } });
});

it('renders the call of a custom tool that is given back, and its result', async () => {
  const messages = [
    ...MESSAGES,
    { role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'patch', input: 'a "b"\n' } }] },
    { role: 'tool', tool_call_id: 'c', content: 'done' },
  ];
  const { status, request } = await chat({ messages });
  expect(status).toBe(200);
  const called = { id: 'c', type: 'function', function: { name: 'patch', arguments: '{"input":"a \\"b\\"\\n"}' } };
  expect(request?.prompt).toMatchObject({
    messages: [{}, { tool_calls: [called] }, { role: 'tool', tool_call_id: 'c', content: 'done' }],
  });
});

const toolsShown = (request: Awaited<ReturnType<typeof send>>['request']) =>
  request?.prompt.kind === 'chat' ? request.prompt.tools?.map((tool) => tool.function.name) : undefined;

describe('the format of a custom tool', () => {
  const inChat = (format: object) => chat({ tools: [{ type: 'custom', custom: { name: 'patch', format } }] });
  const inResponses = (format: object) =>
    send('/v1/responses', { input: 'hi', tools: [{ type: 'custom', name: 'patch', format }] });

  it.each([
    [{ type: 'grammar', grammar: { syntax: 'lark', definition: 'start: /a+/' } }, 'this lark grammar:\nstart: /a+/'],
    [{ type: 'grammar', grammar: { syntax: 'regex', definition: '^a+$' } }, 'this regex grammar:\n^a+$'],
    [{ type: 'grammar', syntax: 'regex', definition: '^a+$' }, 'this regex grammar:\n^a+$'],
    [{ type: 'text' }, undefined],
  ])('reaches the model in the description of the tool: %j', async (format, said) => {
    for (const { status, request } of [await inChat(format), await inResponses(format)]) {
      expect(status).toBe(200);
      const tool = request?.prompt.kind === 'chat' ? request.prompt.tools?.[0] : undefined;
      if (said === undefined) expect(tool?.function.description).toBeUndefined();
      else expect(tool?.function.description).toContain(said);
    }
  });

  it.each([
    [{ type: 'json' }, 'format.type: expected "text" or "grammar", got "json"'],
    [{}, 'format.type: expected "text" or "grammar", got nothing'],
    [{ type: 'grammar' }, 'format.syntax: expected "lark" or "regex", got nothing'],
    [{ type: 'grammar', syntax: 'ebnf', definition: 'a' }, 'format.syntax: expected "lark" or "regex", got "ebnf"'],
    [{ type: 'grammar', syntax: 'lark' }, 'format.definition: expected the text of a grammar'],
    [{ type: 'grammar', grammar: { syntax: 'lark', definition: '' } }, 'format.grammar.definition: expected the text'],
  ])('is refused if its type or grammar is missing or unknown: %j', async (format, said) => {
    for (const { status, text } of [await inChat(format), await inResponses(format)]) {
      expect([status, JSON.parse(text).error?.message ?? JSON.parse(text).message]).toEqual([
        400,
        expect.stringContaining(said),
      ]);
    }
  });
});

describe('a choice of a custom tool', () => {
  it('is that of its function', async () => {
    const { status, request } = await chat({ tool_choice: { type: 'custom', custom: { name: 'patch' } } });
    expect([status, request?.prompt]).toMatchObject([200, { toolChoice: { name: 'patch' } }]);
    expect(request?.sampling.guided_decoding?.json).toMatchObject({ required: ['input'] });
  });

  it.each([
    [{ type: 'custom' }, 'tool_choice.custom.name'],
    [{ type: 'custom', custom: { name: 'other' } }, 'tool named "other" in tool_choice is not present in tools'],
  ])('is refused if there is none: %j', async (choice, said) => {
    const { status, text } = await chat({ tool_choice: choice });
    expect([status, text]).toEqual([400, expect.stringContaining(JSON.stringify(said).slice(1, -1))]);
  });
});

it.each([[1], [['patch']]])('refuses an allowed tool whose name is no text: %j', async (name) => {
  const named = { type: 'custom', custom: { name: '1' } };
  const allowed = { mode: 'auto', tools: [{ type: 'function', function: { name } }] };
  const fields = { tools: [CUSTOM, named], tool_choice: { type: 'allowed_tools', allowed_tools: allowed } };
  const { status, text } = await chat(fields);
  expect([status, text]).toEqual([400, expect.stringContaining('in tool_choice is not present in tools')]);
});

const HOSTED = { type: 'web_search' };

/** Tools and a choice by the route that takes them in that shape. */
const ROUTES = {
  '/v1/chat/completions': {
    fields: { messages: MESSAGES, tools: [CUSTOM, FUNCTION, HOSTED] },
    choice: (mode: string, names: readonly string[]) => ({
      type: 'allowed_tools',
      allowed_tools: {
        mode,
        tools: names.map((name) =>
          name === 'web_search'
            ? HOSTED
            : name === 'patch'
              ? { type: 'custom', custom: { name } }
              : { type: 'function', function: { name } },
        ),
      },
    }),
  },
  '/v1/responses': {
    fields: {
      input: 'hi',
      tools: [{ type: 'custom', name: 'patch' }, { type: 'function', name: 'look', parameters: {} }, HOSTED],
    },
    choice: (mode: string, names: readonly string[]) => ({
      type: 'allowed_tools',
      mode,
      tools: names.map((name) =>
        name === 'web_search' ? HOSTED : { type: name === 'patch' ? 'custom' : 'function', name },
      ),
    }),
  },
} as const;

describe.each(Object.entries(ROUTES))('allowed tools of %s', (path, { fields, choice }) => {
  it.each([
    ['auto', ['patch'], ['patch']],
    ['required', ['look', 'patch'], ['patch', 'look']],
    ['auto', ['web_search', 'look'], ['look']],
    ['auto', ['web_search'], undefined], // left out, and named in the header
  ])('are the only ones that the model sees: %s %j', async (mode, names, shown) => {
    const { status, warning, request } = await send(path, { ...fields, tool_choice: choice(mode, names) });
    expect([status, toolsShown(request)]).toEqual([200, shown]);
    expect(warning).toContain('web_search');
  });

  it.each([
    ['auto', ['other'], '"other" in tool_choice is not present in tools'],
    ['auto', ['look', 'other'], '"other" in tool_choice is not present in tools'],
    ['required', ['other'], '"other" in tool_choice is not present in tools'],
    ['required', ['web_search'], 'asks for the hosted tool "web_search"'],
    ['auto', [], 'expected at least one tool'],
  ])('are refused unless they are tools of the request: %s %j', async (mode, names, said) => {
    const { status, text } = await send(path, { ...fields, tool_choice: choice(mode, names) });
    expect([status, JSON.parse(text).error?.message ?? JSON.parse(text).message]).toEqual([
      400,
      expect.stringContaining(said),
    ]);
  });
});
