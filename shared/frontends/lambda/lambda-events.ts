/** The two kinds of HTTP event that a function gets, and one neutral form of both. */
import { ServeError } from '../../errors/index.ts';
import { RecordReader, type UnknownRecord } from '../../records/index.ts';

const READ = new RecordReader((what) => new ServeError('invalid_value', `The event is not an HTTP request: ${what}`));

/** Payload format of a function URL; a REST API has 1.0, or names none. */
const FUNCTION_URL_VERSION = '2.0';
/** Characters of a header's name that an error shows. */
const SHOWN_NAME_MAX = 64;

/** What both kinds of event say. */
export interface LambdaRequest {
  /** Upper case. */
  readonly method: string;
  readonly path: string;
  /** Without the `?`. */
  readonly query: string;
  /** First value of each header, by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  /** Header lines that the client sent, as far as the event still tells them apart. */
  readonly headerLines: number;
  /** The body as the event carries it. */
  readonly body: string;
  readonly isBase64: boolean;
}

/**
 * Reads either kind of event. What a service leaves out, or sends as null, counts as empty.
 * @throws ServeError `invalid_value` for a schedule, a test event and the like, and for a field of another kind, which it names.
 */
export function fromLambdaEvent(event: unknown): LambdaRequest {
  const fields = READ.record(event, 'event');
  return 'httpMethod' in fields && 'path' in fields ? fromRestApiEvent(fields) : fromFunctionUrlEvent(fields);
}

/** An event of an API Gateway REST API (payload format 1.0). Its path has no stage. */
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
 * An event of a function URL (payload format 2.0). The names of its headers are in lower case, several lines of one name are joined
 * by commas, and cookies do not appear among them.
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

/** With U+FFFD in the place of lone surrogates, which JSON can carry and neither UTF-8 nor a URL can. */
function wellFormed(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8');
}

function setFirst(headers: Map<string, string>, name: string, value: string): boolean {
  const lowerName = name.toLowerCase();
  if (headers.has(lowerName)) return false;
  headers.set(lowerName, toHeaderText(value));
  return true;
}

/** UTF-8 bytes as single characters, which is how every HTTP server of node shows a header that is not ASCII. */
function toHeaderText(value: string): string {
  return /[^\0-\x7f]/.test(value) ? Buffer.from(value, 'utf8').toString('latin1') : value;
}

/** API Gateway hands over decoded names and values, so the query has to be written anew. */
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

/** How far into a body one looks for where the conversation begins, in characters. */
const LOOK_LENGTH = 64 * 1024;
const KEY_LENGTH = 512;
/** Words before what the client says first, in the bodies of all dialects. */
const OPENINGS = ['"user"', '"prompt"', '"input"'] as const;
/** Less than this says nothing of the conversation: what is said stands before its role. */
const TELLING_LENGTH = 16;

/**
 * What tells one conversation from another, of the body of a request that nobody has parsed yet: the beginning of what its user
 * says first, which stays the same in each further turn. A system prompt that many share stands before it. Only a hint of
 * which part of a large fleet to look at: any text will do, and the same for the same conversation does better. Undefined for a
 * request without a body.
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
