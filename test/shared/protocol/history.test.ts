import { describe, expect, it } from 'vitest';
import type { ServeError } from '../../../shared/errors/index.ts';
import { type ChatMessage, decodeChat, parseChatBody, parseJsonBody } from '../../../shared/protocol/index.ts';
import { contextWith } from './decode-context.ts';

const USER = { role: 'user', content: 'hi' };
const LAST = { role: 'user', content: 'go on' };
const PICTURE = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } };
const CUT = '{"city": "Par';

interface Decoded {
  readonly rendered: readonly ChatMessage[];
  readonly forwarded: readonly ChatMessage[];
  readonly leftOut: readonly string[];
}

function decode(messages: readonly unknown[], fields: object = {}): Decoded {
  const context = contextWith();
  const text = JSON.stringify({ model: 'm', messages, ...fields });
  const { request } = decodeChat(parseChatBody(parseJsonBody(Buffer.from(text))), context);
  if (request.prompt.kind !== 'chat') throw new Error('no chat');
  const forwarded = request.body?.messages as readonly ChatMessage[];
  return { rendered: request.prompt.messages, forwarded, leftOut: context.leftOut.names('history') };
}

function refusal(messages: readonly unknown[]): Pick<ServeError, 'code' | 'param'> {
  try {
    decode(messages);
  } catch (error) {
    const { code, param } = error as ServeError;
    return { code, param };
  }
  throw new Error('the messages were accepted');
}

const called = (args: unknown, more: object = {}): object => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: args }, ...more }],
});
const result = (content: unknown, more: object = { tool_call_id: 'c1' }): object => ({
  role: 'tool',
  content,
  ...more,
});

interface Call {
  readonly id: string;
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

const callsOf = (messages: readonly ChatMessage[]): readonly Call[] =>
  messages.flatMap(({ tool_calls }) => (tool_calls ?? []) as unknown as readonly Call[]);

/** What servers ask of a conversation that check it: OpenAI's own, and those that read arguments as JSON. */
function expectStrict(messages: readonly ChatMessage[]): void {
  let open = new Set<string>();
  for (const message of messages) {
    if (message.role === 'tool') {
      expect(open.delete(String(message.tool_call_id)), `a call for ${String(message.tool_call_id)}`).toBe(true);
      expect(typeof message.content === 'string' || Array.isArray(message.content)).toBe(true);
      continue;
    }
    expect([...open], 'calls without a result').toEqual([]);
    expect(['system', 'user', 'assistant']).toContain(message.role);
    if (message.role !== 'assistant') continue;
    if (message.tool_calls === undefined) expect(message.content).not.toBeNull();
    else expect(message.tool_calls.length).toBeGreaterThan(0);
    open = new Set();
    for (const call of callsOf([message])) {
      expect(call).toMatchObject({ id: expect.stringMatching(/./), type: 'function' });
      expect(JSON.parse(call.function.arguments)).toBeTypeOf('object');
      expect(Array.isArray(JSON.parse(call.function.arguments))).toBe(false);
      expect(open.has(call.id), 'an id twice').toBe(false);
      open.add(call.id);
    }
  }
}

describe('ids that several calls of a turn have', () => {
  const idsOf = (given: readonly string[]) => {
    const calls = given.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }));
    const results = given.map((id, at) => ({ role: 'tool', tool_call_id: id, content: `result ${at}` }));
    const { rendered, forwarded } = decode([USER, { role: 'assistant', tool_calls: calls }, ...results]);
    expect(forwarded.slice(2)).toEqual(rendered.slice(2));
    const told = (rendered[1]?.tool_calls ?? []).map(({ id }) => String(id));
    expect(rendered.slice(2).map(({ tool_call_id }) => tool_call_id)).toEqual(told);
    return told;
  };

  it.each([
    [['a', 'a']],
    [['a_2', 'a', 'a']],
    [['a', 'a', 'a_1']],
    [['a', 'a_1', 'a', 'a_2', 'a', 'a']],
    [['a_3', 'a_2', 'a', 'a']],
    [['a', 'a', 'a_1_2', 'a_1']],
  ])('get distinct names, and those given once stay: %j', (given) => {
    const told = idsOf(given);
    expect(new Set(told).size).toBe(given.length);
    const once = given.filter((id) => given.filter((other) => other === id).length === 1);
    expect(told).toEqual(expect.arrayContaining(once));
    for (const [at, id] of told.entries()) if (once.includes(given[at]!)) expect(id).toBe(given[at]);
  });

  it('get distinct names in steps that grow with their number', () => {
    const ids = Array.from({ length: 6000 }, (_, at) => (at % 2 === 0 ? 'a' : `a_${at}`));
    expect(new Set(idsOf(ids)).size).toBe(ids.length);
  });
});

describe('arguments of earlier calls', () => {
  it.each([
    [CUT, CUT, { INVALID_JSON: CUT }],
    ['{"a": 1}', '{"a": 1}', { a: 1 }],
    ['', '', {}],
    ['  \n', '  \n', {}],
    [null, '{}', {}],
    [undefined, '{}', {}],
    ['null', '{}', {}],
    [{ a: { b: 1 } }, '{"a":{"b":1}}', { a: { b: 1 } }],
    [JSON.stringify('{"a": 1}'), '{"a": 1}', { a: 1 }],
    [JSON.stringify(JSON.stringify('{"a": 1}')), '{"a": 1}', { a: 1 }],
    ['[1]', '[1]', { INVALID_JSON: '[1]' }],
    [[1], '[1]', { INVALID_JSON: '[1]' }],
    ['3', '3', { INVALID_JSON: '3' }],
    [3, '3', { INVALID_JSON: '3' }],
    [true, 'true', { INVALID_JSON: 'true' }],
    ['not json', 'not json', { INVALID_JSON: 'not json' }],
    ['{"a": 1}{"a": 1}', '{"a": 1}{"a": 1}', { INVALID_JSON: '{"a": 1}{"a": 1}' }],
    ['{"a": 12345678901234567890}', '{"a": 12345678901234567890}', { a: 12345678901234567000 }],
    [{ INVALID_JSON: CUT }, CUT, { INVALID_JSON: CUT }],
  ])('%j are %j to a template, and an object to a strict server', (given, rendered, strict) => {
    const decoded = decode([USER, called(given), result('r'), LAST]);
    expect(callsOf(decoded.rendered)[0]?.function.arguments).toBe(rendered);
    expect(JSON.parse(callsOf(decoded.forwarded)[0]?.function.arguments ?? '')).toEqual(strict);
    expectStrict(decoded.forwarded);
  });
});

/** Conversations that some server or client has made, and that a strict one refuses. */
const ODD: Readonly<Record<string, readonly unknown[]>> = {
  'a call without an id': [USER, called('{}', { id: undefined }), result('r', {}), LAST],
  'an empty id': [USER, called('{}', { id: '' }), result('r', { tool_call_id: '' }), LAST],
  'a number for an id': [USER, called('{}', { id: 7 }), result('r', { tool_call_id: '7' }), LAST],
  'a call without a type': [USER, called('{}', { type: null }), result('r'), LAST],
  'one id for two calls': [
    USER,
    {
      role: 'assistant',
      tool_calls: [
        { id: 'c', function: { name: 'f', arguments: '{}' } },
        { id: 'c', function: { name: 'g', arguments: '{}' } },
      ],
    },
    result('r', { tool_call_id: 'c' }),
    result('s', { tool_call_id: 'c' }),
    LAST,
  ],
  'one id in two turns': [USER, called('{}'), result('r'), called('{}'), result('s'), LAST],
  'a flat call': [
    USER,
    { role: 'assistant', content: '', tool_calls: [{ name: 'f', arguments: { a: 1 } }] },
    result('r', {}),
    LAST,
  ],
  'a call without a name': [
    USER,
    { role: 'assistant', tool_calls: [{ id: 'c1', type: 'function' }] },
    result('r'),
    LAST,
  ],
  'calls that are not objects': [USER, { role: 'assistant', content: 'x', tool_calls: ['f()', null, 3] }, LAST],
  'calls that are no list': [USER, { role: 'assistant', content: 'x', tool_calls: 'f()' }, LAST],
  'no calls, in a list': [USER, { role: 'assistant', content: 'x', tool_calls: [] }, LAST],
  'a call of a custom tool': [
    USER,
    { role: 'assistant', tool_calls: [{ id: 'c1', type: 'custom', custom: { name: 'f', input: 'x' } }] },
    result('r'),
    LAST,
  ],
  'a result without a call': [USER, result('r'), LAST],
  'a result of another call': [USER, called('{}'), result('r', { tool_call_id: 'zz' }), LAST],
  'a result that comes twice': [USER, called('{}'), result('r'), result('r'), LAST],
  'a call without a result': [USER, called('{}'), LAST],
  'a result behind what the user said': [USER, called('{}'), LAST, result('r')],
  'results of two turns behind both': [
    USER,
    called('{}'),
    called('{}', { id: 'c2' }),
    result('r'),
    result('s', { tool_call_id: 'c2' }),
    LAST,
  ],
  'a function in the old way': [
    USER,
    { role: 'assistant', content: null, function_call: { name: 'f', arguments: CUT } },
    { role: 'function', name: 'f', content: 'r' },
    LAST,
  ],
  'no content': [USER, { role: 'assistant' }, LAST],
  'content null': [USER, { role: 'assistant', content: null }, LAST],
  'content an empty list': [USER, { role: 'assistant', content: [] }, LAST],
  'content an object': [USER, { role: 'assistant', content: { type: 'text', text: 'x' } }, LAST],
  'content a number': [USER, { role: 'assistant', content: 42 }, LAST],
  'content of texts': [
    USER,
    { role: 'assistant', content: ['a', { type: 'output_text', text: 'b', annotations: [] }] },
    LAST,
  ],
  'content of unknown parts': [
    USER,
    { role: 'assistant', content: [{ type: 'hologram', data: 'x' }, { text: 'b' }, null] },
    LAST,
  ],
  'a refusal': [USER, { role: 'assistant', content: null, refusal: 'I cannot.' }, LAST],
  'a refusal part': [USER, { role: 'assistant', content: [{ type: 'refusal', refusal: 'I cannot.' }] }, LAST],
  sound: [USER, { role: 'assistant', content: null, audio: { id: 'audio_1' } }, LAST],
  'empty notes': [
    USER,
    {
      role: 'assistant',
      content: 'x',
      refusal: null,
      annotations: [],
      audio: null,
      function_call: null,
      tool_calls: null,
    },
    LAST,
  ],
  'turns in a row': [USER, USER, { role: 'assistant', content: 'a' }, { role: 'assistant', content: 'b' }, LAST, LAST],
  'a model that speaks first': [{ role: 'assistant', content: 'a' }, LAST],
  'a result without content': [USER, called('{}'), result(null), LAST],
  'a result that is an object': [USER, called('{}'), result({ ok: true }), LAST],
  'a result that is a number': [USER, called('{}'), result(7), LAST],
  'a result of unknown parts': [
    USER,
    called('{}'),
    result([
      { type: 'hologram', data: 'x' },
      { type: 'output_text', text: 'b' },
    ]),
    LAST,
  ],
  'an unknown part of an earlier question': [
    { role: 'user', content: [{ type: 'hologram' }, { type: 'text', text: 'a' }] },
    { role: 'assistant', content: 'b' },
    LAST,
  ],
  'unknown fields': [
    { ...USER, mood: 'good' },
    { role: 'assistant', content: 'b', id: 'msg_1', status: 'completed' },
    LAST,
  ],
};

describe.each(Object.entries(ODD))('a history with %s', (_, messages) => {
  it('is taken, and handed on in the published shape', () => {
    const { rendered, forwarded } = decode(messages);
    expectStrict(forwarded);
    expect(rendered.some(({ content }) => content === LAST.content)).toBe(true);
  });

  it('is taken while the model goes on, and where tools answer last', () => {
    expectStrict(decode(messages.slice(0, -1).concat(USER)).forwarded);
    decode(messages.slice(0, -1));
  });
});

describe('the rendering of a history', () => {
  const textOf = (messages: readonly unknown[]): string => JSON.stringify(decode(messages).rendered);

  it.each([
    [{ role: 'assistant', content: null, refusal: 'I cannot.' }, 'I cannot.'],
    [{ role: 'assistant', content: ['a', { type: 'output_text', text: 'bee' }] }, 'bee'],
    [{ role: 'assistant', content: null, audio: { id: 'a', transcript: 'spoken' } }, 'spoken'],
    [result([{ type: 'tool_reference', tool_name: 'get_weather' }]), 'get_weather'],
    [result([{ type: 'hologram', note: 'inside' }]), 'inside'],
    [result({ ok: 'yes!' }), 'yes!'],
    [{ role: 'user', content: [{ type: 'hologram', text: 'seen' }] }, 'seen'],
  ])('%j: %s', (message, text) => {
    expect(textOf([USER, message, { role: 'assistant', content: 'x' }, LAST])).toContain(text);
  });

  it.each([
    [{ role: 'assistant', content: null, audio: { id: 'a' } }, 'audio'],
    [{ role: 'assistant', content: [{ type: 'hologram', data: 1 }] }, 'hologram'],
    [{ role: 'assistant', content: 'x', tool_calls: 'f' }, 'tool_calls'],
  ])('%j is named as left out', (message, name) => {
    expect(decode([USER, message, LAST]).leftOut).toEqual([name]);
  });

  it('is the reasoning of the model, under any field name of its server', () => {
    const thoughts = [
      { reasoning_content: 'so' },
      { reasoning: 'so' },
      { thinking: 'so' },
      { reasoning_content: '', reasoning: 'so' },
      {
        reasoning_content: null,
        reasoning_details: [
          { type: 'reasoning.text', text: 'so' },
          { type: 'reasoning.encrypted', data: 'x' },
        ],
      },
      { thinking_blocks: [{ type: 'thinking', thinking: 'so', signature: 's' }] },
      {
        content: [
          { type: 'thinking', thinking: 'so' },
          { type: 'text', text: 'x' },
        ],
      },
      {
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'so' }] },
          { type: 'text', text: 'x' },
        ],
      },
    ];
    for (const thought of thoughts) {
      const { rendered, forwarded } = decode([USER, { role: 'assistant', content: 'x', ...thought }, LAST]);
      expect(rendered[1]?.reasoning_content, JSON.stringify(thought)).toBe('so');
      expect(forwarded[1]).toMatchObject({ reasoning_content: 'so', reasoning: 'so' });
    }
  });

  it('has results of one name in the order of its calls, also where another turn stands between', () => {
    const call = { id: 'c', function: { name: 'f', arguments: '{}' } };
    const results = ['r', 's'].map((content) => result(content, { tool_call_id: 'c' }));
    const { rendered } = decode([
      USER,
      { role: 'assistant', tool_calls: [call, call] },
      called('{}'),
      ...results,
      LAST,
    ]);
    expect(rendered.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual(['r', 's']);
  });

  it('keeps what a server wants back beside a call', () => {
    const { forwarded } = decode([
      USER,
      called('{}', { extra_content: { google: { thought_signature: 's' } } }),
      result('r'),
      LAST,
    ]);
    expect(callsOf(forwarded)[0]).toMatchObject({ extra_content: { google: { thought_signature: 's' } } });
  });

  it('shows pictures of tools in the turn of the user, after their results', () => {
    const content = [{ type: 'text', text: 'look' }, PICTURE];
    const { rendered, forwarded } = decode([USER, called('{}'), result(content)]);
    expect(rendered.slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'c1', content: 'look' },
      { role: 'user', content: [PICTURE] },
    ]);
    expect(forwarded.slice(2)).toEqual(rendered.slice(2));
    expect(decode([USER, called('{}'), result(content), LAST]).rendered.at(-1)).toEqual({
      role: 'user',
      content: [PICTURE, { type: 'text', text: 'go on' }],
    });
  });

  it('stays as it is where nothing is odd', () => {
    const messages = [
      { role: 'system', content: 's' },
      USER,
      called('{"a": 1}'),
      result('r'),
      { role: 'assistant', content: 'x' },
      LAST,
    ];
    const { rendered, forwarded, leftOut } = decode(messages);
    expect(rendered).toEqual(messages);
    expect(forwarded).toEqual(messages);
    expect(leftOut).toEqual([]);
  });
});

describe('repeated history', () => {
  const FILE = {
    type: 'file',
    file: { filename: 'a.txt', file_data: `data:text/plain;base64,${Buffer.from('tea').toString('base64')}` },
  };

  it.each([
    [
      [USER, { role: 'assistant', content: 'x' }, { role: 'user', content: [{ type: 'hologram' }] }],
      'messages[2].content[0].type',
    ],
    [
      [USER, { role: 'assistant', content: 'x' }, { role: 'user', content: [{ type: 'image_url' }] }],
      'messages[2].content[0].image_url',
    ],
    [[{ role: 'user' }], 'messages[0].content'],
    [[{ role: 'user', content: 4 }], 'messages[0].content'],
    [[{ role: 'system', content: [PICTURE] }, USER], 'messages[0].content[0].type'],
    [[{ role: 'bogus', content: 'x' }], 'messages[0].role'],
    [
      [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }],
      'messages[0].content[0].file.file_id',
    ],
    [[{ role: 'user', content: [{ type: 'file', file: {} }] }], 'messages[0].content[0].file.file_data'],
    [
      [{ role: 'user', content: [{ type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=' } }] }],
      'messages[0].content[0].file.file_data',
    ],
    [
      [{ role: 'user', content: [{ type: 'file', file: { file_data: 'AAEC' } }] }],
      'messages[0].content[0].file.file_data',
    ],
    [
      [{ role: 'user', content: [{ type: 'file', file: { file_data: 'no base64!' } }] }],
      'messages[0].content[0].file.file_data',
    ],
  ])('%j is refused at %s', (messages, param) => {
    expect(refusal(messages).param).toBe(param);
  });

  it('may hold text in files', () => {
    const { rendered, forwarded } = decode([{ role: 'user', content: [FILE, { type: 'text', text: 'Read it.' }] }]);
    expect(rendered[0]?.content).toEqual([
      { type: 'text', text: 'a.txt\n\ntea' },
      { type: 'text', text: 'Read it.' },
    ]);
    expect(forwarded).toEqual(rendered);
  });
});
