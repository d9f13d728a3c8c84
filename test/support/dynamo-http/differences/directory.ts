import type { Difference, Expectation } from '../expectation.ts';
import type { Body } from '../fields.ts';
import { Matcher, textWith } from '../match.ts';

const MISSING_MODEL = /^Model (?:'.*' )?not found$/;
const MISSING_ROUTE = /^Route not found: /;

/** Returns the error of a recorded body that reports something missing. */
function missing({ body }: Expectation, pattern: RegExp): { message: unknown } | undefined {
  const error = (body as { error?: { message?: unknown } } | undefined)?.error;
  const isMissing = typeof error?.message === 'string' && pattern.test(error.message);
  return isMissing ? (error as { message: unknown }) : undefined;
}

/** Returns the rows of a recorded list of models, or the one model of a recorded body. */
function modelsOf({ body }: Expectation): readonly Body[] {
  if (typeof body !== 'object' || body === null) return [];
  const { data } = body as { data?: unknown };
  const rows = (Array.isArray(data) ? data : [body]) as readonly Body[];
  return rows.filter((row) => row.owned_by === 'nvidia');
}

/** Returns the models of OpenAI's shape in a recorded list, or the body if it is such a model. */
function listedOf({ status, body }: Expectation): readonly Record<string, unknown>[] {
  if (status !== 200 || typeof body !== 'object' || body === null) return [];
  const { data } = body as { data?: unknown };
  const rows = (Array.isArray(data) ? data : [body]) as readonly Record<string, unknown>[];
  return rows.filter(({ object }) => object === 'model');
}

function instancesOf({ body }: Expectation): readonly Record<string, unknown>[] {
  const { instances } = (body ?? {}) as { instances?: unknown };
  return Array.isArray(instances) ? (instances as Record<string, unknown>[]) : [];
}

type Listed = { readonly data: Record<string, unknown>[] };

/** Differences in answers about models, and about where things are. */
export const DIRECTORY: readonly Difference[] = [
  {
    why: 'the error for an unknown model names it, the models that are served and the nearest name: this helps to correct a typo',
    applies: (_row, expected) => missing(expected, MISSING_MODEL) !== undefined,
    rewrite: (expected) => {
      const error = missing(expected, MISSING_MODEL);
      if (error !== undefined) error.message = textWith(error.message as string);
    },
  },
  {
    why: 'a route that a setting has switched off or moved names the setting, which the reader looks for next',
    applies: (_row, expected) => missing(expected, MISSING_ROUTE) !== undefined,
    rewrite: (expected) => {
      const error = missing(expected, MISSING_ROUTE);
      if (error !== undefined) error.message = textWith(error.message as string);
    },
  },
  {
    why: 'models are owned by the deployment that serves them: a model does not belong to the maker of the record',
    applies: (_row, expected) => modelsOf(expected).length > 0,
    rewrite: (expected) => {
      for (const model of modelsOf(expected)) model.owned_by = 'stator';
    },
  },
  {
    why: 'the root lists the routes, because a person who opens the address wants to know them',
    applies: (row) => row.request.method === 'GET' && row.request.path === '/',
    rewrite: (expected) => {
      expected.status = 200;
      const place = new Matcher('a path', (path) => typeof path === 'string' && path.startsWith('/'));
      const word = new Matcher('a word', (text) => typeof text === 'string' && text !== '');
      const places = ['console', 'docs', 'openapi', 'models', 'health', 'metrics'].map((name) => [name, place]);
      expected.body = { name: word, version: word, ...Object.fromEntries(places) };
    },
  },
  {
    why: 'the context of a model is absent if it is unknown',
    applies: ({ request }, expected) => /^\/v1\/models(\?|$)/.test(request.path) && expected.status === 200,
    rewrite: (expected) => {
      for (const model of (expected.body as Listed).data) {
        for (const key of ['context_window', 'max_input_tokens']) if (model[key] === 0) delete model[key];
      }
    },
  },
  {
    why: "a listed model has the fields of vLLM's list: its context under that name too, its root and its parent",
    applies: ({ request }, expected) => /\/models(\/|\?|$)/.test(request.path) && listedOf(expected).length > 0,
    rewrite: (expected) => {
      for (const model of listedOf(expected)) {
        Object.assign(model, {
          root: new Matcher('a name', (name) => typeof name === 'string' && name !== ''),
          parent: null,
        });
        if (model.context_window !== undefined) model.max_model_len = model.context_window;
      }
    },
  },
  {
    why: 'an instance also has its id in the form of logs and metrics',
    applies: (_row, expected) => instancesOf(expected).length > 0,
    rewrite: (expected) => {
      const hex = new Matcher('an id in hex', (id) => typeof id === 'string' && /^[0-9a-f]{1,16}$/.test(id));
      for (const instance of instancesOf(expected)) instance.worker = hex;
    },
  },
  {
    why: 'a service that is not ready says when to retry',
    applies: ({ request }, expected) =>
      expected.status === 503 &&
      !/health|live/.test(request.path) &&
      /Service is not ready/.test(JSON.stringify(expected.body)),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'retry-after': '1' };
    },
  },
  {
    why: 'a model that is not ready says when to retry',
    applies: (_row, expected) =>
      expected.status === 503 && / is not ready to serve /.test(JSON.stringify(expected.body)),
    rewrite: (expected) => {
      expected.headers = { ...expected.headers, 'retry-after': '5' };
    },
  },
  {
    why: 'a temporary refusal says when to retry',
    applies: (_row, expected) => (expected.status === 503 || expected.status === 429) && isError(expected.body),
    rewrite: (expected) => {
      expected.headers = { 'retry-after': '1', ...expected.headers };
    },
  },
];

function isError(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'error' in body;
}
