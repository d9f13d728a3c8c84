import type { Body, Difference, Expectation } from './expectation.ts';
import { anything, textWith } from './match.ts';

/** The error of a recorded body that says that a model is not there. */
function missingModel({ body }: Expectation): { message: unknown } | undefined {
  const error = (body as { error?: { message?: unknown } } | undefined)?.error;
  const isMissing = typeof error?.message === 'string' && /^Model (?:'.*' )?not found$/.test(error.message);
  return isMissing ? (error as { message: unknown }) : undefined;
}

/** The rows of a recorded list of models, or the one model of a recorded body. */
function modelsOf({ body }: Expectation): readonly Body[] {
  if (typeof body !== 'object' || body === null) return [];
  const { data } = body as { data?: unknown };
  const rows = (Array.isArray(data) ? data : [body]) as readonly Body[];
  return rows.filter((row) => row.owned_by === 'nvidia');
}

/** What is told of models, and of where things are. */
export const DIRECTORY_DIFFERENCES: readonly Difference[] = [
  {
    authority: 'order of authority 5 (a mistaken name is mended sooner when the names that are there are told)',
    what: 'a model that is not found is named, with those that are served and the nearest',
    applies: (_row, expected) => missingModel(expected) !== undefined,
    rewrite: (expected) => {
      const error = missingModel(expected);
      if (error !== undefined) error.message = textWith(error.message as string);
    },
  },
  {
    authority: 'order of authority 5 (a model does not belong to the maker of the record)',
    what: 'models are owned by the deployment that serves them',
    applies: (_row, expected) => modelsOf(expected).length > 0,
    rewrite: (expected) => {
      for (const model of modelsOf(expected)) model.owned_by = 'stator';
    },
  },
  {
    authority: 'order of authority 5 (whoever opens the address wants to know what is there)',
    what: 'the root says where things are',
    applies: (row) => row.request.method === 'GET' && row.request.path === '/',
    rewrite: (expected) => {
      expected.status = 200;
      const places = ['name', 'version', 'docs', 'openapi', 'models', 'health', 'metrics'];
      expected.body = Object.fromEntries(places.map((name) => [name, anything]));
    },
  },
];
