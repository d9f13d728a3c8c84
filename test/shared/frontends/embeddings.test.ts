import { describe, expect, it } from 'vitest';
import { workerError } from '../../../shared/errors/index.ts';
import { tell } from '../../support/generation-events.ts';
import { createTestApp } from '../../support/http-app.ts';
import { type ScriptedCall, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

const chat = servedModel('chat').card;
const MODELS = [
  servedModel('m', { card: { ...chat, model_type: ['Embedding'] }, primaryName: 'primary' }),
  servedModel('text', { card: { ...chat, model_type: ['Embedding'], model_input: 'Text' } }),
  servedModel('chat'),
];

function base64(...values: readonly number[]): string {
  return Buffer.from(Float32Array.from(values).buffer).toString('base64');
}

/** The worker's answer: the prompt's number and its own. */
function embed({ sink, request }: ScriptedCall): void {
  const text = request.prompt.kind === 'raw' ? request.prompt.text : '';
  tell(sink, { kind: 'body', body: { embeddings: [base64(Number(text), 0.5)] } });
  sink.end({ promptTokens: 2, completionTokens: 0 }, false);
}

async function ask(body: object, play: (call: ScriptedCall) => void = embed) {
  const pipeline = new ScriptedPipeline(MODELS).onGenerate(play);
  const test = createTestApp({ pipeline });
  const request = new Request('http://localhost/v1/embeddings', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', input: '1', ...body }),
  });
  const response = await test.app.fetch(request);
  return { ...test, pipeline, status: response.status, body: JSON.parse(await response.text()) };
}

describe('POST /v1/embeddings', () => {
  it('answers one vector for each input, in their order, with summed usage', async () => {
    const waiting: ScriptedCall[] = [];
    const { body, pipeline, deps } = await ask({ input: ['3', '1', '2'], dimensions: 2 }, (call) => {
      waiting.push(call);
      if (waiting.length === 3) for (const one of waiting.reverse()) embed(one); // the last one answers first
    });
    expect(body).toEqual({
      object: 'list',
      model: 'primary',
      data: [3, 1, 2].map((value, index) => ({ index, object: 'embedding', embedding: [value, 0.5] })),
      usage: { prompt_tokens: 6, total_tokens: 6 },
    });
    expect(pipeline.calls[0]?.request).toMatchObject({ endpoint: 'embeddings', embedding: { dimensions: 2 } });
    expect(await deps.metrics.render()).toContain('embedding_latency_seconds_count{model="primary"} 1');
  });

  it.each([
    ['a list of texts', ['a', 'b'], ['raw', 'raw']],
    ['token ids', [1, 2], ['tokens']],
    ['lists of token ids', [[1, 2], [3]], ['tokens', 'tokens']],
  ])('takes %s', async (_what, input, kinds) => {
    const { pipeline } = await ask({ input });
    expect(pipeline.calls.map(({ request }) => request.prompt.kind)).toEqual(kinds);
  });

  it('gives base64 as it came from the worker', async () => {
    const { body } = await ask({ input: '1', encoding_format: 'base64' });
    expect(body.data[0].embedding).toBe(base64(1, 0.5));
  });

  it('keeps a bounded number of inputs with workers at a time', async () => {
    const waiting: ScriptedCall[] = [];
    let most = 0;
    const { body } = await ask({ input: Array.from({ length: 200 }, (_, at) => String(at)) }, (call) => {
      waiting.push(call);
      most = Math.max(most, waiting.length);
      queueMicrotask(() => embed(waiting.shift()!));
    });
    expect(most).toBe(64);
    expect(body.data.map((row: { embedding: number[] }) => row.embedding[0])).toEqual(
      Array.from({ length: 200 }, (_, at) => at),
    );
  });

  it('fails as a whole when one input fails, and ends the others', async () => {
    const { status, pipeline, body } = await ask({ input: ['1', '2', '3'] }, (call) => {
      if (isThird(call)) call.sink.fail(workerError('Unavailable'));
    });
    expect(status).toBe(503);
    expect(body.error.code).toBe('service_unavailable');
    expect(pipeline.calls.every(({ options }) => options.signal.aborted)).toBe(true);
  });

  it.each([
    ['no answer at all', undefined],
    ['something else', { foo: 1 }],
    ['two vectors for one prompt', { embeddings: [base64(1), base64(2)] }],
    ['bytes that are no f32', { embeddings: [Buffer.from('abc').toString('base64')] }],
    ['a text that is no base64', { embeddings: ['!!!!'] }],
  ])('is an internal error when a worker sends %s', async (_what, sent) => {
    const { status, body } = await ask({}, ({ sink }) => {
      if (sent !== undefined) tell(sink, { kind: 'body', body: sent });
      sink.end({ promptTokens: 1, completionTokens: 0 }, false);
    });
    expect(status).toBe(500);
    expect(body.error.message).toBe('Internal server error');
  });

  it.each([
    ['an empty list', { input: [] }, 'input'],
    ['more inputs than OpenAI takes', { input: Array.from({ length: 2049 }, () => 'x') }, 'input'],
    ['mixed inputs', { input: ['a', 1] }, 'input[1]'],
    ['an unknown format', { encoding_format: 'hex' }, 'encoding_format'],
    ['a fraction of a dimension', { dimensions: 1.5 }, 'dimensions'],
  ])('refuses %s and names the field', async (_what, fields, param) => {
    const { status, body, pipeline } = await ask(fields);
    expect(status).toBe(400);
    expect(body.error.param).toBe(param);
    expect(pipeline.calls).toHaveLength(0);
  });

  it('does not know models of other types', async () => {
    for (const model of ['chat', 'nope', '']) expect((await ask({ model })).status).toBe(404);
  });

  it('passes the body on to a worker that takes text, once, and its list back', async () => {
    const input = ['a', 'b'];
    const list = { object: 'list', model: 'their-name', data: [{ index: 0 }], usage: { prompt_tokens: 1 } };
    const { body, pipeline } = await ask({ model: 'text', input, foo: 1, stream: true }, ({ sink }) => {
      tell(sink, { kind: 'body', body: list });
      sink.end({ promptTokens: 1, completionTokens: 0 }, false);
    });
    expect(pipeline.calls).toHaveLength(1);
    expect(pipeline.calls[0]?.request).toMatchObject({ prompt: { kind: 'body' }, body: { input, foo: 1 } });
    expect(pipeline.calls[0]?.request.body).not.toHaveProperty('stream');
    expect(body).toEqual({ ...list, model: 'text' });
  });

  it.each([
    ['floats', 'base64', [0.5, -2], base64(0.5, -2)],
    ['base64', 'float', base64(0.5, -2), [0.5, -2]],
    ['floats', undefined, [0.5, -2], [0.5, -2]],
    ['base64', 'base64', base64(0.5, -2), base64(0.5, -2)],
  ])('writes %s of a worker that takes text as %s where the client asks for it', async (_what, format, sent, seen) => {
    const data = [{ object: 'embedding', index: 0, embedding: sent }];
    const { body } = await ask({ model: 'text', encoding_format: format }, ({ sink }) => {
      tell(sink, { kind: 'body', body: { object: 'list', data } });
      sink.end({ promptTokens: 1, completionTokens: 0 }, false);
    });
    expect(body.data).toEqual([{ object: 'embedding', index: 0, embedding: seen }]);
  });

  it('refuses an empty list also where the worker takes the body itself', async () => {
    const { status, body, pipeline } = await ask({ model: 'text', input: [] });
    expect([status, body.error.param, pipeline.calls.length]).toEqual([400, 'input', 0]);
  });
});

function isThird({ request }: ScriptedCall): boolean {
  return request.id.endsWith('-2');
}
