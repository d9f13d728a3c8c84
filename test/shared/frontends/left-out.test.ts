import { describe, expect, it } from 'vitest';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

async function send(path: string, body: object) {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['fine']));
  const { app } = createTestApp({ pipeline, settings: { anthropic: { isEnabled: true, stripsPreamble: false } } });
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'm', ...body }),
    }),
  );
  const prompt = pipeline.calls[0]?.request.prompt;
  return {
    status: response.status,
    text: await response.text(),
    warning: response.headers.get('warning'),
    retry: response.headers.get('x-should-retry'),
    prompt: JSON.stringify(prompt),
    tools: prompt?.kind === 'chat' ? prompt.tools?.map((tool) => tool.function) : undefined,
  };
}

const SAID = [{ role: 'user', content: 'hi' }];

/** What each route needs, and a function as it takes one. */
const ROUTES: Readonly<Record<string, { readonly body: object; readonly tool: object }>> = {
  '/v1/chat/completions': { body: { messages: SAID }, tool: { type: 'function', function: { name: 'look' } } },
  '/v1/responses': { body: { input: SAID }, tool: { type: 'function', name: 'look' } },
  '/v1/messages': {
    body: { messages: SAID, max_tokens: 9 },
    tool: { name: 'look', input_schema: { type: 'object' } },
  },
};
/** Routes that count what the others would be asked. */
const COUNTS: typeof ROUTES = {
  '/v1/messages/count_tokens': { body: { messages: SAID }, tool: { name: 'look', input_schema: { type: 'object' } } },
  '/tokenize': { body: { messages: SAID }, tool: { type: 'function', function: { name: 'look' } } },
};

const HOSTED = [
  'file_search',
  'computer',
  'computer_use_preview',
  'web_search',
  'web_search_2025_08_26',
  'web_search_preview',
  'web_search_preview_2025_03_11',
  'mcp',
  'code_interpreter',
  'programmatic_tool_calling',
  'image_generation',
  'local_shell',
  'shell',
  'tool_search',
  'apply_patch',
  'web_search_20250305',
  'web_search_20260318',
  'web_fetch_20250910',
  'code_execution_20250522',
  'code_execution_20260521',
  'advisor_20260301',
  'browser_toolset_20260801',
  'computer_toolset_20260801',
  'mcp_toolset',
  'tool_search_tool_bm25',
  'tool_search_tool_regex_20251119',
  'x_search',
  'browser_search',
  'builtin_function',
  'retrieval',
  'url_context',
  'google_maps',
];

describe.each(Object.entries({ ...ROUTES, ...COUNTS }))('a hosted tool at %s', (path, { body, tool }) => {
  it.each(HOSTED)('is left out and named in the header: %s', async (type) => {
    for (const tools of [[{ type }], [tool, { type, name: 'look_too' }]]) {
      for (const stream of path in COUNTS ? [undefined] : [false, true]) {
        const { status, warning, tools: shown } = await send(path, { ...body, tools, stream });
        expect([status, warning]).toEqual([200, `299 - "hosted tools are not supported and were dropped: ${type}"`]);
        if (!(path in COUNTS))
          expect(shown?.map(({ name }) => name)).toEqual(tools.length === 1 ? undefined : ['look']);
      }
    }
  });

  it('is named with the others, as many as there are', async () => {
    const { warning } = await send(path, { ...body, tools: HOSTED.map((type) => ({ type })) });
    expect(warning).toContain(`${HOSTED.slice(0, 8).join(', ')}, ...`);
  });
});

const UNKNOWN = ['frobnicate', 'Function', 'shellfish', 'mcpx', 'web_searching', 'a 20250101', '', 'x'.repeat(5000)];

describe.each(Object.entries({ ...ROUTES, ...COUNTS }))('a tool of an unknown type, at %s', (path, { body, tool }) => {
  it.each(UNKNOWN)('is refused by its field, with what is allowed: %.20s', async (type) => {
    for (const stream of path in COUNTS ? [undefined] : [false, true]) {
      const { status, text, warning } = await send(path, { ...body, tools: [tool, { ...tool, type }], stream });
      expect([status, warning]).toEqual([400, null]);
      const { error } = JSON.parse(text) as { readonly error: { readonly message: string } };
      expect(error.message).toContain(`tools[1].type: "${type.slice(0, 100)}" is not a type of tool; allowed are `);
      expect(error.message.length).toBeLessThan(300);
    }
  });
});

describe('an unknown type in Responses', () => {
  it('is refused within a namespace, too', async () => {
    const space = { type: 'namespace', name: 'n', tools: [{ type: 'frobnicate' }] };
    const { status, text } = await send('/v1/responses', { input: SAID, tools: [space] });
    expect(JSON.parse(text)).toMatchObject({ error: { param: 'tools[0].tools[0].type', code: 'invalid_value' } });
    expect(status).toBe(400);
  });

  it.each(['additional_tools', 'tool_search_output'])(
    'is left out and named if another server wrote it into the conversation: %s',
    async (type) => {
      const item = { type, call_id: 'c', role: 'developer', tools: [{ type: 'frobnicate' }] };
      const { status, warning } = await send('/v1/responses', { input: [...SAID, item, ...SAID] });
      expect([status, warning]).toEqual([200, expect.stringContaining('frobnicate')]);
    },
  );
});

/** Every kind of item that OpenAI's API takes and that only a server, or the client of a hosted tool, can have written. */
const ITEMS: readonly object[] = [
  { type: 'web_search_call', id: 'ws', status: 'completed', action: { type: 'search', query: 'q' } },
  { type: 'file_search_call', id: 'fs', status: 'completed', queries: ['q'] },
  { type: 'computer_call', id: 'cc', call_id: 'cc', action: { type: 'screenshot' }, status: 'completed' },
  { type: 'computer_call_output', call_id: 'cc', output: { type: 'computer_screenshot', file_id: 'f' } },
  { type: 'image_generation_call', id: 'ig', status: 'completed', result: null },
  { type: 'code_interpreter_call', id: 'ci', status: 'completed', code: '1', container_id: 'c', outputs: null },
  { type: 'local_shell_call', id: 'ls', call_id: 'ls', action: { type: 'exec', command: [] }, status: 'completed' },
  { type: 'local_shell_call_output', id: 'ls', output: '{}' },
  { type: 'shell_call', call_id: 'sc', action: { commands: [] } },
  { type: 'shell_call_output', call_id: 'sc', output: [] },
  { type: 'apply_patch_call', call_id: 'ap', operation: { type: 'delete_file', path: 'a' }, status: 'completed' },
  { type: 'apply_patch_call_output', call_id: 'ap', status: 'completed' },
  { type: 'mcp_list_tools', id: 'ml', server_label: 's', tools: [] },
  { type: 'mcp_approval_request', id: 'ma', server_label: 's', name: 'f', arguments: '{}' },
  { type: 'mcp_approval_response', approval_request_id: 'ma', approve: true },
  { type: 'mcp_call', id: 'mc', server_label: 's', name: 'f', arguments: '{}' },
  { type: 'tool_search_call', call_id: 'ts', arguments: {} },
  { type: 'tool_search_output', call_id: 'ts', tools: [] },
  { type: 'program', id: 'p', call_id: 'p', code: '1', fingerprint: 'x' },
  { type: 'program_output', id: 'p', call_id: 'p', result: '1', status: 'completed' },
  { type: 'compaction', encrypted_content: 'of another server' },
  { type: 'compaction_summary', encrypted_content: 'of another server' },
  { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'x' },
  { type: 'custom_tool_call', call_id: 'ct', name: 'f', input: 'a' },
  { type: 'custom_tool_call_output', call_id: 'ct', output: 'b' },
  { type: 'function_call', call_id: 'fc', name: 'f', arguments: '{"a' },
  { type: 'function_call_output', call_id: 'fc', output: [{ type: 'input_image', file_id: 'f' }] },
];

describe('an item of another server in the input of Responses', () => {
  it.each(ITEMS)('is never refused, wherever it stands: $type', async (item) => {
    for (const input of [
      [...SAID, item],
      [...SAID, item, ...SAID],
      [item, ...SAID],
    ]) {
      for (const stream of [false, true]) {
        const { status, text } = await send('/v1/responses', { input, stream });
        expect([status, text]).toEqual([200, expect.stringContaining('fine')]);
      }
    }
  });

  it.each(['compaction', 'compaction_summary', 'mcp_list_tools', 'mcp_approval_request'])(
    'is named in the header if the prompt leaves it out: %s',
    async (type) => {
      const item = ITEMS.find((each) => (each as { readonly type: string }).type === type);
      const { warning } = await send('/v1/responses', { input: [...SAID, item, ...SAID] });
      expect(warning).toBe(`299 - "parts of the history were left out: ${type}"`);
    },
  );

  it('is a call and its result if it is a program', async () => {
    const program = ITEMS.filter((item) => (item as { readonly type: string }).type.startsWith('program'));
    const { prompt } = await send('/v1/responses', { input: [...SAID, ...program, ...SAID] });
    expect(prompt).toContain('"name":"program","arguments":"{\\"code\\":\\"1\\"}"');
    expect(prompt).toContain('"role":"tool","content":"1"');
  });

  it('is refused if it is new and of no kind that anybody writes', async () => {
    const { status, text } = await send('/v1/responses', { input: [...SAID, { type: 'mesage', content: 'a' }] });
    expect([status, text]).toEqual([400, expect.stringContaining('input[1].type: unknown item type `mesage`')]);
  });
});

describe('what Responses cannot do', () => {
  it.each([
    ['background', true],
    ['prompt', { id: 'pmpt_1' }],
    ['conversation', 'conv_1'],
  ])('is 400, which no client sends again: %s', async (field, value) => {
    for (const stream of [false, true]) {
      const { status, text } = await send('/v1/responses', { input: 'hi', stream, [field]: value });
      expect([status, JSON.parse(text).error?.param ?? text]).toEqual([400, field]);
    }
  });

  it('is taken where it asks for what is done anyway', async () => {
    const { status } = await send('/v1/responses', { input: 'hi', background: false, max_tool_calls: 3 });
    expect(status).toBe(200);
  });
});

describe("a tool that runs at Anthropic's client", () => {
  it.each([
    ['bash_20241022', 'bash', ['command', 'restart']],
    ['bash_20250124', 'bash', ['command', 'restart']],
    ['text_editor_20250124', 'str_replace_editor', ['command', 'path', 'insert_line']],
    ['text_editor_20250728', 'str_replace_based_edit_tool', ['command', 'path', 'insert_text']],
    ['computer_20241022', 'computer', ['action', 'coordinate', 'text']],
    ['computer_20250124', 'computer', ['action', 'scroll_amount', 'duration']],
    ['computer_20251124', 'computer', ['action', 'region']],
    ['memory_20250818', 'memory', ['command', 'path', 'old_path']],
  ])('is a function with its schema: %s', async (type, name, properties) => {
    const tool = { type, name, display_width_px: 800, display_height_px: 600, enable_zoom: true };
    for (const path of ['/v1/messages', '/v1/messages/count_tokens']) {
      for (const stream of path === '/v1/messages' ? [false, true] : [undefined]) {
        const { status, warning, tools } = await send(path, { messages: SAID, max_tokens: 9, tools: [tool], stream });
        expect([status, warning]).toEqual([200, null]);
        if (stream === undefined) continue;
        expect(tools?.[0]?.name).toBe(name);
        const { properties: given = {} } = (tools?.[0]?.parameters ?? {}) as { properties?: object };
        expect(Object.keys(given)).toEqual(expect.arrayContaining(properties));
      }
    }
  });
});
