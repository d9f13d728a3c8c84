import { REQUEST_OUTCOMES, type RequestFilter, type ViewerQuery } from '../../../console/index.ts';
import { ServeError } from '../../../errors/index.ts';
import type { QueryParameter } from '../route.ts';

const VIEWS = ['fleet', 'requests', 'planner'] as const;

/** Parameters of `/console/api`. */
export const VIEWER_PARAMETERS: readonly QueryParameter[] = [
  { name: 'view', about: 'What is shown. Default: fleet.', values: VIEWS },
  {
    name: 'model',
    about:
      'fleet: model whose last hour is shown, default all; requests: only those of the model; planner: model or id of its group, default the one that ticked last.',
  },
  { name: 'key', about: 'requests: only those of the API key with this name.' },
  { name: 'worker', about: 'requests: only those that this worker answers, or answered last.' },
  { name: 'outcome', about: 'requests: only those that are in this state.', values: REQUEST_OUTCOMES },
  { name: 'id', about: 'requests: only those with this text in an id.' },
  { name: 'before', about: 'requests: only those with smaller numbers. The answer is one page, without events.' },
];
const NAMES = new Set(VIEWER_PARAMETERS.map(({ name }) => name));
const NAMES_OF_OTHERS = new Set(['view', 'model']);

/** Longest value; ids and names of models are shorter. */
const VALUE_MAX = 1024;

/** View that a client asks for. */
export type AskedView =
  | {
      readonly query: ViewerQuery;
      /** Page that is wanted; undefined = the newest one. */
      readonly before: number | undefined;
    }
  /** `planner`: model whose planner is wanted; empty = any */
  | { readonly planner: string };

/** Reads the query of `/console/api`. @throws ServeError `invalid_value` that names the parameter */
export function readViewerQuery(text: string): AskedView {
  const given = new URLSearchParams(text);
  const view = oneOf(given, 'view', VIEWS) ?? 'fleet';
  const known = view === 'requests' ? NAMES : NAMES_OF_OTHERS;
  for (const [name, value] of given) {
    if (!known.has(name)) throw invalid(name, `unknown parameter of view ${view}: ${[...known].join(', ')} are known`);
    if (value.length > VALUE_MAX) throw invalid(name, `longer than ${VALUE_MAX} characters`);
  }
  const model = textOf(given, 'model');
  if (view === 'planner') return { planner: model ?? '' };
  if (view === 'fleet') return { query: { view, model }, before: undefined };
  const filter: RequestFilter = {
    model,
    key: textOf(given, 'key'),
    worker: textOf(given, 'worker'),
    outcome: oneOf(given, 'outcome', REQUEST_OUTCOMES),
    id: textOf(given, 'id')?.toLowerCase(),
  };
  return { query: { view, filter }, before: numberOf(given, 'before') };
}

function textOf(given: URLSearchParams, name: string): string | undefined {
  const value = given.get(name);
  return value === null || value === '' ? undefined : value;
}

function numberOf(given: URLSearchParams, name: string): number | undefined {
  const value = textOf(given, name);
  if (value === undefined) return undefined;
  if (!/^\d{1,15}$/.test(value)) throw invalid(name, 'not a whole number');
  return Number(value);
}

function oneOf<Value extends string>(
  given: URLSearchParams,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const value = textOf(given, name);
  const found = values.find((each) => each === value);
  if (value !== undefined && found === undefined) throw invalid(name, `none of ${values.join(', ')}`);
  return found;
}

function invalid(param: string, why: string): ServeError {
  const name = param.slice(0, 64);
  return new ServeError('invalid_value', `Query parameter ${name}: ${why}`, { param: name });
}
