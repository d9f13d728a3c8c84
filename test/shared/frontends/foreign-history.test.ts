import { describe, expect, it } from 'vitest';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

const PNG = 'iVBORw0KGgo=';
const USER = { role: 'user', content: 'go on' };

/** Sends a body to a frontend whose model is `card`, and tells the answer and what its worker was asked. */
async function ask(path: string, body: object, card: object = {}) {
  const known = servedModel('m');
  const model = servedModel('m', { card: { ...known.card, ...card } });
  const pipeline = new ScriptedPipeline([model]).onGenerate(({ sink }) => playTexts(sink, ['fine']));
  const { app } = createTestApp({ pipeline, settings: { anthropic: { isEnabled: true, stripsPreamble: false } } });
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'm', ...body }),
    }),
  );
  const text = await response.text();
  return {
    status: response.status,
    text,
    warning: response.headers.get('warning'),
    request: pipeline.calls[0]?.request,
  };
}

/** One conversation in which a tool shows a picture, by the route that it is sent to. */
const SHOWN: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    messages: [
      { role: 'user', content: 'look' },
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
      {
        role: 'tool',
        tool_call_id: 'c',
        content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }],
      },
      USER,
    ],
  },
  '/v1/responses': {
    input: [
      { role: 'user', content: 'look' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      {
        type: 'function_call_output',
        call_id: 'c',
        output: [{ type: 'input_image', image_url: `data:image/png;base64,${PNG}` }],
      },
      USER,
    ],
  },
  '/v1/messages': {
    max_tokens: 9,
    messages: [
      { role: 'user', content: 'look' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }],
          },
        ],
      },
    ],
  },
};

describe('a picture that a tool returned', () => {
  it.each(Object.entries(SHOWN))(
    'becomes text for a model that does not take pictures, and a header says so to the client: %s',
    async (path, body) => {
      for (const stream of [false, true]) {
        const { status, text, warning, request } = await ask(path, { ...body, stream });
        expect([status, text]).toEqual([200, expect.stringContaining('fine')]);
        expect(warning).toContain('parts of the history were left out: image_url');
        const prompt = JSON.stringify(request?.prompt);
        expect(prompt).toContain('[a picture was left out: this model takes text only]');
        expect(prompt).not.toContain(PNG);
      }
    },
  );

  it('is shown to a model that the user has shown a picture, too', async () => {
    const picture = { type: 'image_url', image_url: { url: 'https://a.example/b.png' } };
    const [first, ...others] = (SHOWN['/v1/chat/completions'] as { readonly messages: readonly object[] }).messages;
    const messages = [{ ...first, content: [picture] }, ...others];
    const { status, warning, request } = await ask('/v1/chat/completions', { messages });
    expect([status, warning]).toEqual([200, null]);
    expect(JSON.stringify(request?.prompt)).toContain(PNG);
  });

  it.each(Object.entries(SHOWN))('is shown where workers read chats: %s', async (path, body) => {
    const { runtime_config: runtime } = servedModel('m').card;
    const sees = ['media_chats', 'route_to_encoder'].map((fact) => ({ runtime_config: { ...runtime, [fact]: true } }));
    for (const card of [{ model_input: 'Text' }, ...sees]) {
      const { status, warning, request } = await ask(path, body, card);
      expect([status, warning]).toEqual([200, null]);
      expect(JSON.stringify(request?.prompt)).toContain(PNG);
    }
  });
});

const ITEMS: readonly object[] = [
  { type: 'web_search_call', id: 'ws', status: 'completed', action: { type: 'search', query: 'q' } },
  { type: 'file_search_call', id: 'fs', status: 'completed', queries: ['q'], results: null },
  {
    type: 'computer_call',
    id: 'cc',
    call_id: 'cc',
    status: 'completed',
    action: { type: 'screenshot' },
    pending_safety_checks: [],
  },
  { type: 'image_generation_call', id: 'ig', status: 'completed', result: PNG },
  { type: 'code_interpreter_call', id: 'ci', status: 'completed', code: '1', container_id: 'x', outputs: null },
  { type: 'mcp_list_tools', id: 'ml', server_label: 's', tools: [] },
  { type: 'mcp_call', id: 'mc', server_label: 's', name: 'f', arguments: '{}', output: 'o' },
  { type: 'mcp_approval_request', id: 'ma', server_label: 's', name: 'f', arguments: '{}' },
  { type: 'mcp_approval_response', approval_request_id: 'ma', approve: true },
  {
    type: 'local_shell_call',
    id: 'ls',
    call_id: 'ls',
    status: 'completed',
    action: { type: 'exec', command: ['ls'], env: {} },
  },
  { type: 'local_shell_call_output', id: 'ls', output: '{}' },
  { type: 'shell_call', id: 'sc', call_id: 'sc', status: 'completed', action: { commands: ['ls'] } },
  {
    type: 'shell_call_output',
    call_id: 'sc',
    output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
  },
  {
    type: 'apply_patch_call',
    id: 'ap',
    call_id: 'ap',
    status: 'completed',
    operation: { type: 'delete_file', path: 'a' },
  },
  { type: 'apply_patch_call_output', call_id: 'ap', status: 'completed', output: 'done' },
  { type: 'custom_tool_call', call_id: 'ct', name: 'f', input: 'a' },
  { type: 'custom_tool_call_output', call_id: 'ct', output: 'b' },
  { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'gAAAA' },
];

describe('an item that another server wrote into a history of Responses', () => {
  it.each(ITEMS)('is taken: $type', async (item) => {
    const { status, text } = await ask('/v1/responses', { input: [{ role: 'user', content: 'hi' }, item, USER] });
    expect([status, text]).toEqual([200, expect.stringContaining('fine')]);
  });
});

const BLOCKS: readonly object[] = [
  { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } },
  {
    type: 'web_search_tool_result',
    tool_use_id: 's',
    content: [{ type: 'web_search_result', url: 'http://a', title: 'A', encrypted_content: 'x' }],
  },
  { type: 'web_fetch_tool_result', tool_use_id: 's', content: { type: 'web_fetch_result', url: 'http://a' } },
  { type: 'code_execution_tool_result', tool_use_id: 's', content: { type: 'code_execution_result', stdout: 'a' } },
  { type: 'bash_code_execution_tool_result', tool_use_id: 's', content: { stdout: 'a' } },
  { type: 'text_editor_code_execution_tool_result', tool_use_id: 's', content: {} },
  { type: 'tool_search_tool_result', tool_use_id: 's', content: { tool_references: [] } },
  { type: 'mcp_tool_use', id: 's', name: 'f', server_name: 'a', input: {} },
  { type: 'mcp_tool_result', tool_use_id: 's', is_error: false, content: [{ type: 'text', text: 'a' }] },
  { type: 'redacted_thinking', data: 'x' },
  { type: 'thinking', thinking: 'a', signature: 'x' },
  { type: 'container_upload', file_id: 'f' },
];

describe('a block that another server wrote into a history of Messages', () => {
  it.each(BLOCKS)('is taken: $type', async (block) => {
    const content = [block, { type: 'text', text: 'so' }];
    const messages = [{ role: 'user', content: 'hi' }, { role: 'assistant', content }, USER];
    const { status, text } = await ask('/v1/messages', { max_tokens: 9, messages });
    expect([status, text]).toEqual([200, expect.stringContaining('fine')]);
  });

  it.each([
    { type: 'tool_reference', tool_name: 'get_weather' },
    { type: 'search_result', title: 'get_weather', source: 'a', content: [{ type: 'text', text: 'b' }] },
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'get_weather' } },
    { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'get_weather' }] } },
  ])('becomes text in the result of a tool: $type', async (part) => {
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: [part] }] },
    ];
    const { status, request } = await ask('/v1/messages', { max_tokens: 9, messages });
    expect(status).toBe(200);
    expect(JSON.stringify(request?.prompt)).toContain('get_weather');
  });
});

const SAID: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { messages: [USER] },
  '/v1/completions': { prompt: 'a' },
};

describe.each(Object.entries(SAID))('structured_outputs of %s', (path, said) => {
  it.each([
    [{ json: { type: 'object' } }, { json: { type: 'object' } }],
    [{ regex: 'a+', choice: null }, { regex: 'a+' }],
    [{ choice: ['a', 'b'] }, { choice: ['a', 'b'] }],
    [{ grammar: 'root ::= "a"' }, { grammar: 'root ::= "a"' }],
    [
      { json_object: true, whitespace_pattern: ' ?' },
      { json: { type: 'object' }, whitespace_pattern: ' ?' },
    ],
    [{ structural_tag: '{}' }, { structural_tag: '{}' }],
  ])('constrains the answer: %j', async (given, guided) => {
    const { status, request } = await ask(path, { ...said, structured_outputs: given });
    expect([status, request?.sampling.guided_decoding]).toEqual([200, guided]);
  });

  it.each([
    [{}, {}],
    [{ regex: 'a', choice: ['a'] }, {}],
    [{ json: {}, json_object: true }, {}],
    [{ regex: 'a' }, { guided_choice: ['a'] }],
  ])('is refused unless it sets one constraint: %j %j', async (given, more) => {
    const { status, text } = await ask(path, { ...said, ...more, structured_outputs: given });
    expect([status, text]).toEqual([400, expect.stringContaining('structured_outputs takes exactly one of')]);
  });
});
