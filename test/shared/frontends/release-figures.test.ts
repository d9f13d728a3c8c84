import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../shared/errors/index.ts';
import { EmbeddedMetrics } from '../../../shared/telemetry/index.ts';
import { createTestApp } from '../../support/http-app.ts';
import { ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const DIALECTS: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', CHAT],
  ['/v1/completions', { model: 'm', prompt: 'hi' }],
  ['/v1/messages', { ...CHAT, max_tokens: 5 }],
  ['/v1/responses', { model: 'm', input: 'hi' }],
];
const REQUESTS = DIALECTS.flatMap(([path, body]) => [
  [path, body] as const,
  [`${path}, streamed`, { ...body, stream: true }] as const,
]);

const settings = { anthropic: { isEnabled: true, stripsPreamble: true } };

/** What a release is watched by, after one request whose worker or handler meets what `play` throws. */
async function figureOf(name: string, body: object, play: () => never) {
  const lines: string[] = [];
  const { app, deps } = createTestApp({ settings, pipeline: new ScriptedPipeline().onGenerate(play) });
  const metrics = new EmbeddedMetrics({
    source: { dimension: 'FunctionName', name: 'front', version: '7' },
    nowMs: () => 0,
    totals: (metric, label) => deps.metrics.registry.totalsBy(metric, label),
    write: (text) => lines.push(text),
  });
  const response = await app.fetch(
    new Request(`http://localhost${name.split(',')[0]}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify(body),
    }),
  );
  await response.text();
  metrics.flush();
  return lines.map((line) => (JSON.parse(line) as { InternalErrors?: unknown }).InternalErrors);
}

const raise = (error: Error) => (): never => {
  throw error;
};

describe.each(REQUESTS)('what a release is watched by after %s', (name, body) => {
  it.each([
    ['no worker serves the model', new ServeError('service_unavailable', 'no worker')],
    ['every worker is full', new ServeError('server_overloaded', 'full')],
    ['the key has no budget left', new ServeError('insufficient_quota', 'spent')],
    ['too many came', new ServeError('rate_limit_exceeded', 'too many')],
    ['the worker was lost', new ServeError('worker_lost', 'lost')],
    ['it took too long', new ServeError('deadline_exceeded', 'late')],
  ])('does not move if %s', async (_why, error) => {
    expect(await figureOf(name, body, raise(error))).toEqual([0]);
  });

  it('moves by an exception', async () => {
    expect(await figureOf(name, body, raise(new TypeError('x is not a function')))).toEqual([1]);
  });

  it('moves by an exception before anything of the request is counted', async () => {
    const route = name.split(',')[0]!;
    const { app, deps } = createTestApp({ settings });
    Object.defineProperty(deps.lifecycle, 'hold', { value: raise(new TypeError('x is not a function')) });
    const before = deps.metrics.registry.totalsBy('stator_frontend_handler_failures_total', '');
    const response = await app.fetch(new Request(`http://localhost${route}`, { method: 'POST', body: '{}' }));
    expect([before, response.status]).toEqual([{ '': 0 }, 500]);
    expect(deps.metrics.registry.totalsBy('stator_frontend_handler_failures_total', '')).toEqual({ '': 1 });
  });
});
