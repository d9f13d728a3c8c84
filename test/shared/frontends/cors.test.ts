import { describe, expect, it } from 'vitest';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const ORIGIN = 'https://app.example';

async function ask(origins: readonly string[], path: string, init: RequestInit = {}) {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
  const { app } = createTestApp({ pipeline, settings: { corsOrigins: origins } });
  const response = await app.fetch(new Request(`http://localhost${path}`, init));
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const PREFLIGHT = {
  method: 'OPTIONS',
  headers: {
    origin: ORIGIN,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type',
  },
};

describe('pages of other origins', () => {
  it('learn from a preflight that they may send, on every path', async () => {
    for (const path of ['/v1/chat/completions', '/v1/nothing']) {
      const { status, headers, text } = await ask([ORIGIN], path, PREFLIGHT);
      expect({ status, text }).toEqual({ status: 204, text: '' });
      expect(Object.fromEntries(headers)).toMatchObject({
        'access-control-allow-origin': ORIGIN,
        'access-control-allow-methods': 'GET, POST, PATCH, DELETE',
        'access-control-allow-headers': 'authorization,content-type',
        vary: 'origin',
      });
    }
  });

  it.each([
    ['a unary answer', { model: 'm', messages: [{ role: 'user', content: 'x' }] }, 200],
    ['a stream', { model: 'm', stream: true, messages: [{ role: 'user', content: 'x' }] }, 200],
    ['a failure', { model: 'm', messages: [] }, 400],
  ])('may read %s', async (_what, body, status) => {
    const answer = await ask([ORIGIN, 'https://other.example'], '/v1/chat/completions', {
      method: 'POST',
      headers: { origin: ORIGIN, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(answer.headers.get('access-control-expose-headers')).toContain('x-request-id');
  });

  it('need not be named where all may', async () => {
    const { headers } = await ask(['*'], '/live', { headers: { origin: ORIGIN } });
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('vary')).toBeNull();
  });

  it.each([[[]], [['https://other.example']]])('learn nothing when only %j may send', async (origins) => {
    const preflight = await ask(origins, '/v1/chat/completions', PREFLIGHT);
    expect(preflight.status).toBe(405);
    expect(preflight.headers.get('access-control-allow-origin')).toBeNull();
  });

  it('are no concern of a request that no page makes', async () => {
    const { headers } = await ask([ORIGIN], '/live');
    expect(headers.get('access-control-allow-origin')).toBeNull();
  });
});
