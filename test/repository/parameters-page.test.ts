import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MESSAGES_KEYS, RESPONSES_KEYS } from '../../shared/protocol/index.ts';
import { CHAT_KEYS, COMPLETIONS_KEYS } from '../../shared/protocol/openai/root-keys.ts';
import { createTestApp } from '../support/http-app.ts';
import { BESIDE, VALUES } from '../support/parameter-values.ts';
import { ScriptedPipeline, servedModel } from '../support/scripted-pipeline.ts';
import { readAnthropicKeys, readSdkKeys } from '../support/sdk-keys.ts';

/* docs/parameters.md says of every request parameter what becomes of it: each row is played here. */

const PAGE = readFileSync(new URL('../../docs/parameters.md', import.meta.url), 'utf8');
const VLLM = JSON.parse(
  readFileSync(new URL('../fixtures/vllm/request-keys.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, readonly string[]>>;
const OPENAI: Readonly<Record<string, readonly string[]>> = readSdkKeys().keys;
const SAID = [{ role: 'user', content: 'hi' }];

/** The shortest good body of each route, and the parameters that it knows. */
const ROUTES: Readonly<Record<string, { readonly body: object; readonly known: ReadonlySet<string> }>> = {
  '/v1/chat/completions': { body: { model: 'm', messages: SAID }, known: CHAT_KEYS },
  '/v1/completions': { body: { model: 'm', prompt: 'hi' }, known: COMPLETIONS_KEYS },
  '/v1/responses': { body: { model: 'm', input: 'hi' }, known: RESPONSES_KEYS },
  '/v1/messages': { body: { model: 'm', messages: SAID, max_tokens: 9 }, known: MESSAGES_KEYS },
};

/** What a page may say of a parameter. */
const OUTCOMES = ['Used', 'Ignored', '400'] as const;

interface Row {
  readonly name: string;
  readonly from: string;
  readonly outcome: string;
}

/** The rows of a route's table. */
function rowsOf(route: string): readonly Row[] {
  const [, section = ''] = PAGE.split(`\n## \`POST ${route}\`\n`);
  const [table = ''] = section.split('\n## ');
  return Array.from(
    table.matchAll(/^\| `([^`]+)` +\| ([^|]*?) +\| (\w+)[^|]*\|$/gm),
    ([, name = '', from = '', outcome = '']) => ({
      name,
      from,
      outcome,
    }),
  );
}

/** What becomes of a body: what is asked of a worker, and what the client is told, without what differs each time. */
async function play(route: string, body: object) {
  const card = { ...servedModel('m').card, runtime_config: { reasoning_parser: 'qwen3' } };
  const pipeline = new ScriptedPipeline([servedModel('m', { card })]).onGenerate(({ sink }) => {
    sink.reasoning(0, 'so');
    sink.text(0, 'fine', 1);
    sink.finish({ choice: 0, text: '', tokenIds: [5], reason: 'stop' });
    sink.end({ promptTokens: 3, completionTokens: 2 }, true);
  });
  const { app } = createTestApp({ pipeline, settings: { anthropic: { isEnabled: true, stripsPreamble: false } } });
  const response = await app.fetch(
    new Request(`http://localhost${route}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify(body),
    }),
  );
  const text = await response.text();
  const requests = pipeline.calls.map(({ request: { body: _body, trace: _trace, ...request } }) => request);
  const told = `${JSON.stringify(requests)} ${text}`.replaceAll(
    /[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}[0-9a-f]*|\b1[0-9]{9}(?:\.\d+)?\b/g,
    '#',
  );
  return {
    status: response.status,
    told,
    requests: JSON.stringify(requests).replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '#'),
  };
}

/** What becomes of a parameter. A Responses object says most of them again, which alone is no use. */
async function outcomeOf(route: string, name: string): Promise<string> {
  const { body } = ROUTES[route]!;
  const place = `${route} ${name}`;
  const value = VALUES[place] ?? (body as Readonly<Record<string, unknown>>)[name] ?? VALUES[name];
  if (value === undefined) return `no value for ${name}`;
  if (Object.hasOwn(body, name)) return 'Used';
  const beside = { ...body, ...BESIDE[place] };
  const [without, given] = [await play(route, beside), await play(route, { ...beside, [name]: value })];
  if (given.status === 404) return 'Used'; // looked for, and not there
  if (given.status !== 200) return String(given.status);
  const isEchoed = route === '/v1/responses' && name !== 'store' && name !== 'stream';
  const isSame = isEchoed ? given.requests === without.requests : given.told === without.told;
  return isSame ? 'Ignored' : 'Used';
}

describe.each(Object.entries(ROUTES))('the page of parameters, of POST %s', (route, { known }) => {
  const rows = rowsOf(route);
  const apis: Readonly<Record<string, readonly string[]>> = {
    OpenAI: OPENAI[route] ?? [],
    vLLM: VLLM[route] ?? [],
    Anthropic: route === '/v1/messages' ? readAnthropicKeys() : [],
  };

  it('has a row for every parameter that is published or known here, and says whose it is', () => {
    const names = [...new Set([...known, ...Object.values(apis).flat()])].sort();
    expect(rows.map(({ name }) => name)).toEqual(names);
    const from = (name: string) =>
      Object.entries(apis)
        .filter(([, keys]) => keys.includes(name))
        .map(([api]) => api)
        .join(', ');
    expect(rows.map(({ name, from }) => [name, from])).toEqual(names.map((name) => [name, from(name) || 'Stator']));
  });

  it.each(rows)('says what becomes of $name', async ({ name, outcome }) => {
    expect(OUTCOMES).toContain(outcome);
    expect(await outcomeOf(route, name)).toBe(outcome);
  });
});
