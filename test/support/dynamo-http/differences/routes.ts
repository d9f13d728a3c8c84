import { type Difference, type Expectation, refuseWith } from '../expectation.ts';
import type { Body } from '../fields.ts';
import { Matcher, textWith } from '../match.ts';
import type { RecordedRow } from '../records.ts';
import { serveVideoPath } from './video-path.ts';

/** One way to reach an instance, under the name of its plane. */
const A_TRANSPORT = new Matcher('an address under the name of a plane', (value) => {
  const addresses = typeof value === 'object' && value !== null ? Object.values(value) : [];
  return addresses.length === 1 && typeof addresses[0] === 'string' && addresses[0] !== '';
});

/** Differences of routes that generate nothing from the record. */
export const ROUTES: readonly Difference[] = [
  {
    why: 'instances in the same process are reached through memory',
    applies: (row, expected) => row.request.path.endsWith('/health') && expected.body !== undefined,
    rewrite: (expected) => {
      delete (expected.body as Body).instances_note;
      for (const instance of instancesOf(expected)) instance.transport = A_TRANSPORT;
    },
  },
  {
    why: 'embedding models have thresholds, too',
    applies: (row) => row.request.path === '/busy_threshold' && row.request.method === 'GET' && row.status === 200,
    rewrite: (expected) => {
      const { thresholds } = expected.body as { thresholds: Body[] };
      if (thresholds.some(({ model }) => model === 'emb')) return;
      const unset = Object.fromEntries(Object.keys(thresholds[0] ?? {}).map((key) => [key, null]));
      thresholds.push({ ...unset, model: 'emb' });
      thresholds.sort((a, b) => (String(a.model) < String(b.model) ? -1 : 1));
    },
  },
  {
    why: '/clear_kv_blocks is served, and answers here that no worker can clear blocks',
    applies: (row) => row.request.path === '/clear_kv_blocks' && row.request.method === 'POST',
    rewrite: (expected) => {
      expected.status = 200;
      expected.headers = { 'content-type': 'application/json' };
      expected.body = { message: 'No active worker groups found' };
    },
  },
  {
    why: 'the document of the API is our own, and another test checks it',
    applies: (row) => row.request.path === '/openapi.json' && row.status === 200,
    rewrite: (expected) => {
      expected.body = new Matcher('an OpenAPI document', (body) => {
        const { openapi, paths } = (body ?? {}) as { openapi?: string; paths?: object };
        return openapi?.startsWith('3.1') === true && Object.keys(paths ?? {}).length > 0;
      });
    },
  },
  {
    why: 'the pages of metrics and documentation are our own, and other tests check them',
    applies: (row) => /\/(?:metrics|docs\/?)$/.test(row.request.path) && row.status === 200,
    rewrite: (expected) => {
      expected.text = new Matcher('a page', (text) => typeof text === 'string' && text.length > 100);
    },
  },
  {
    why: 'videos are also served on the longer paths, as on the short ones',
    applies: (row) => /^\/v1\/videos\/generations/.test(row.request.path),
    rewrite: (expected, row) => serveVideoPath(expected, row),
  },
  {
    why: 'needless slashes in a path make no difference, so that the body is looked at',
    applies: ({ request, status }) => request.path === '//v1/chat/completions' && status === 404,
    rewrite: (expected, row) =>
      refuseWith(expected, row, {
        status: 400,
        message: 'missing field `messages`',
        told: textWith('missing field `messages`'),
        code: 'missing_required_parameter',
        param: 'messages',
      }),
  },
  {
    why: 'conversations are compacted, and the request must name a model, because several models chat here',
    applies: ({ request, status }) =>
      request.path === '/v1/responses/compact' && request.method === 'POST' && status === 404,
    rewrite: (expected, row) =>
      refuseWith(expected, row, {
        status: 400,
        message: 'missing field `model`',
        told: textWith('missing field `model`'),
        code: 'missing_required_parameter',
        param: 'model',
      }),
  },
  {
    why: 'the routes below a response exist, and report unknown ids',
    applies: (row) => row.status === 404 && storedResponse(row) !== undefined,
    rewrite: (expected, row) =>
      refuseWith(expected, row, {
        status: 404,
        message: `Response with id '${storedResponse(row)}' not found.`,
        code: 'not_found',
        param: null,
      }),
  },
];

function instancesOf(expected: Expectation): Body[] {
  return (expected.body as { instances?: Body[] } | undefined)?.instances ?? [];
}

/** Returns the id in a path below `/v1/responses`, if the method is one that the path supports. */
function storedResponse({ request: { method, path } }: RecordedRow): string | undefined {
  const [, id, below = ''] = /^\/v1\/responses\/([^/]+)(\/\w+)?$/.exec(path) ?? [];
  if (id === undefined || id === 'input_tokens' || id === 'compact') return undefined;
  const methods =
    below === '' ? ['GET', 'DELETE'] : below === '/cancel' ? ['POST'] : below === '/input_items' ? ['GET'] : [];
  return methods.includes(method) ? id : undefined;
}
