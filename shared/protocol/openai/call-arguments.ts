import { isRecord } from '../../records/index.ts';
import { writeJson } from '../json/json-source.ts';

/** The name under which Anthropic's documents hand on arguments that are no JSON object; answers use it too. */
const INVALID_JSON = 'INVALID_JSON';

/** Deeper texts within texts are left as they are. */
const LAYERS_MAX = 3;

/**
 * The arguments of an earlier call as text: JSON of an object where there is one, also inside of a JSON string, and what the
 * model wrote where there is none, be it blank. Nothing at all is an empty object.
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
    if (typeof written === 'string' && Object.keys(given).length === 1) return written; // as answers tell it
  }
  return writeJson(given);
}

/** The text of the object that a JSON string holds; undefined where `text` is no such string. */
function unwrapped(text: string): string | undefined {
  if (firstOf(text) === '{') return undefined; // no string, be it JSON or not: most are long, and need not be read for that
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

/** Arguments for servers that take nothing but the text of a JSON object. */
export function strictArguments(text: string): string {
  if (text.trim() === '') return '{}';
  return isRecord(parsed(text)) ? text : JSON.stringify({ [INVALID_JSON]: text });
}

const FIRST = /\S/;

function firstOf(text: string): string | undefined {
  return FIRST.exec(text)?.[0];
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  const first = firstOf(text);
  if (first !== '{' && first !== '"' && first !== 'n') return undefined; // neither an object nor a text that may hold one
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the answer to the question, not a failure
  }
}
