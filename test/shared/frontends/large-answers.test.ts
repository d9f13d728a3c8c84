import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { GenerationSink } from '../../../shared/protocol/index.ts';
import { countTurns } from '../../support/count-turns.ts';
import { type GenerationEvent, tell } from '../../support/generation-events.ts';
import { createTestApp, type TestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';
import { waitUntil } from '../../support/wait-until.ts';

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'hi' }], logprobs: true, top_logprobs: 5 };
const COMPLETIONS = { model: 'm', prompt: 'hi', logprobs: 5 };
const RESPONSES = { model: 'm', input: 'hi', store: false };
const MESSAGES = { model: 'm', messages: CHAT.messages, max_tokens: 10 };
const WITH_NVEXT = { ...CHAT, nvext: { extra_fields: ['prompt_logprobs'] } };

const TOKEN = { tokenId: 1, token: 'é', bytes: [195, 169], logprob: -1.5 };
const ALTERNATIVES = ['a', 'b', 'c', 'd', 'e'].map((token) => ({ ...TOKEN, token }));

function sayText(sink: GenerationSink): void {
  for (let at = 0; at < 20; at++) sink.text(0, 'a text of "several" words \u{1f600} '.repeat(2000), 1);
}

function sayLogprobs(sink: GenerationSink): void {
  for (let at = 0; at < 4000; at++) {
    const logprobs = [{ ...TOKEN, top: ALTERNATIVES }];
    tell(sink, { kind: 'delta', choice: 0, text: 'é', tokenIds: [1], logprobs });
  }
}

function sayPromptLogprobs(sink: GenerationSink): void {
  sink.text(0, 'a', 1);
  const data = { prompt_logprobs: Array(20_000).fill({ 1: { logprob: -1, rank: 1 } }) };
  tell(sink, { kind: 'engine-data', data });
}

const sayBodies =
  (...bodies: readonly object[]) =>
  (sink: GenerationSink): void => {
    for (const body of bodies) tell(sink, { kind: 'body', body } as GenerationEvent);
  };

const CHUNK = { choices: [{ index: 0, delta: { content: 'x'.repeat(300_000) } }] };
const LIST = { object: 'list', data: Array(200).fill({ object: 'embedding', embedding: Array(300).fill(0.5) }) };
const VECTOR = Buffer.from(new Float32Array(10_000).fill(0.1).buffer).toString('base64');
const PICTURES = { created: 1, data: Array(4).fill({ b64_json: 'QUJD'.repeat(50_000) }) };

function open(play: (sink: GenerationSink) => void): TestApp & { readonly pipeline: ScriptedPipeline } {
  const model = servedModel('m');
  const card = { ...model.card, model_type: ['Chat', 'Completions', 'Embedding', 'Images'] as const };
  const pipeline = new ScriptedPipeline([servedModel('m', { card: { ...card, model_type: [...card.model_type] } })]);
  pipeline.onGenerate(({ sink }) => {
    play(sink);
    void nextTurn().then(() => playTexts(sink, []));
  });
  const settings = { anthropic: { isEnabled: true, stripsPreamble: true } };
  return { ...createTestApp({ pipeline, settings }), pipeline };
}

function post({ app }: TestApp, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  const init = { method: 'POST', headers, body: JSON.stringify(body), ...(signal && { signal }) };
  return Promise.resolve(app.fetch(new Request(`http://localhost${path}`, init)));
}

describe('a large answer', () => {
  it.each([
    ['text of a chat', '/v1/chat/completions', CHAT, sayText],
    ['log probabilities of a chat', '/v1/chat/completions', CHAT, sayLogprobs],
    ['log probabilities of its prompt', '/v1/chat/completions', WITH_NVEXT, sayPromptLogprobs],
    ['bodies of a worker', '/v1/chat/completions', CHAT, sayBodies(CHUNK, CHUNK)],
    ['text of a completion', '/v1/completions', COMPLETIONS, sayText],
    ['log probabilities of a completion', '/v1/completions', COMPLETIONS, sayLogprobs],
    ['text of a response', '/v1/responses', RESPONSES, sayText],
    ['log probabilities of a response', '/v1/responses', RESPONSES, sayLogprobs],
    ['text of a message', '/v1/messages', MESSAGES, sayText],
    ['vectors', '/v1/embeddings', { model: 'm', input: Array(40).fill('hi') }, sayBodies({ embeddings: [VECTOR] })],
    ['a list of vectors', '/v1/embeddings', { model: 'm', input: ['hi'] }, sayBodies(LIST)],
    ['pictures', '/v1/images/generations', { model: 'm', prompt: 'hi' }, sayBodies(PICTURES)],
  ])('is written in several turns, with its length: %s', async (_what, path, body, play) => {
    const test = open(play);
    const { result: response, turns } = await countTurns(post(test, path, body));
    const text = await response.text();
    expect(response.status).toBe(200);
    expect(Number(response.headers.get('content-length'))).toBe(Buffer.byteLength(text));
    expect(JSON.stringify(JSON.parse(text)) === text).toBe(true);
    expect(turns).toBeGreaterThan(4 + Buffer.byteLength(text) / 250_000);
    await waitUntil(() => test.lines.some(({ message }) => message === 'request completed'));
    expect(test.deps.answers.takenBytes).toBe(0);
  });

  it('waits for a reader that does not keep up, and counts as unfinished for that long', async () => {
    const test = open(sayText);
    const { body } = await post(test, '/v1/chat/completions', CHAT);
    const reader = body!.getReader();
    await reader.read();
    for (let turn = 0; turn < 50; turn++) await nextTurn();
    expect(test.deps.answers.takenBytes).toBeGreaterThan(0);
    expect(test.lines).toHaveLength(0);
    while (!(await reader.read()).done);
    await waitUntil(() => test.deps.answers.takenBytes === 0);
    expect(test.lines.map(({ fields }) => fields.status)).toEqual([200]);
  });

  it.each([0, 1, 12])('is given up when its reader leaves, %i turns on', async (turns) => {
    const leaving = new AbortController();
    const test = open(sayText);
    const response = post(test, '/v1/chat/completions', CHAT, leaving.signal);
    await test.pipeline.call(0);
    for (let turn = 0; turn <= turns; turn++) await nextTurn();
    leaving.abort();
    await response;
    for (let turn = 0; turn < 50; turn++) await nextTurn();
    expect(test.lines.map(({ fields }) => fields.status)).toEqual([499]);
    expect(test.deps.answers.takenBytes).toBe(0);
  });

  it('that cannot be written is an error with its status', async () => {
    const test = open(sayBodies({ ...CHUNK, broken: { toJSON: () => raise() } }, CHUNK, CHUNK));
    const response = await post(test, '/v1/chat/completions', CHAT);
    expect(response.status).toBe(500);
    expect(await response.json()).toMatchObject({ error: { code: 'internal_error' } });
    expect(test.lines.map(({ fields }) => fields.status)).toEqual([500]);
  });
});

function raise(): never {
  throw new Error('broken');
}
