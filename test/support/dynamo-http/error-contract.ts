import { isObject, type Place, placesOf, within } from './json-places.ts';
import { anyOf, Matcher, oneOf } from './match.ts';
import { type DetailFault, faultOfDetail } from './parser-detail.ts';
import type { RecordedRow } from './records.ts';

/**
 * Fields of our errors in addition to the message: `code` of the closed list, `param` the offending field of the body.
 */
export interface Contract {
  readonly code: string;
  readonly param: unknown;
}

/** Codes of the statuses that have only one code and never blame a field of the body. */
const CODES: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  403: 'insufficient_permissions',
  405: 'method_not_allowed',
  409: 'invalid_value',
  413: 'request_too_large',
  415: 'unsupported_media_type',
  429: 'rate_limit_exceeded',
  431: 'headers_too_large',
  499: 'client_closed_request',
  500: 'internal_error',
  502: 'bad_worker_response',
  504: 'deadline_exceeded',
};

export const LEAD_IN = 'Failed to deserialize the JSON body into the target type: ';

/**
 * Returns the code and the field that an error must name for the request of `row`, given its status and recorded text.
 * @param message text without `Validation: `
 */
export function contractOf(row: RecordedRow, status: number, message: string): Contract {
  const only = CODES[status];
  if (only !== undefined) return { code: only, param: null };
  const places = placesOf(row.asked);
  if (status === 501) return { code: 'not_implemented', param: namedField(message, places) };
  if (status === 404) return notFound(row, message);
  if (status === 503 || status === 529) return unavailable(message);
  return invalid(row, message, places);
}

function notFound(row: RecordedRow, message: string): Contract {
  if (!/^Model (?:'.*' )?not found/.test(message)) return { code: 'not_found', param: null };
  // An error blames a field only if the route read it. A route without a model reads only the field that names the
  // model.
  const named = (row.asked as { readonly model?: unknown } | undefined)?.model;
  const isRead = row.request.method === 'POST' && (row.text !== '' || typeof named === 'string');
  return { code: 'model_not_found', param: isRead ? 'model' : null };
}

function unavailable(message: string): Contract {
  if (/overloaded/.test(message)) return { code: 'server_overloaded', param: null };
  const isModel = /^Model `.*` is not ready/.test(message);
  return { code: 'service_unavailable', param: isModel ? 'model' : null };
}

function invalid(row: RecordedRow, message: string, places: readonly Place[]): Contract {
  if (row.script?.raise !== undefined) return { code: 'invalid_value', param: null }; // the message is the worker's own
  if (message.startsWith(LEAD_IN) || /: invalid nvext: /.test(message)) {
    return ofDetail(faultOfDetail(message.replace(/^.*?(?:target type|invalid nvext): /s, '')), places);
  }
  const unsupported = /^Unsupported parameter\(s\): `([^`]+)`/.exec(message)?.[1];
  if (unsupported !== undefined) return { code: 'unknown_parameter', param: unsupported };
  if (/ is required for \S+$/.test(message)) {
    return { code: 'missing_required_parameter', param: message.split(' ')[0] };
  }
  if (message === 'Invalid request') return { code: 'invalid_value', param: refusedField(row, places) };
  return { code: 'invalid_value', param: namedField(message, places) };
}

function ofDetail(fault: DetailFault, places: readonly Place[]): Contract {
  switch (fault.kind) {
    case 'syntax':
      return { code: 'invalid_json', param: null };
    case 'missing':
      return { code: 'missing_required_parameter', param: missing(fault.field, places) };
    case 'unknown':
      return { code: 'unknown_parameter', param: present(fault.field, places) };
    case 'repeated':
      return { code: 'invalid_value', param: fault.field };
    case 'field':
      return { code: 'invalid_value', param: under(places, ({ path }) => endsIn(path, fault.field)) };
    case 'value':
      return { code: 'invalid_value', param: under(places, ({ value, path }) => fault.matches(value, path)) };
  }
}

const ROOT_FIELDS: ReadonlySet<string> = new Set(['model', 'messages', 'prompt', 'input', 'max_tokens']);

/**
 * Returns the place of a missing `field`: an object of the request that lacks it. A field of the root is itself the
 * place.
 */
function missing(field: string, places: readonly Place[]): unknown {
  const root = places[0]?.value;
  if (ROOT_FIELDS.has(field) && root !== undefined && isObject(root) && !(field in root)) return field;
  const paths = places
    .filter(({ value }) => isObject(value) && !(field in value))
    .map(({ path }) => within(path, field));
  return oneOf(...paths);
}

/** Returns the place of `field` in the request. */
function present(field: string, places: readonly Place[]): unknown {
  return oneOf(...places.map(({ path }) => path).filter((path) => endsIn(path, field)));
}

function endsIn(path: string, field: string): boolean {
  return path === field || path.endsWith(`.${field}`);
}

/** Returns the whole body, or the path of a value for which `isMeant` holds, or of a value within it. */
function under(places: readonly Place[], isMeant: (place: Place) => boolean): unknown {
  const paths = places.filter(isMeant).map(({ path }) => path);
  if (paths.includes('')) return null;
  return new Matcher(
    `a field of ${JSON.stringify(paths)}`,
    (param) =>
      typeof param === 'string' &&
      paths.some((path) => param === path || (/^[.[]/.test(param.slice(path.length)) && param.startsWith(path))),
  );
}

/** Names of a field in front of a demand: `Top_p must be`, `Frequency penalty must be`, `Prompt string cannot be`. */
const WORDS: readonly (readonly [RegExp, (match: RegExpExecArray, places: readonly Place[]) => unknown])[] = [
  [/^This model's maximum context length/, () => oneOf('messages', 'prompt', 'input')],
  [/^Messages array cannot be empty|^input must be/, () => 'input'],
  [/^User ID/, () => 'user'],
  [/^Max tokens/, (_, places) => (has(places, 'max_tokens') ? 'max_tokens' : 'max_completion_tokens')],
  [/^Logit bias (?:value )?for token '([^']*)'/, ([, token]) => `logit_bias.${token}`],
  [
    /^Logit bias key/,
    (_, places) => oneOf(...places.map(({ path }) => path).filter((path) => /^logit_bias\./.test(path))),
  ],
  [/^Stop sequences? at index (\d+)/, ([, at]) => `stop[${at}]`],
  [/^(?:Maximum of \d+ s|S)top sequences?/, () => 'stop'],
  [/^Prompt (?:string|integer array|array) at index (\d+)/, ([, at]) => `prompt[${at}]`],
  [/^Prompt /, () => 'prompt'],
  [/^(?:Function at|Function name at) index (\d+)/, ([, at]) => `tools[${at}].function.name`],
  [/^Invalid schema for function '([^']*)'/, ([, name], places) => schemaOf(String(name), places)],
  [/^(?:tool named|tool_choice)/, () => 'tool_choice'],
  [/^tools array/, () => 'tools'],
  [
    /^Only one guided-decoding/,
    (_, places) => oneOf(...places.map(({ path }) => path).filter((path) => /^guided_/.test(path))),
  ],
  [/^Total number of choices|^n must be/i, () => oneOf('n', 'prompt')],
  [
    /^Failed to convert responses request/,
    (_, places) => under(places, ({ path }) => /^(?:input|tools)\[\d+\]/.test(path)),
  ],
];

/** Returns the field that the message of a check names: by its path, in back ticks or quotes, or in words. */
function namedField(message: string, places: readonly Place[]): unknown {
  for (const [pattern, field] of WORDS) {
    const match = pattern.exec(message);
    if (match !== null) return field(match, places);
  }
  for (const [, named = ''] of message.matchAll(/[`']([a-z_][\w.[\]]*)/gi)) {
    const path = places.find((place) => place.path === named || endsIn(place.path, named))?.path;
    if (path !== undefined) return path;
  }
  const [, words = ''] = /^([a-z][\w.[\] ]*?)(?: must| cannot| is |:)/i.exec(message) ?? [];
  const field = words.toLowerCase().replaceAll(' ', '_');
  return has(places, field)
    ? field
    : anyOf(
        null,
        under(places, ({ path }) => path !== ''),
      );
}

function has(places: readonly Place[], path: string): boolean {
  return places.some((place) => place.path === path);
}

function schemaOf(name: string, places: readonly Place[]): unknown {
  const at = places.find(({ path, value }) => /^tools\[\d+\]\.function\.name$/.test(path) && value === name)?.path;
  return at?.replace(/name$/, 'parameters') ?? null;
}

/** The fields for which headers stand. */
const HEADERS: readonly (readonly [RegExp, string])[] = [
  [/^x-(?:dynamo-)?worker-instance-id$/, 'nvext.backend_instance_id'],
  [/^x-(?:dynamo-)?prefill-instance-id$/, 'nvext.prefill_worker_id'],
  [/^x-(?:dynamo-)?prefill-dp-rank$/, 'nvext.prefill_dp_rank'],
  [/^x-(?:dynamo-dp|dp|data-parallel)-rank$/, 'nvext.dp_rank'],
];

/**
 * Returns the field of a refusal that does not name it: a rank that no worker has, ids outside the vocabulary, a forced
 * tool.
 */
function refusedField(row: RecordedRow, places: readonly Place[]): unknown {
  const pins =
    /^nvext\.(?:backend_instance_id|(?:prefill_|decode_)?worker_id|(?:prefill_)?dp_rank|routing_constraints|token_data)/;
  const meant = under(
    places,
    ({ path }) => pins.test(path) || /^(?:guided_\w+|tool_choice)$/.test(path) || path === 'prompt',
  );
  const header = row.request.headers?.map(([name]) => HEADERS.find(([pattern]) => pattern.test(name))?.[1]);
  return header?.find((field) => field !== undefined) ?? meant;
}
