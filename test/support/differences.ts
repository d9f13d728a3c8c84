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

/**
 * Every difference between our answers and the record, as a condition on request and record, in the order of
 * application.
 */
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
    why: 'an answer to a client that names no request has an id made here',
    applies: (row) => row.status !== null && !(row.request.headers ?? []).some(([name]) => name === 'x-request-id'),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'x-request-id': 'UUID' };
    },
  },
];
