import { isAscii, isUtf8 } from 'node:buffer';
import { reasonOf, ServeError } from '../../errors/index.ts';
import { scanRoot } from './json-scan.ts';

/** Lead-in of every 400 about a body that does not parse into the request type (http-api.md, section 2.1). */
export const DESERIALIZE_LEAD_IN = 'Failed to deserialize the JSON body into the target type: ';

/** A body that is valid JSON, perhaps only after repair. */
export interface JsonBody {
  readonly value: unknown;
  /** True when the text was repaired (raw control bytes in strings, bad UTF-8); worth a warning. */
  readonly isRepaired: boolean;
  /** Root keys whose number is written with a fraction or exponent (`5.0`, `5e0`): not acceptable for integers. */
  readonly fractionalKeys: readonly string[];
}

/**
 * Reads a JSON body with the leniency of http-api.md, section 2.1: strict first, then with raw control bytes in strings
 * escaped, then with bad UTF-8 replaced. When everything fails the first error counts.
 * @throws ServeError `invalid_json`; `invalid_value` for a repeated root key or a lone surrogate.
 */
export function parseJsonBody(bytes: Uint8Array): JsonBody {
  const steps = parseInSteps(bytes);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/**
 * `parseJsonBody` for bodies of megabytes, each step in a turn of its own, so that others are served in between. The longest
 * step is `JSON.parse`, 1 to 2 ms a megabyte.
 * @param nextTurn resolves in a later turn of the event loop
 */
export async function parseLargeJsonBody(bytes: Uint8Array, nextTurn: () => Promise<void>): Promise<JsonBody> {
  const steps = parseInSteps(bytes);
  for (;;) {
    await nextTurn();
    const step = steps.next();
    if (step.done) return step.value;
  }
}

function* parseInSteps(bytes: Uint8Array): Generator<void, JsonBody> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isValidUtf8 = isUtf8(bytes);
  const text = buffer.toString(isAscii(bytes) ? 'latin1' : 'utf8'); // the same for ASCII, in half the time
  yield;
  if (!isValidUtf8) return repair(text, 'invalid UTF-8 in the body');
  const strict = tryParse(text);
  if (strict.kind === 'failed') return repair(text, strict.reason);
  yield;
  return inspect(text, strict.value, false);
}

type Attempt =
  | { readonly kind: 'parsed'; readonly value: unknown }
  | { readonly kind: 'failed'; readonly reason: string };

function tryParse(text: string): Attempt {
  try {
    return { kind: 'parsed', value: JSON.parse(text) };
  } catch (error) {
    return { kind: 'failed', reason: reasonOf(error) };
  }
}

function repair(text: string, firstReason: string): JsonBody {
  const repaired = escapeControlsInStrings(text);
  const second = tryParse(repaired);
  if (second.kind === 'parsed') return inspect(repaired, second.value, true);
  throw new ServeError('invalid_json', `${DESERIALIZE_LEAD_IN}${firstReason}`);
}

/** Raw bytes 0x00-0x1F inside string literals become `\u00XX`; everything else stays. */
function escapeControlsInStrings(text: string): string {
  let out = '';
  let from = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (!isInString) {
      isInString = code === QUOTE;
    } else if (code === BACKSLASH) {
      at++; // the next character belongs to the escape
    } else if (code === QUOTE) {
      isInString = false;
    } else if (code < 0x20) {
      out += `${text.slice(from, at)}\\u${code.toString(16).padStart(4, '0')}`;
      from = at + 1;
    }
  }
  return from === 0 ? text : out + text.slice(from);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** With the `u` flag pairs read as one character, so only halves match. */
const LONE_SURROGATE = /\p{Surrogate}/u;
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** As deep as Dynamo reads; what walks over values later need not fear for its stack. */
const DEPTH_MAX = 127;

/** What `JSON.parse` lets pass and the contract does not. */
function inspect(text: string, value: unknown, isRepaired: boolean): JsonBody {
  const scan = scanRoot(text);
  if (scan.depth > DEPTH_MAX) {
    throw new ServeError('invalid_json', `${DESERIALIZE_LEAD_IN}more than ${DEPTH_MAX} levels of nesting`);
  }
  if (scan.duplicateKey !== undefined) {
    throw new ServeError('invalid_value', `${DESERIALIZE_LEAD_IN}duplicate field \`${scan.duplicateKey}\``, {
      param: scan.duplicateKey,
    });
  }
  if (text.includes('\\u') && SURROGATE_ESCAPE.test(text) && hasLoneSurrogate(value)) {
    throw new ServeError('invalid_json', `${DESERIALIZE_LEAD_IN}lone surrogate in a hex escape`);
  }
  return { value, isRepaired, fractionalKeys: scan.fractionalKeys };
}

function hasLoneSurrogate(value: unknown): boolean {
  if (typeof value === 'string') return LONE_SURROGATE.test(value);
  if (typeof value !== 'object' || value === null) return false;
  for (const [key, nested] of Object.entries(value))
    if (LONE_SURROGATE.test(key) || hasLoneSurrogate(nested)) return true;
  return false;
}
