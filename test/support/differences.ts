import { ACCEPTED } from './dynamo-http/differences/accepted.ts';
import { CHATS } from './dynamo-http/differences/chats.ts';
import { DIRECTORY } from './dynamo-http/differences/directory.ts';
import { FAILURES } from './dynamo-http/differences/failures.ts';
import { MESSAGES } from './dynamo-http/differences/messages.ts';
import { BOUNDED, REFUSED } from './dynamo-http/differences/refused.ts';
import { RESPONSES } from './dynamo-http/differences/responses.ts';
import { ROUTES } from './dynamo-http/differences/routes.ts';
import { TOOLS } from './dynamo-http/differences/tools.ts';
import type { Difference } from './dynamo-http/expectation.ts';

type Listed = { readonly data: Record<string, unknown>[] };

/** Every place where an answer differs from the record, as a condition of request and record. Applied in this order. */
export const DIFFERENCES: readonly Difference[] = [
  ...ACCEPTED,
  ...ROUTES,
  ...REFUSED,
  ...FAILURES,
  ...CHATS,
  ...TOOLS,
  ...MESSAGES,
  ...RESPONSES,
  ...DIRECTORY,
  BOUNDED,
  {
    why: 'the context of a model is absent where nobody knows it',
    applies: ({ request }, expected) => /^\/v1\/models(\?|$)/.test(request.path) && expected.status === 200,
    rewrite: (expected) => {
      for (const model of (expected.body as Listed).data) {
        for (const key of ['context_window', 'max_input_tokens']) if (model[key] === 0) delete model[key];
      }
    },
  },
  {
    why: 'a model that is not ready says when to try again',
    applies: (_row, expected) =>
      expected.status === 503 && / is not ready to serve /.test(JSON.stringify(expected.body)),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'retry-after': '5' };
    },
  },
  {
    why: 'an answer to a client that names no request has an id made here',
    applies: (row) => row.status !== null && !(row.request.headers ?? []).some(([name]) => name === 'x-request-id'),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'x-request-id': 'UUID' };
    },
  },
];
