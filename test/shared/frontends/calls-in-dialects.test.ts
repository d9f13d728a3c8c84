import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Deployment, startDeployment } from '../../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../../support/dynamo-http/records.ts';
import type { WorkerScript } from '../../support/scripted-engine.ts';

/** How models of several families write the same call behind the same words. */
const TEXTS: Readonly<Record<string, string>> = {
  hermes: 'Look: <tool_call>\n{"name": "f", "arguments": "{\\"a\\": \\"x\\"}"}\n</tool_call>',
  llama3_json: "Look: <|python_tag|>{'name': 'f', 'parameters': {'a': 'x'}}",
  mistral: 'Look: [TOOL_CALLS]f[ARGS]{"a":"x"}',
  qwen3_coder: 'Look: <tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>',
  step3:
    'Look: <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="a">x</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
  kimi_k2:
    'Look: <|tool_calls_section_begin|><|tool_call_begin|>0<|tool_call_argument_begin|>{"a":"x"}<|tool_call_end|><|tool_calls_section_end|>',
};
const FORMATS = Object.keys(TEXTS);
const PIECE_UNITS = 3;

function script(text: string): WorkerScript {
  const count = Math.ceil(text.length / PIECE_UNITS);
  const steps = Array.from({ length: count }, (_, at) => ({ t: text.slice(at * PIECE_UNITS, (at + 1) * PIECE_UNITS) }));
  return { steps, finish: 'eos' };
}

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } } };
const FUNCTION = { name: 'f', parameters: SCHEMA };
const asks = (model: string): string => `Do it. [[s:${model}]]`;
const chat = (model: string, stream: boolean): object => ({
  model,
  stream,
  messages: [{ role: 'user', content: asks(model) }],
  tools: [{ type: 'function', function: FUNCTION }],
});
const responses = (model: string, stream: boolean): object => ({
  model,
  stream,
  input: asks(model),
  tools: [{ type: 'function', ...FUNCTION }],
});
const messages = (model: string, stream: boolean): object => ({
  model,
  stream,
  max_tokens: 999,
  messages: [{ role: 'user', content: asks(model) }],
  tools: [{ name: 'f', input_schema: SCHEMA }],
});

/** Path, body, and what shows in the answer that it ended with a call, whole and streamed. */
const DIALECTS = [
  ['/v1/chat/completions', chat, '"finish_reason":"tool_calls"'],
  ['/v1/responses', responses, '"type":"function_call"'],
  ['/v1/messages', messages, '"stop_reason":"tool_use"'],
] as const;

let deployment: Deployment;
beforeAll(async () => {
  const scripts = new Map(FORMATS.map((format) => [format, script(TEXTS[format] as string)]));
  const models = FORMATS.map(
    (name) => ({ name, kind: 'chat', tool_call_parser: name, context_length: 10_000 }) as const,
  );
  deployment = await startDeployment('default', FIXTURES, scripts, models);
});
afterAll(() => deployment.close());

/** Every text under one of the names, wherever it stands in the answer, as one. */
function textsUnder(value: unknown, names: ReadonlySet<string>): string {
  if (Array.isArray(value)) return value.map((one) => textsUnder(one, names)).join('');
  if (typeof value !== 'object' || value === null) return '';
  return Object.entries(value)
    .map(([key, one]) => (names.has(key) && typeof one === 'string' ? one : textsUnder(one, names)))
    .join('');
}

const ARGUMENTS = new Set(['arguments', 'partial_json']);
const TEXT = new Set(['content', 'text']);

describe.each(FORMATS)('a call of %s', (format) => {
  it.each(DIALECTS)('is a call on %s, streamed and whole', async (path, bodyOf, ending) => {
    for (const stream of [false, true]) {
      const answer = await fetch(`http://127.0.0.1:${deployment.port}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(bodyOf(format, stream)),
      });
      const said = await answer.text();
      expect(answer.status, said).toBe(200);
      expect(said).toContain(ending);
      expect(said).toContain('"name":"f"');
      const parts: readonly unknown[] = stream
        ? [...said.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json as string))
        : [JSON.parse(said)];
      const text = textsUnder(parts, TEXT);
      expect(text).toContain('Look: ');
      expect(text).not.toMatch(/[<[{]/);
      const whole = /"input":\{"a":"x"\}/.test(said);
      if (!whole) expect(textsUnder(parts, ARGUMENTS).replaceAll(' ', '')).toContain('{"a":"x"}');
    }
  });
});
