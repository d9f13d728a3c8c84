import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../shared/errors/index.ts';
import { createTestApp } from '../../support/http-app.ts';
import { type ScriptedCall, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

/** Answers one chat whose handler meets what `play` throws. */
async function chat(play: (call: ScriptedCall) => void, fields: object = {}) {
  const pipeline = new ScriptedPipeline().onGenerate(play);
  const test = createTestApp({ pipeline });
  const response = await test.app.fetch(
    new Request('http://localhost/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...fields }),
    }),
  );
  return { ...test, pipeline, response };
}

const bug = (): never => {
  throw new TypeError('x is not a function');
};
const INTERNAL = {
  error: { message: 'Internal server error', type: 'server_error', param: null, code: 'internal_error' },
};

describe('a mistake of ours', () => {
  it('before the answer has begun is its status and says nothing to the client', async () => {
    const { response, lines } = await chat(bug);
    expect([response.status, await response.json()]).toEqual([500, INTERNAL]);
    expect(lines.filter(({ message }) => message === 'request completed')).toHaveLength(1);
  });

  it('in the middle of a stream ends it in the words of its dialect, once, and ends the work', async () => {
    const { response, lines, pipeline, lifecycle } = await chat(
      ({ sink }) => {
        sink.text(0, 'Hel', 1);
        bug();
      },
      { stream: true },
    );
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).toContain('"content":"Hel"');
    expect(text.endsWith(`data: ${JSON.stringify(INTERNAL)}\n\ndata: [DONE]\n\n`)).toBe(true);
    expect(text.match(/\[DONE\]/g)).toHaveLength(1);
    expect(pipeline.calls[0]?.options.signal.aborted).toBe(true);
    expect(lifecycle.inflight).toBe(0);
    expect(lines.map(({ message }) => message)).toEqual(['request completed']);
  });

  it('in the middle of a single answer is its status', async () => {
    const { response } = await chat(({ sink }) => {
      sink.text(0, 'Hel', 1);
      bug();
    });
    expect([response.status, await response.json()]).toEqual([500, INTERNAL]);
  });

  it('after the end of an answer changes nothing of it', async () => {
    const { response, lines } = await chat(
      ({ sink }) => {
        sink.text(0, 'Hello', 1);
        sink.end({ promptTokens: 3, completionTokens: 1 }, true);
        bug();
      },
      { stream: true },
    );
    const text = await response.text();
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(text).not.toContain('error');
    expect(lines.filter(({ message }) => message === 'request completed')).toMatchObject([{ fields: { status: 200 } }]);
  });

  it('where the dialect itself cannot tell it cuts the answer off', async () => {
    const { response } = await chat(
      ({ sink }) => {
        sink.text(0, 'Hel', 1);
        const error = new ServeError('internal_error', 'Internal server error');
        Object.defineProperty(error, 'message', { get: bug }); // its text cannot be written
        throw error;
      },
      { stream: true },
    );
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
  });
});

describe('a failing handler that tracks no inference request', () => {
  const failing = () => {
    const test = createTestApp();
    test.deps.pipeline.models.list = bug;
    return test;
  };

  it('reaches operators with its stack and the client’s id, and the client without either', async () => {
    const { app, lines } = failing();
    const response = await app.fetch(
      new Request('http://localhost/v1/models', { headers: { 'x-request-id': 'mine' } }),
    );
    expect([response.status, response.headers.get('x-request-id')]).toEqual([500, 'mine']);
    expect(await response.json()).toEqual(INTERNAL);
    expect(lines).toMatchObject([
      {
        level: 'error',
        message: 'request handler failed',
        fields: { path: '/v1/models', x_request_id: 'mine', error: new TypeError('x is not a function') },
      },
    ]);
  });

  it('is counted, and refusals are not', async () => {
    const { app, deps } = failing();
    const ask = (path: string) => app.fetch(new Request(`http://localhost${path}`));
    expect([(await ask('/v1/nothing')).status, (await ask('/v1/models')).status]).toEqual([404, 500]);
    expect(deps.metrics.registry.totalsBy('stator_frontend_handler_failures_total', '')).toEqual({ '': 1 });
  });
});
