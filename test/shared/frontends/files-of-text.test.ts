import { describe, expect, it } from 'vitest';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const TEXT = 'Alpha, Bérénice and Γ.';
const BASE64 = Buffer.from(TEXT).toString('base64');
const PDF = Buffer.from('%PDF-1.7 ...').toString('base64');

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
  return {
    status: response.status,
    text: await response.text(),
    prompt: JSON.stringify(pipeline.calls[0]?.request.prompt),
  };
}

/** A conversation whose last turn has one part, by the route that takes it. */
const ROUTES: Readonly<Record<string, (part: object) => object>> = {
  '/v1/chat/completions': (part) => ({ messages: [{ role: 'user', content: [part] }] }),
  '/v1/responses': (part) => ({ input: [{ role: 'user', content: [part] }] }),
  '/v1/messages': (part) => ({ max_tokens: 9, messages: [{ role: 'user', content: [part] }] }),
};

const file = (fields: object) => ({ type: 'file', file: fields });
const input = (fields: object) => ({ type: 'input_file', ...fields });
const document = (source: object, more: object = {}) => ({ type: 'document', source, ...more });

const READ: readonly (readonly [path: string, part: object])[] = [
  ['/v1/chat/completions', file({ file_data: `data:text/plain;base64,${BASE64}`, filename: 'a.txt' })],
  ['/v1/chat/completions', file({ file_data: BASE64 })],
  ['/v1/chat/completions', file({ file_data: `data:application/json;charset=utf-8;base64,${BASE64}` })],
  ['/v1/chat/completions', file({ file_data: `data:text/plain,${encodeURIComponent(TEXT)}` })],
  ['/v1/responses', input({ file_data: `data:text/markdown;base64,${BASE64}`, filename: 'notes.txt' })],
  ['/v1/responses', input({ file_data: BASE64, filename: 'notes.txt' })],
  ['/v1/messages', document({ type: 'text', media_type: 'text/plain', data: TEXT }, { title: 'a.txt' })],
  ['/v1/messages', document({ type: 'base64', media_type: 'text/plain', data: BASE64 })],
  ['/v1/messages', document({ type: 'base64', media_type: 'text/csv', data: BASE64 })],
  ['/v1/messages', document({ type: 'content', content: TEXT })],
  ['/v1/messages', document({ type: 'content', content: [{ type: 'text', text: TEXT }] })],
];

describe('a file of text', () => {
  it.each(READ)('is text to the model: %s %j', async (path, part) => {
    for (const stream of [false, true]) {
      const { status, text, prompt } = await send(path, { ...ROUTES[path]?.(part), stream });
      expect([status, text]).toEqual([200, expect.stringContaining('fine')]);
      expect(prompt).toContain(TEXT);
      expect(prompt).not.toContain(BASE64);
    }
  });

  it.each([
    ['/v1/chat/completions', file({ file_data: BASE64 }), 'file'],
    ['/v1/responses', input({ file_data: BASE64 }), 'input_file'],
    ['/v1/messages', document({ type: 'text', data: TEXT }), 'document'],
  ])('is text in what a tool returned, too: %s', async (path, part) => {
    const bodies: Readonly<Record<string, object>> = {
      '/v1/chat/completions': {
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
          { role: 'tool', tool_call_id: 'c', content: [part] },
        ],
      },
      '/v1/responses': {
        input: [
          { role: 'user', content: 'hi' },
          { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'c', output: [part] },
        ],
      },
      '/v1/messages': {
        max_tokens: 9,
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: [part] }] },
        ],
      },
    };
    const { status, prompt } = await send(path, bodies[path] ?? {});
    expect(status).toBe(200);
    expect(prompt).toContain(TEXT);
  });
});

describe('a file that cannot be read', () => {
  it.each([
    ['/v1/chat/completions', file({ file_data: `data:application/pdf;base64,${PDF}` }), 'application/pdf'],
    ['/v1/chat/completions', file({ file_id: 'file-1' }), 'file_id'],
    ['/v1/chat/completions', file({}), 'file_data'],
    ['/v1/chat/completions', file({ file_data: 'data:text/plain;base64,*' }), 'base64'],
    ['/v1/responses', input({ file_data: PDF }), 'application/pdf'],
    ['/v1/responses', input({ file_url: 'https://a/b.txt' }), 'file_url'],
    ['/v1/messages', document({ type: 'base64', media_type: 'application/pdf', data: PDF }), 'application/pdf'],
    ['/v1/messages', document({ type: 'url', url: 'https://a/b.pdf' }), 'not url'],
    ['/v1/messages', document({ type: 'file', file_id: 'f' }), 'not file'],
    ['/v1/messages', document({ type: 'base64', media_type: 'text/plain', data: '/////w==' }), 'UTF-8'],
  ])('is refused with the reason if it is said anew, and named if it is history: %s %j', async (path, part, said) => {
    const { status, text } = await send(path, ROUTES[path]?.(part) ?? {});
    expect([status, text]).toEqual([400, expect.stringContaining(said)]);
    const body = ROUTES[path]?.(part) as Readonly<Record<string, readonly object[] | number>>;
    const more = [
      { role: 'assistant', content: 'so' },
      { role: 'user', content: 'go on' },
    ];
    const later = Object.fromEntries(
      Object.entries(body).map(([key, value]) => [key, typeof value === 'number' ? value : [...value, ...more]]),
    );
    expect((await send(path, later)).status).toBe(200);
  });
});
