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

function script(text: string, finish = 'eos'): WorkerScript {
  const count = Math.ceil(text.length / PIECE_UNITS);
  const steps = Array.from({ length: count }, (_, at) => ({ t: text.slice(at * PIECE_UNITS, (at + 1) * PIECE_UNITS) }));
  return { steps, finish };
}

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } } };
const FUNCTION = { name: 'f', parameters: SCHEMA };
type BodyOf = (asked: string) => object;
const chat: BodyOf = (asked) => ({
  messages: [{ role: 'user', content: asked }],
  tools: [{ type: 'function', function: FUNCTION }],
});
const responses: BodyOf = (asked) => ({ input: asked, tools: [{ type: 'function', ...FUNCTION }] });
const messages: BodyOf = (asked) => ({
  max_tokens: 999,
  messages: [{ role: 'user', content: asked }],
  tools: [{ name: 'f', input_schema: SCHEMA }],
});

/** Path, body, and what shows in the answer that it ended with a call, and that it ran out of tokens. */
const DIALECTS = [
  ['/v1/chat/completions', chat, '"finish_reason":"tool_calls"', '"finish_reason":"length"'],
  ['/v1/responses', responses, '"type":"function_call"', '"incomplete_details":{"reason":"max_output_tokens"}'],
  ['/v1/messages', messages, '"stop_reason":"tool_use"', '"stop_reason":"max_tokens"'],
] as const;

/** Path, body, name of the stop strings, and what shows that one of them ended the text. Responses have none. */
const STOPPED = [
  ['/v1/chat/completions', chat, 'stop', '"finish_reason":"stop"'],
  ['/v1/messages', messages, 'stop_sequences', '"stop_reason":"stop_sequence"'],
] as const;

/** Inside of the first marker. */
const STOP_STRINGS: Readonly<Record<string, string>> = {
  hermes: 'ool_c',
  llama3_json: 'python_t',
  mistral: 'OOL_C',
  qwen3_coder: 'ool_c',
  step3: 'calls_b',
  kimi_k2: 'section_b',
};

/** Formats whose arguments come as they are written. The texts of the others are calls once they are whole. */
const SHOWN_AT_ONCE = new Set(['llama3_json', 'mistral', 'qwen3_coder']);

/** What the model wrote when its tokens ran out, inside of the argument. */
const cutText = (format: string): string => {
  const text = TEXTS[format] as string;
  return text.slice(0, text.lastIndexOf('x') + 1);
};
const cutName = (format: string): string => `${format} cut`;

let deployment: Deployment;
beforeAll(async () => {
  const whole = FORMATS.map((format) => [format, script(TEXTS[format] as string)] as const);
  const cut = FORMATS.map((format) => [cutName(format), script(cutText(format), 'length')] as const);
  const models = FORMATS.map(
    (name) => ({ name, kind: 'chat', tool_call_parser: name, context_length: 10_000 }) as const,
  );
  deployment = await startDeployment('default', FIXTURES, new Map([...whole, ...cut]), models);
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

/** The last is what a message has whose arguments are no JSON. */
const ARGUMENTS = new Set(['arguments', 'partial_json', 'INVALID_JSON']);
const TEXT = new Set(['content', 'text']);

interface Answer {
  readonly said: string;
  readonly text: string;
  /** Without spaces. */
  readonly args: string;
}

async function ask(path: string, body: object): Promise<Answer> {
  const answer = await fetch(`http://127.0.0.1:${deployment.port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const said = await answer.text();
  expect(answer.status, said).toBe(200);
  const events: readonly unknown[] = [...said.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!));
  const parts = events.length === 0 ? JSON.parse(said) : path === '/v1/responses' ? events.at(-1) : events; // the last has all
  return { said, text: textsUnder(parts, TEXT), args: textsUnder(parts, ARGUMENTS).replaceAll(' ', '') };
}

const asks = (name: string): string => `Do it. [[s:${name}]]`;

describe.each(FORMATS)('a call of %s', (format) => {
  it.each(DIALECTS)('is a call on %s, streamed and whole', async (path, bodyOf, ending) => {
    for (const stream of [false, true]) {
      const { said, text, args } = await ask(path, { model: format, stream, ...bodyOf(asks(format)) });
      expect(said).toContain(ending);
      expect(said).toContain('"name":"f"');
      expect(text).toBe('Look: ');
      if (!/"input":\{"a":"x"\}/.test(said)) expect(args).toBe('{"a":"x"}');
    }
  });

  it.each(DIALECTS)('that runs out of tokens says so on %s, streamed and whole', async (path, bodyOf, _ending, cut) => {
    for (const stream of [false, true]) {
      const { said, text, args } = await ask(path, { model: format, stream, ...bodyOf(asks(cutName(format))) });
      expect(said).toContain(cut);
      if (SHOWN_AT_ONCE.has(format)) expect([text, args]).toEqual(['Look: ', '{"a":"x']);
      else expect([text, args]).toEqual([cutText(format), '']);
    }
  });

  it.each(STOPPED)('that a stop string ends in its first marker is text on %s', async (path, bodyOf, name, ending) => {
    const stop = STOP_STRINGS[format] as string;
    for (const stream of [false, true]) {
      const body = { model: format, stream, [name]: [stop], ...bodyOf(asks(format)) };
      const { said, text, args } = await ask(path, body);
      expect(said).toContain(ending);
      expect([text, args]).toEqual([(TEXTS[format] as string).split(stop)[0], '']);
    }
  });
});

it.each(STOPPED)('a call that a stop string ends behind its arguments is one on %s', async (path, bodyOf, name) => {
  for (const stream of [false, true]) {
    const body = { model: 'hermes', stream, [name]: ['</tool'], ...bodyOf(asks('hermes')) };
    const { said, text, args } = await ask(path, body);
    expect(said).toMatch(/"finish_reason":"tool_calls"|"stop_reason":"tool_use"/);
    expect(text).toBe('Look: ');
    if (!/"input":\{"a":"x"\}/.test(said)) expect(args).toBe('{"a":"x"}');
  }
});
