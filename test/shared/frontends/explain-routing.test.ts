import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../shared/errors/index.ts';
import { createHttpApp } from '../../../shared/frontends/http/app.ts';
import type { HttpAppDeps } from '../../../shared/frontends/http/deps.ts';
import type { GenerationRequest } from '../../../shared/protocol/index.ts';
import type { ExplanationRecord } from '../../../shared/scheduler/index.ts';
import { createTestApp, fromThisMachine } from '../../support/http-app.ts';

const ID = '1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';

function explanation(requestId: string): ExplanationRecord {
  return {
    request_id: requestId,
    cost_model: 'dynamo',
    prompt_tokens: 320,
    blocks: 20,
    temperature: 0,
    waited_ms: 0,
    chosen: { worker_id: '7f', dp_rank: 0, reason: 'lowest-cost' },
    failure: null,
    candidates: [],
  };
}

/** An app whose router remembers the requests of `known`. */
function appWith(known: readonly string[], explain?: (request: GenerationRequest) => ExplanationRecord) {
  const explainer: NonNullable<HttpAppDeps['explainer']> = {
    explained: async (id) => (known.includes(id) ? explanation(id) : undefined),
    explain: async (request) => explain?.(request) ?? explanation(request.id),
  };
  return fromThisMachine(createHttpApp({ ...createTestApp().deps, explainer }));
}

function post(app: ReturnType<typeof createHttpApp>, body: unknown) {
  const headers = { 'content-type': 'application/json' };
  return app.fetch(
    new Request('http://localhost/router/explain', { method: 'POST', headers, body: JSON.stringify(body) }),
  );
}

describe('GET /router/explain/{id}', () => {
  it.each([ID, `chatcmpl-${ID}`, `cmpl-${ID}`, `resp_${ID.replaceAll('-', '')}`, `msg_${ID.replaceAll('-', '')}`])(
    'finds the decision by %s',
    async (id) => {
      const response = await appWith([ID]).fetch(new Request(`http://localhost/router/explain/${id}`));
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual(explanation(ID));
    },
  );

  it('takes ids of other forms as they are, and the first prompt of a batch', async () => {
    const app = appWith(['mine/1', `${ID}-0`]);
    expect((await app.fetch(new Request('http://localhost/router/explain/mine%2F1'))).status).toBe(200);
    const batch = await app.fetch(new Request(`http://localhost/router/explain/cmpl-${ID}`));
    expect(await batch.json()).toMatchObject({ request_id: `${ID}-0` });
  });

  it('says that only the last decisions are kept, and which id is asked for', async () => {
    const response = await appWith([]).fetch(new Request('http://localhost/router/explain/trace-7'));
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: {
        code: 'not_found',
        message: expect.stringMatching(/trace-7.*the response id \(chatcmpl-.*not an x-request-id/),
      },
    });
  });
});

describe('POST /router/explain', () => {
  it('takes a chat and a completions body', async () => {
    const kinds: string[] = [];
    const app = appWith([], ({ id, prompt }) => {
      kinds.push(prompt.kind);
      return explanation(id);
    });
    expect((await post(app, { model: 'm', messages: [{ role: 'user', content: 'x' }] })).status).toBe(200);
    expect((await post(app, { model: 'm', prompt: 'x' })).status).toBe(200);
    expect((await post(app, { model: 'm', prompt: [1, 2, 3] })).status).toBe(200);
    expect(kinds).toEqual(['chat', 'raw', 'tokens']);
  });

  it('answers what is wrong with a body, or with its request', async () => {
    const app = appWith([], () => {
      throw new ServeError('model_not_found', 'no such model');
    });
    expect((await post(app, { model: 'm' })).status).toBe(400);
    expect((await post(app, { model: 'm', prompt: 'x' })).status).toBe(404);
  });
});

describe('explaining', () => {
  it('is there in mode kv alone, and not where operators have no routes', async () => {
    const { deps } = createTestApp();
    const plain = await fromThisMachine(createHttpApp(deps)).fetch(
      new Request(`http://localhost/router/explain/${ID}`),
    );
    expect(plain.status).toBe(501);
    const closed = createHttpApp({ ...deps, settings: { ...deps.settings, hasAdminRoutes: false } });
    expect((await post(closed, { model: 'm', prompt: 'x' })).status).toBe(404);
  });
});
