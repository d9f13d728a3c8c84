import { describe, expect, it } from 'vitest';
import type { ServeError } from '../../../../shared/errors/index.ts';
import {
  decodeCountTokens,
  decodeMessages,
  type MessagesDecodeOptions,
  type PromptInput,
  parseCountTokensBody,
  parseJsonBody,
  parseMessagesBody,
} from '../../../../shared/protocol/index.ts';
import { contextWith } from '../decode-context.ts';

type Chat = Extract<PromptInput, { readonly kind: 'chat' }>;

const OPTIONS: MessagesDecodeOptions = { stripsPreamble: true, hasReasoningParser: false };
const TOOL = { name: 'get_time', description: 'd', input_schema: { type: 'object', properties: {} } };
const USER = { role: 'user', content: 'hi' };

const bodyOf = (fields: object) =>
  parseJsonBody(Buffer.from(JSON.stringify({ model: 'm', max_tokens: 10, messages: [USER], ...fields })));

function decode(fields: object, options: Partial<MessagesDecodeOptions> = {}, headers = {}) {
  return decodeMessages(parseMessagesBody(bodyOf(fields)), contextWith(headers), { ...OPTIONS, ...options });
}

const chat = (fields: object, options: Partial<MessagesDecodeOptions> = {}) => decode(fields, options).prompt as Chat;
const messages = (...turns: object[]) => chat({ messages: turns }).messages;

function refusal(fields: object): Pick<ServeError, 'code' | 'message' | 'param'> {
  try {
    decode(fields);
  } catch (error) {
    const { code, message, param } = error as ServeError;
    return { code, message, param };
  }
  throw new Error('the body was accepted');
}

describe('the turns of a Messages body', () => {
  it('keep plain texts, and put texts of one turn together', () => {
    const turn = {
      role: 'user',
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b', cache_control: {} },
      ],
    };
    expect(messages(USER, turn)).toEqual([USER, { role: 'user', content: 'ab' }]);
  });

  it('pass pictures on as parts, by data and by URL', () => {
    const image = (source: object) => ({ type: 'image', source });
    const content = [
      image({ type: 'base64', media_type: 'image/png', data: 'AA==' }),
      { type: 'text', text: 'what?' },
      image({ type: 'url', url: 'https://x.test/y.png' }),
    ];
    expect(messages({ role: 'user', content })).toEqual([
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
          { type: 'text', text: 'what?' },
          { type: 'image_url', image_url: { url: 'https://x.test/y.png' } },
        ],
      },
    ]);
  });

  it('make a tool use a call and its result a tool message before the rest of the turn', () => {
    const assistant = {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 's' },
        { type: 'redacted_thinking', data: 'x' },
        { type: 'text', text: 'look' },
        { type: 'tool_use', id: 'toolu_1', name: 'f', input: { x: 1 } },
      ],
    };
    const content = [
      { type: 'text', text: 'go' },
      {
        type: 'tool_result',
        tool_use_id: 'toolu_1',
        content: [
          { type: 'text', text: '4' },
          { type: 'text', text: '2' },
        ],
      },
      { type: 'tool_result', tool_use_id: 'toolu_2', is_error: true },
    ];
    expect(messages(USER, assistant, { role: 'user', content })).toEqual([
      USER,
      {
        role: 'assistant',
        content: 'look',
        reasoning_content: 'hm',
        tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }],
      },
      { role: 'tool', tool_call_id: 'toolu_1', content: '42' },
      { role: 'tool', tool_call_id: 'toolu_2', content: '' },
      { role: 'user', content: 'go' },
    ]);
  });

  it('show pictures of a tool result after it, where models can see them', () => {
    const source = { type: 'url', url: 'https://x.test/y.png' };
    const result = {
      type: 'tool_result',
      tool_use_id: 't',
      content: [
        { type: 'text', text: 'see' },
        { type: 'image', source },
      ],
    };
    expect(messages({ role: 'user', content: [result] })).toEqual([
      { role: 'tool', tool_call_id: 't', content: 'see' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: source.url } }] },
    ]);
  });

  it('leave out a turn of the assistant of which nothing is for the model', () => {
    const hidden = { type: 'redacted_thinking', data: 'x' };
    expect(messages(USER, { role: 'assistant', content: [hidden] }, USER)).toEqual([USER, USER]);
  });

  const search = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } };
  const searched = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'srvtoolu_1', type: 'function', function: { name: 'web_search', arguments: '{"query":"q"}' } }],
  };

  it('keep a turn of nothing but a tool that a server carried out', () => {
    expect(messages(USER, { role: 'assistant', content: [search] }, USER)).toEqual([USER, searched, USER]);
  });

  it('make the result of such a tool a tool message between what was said before and after it', () => {
    const found = { type: 'web_search_result', title: 'T', url: 'https://x.test', encrypted_content: 'zz' };
    const content = [
      search,
      { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [found] },
      { type: 'text', text: 'It is T.' },
    ];
    expect(messages(USER, { role: 'assistant', content }, USER)).toEqual([
      USER,
      searched,
      {
        role: 'tool',
        tool_call_id: 'srvtoolu_1',
        content: '[{"type":"web_search_result","title":"T","url":"https://x.test"}]',
      },
      { role: 'assistant', content: 'It is T.' },
      USER,
    ]);
  });

  it('continue an answer that the client has begun', () => {
    const begun = { role: 'assistant', content: 'Once' };
    expect(chat({ messages: [USER, begun] })).toMatchObject({ addGenerationPrompt: false, continueFinalMessage: true });
    expect(chat({ messages: [USER, begun, USER] }).continueFinalMessage).toBeUndefined();
  });
});

describe('the system prompt', () => {
  it.each([
    ['a', 'a'],
    [
      [
        { type: 'text', text: 'a', cache_control: { type: 'ephemeral' } },
        { type: 'text', text: 'b' },
      ],
      'a\nb',
    ],
    ['x-anthropic-billing-header: cc=1\nReal', 'Real'],
    [
      [
        { type: 'text', text: 'x-anthropic-billing-header: cc=1' },
        { type: 'text', text: 'Real' },
      ],
      'Real',
    ],
    ['Real\nx-anthropic-billing-header: cc=1', 'Real\nx-anthropic-billing-header: cc=1'],
  ])('is one text first: %j', (system, content) => {
    expect(chat({ system }).messages).toEqual([{ role: 'system', content }, USER]);
  });

  it.each(['', null, 'x-anthropic-billing-header: cc=1'])('is absent when nothing is left of it: %j', (system) => {
    expect(chat({ system }).messages).toEqual([USER]);
  });

  it('keeps the preamble if the option is set, and may come between the turns', () => {
    const system = 'x-anthropic-billing-header: cc=1\nReal';
    expect(chat({ system }, { stripsPreamble: false }).messages[0]).toEqual({ role: 'system', content: system });
    const late = {
      role: 'system',
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    };
    expect(messages(USER, late)).toEqual([USER, { role: 'system', content: 'a\nb' }]);
  });
});

describe('tools of a Messages body', () => {
  it('are functions, and an empty list means no tools', () => {
    expect(chat({ tools: [{ ...TOOL, type: 'custom', cache_control: {} }] }).tools).toEqual([
      { type: 'function', function: { name: 'get_time', description: 'd', parameters: TOOL.input_schema } },
    ]);
    expect(chat({ tools: [] }).tools).toBeUndefined();
  });

  it.each([
    [{ type: 'auto' }, 'auto'],
    [{ type: 'any' }, 'required'],
    [{ type: 'none' }, 'none'],
    [{ type: 'tool', name: 'get_time' }, { name: 'get_time' }],
  ])('are chosen by %j', (choice, expected) => {
    expect(chat({ tools: [TOOL], tool_choice: choice }).toolChoice).toEqual(expected);
  });

  it('constrain the output when one must be used, and can be limited to one at a time', () => {
    const request = decode({
      tools: [TOOL],
      tool_choice: { type: 'tool', name: 'get_time', disable_parallel_tool_use: true },
    });
    expect(request.sampling.guided_decoding).toEqual({ json: TOOL.input_schema });
    expect((request.prompt as Chat).parallelToolCalls).toBe(false);
  });
});

describe('thinking', () => {
  const args = (fields: object, hasReasoningParser = true) => chat(fields, { hasReasoningParser }).templateArgs;
  const ON = { thinking: true, enable_thinking: true, thinking_mode: 'enabled', truncate_history_thinking: false };

  it('is on for a model whose reasoning is parsed, unless it is switched off', () => {
    expect(args({})).toEqual(ON);
    expect(args({ thinking: { type: 'enabled', budget_tokens: 2048 } })).toEqual(ON);
    expect(args({ thinking: { type: 'adaptive' } })).toEqual({ ...ON, thinking_mode: 'adaptive' });
    expect(args({ thinking: { type: 'disabled' } })).toEqual({
      thinking: false,
      enable_thinking: false,
      thinking_mode: 'disabled',
    });
  });

  it('has a budget and an effort', () => {
    const fields = { thinking: { type: 'enabled', budget_tokens: 2048 }, output_config: { effort: 'low' } };
    expect(decode(fields, { hasReasoningParser: true }).stop.max_thinking_tokens).toBe(2048);
    expect(args(fields)).toMatchObject({ reasoning_effort: 'low', enable_thinking: true });
  });

  it('means nothing to other models', () => {
    const fields = { thinking: { type: 'enabled', budget_tokens: 2048 }, output_config: { effort: 'low' } };
    expect(args(fields, false)).toBeUndefined();
    expect(decode(fields).stop.max_thinking_tokens).toBeUndefined();
  });
});

describe('the other fields of a Messages body', () => {
  it('are decoded to what workers take', () => {
    const request = decode(
      {
        stream: true,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 0,
        stop_sequences: ['END'],
        metadata: { user_id: 'u' },
        service_tier: 'auto',
        context_management: {},
        output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
        nvext: { agent_hints: { priority: 3 } },
      },
      {},
      { 'x-request-id': 'r' },
    );
    expect(request).toMatchObject({
      endpoint: 'anthropic_messages',
      stream: true,
      stop: { max_tokens: 10, stop: ['END'] },
      sampling: { temperature: 0.5, top_p: 0.9, top_k: -1, guided_decoding: { json: { type: 'object' } } },
      routing: { priority: 3 },
      trace: { requestId: 'r' },
    });
  });

  it('are a chat body for workers that take bodies untouched', () => {
    expect(decode({ system: 's', stop_sequences: ['a'], tools: [TOOL] }).body).toEqual({
      model: 'm',
      messages: [{ role: 'system', content: 's' }, USER],
      max_tokens: 10,
      stop: ['a'],
      tools: [{ type: 'function', function: { name: 'get_time', description: 'd', parameters: TOOL.input_schema } }],
    });
  });
});

describe('a Messages body that only fills the cache', () => {
  it.each([
    {},
    { thinking: { type: 'disabled' } },
    { tools: [TOOL], tool_choice: { type: 'auto' } },
    { output_config: { effort: 'low' } },
  ])('asks the worker for one token with %j', (fields) => {
    expect(decode({ max_tokens: 0, ...fields })).toMatchObject({ stop: { max_tokens: 1 }, body: { max_tokens: 1 } });
  });

  it.each([
    [{ stream: true }, 'stream: true'],
    [{ thinking: { type: 'enabled', budget_tokens: 1024 } }, 'thinking.type: enabled'],
    [{ thinking: { type: 'adaptive' } }, 'thinking.type: adaptive'],
    [{ tools: [TOOL], tool_choice: { type: 'any' } }, 'tool_choice.type: any'],
    [{ tools: [TOOL], tool_choice: { type: 'tool', name: 'get_time' } }, 'tool_choice.type: tool'],
    [{ output_config: { format: { type: 'json_schema', schema: {} } } }, 'output_config.format: json_schema'],
  ])('is refused with %j, which needs an answer', (fields, message) => {
    const [param] = message.split(':');
    const refused = { code: 'invalid_value', param, message: expect.stringContaining(message) };
    expect(refusal({ max_tokens: 0, ...fields })).toMatchObject(refused);
  });
});

describe('a Messages body that is refused', () => {
  const block = (one: object) => ({ messages: [{ role: 'user', content: [one] }] });
  it.each([
    [{ max_tokens: undefined }, 'missing_required_parameter', '`max_tokens`'],
    [{ max_tokens: -1 }, 'invalid_value', 'max_tokens'],
    [{ max_tokens: 1.5 }, 'invalid_value', 'max_tokens'],
    [{ messages: [] }, 'invalid_value', 'messages: field required'],
    [{ messages: [{ role: 'user', content: [] }] }, 'invalid_value', 'messages[0].content: must contain at least one'],
    [{ messages: [{ role: 'robot', content: 'x' }] }, 'invalid_value', 'messages[0].role'],
    [block({ type: 'document' }), 'missing_required_parameter', 'messages[0].content[0].source'],
    [block({ type: 'zzz' }), 'unsupported_parameter', 'messages[0].content[0]: content block type "zzz"'],
    [block({ type: 'text' }), 'missing_required_parameter', 'messages[0].content[0].text'],
    [
      block({ type: 'image', source: { type: 'file', file_id: 'f' } }),
      'invalid_value',
      'messages[0].content[0].source',
    ],
    [
      { tools: [{ type: 'web_search_20250305', name: 'w' }], tool_choice: { type: 'tool', name: 'w' } },
      'invalid_value',
      'hosted tool "w"',
    ],
    [
      { tools: [{ type: 'web_search_20250305', name: 'w' }], tool_choice: { type: 'any' } },
      'invalid_value',
      'hosted tool "web_search_20250305"',
    ],
    [
      { tools: [{ name: 'x' }] },
      'missing_required_parameter',
      'tools[0].input_schema: field required for client tools',
    ],
    [{ tools: [{ ...TOOL, name: 'a b' }] }, 'invalid_value', 'a b'],
    [{ tool_choice: { type: 'any' } }, 'invalid_value', 'tool_choice'],
    [{ tools: [TOOL], tool_choice: { type: 'tool', name: 'zz' } }, 'invalid_value', 'tool named "zz" in tool_choice'],
    [{ tools: [TOOL], tool_choice: { type: 'tool' } }, 'missing_required_parameter', 'tool_choice.name'],
    [{ temperature: 2.1 }, 'invalid_value', 'Temperature'],
    [{ stop_sequences: [''] }, 'invalid_value', 'Stop sequence cannot be empty'],
    [{ output_config: { format: { type: 'json_schema' } } }, 'invalid_value', 'output_config.format.schema'],
    [{ nvext: { foo: 1 } }, 'unknown_parameter', '`foo`'],
    [{ model: ' ' }, 'invalid_value', 'Model cannot be empty'],
  ])('%j', (fields, code, text) => {
    const refused = refusal(fields);
    expect(refused.code).toBe(code);
    expect(refused.message).toContain(text);
    expect(refused.param).toBeDefined();
  });
});

describe('a count of tokens', () => {
  it('is of the same prompt that would be counted', () => {
    const body = parseCountTokensBody(bodyOf({ max_tokens: undefined, system: 's' }));
    expect(decodeCountTokens(body, contextWith(), OPTIONS).prompt).toEqual(chat({ system: 's' }));
  });
});
