/** The two kinds of HTTP event that a function receives, and one neutral form of both. */
import { ServeError } from '../../errors/index.ts';
import { RecordReader, type UnknownRecord } from '../../records/index.ts';

const READ = new RecordReader((what) => new ServeError('invalid_value', `The event is not an HTTP request: ${what}`));

/** Payload format of a function URL. The event of a REST API has format 1.0, or names no format. */
const FUNCTION_URL_VERSION = '2.0';
/** Characters of a header's name that an error shows at most. */
const SHOWN_NAME_MAX = 64;

/** The fields that both kinds of event have. */
export interface LambdaRequest {
  /** Method in upper case. */
  readonly method: string;
  readonly path: string;
  /** Query without the `?`. */
  readonly query: string;
  /** First value of each header, by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  /** Number of header lines that the client sent, as far as the event still separates them. */
  readonly headerLines: number;
  /** Body in the form that the event carries. */
  readonly body: string;
  readonly isBase64: boolean;
}

/**
 * Reads either kind of event. A field that is absent or null counts as empty.
 * @throws ServeError `invalid_value` for other events, such as a schedule or a test event, and for a field of the wrong
 * type, which it names
 */
export function fromLambdaEvent(event: unknown): LambdaRequest {
  const fields = READ.record(event, 'event');
  return 'httpMethod' in fields && 'path' in fields ? fromRestApiEvent(fields) : fromFunctionUrlEvent(fields);
}

/** Reads an event of an API Gateway REST API (payload format 1.0). Its path does not contain the stage. */
function fromRestApiEvent(event: UnknownRecord): LambdaRequest {
  const headers = new Map<string, string>();
  let headerLines = 0;
  for (const [name, given] of entriesOf(event.multiValueHeaders, 'multiValueHeaders')) {
    const values = READ.texts(given ?? [], `multiValueHeaders.${shownName(name)}`);
    headerLines += values.length;
    if (values[0] !== undefined) setFirst(headers, name, values[0]);
  }
  for (const [name, value] of headersOf(event)) if (setFirst(headers, name, value)) headerLines++;
  return {
    method: READ.text(event.httpMethod, 'httpMethod').toUpperCase(),
    path: wellFormed(READ.text(event.path, 'path')),
    query: encodeQuery(event),
    headers,
    headerLines,
    ...bodyOf(event),
  };
}

/**
 * Reads an event of a function URL (payload format 2.0). The names of its headers are in lower case, commas join lines
 * of one name, and cookies have a field of their own.
 */
function fromFunctionUrlEvent(event: UnknownRecord): LambdaRequest {
  const { version, rawPath, rawQueryString, requestContext, cookies } = event;
  if (version !== FUNCTION_URL_VERSION) throw READ.refuse(version, 'version', `"${FUNCTION_URL_VERSION}"`);
  const { http } = READ.record(requestContext, 'requestContext');
  const { method } = READ.record(http, 'requestContext.http');
  const headers = new Map<string, string>();
  for (const [name, value] of headersOf(event)) setFirst(headers, name, value);
  const cookie = READ.texts(cookies ?? [], 'cookies').join('; ');
  if (cookie !== '') setFirst(headers, 'cookie', cookie);
  return {
    method: READ.text(method, 'requestContext.http.method').toUpperCase(),
    path: wellFormed(READ.text(rawPath, 'rawPath')),
    query: wellFormed(READ.text(rawQueryString ?? '', 'rawQueryString')),
    headers,
    headerLines: headers.size,
    ...bodyOf(event),
  };
}

function bodyOf({ body, isBase64Encoded }: UnknownRecord): Pick<LambdaRequest, 'body' | 'isBase64'> {
  const isBase64 = isBase64Encoded ?? false;
  if (typeof isBase64 !== 'boolean') throw READ.refuse(isBase64, 'isBase64Encoded', 'true or false');
  return { body: READ.text(body ?? '', 'body'), isBase64 };
}

function entriesOf(value: unknown, name: string): [string, unknown][] {
  return Object.entries(READ.record(value ?? {}, name));
}

function* headersOf({ headers }: UnknownRecord): Generator<[string, string]> {
  for (const [name, value] of entriesOf(headers, 'headers')) {
    if (value !== null) yield [name, READ.text(value, `headers.${shownName(name)}`)];
  }
}

function shownName(name: string): string {
  return name.slice(0, SHOWN_NAME_MAX);
}

/** Replaces lone surrogates by U+FFFD. JSON can carry them, but UTF-8 and URLs cannot. */
function wellFormed(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8');
}

function setFirst(headers: Map<string, string>, name: string, value: string): boolean {
  const lowerName = name.toLowerCase();
  if (headers.has(lowerName)) return false;
  headers.set(lowerName, toHeaderText(value));
  return true;
}

/** Returns UTF-8 bytes as single characters, which is how HTTP servers of Node show a header that is not ASCII. */
function toHeaderText(value: string): string {
  return /[^\0-\x7f]/.test(value) ? Buffer.from(value, 'utf8').toString('latin1') : value;
}

/** Encodes the query again, because API Gateway delivers decoded names and values. */
function encodeQuery(event: UnknownRecord): string {
  const lists = event.multiValueQueryStringParameters ?? undefined;
  const field = lists === undefined ? 'queryStringParameters' : 'multiValueQueryStringParameters';
  const pairs: string[] = [];
  for (const [name, given] of entriesOf(event[field], field)) {
    const values = READ.texts(typeof given === 'string' ? [given] : (given ?? []), `${field}.${shownName(name)}`);
    for (const value of values)
      pairs.push(`${encodeURIComponent(wellFormed(name))}=${encodeURIComponent(wellFormed(value))}`);
  }
  return pairs.join('&');
}

/** Characters of a body that `shardKeyOf` searches for the beginning of the conversation. */
const LOOK_LENGTH = 64 * 1024;
const KEY_LENGTH = 512;
/** Words that precede the client's first text, in the bodies of all dialects. */
const OPENINGS = ['"user"', '"prompt"', '"input"'] as const;
/**
 * Minimum length of a text that identifies the conversation. If the text is shorter, the client's words precede the
 * role.
 */
const TELLING_LENGTH = 16;

/**
 * Returns a key that identifies a conversation, from the unparsed body of a request: the beginning of what its user
 * says first. That text stays the same in each further turn; a system prompt before it may be shared by many.
 *
 * The key is only a hint at the part of a large fleet to ask. Any text works, but the same text for the same
 * conversation works better. Returns undefined for a request without a body.
 */
export function shardKeyOf({ body, isBase64 }: Pick<LambdaRequest, 'body' | 'isBase64'>): string | undefined {
  if (body === '') return undefined;
  const start = body.slice(0, LOOK_LENGTH);
  const head = isBase64 ? Buffer.from(start, 'base64').toString() : start;
  const at = OPENINGS.map((opening) => head.indexOf(opening)).find((found) => found >= 0) ?? 0;
  const after = head.slice(at, at + KEY_LENGTH);
  const end = after.indexOf('}');
  const said = end < 0 ? after : after.slice(0, end);
  return said.length >= TELLING_LENGTH ? said : head.slice(Math.max(0, at - KEY_LENGTH), at);
}
