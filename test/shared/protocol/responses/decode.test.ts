import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { ServeError } from '../../../../shared/errors/index.ts';
import {
  type ChatMessage,
  checkResponsesBody,
  type DecodedResponses,
  decodeResponses,
  estimateInputTokens,
  type GenerationRequest,
  itemIdOf,
  LeftOut,
  parseJsonBody,
  parseResponsesBody,
  responseIdOf,
  responseIdOfItem,
  toListedItems,
} from '../../../../shared/protocol/index.ts';
import { defaultHttpSettings } from '../../../support/http-settings.ts';

const contextOf = () => ({
  headers: { headerNames: () => [], header: () => undefined },
  settings: defaultHttpSettings.decode,
  random: seededRandom(1),
  leftOut: new LeftOut(),
  warn: () => {},
});

const jsonOf = (body: object) => parseJsonBody(Buffer.from(JSON.stringify(body)));

function decode(fields: object): DecodedResponses & { readonly dropped: readonly string[] } {
  const { body, items } = parseResponsesBody(jsonOf({ model: 'm', input: 'hi', ...fields }));
  checkResponsesBody(body);
  const context = contextOf();
  const decoded = decodeResponses(body, { earlier: [], own: items, isStored: true }, context);
  return { ...decoded, dropped: context.leftOut.names('tool') };
}

function chatOf({ request }: DecodedResponses): Extract<GenerationRequest['prompt'], { kind: 'chat' }> {
  if (request.prompt.kind !== 'chat') throw new Error('no chat');
  return request.prompt;
}

const messagesOf = (input: unknown, fields: object = {}): readonly ChatMessage[] =>
  chatOf(decode({ input, ...fields })).messages;

function refusalOf(fields: object): Pick<ServeError, 'code' | 'param' | 'message'> {
  try {
    decode(fields);
  } catch (error) {
    return error as ServeError;
  }
  throw new Error('it was accepted');
}

const user = (content: unknown) => ({ role: 'user', content });

describe('input items', () => {
  it('become messages: instructions and system messages in one, in front', () => {
    expect(
      messagesOf(
        [
          {
            role: 'developer',
            content: [
              { type: 'input_text', text: 'a' },
              { type: 'input_text', text: 'b' },
            ],
          },
          user('x'),
        ],
        {
          instructions: 'i',
        },
      ),
    ).toEqual([{ role: 'system', content: 'i\n\na\nb' }, user('x')]);
  });

  it('of one turn of the assistant become one message', () => {
    expect(
      messagesOf([
        user('x'),
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'short' }] },
        {
          role: 'assistant',
          content: [
            { type: 'output_text', text: 'a' },
            { type: 'refusal', refusal: 'b' },
          ],
        },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { type: 'custom_tool_call', call_id: 'c2', name: 'g', input: 'text' },
        { type: 'function_call_output', call_id: 'c1', output: '1' },
        { type: 'custom_tool_call_output', call_id: 'c2', output: [{ type: 'input_text', text: '2' }] },
        { type: 'function_call', call_id: 'c3', name: 'f', arguments: '{}' },
        { role: 'assistant', content: 'z' },
      ]),
    ).toEqual([
      user('x'),
      {
        role: 'assistant',
        content: 'ab',
        reasoning_content: 'short',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
          { id: 'c2', type: 'function', function: { name: 'g', arguments: '{"input":"text"}' } },
        ],
      },
      { role: 'tool', content: '1', tool_call_id: 'c1' },
      { role: 'tool', content: '2', tool_call_id: 'c2' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c3', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'assistant', content: 'z' },
    ]);
  });

  it('keep pictures and videos, and say their details', () => {
    const content = [
      { type: 'input_text', text: 'what?' },
      { type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'low' },
      { type: 'input_video', video_url: 'https://example.test/v.mp4' },
    ];
    expect(messagesOf([user(content)])[0]?.content).toEqual([
      { type: 'text', text: 'what?' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==', detail: 'low' } },
      { type: 'video_url', video_url: { url: 'https://example.test/v.mp4' } },
    ]);
  });

  it.each([
    ['an unknown type', [{ type: 'zzz' }], 'input[0].type'],
    ['an unknown role', [{ role: 'critic', content: 'x' }], 'input[0].role'],
    ['sound', [user([{ type: 'input_audio', input_audio: {} }])], 'input[0].content[0].type'],
    ['a file', [user([{ type: 'input_file', file_id: 'f' }])], 'input[0].content[0].file_id'],
    [
      'a picture without a URL',
      [user([{ type: 'input_image', image_url: 'no url' }])],
      'input[0].content[0].image_url',
    ],
    ['no object', [1], 'input[0]'],
    ['nothing', [], 'input'],
  ])('are refused for %s, by path', (_what, input, param) => {
    expect(refusalOf({ input })).toMatchObject({ param });
  });

  it('are listed with ids that name their response', () => {
    const id = responseIdOf('00112233-4455-4667-8899-aabbccddeeff');
    const [listed] = toListedItems([{ type: 'message', role: 'user', content: 'x' }], id);
    expect(id).toBe('resp_00112233445546678899aabbccddeeff');
    expect(listed).toEqual({
      type: 'message',
      role: 'user',
      status: 'completed',
      id: itemIdOf('message', id, 'input', 0),
      content: [{ type: 'input_text', text: 'x' }],
    });
    expect(responseIdOfItem(String(listed?.id))).toBe(id);
    expect(responseIdOfItem('msg_68ff')).toBeUndefined();
  });
});

describe('tools', () => {
  const FUNCTION = { type: 'function', name: 'f', description: 'd', parameters: { type: 'object' } };

  it('reach the model as functions, a custom one as a function of one text', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' };
    const decoded = decode({
      tools: [FUNCTION, { type: 'custom', name: 'c', description: 'e', format }, { type: 'mcp' }],
    });
    expect(chatOf(decoded).tools).toEqual([
      { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } },
      {
        type: 'function',
        function: {
          name: 'c',
          description: 'e\n\n`input` must match this lark grammar:\nstart: "a"',
          parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
        },
      },
    ]);
    expect(decoded.callShapes.get('c')?.kind).toBe('custom_tool_call');
    expect(decoded.dropped).toEqual(['mcp']);
    expect(decoded.echo.tools).toHaveLength(2);
  });

  it.each([
    ['none', 'none', 'none'],
    [{ type: 'function', name: 'f' }, { name: 'f' }, { type: 'function', name: 'f' }],
  ])('are chosen as %j says', (choice, chatChoice, echo) => {
    const decoded = decode({ tools: [FUNCTION], tool_choice: choice });
    expect(chatOf(decoded).toolChoice).toEqual(chatChoice);
    expect(decoded.echo.tool_choice).toEqual(echo);
  });

  it('are fewer when only some are allowed', () => {
    const choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] };
    const decoded = decode({ tools: [FUNCTION, { ...FUNCTION, name: 'g' }], tool_choice: choice });
    expect(chatOf(decoded).tools?.map((tool) => tool.function.name)).toEqual(['g']);
    expect(chatOf(decoded).toolChoice).toBe('required');
  });

  it.each([
    [{ tools: [{ type: 'function' }] }, 'tools[0].name'],
    [{ tools: [{ ...FUNCTION, name: 'a b' }] }, 'tools[0].name'],
    [{ tools: [{ ...FUNCTION, strict: true }] }, 'tools[0].parameters'],
    [{ tools: [FUNCTION], tool_choice: { type: 'function', name: 'x' } }, 'tool_choice'],
    [{ tools: [{ type: 'web_search' }], tool_choice: 'required' }, 'tool_choice'],
  ])('are refused: %j', (fields, param) => {
    expect(refusalOf(fields).param).toBe(param);
  });

  it('are reported by name if only hosted ones could be called', () => {
    for (const choice of ['required', { type: 'allowed_tools', mode: 'required', tools: [{ type: 'web_search' }] }]) {
      const { message } = refusalOf({ tools: [{ type: 'web_search' }], tool_choice: choice });
      expect(message).toContain('hosted tool "web_search"');
    }
  });
});

describe('a responses body', () => {
  it('reaches the worker with its options', () => {
    const schema = { type: 'object' };
    const { request } = decode({
      max_output_tokens: 9,
      temperature: 0.5,
      top_p: 0.9,
      reasoning: { effort: 'none' },
      text: { format: { type: 'json_schema', name: 'n', schema } },
      nvext: { top_k: 5, cache_salt: 's' },
      stream: true,
    });
    expect(request).toMatchObject({
      endpoint: 'responses',
      stream: true,
      stop: { max_tokens: 9 },
      sampling: { temperature: 0.5, top_p: 0.9, top_k: 5, guided_decoding: { json: schema } },
      routing: { cache_salt: 's' },
      reasoning: { effort: 'none' },
      prompt: { templateArgs: { reasoning_effort: 'none', enable_thinking: false } },
    });
    expect(request.body).toMatchObject({ max_completion_tokens: 9, stream_options: { include_usage: true } });
  });

  it.each([
    [{ background: true }, 'unsupported_parameter', 'background'],
    [{ prompt: { id: 'p' } }, 'unsupported_parameter', 'prompt'],
    [{ conversation: 'c' }, 'unsupported_parameter', 'conversation'],
    [{ nvext: { extra_fields: ['prompt_logprobs'] } }, 'unsupported_parameter', 'nvext.extra_fields'],
    [{ nvext: { foo: 1 } }, 'unknown_parameter', 'nvext.foo'],
    [{ model: null }, 'invalid_value', 'model'],
    [{ max_output_tokens: 0 }, 'invalid_value', 'max_output_tokens'],
    [{ text: { format: { type: 'json_schema', name: '', schema: {} } } }, 'invalid_value', 'text.format.name'],
    [{ reasoning: { effort: 'zzz' } }, 'invalid_value', 'reasoning.effort'],
    [{ input: undefined }, 'missing_required_parameter', 'input'],
  ])('is refused: %j', (fields, code, param) => {
    expect(refusalOf(fields)).toMatchObject({ code, param });
  });

  it('passes with every published key that changes nothing', () => {
    const harmless = {
      background: false,
      user: 'u',
      stream_options: { include_obfuscation: false },
      context_management: [],
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      safety_identifier: 's',
      service_tier: 'flex',
      include: ['reasoning.encrypted_content'],
      top_logprobs: 25,
    };
    expect(decode(harmless).echo).toMatchObject({ prompt_cache_key: 'k', service_tier: 'flex', top_logprobs: 0 });
  });
});

describe('the estimate of input tokens', () => {
  it.each([
    [{ input: 'Hello, world' }, 5],
    [{ model: 'nope', input: 'x' }, 1],
    [{}, 0],
    [{ input: [user('abc')], instructions: 'Be brief' }, 7],
    [{ input: [user([{ type: 'input_image', image_url: 'data:,' }])] }, 86],
  ])('of %j is %i', (body, tokens) => {
    expect(estimateInputTokens(jsonOf(body))).toBe(tokens);
  });
});

describe('what codex says in items', () => {
  const inner = { type: 'function', name: 'g', parameters: { type: 'object' } };
  const space = { type: 'namespace', name: 'space', description: '', tools: [inner, { type: 'custom', name: 'c' }] };
  const namesOf = (decoded: DecodedResponses) => chatOf(decoded).tools?.map((tool) => tool.function.name);

  it('brings tools, which replace those of the same name', () => {
    const newer = { type: 'function', name: 'f', description: 'newer' };
    const input = [
      { type: 'additional_tools', role: 'developer', tools: [space, newer] },
      { type: 'configuration_update', reasoning: { effort: 'low' } },
      user('hi'),
    ];
    const decoded = decode({ input, tools: [{ type: 'function', name: 'f' }] });
    expect(namesOf(decoded)).toEqual(['f', 'space__g', 'space__c']);
    expect(chatOf(decoded).tools?.[0]?.function.description).toBe('newer');
    expect(chatOf(decoded).messages).toEqual([user('hi')]);
    expect(decoded.callShapes.get('space__c')).toEqual({ kind: 'custom_tool_call', name: 'c', namespace: 'space' });
    expect(decoded.echo.tools).toEqual([
      { type: 'function', name: 'f', description: null, parameters: null, strict: true },
    ]);
  });

  it('calls tools of a namespace by the name that the model got', () => {
    const input = [
      { type: 'function_call', call_id: 'a', namespace: 'space', name: 'g', arguments: '{}' },
      { type: 'custom_tool_call', call_id: 'b', namespace: 'space', name: 'c', input: 'x' },
    ];
    expect(messagesOf(input)).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'space__g', arguments: '{}' } },
          { id: 'b', type: 'function', function: { name: 'space__c', arguments: '{"input":"x"}' } },
        ],
      },
    ]);
  });

  it('searches for tools, and finds them', () => {
    const search = { type: 'tool_search', execution: 'client', description: 'd', parameters: { type: 'object' } };
    const input = [
      user('hi'),
      { type: 'tool_search_call', call_id: 's', execution: 'client', arguments: { query: 'x' } },
      { type: 'tool_search_output', call_id: 's', tools: [space] },
    ];
    const decoded = decode({ input, tools: [search, { type: 'tool_search' }] });
    expect(namesOf(decoded)).toEqual(['tool_search', 'space__g', 'space__c']);
    expect(decoded.callShapes.get('tool_search')?.kind).toBe('tool_search_call');
    expect(decoded.dropped).toEqual(['tool_search']); // one that a server would have to carry out
    expect(chatOf(decoded).messages.slice(1)).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 's', type: 'function', function: { name: 'tool_search', arguments: '{"query":"x"}' } }],
      },
      { role: 'tool', tool_call_id: 's', content: JSON.stringify([space]) },
    ]);
  });

  it.each([
    [{ tools: [{ ...space, tools: [{ type: 'function' }] }] }, 'missing_required_parameter', 'tools[0].tools[0].name'],
    [
      { input: [{ type: 'additional_tools', tools: [{ type: 'function', name: 'a b' }] }] },
      'invalid_value',
      'input[0].tools[0].name',
    ],
    [{ input: [{ type: 'additional_tools', tools: 5 }] }, 'invalid_value', 'input[0].tools'],
    [
      { tools: [{ ...space }, { ...space, name: 'other' }], tool_choice: { type: 'function', name: 'g' } },
      'invalid_value',
      'tool_choice',
    ],
  ])('%j is refused by the field', (fields, code, param) => {
    expect(refusalOf(fields)).toMatchObject({ code, param });
  });

  it('may choose a tool of a namespace, or a namespace', () => {
    const chosen = chatOf(decode({ tools: [space], tool_choice: { type: 'function', name: 'g' } }));
    expect(chosen.toolChoice).toEqual({ name: 'space__g' });
    const allowed = { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'namespace', name: 'space' }] };
    expect(namesOf(decode({ tools: [space, { type: 'function', name: 'f' }], tool_choice: allowed }))).toEqual([
      'space__g',
      'space__c',
    ]);
  });
});
