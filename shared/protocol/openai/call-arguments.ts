import { isRecord } from '../../records/index.ts';
import { writeJson } from '../json/json-source.ts';

/** Key under which Anthropic's documentation passes on arguments that are not a JSON object; answers use it too. */
const INVALID_JSON = 'INVALID_JSON';

/** Limit of texts nested in texts; deeper ones are left as they are. */
const LAYERS_MAX = 3;

/**
 * Returns the arguments of an earlier call as text: the JSON of an object if there is one, also inside a JSON string;
 * otherwise the text that the model wrote, even if blank. Missing arguments are an empty object.
 */
export function argumentsText(given: unknown): string {
  if (given === undefined || given === null) return '{}';
  if (typeof given !== 'string') return textOfValue(given);
  const inner = unwrapped(given);
  return inner ?? given;
}

function textOfValue(given: unknown): string {
  if (isRecord(given)) {
    const written = given[INVALID_JSON];
    if (typeof written === 'string' && Object.keys(given).length === 1) return written; // as answers write it
  }
  return writeJson(given);
}

/** Returns the text of the object that a JSON string holds; undefined if `text` is not such a string. */
function unwrapped(text: string): string | undefined {
  // not a string; most arguments are long objects, which need not be parsed to know that
  if (firstOf(text) === '{') return undefined;
  let inner = text;
  for (let layer = 0; layer < LAYERS_MAX; layer++) {
    const value = parsed(inner);
    if (isRecord(value)) return layer === 0 ? undefined : inner;
    if (value === null) return '{}';
    if (typeof value !== 'string') return undefined;
    if (value.trim() === '') return '{}';
    inner = value;
  }
  return undefined;
}

/** Returns arguments for servers that accept only the text of a JSON object. */
export function strictArguments(text: string): string {
  if (text.trim() === '') return '{}';
  return isRecord(parsed(text)) ? text : JSON.stringify({ [INVALID_JSON]: text });
}

const FIRST = /\S/;

function firstOf(text: string): string | undefined {
  return FIRST.exec(text)?.[0];
}

/** Parses a text; undefined if it is not JSON. */
function parsed(text: string): unknown {
  const first = firstOf(text);
  // neither an object nor a text that may hold one
  if (first !== '{' && first !== '"' && first !== 'n') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the expected result, not a failure
  }
}
