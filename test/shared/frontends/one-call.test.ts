import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Deployment, startDeployment } from '../../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../../support/dynamo-http/records.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import type { WorkerScript } from '../../support/scripted-engine.ts';

const CALLS = ['a', 'b', 'c'].map((name) => `<tool_call>\n{"name": "${name}", "arguments": {"x": 1}}\n</tool_call>`);
const chunk = (delta: object, finish_reason: string | null = null) => ({
  body: { id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] },
  ...(finish_reason === null ? {} : { finish_reason }),
});
const head = (name: string, index: number) => ({
  index,
  id: `call_${name}`,
  type: 'function',
  function: { name, arguments: '' },
});
const more = (index: number) => ({ tool_calls: [{ index, function: { arguments: '{"x":1}' } }] });

const SCRIPTS = new Map<string, WorkerScript>([
  ['three', { steps: CALLS.map((t) => ({ t })), finish: 'eos' }],
  [
    'chunks',
    {
      steps: [
        chunk({ role: 'assistant', content: null, tool_calls: [head('a', 0)] }),
        chunk(more(0)),
        chunk({ tool_calls: [head('b', 1), head('c', 2)] }),
        chunk(more(1)),
        chunk(more(2)),
        chunk({}, 'tool_calls'),
      ],
      finish: null,
    },
  ],
  [
    'object',
    {
      steps: [
        {
          body: {
            id: 'x',
            object: 'chat.completion',
            choices: [
              {
                index: 0,
                message: {
                  role: 'assistant',
                  content: null,
                  tool_calls: ['a', 'b', 'c'].map((name) => ({
                    id: `call_${name}`,
                    type: 'function',
                    function: { name, arguments: '{"x":1}' },
                  })),
                },
                finish_reason: 'tool_calls',
              },
            ],
          },
          finish_reason: 'stop',
        },
      ],
      finish: null,
    },
  ],
]);
const PARAMETERS = { type: 'object', properties: { x: { type: 'integer' } } };

let deployment: Deployment;
beforeAll(async () => {
  deployment = await startDeployment('default', FIXTURES, SCRIPTS);
});
afterAll(() => deployment.close());

async function ask(path: string, body: object): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${deployment.port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return text;
}

type Ask = (model: string, script: string, stream: boolean, isParallel: boolean) => Promise<string>;

const DIALECTS: Readonly<Record<string, Ask>> = {
  chat: (model, script, stream, isParallel) =>
    ask('/v1/chat/completions', {
      model,
      stream,
      messages: [{ role: 'user', content: `[[s:${script}]]` }],
      tools: ['a', 'b', 'c'].map((name) => ({ type: 'function', function: { name, parameters: PARAMETERS } })),
      parallel_tool_calls: isParallel,
    }),
  responses: (model, script, stream, isParallel) =>
    ask('/v1/responses', {
      model,
      stream,
      input: `[[s:${script}]]`,
      tools: ['a', 'b', 'c'].map((name) => ({ type: 'function', name, parameters: PARAMETERS })),
      parallel_tool_calls: isParallel,
    }),
  messages: (model, script, stream, isParallel) =>
    ask('/v1/messages', {
      model,
      stream,
      max_tokens: 1000,
      messages: [{ role: 'user', content: `[[s:${script}]]` }],
      tools: ['a', 'b', 'c'].map((name) => ({ name, input_schema: PARAMETERS })),
      tool_choice: { type: 'auto', disable_parallel_tool_use: !isParallel },
    }),
};

/** Names of the tools that an answer of any dialect calls, streamed or not. */
function calledIn(text: string): string {
  const isStream = !text.startsWith('{');
  const parts = isStream ? parseFrames(text).map(({ data }) => data) : [JSON.parse(text)];
  const names: string[] = [];
  const look = (value: unknown, key?: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const { type, name } = value as { readonly type?: unknown; readonly name?: unknown };
    const calls = key === 'function' || type === 'tool_use' || type === 'function_call';
    if (calls && typeof name === 'string') names.push(name);
    for (const [inner, part] of Object.entries(value)) if (inner !== 'tools' && inner !== 'response') look(part, inner);
  };
  for (const part of parts) {
    if ((part as { type?: string })?.type === 'response.output_item.done') continue; // said when it was added
    look(part);
  }
  return names.join('');
}

describe.each([
  ['a model whose text is parsed', 't.hermes', 'three', 'three'],
  ['a worker that makes the calls itself', 'org/textin', 'object', 'chunks'],
])('one call at a time, from %s', (_what, model, unary, streamed) => {
  it.each(
    Object.keys(DIALECTS).flatMap((name) => [[name, 'unary', false] as const, [name, 'streamed', true] as const]),
  )('%s, %s: the first call alone, and all of them unless it was asked for', async (name, _how, stream) => {
    const script = stream ? streamed : unary;
    const all = await DIALECTS[name]!(model, script, stream, true);
    expect(calledIn(all)).toBe('abc');
    expect(all).not.toContain('error":{');
    expect(calledIn(await DIALECTS[name]!(model, script, stream, false))).toBe('a');
  });
});
