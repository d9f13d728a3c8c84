/**
 * The two kinds of HTTP event that a function gets, and one neutral form of both. Only the fields that are read are typed.
 */

/** Event of an API Gateway REST API (payload format 1.0). */
export interface RestApiEvent {
  readonly httpMethod: string;
  /** Without the stage. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[]>> | null;
  /** Decoded names and values. */
  readonly queryStringParameters?: Readonly<Record<string, string>> | null;
  readonly multiValueQueryStringParameters?: Readonly<Record<string, readonly string[]>> | null;
  readonly body?: string | null;
  readonly isBase64Encoded?: boolean;
}

/** Event of a function URL (payload format 2.0). */
interface FunctionUrlEvent {
  readonly version: '2.0';
  readonly rawPath: string;
  readonly rawQueryString: string;
  /** Lower-case names; several lines of one name joined by commas. */
  readonly headers: Readonly<Record<string, string>>;
  /** `name=value` each; they do not appear among the headers. */
  readonly cookies?: readonly string[];
  readonly requestContext: { readonly http: { readonly method: string } };
  readonly body?: string;
  readonly isBase64Encoded?: boolean;
}

type LambdaHttpEvent = RestApiEvent | FunctionUrlEvent;

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

/** True for an event of API Gateway or a function URL; false for a schedule, a test event and the like. */
export function isHttpEvent(event: unknown): event is LambdaHttpEvent {
  if (typeof event !== 'object' || event === null) return false;
  if ('httpMethod' in event && 'path' in event) return true;
  return 'version' in event && event.version === '2.0' && 'rawPath' in event && 'requestContext' in event;
}

/** Reads either kind of event. */
export function fromLambdaEvent(event: LambdaHttpEvent): LambdaRequest {
  return 'httpMethod' in event ? fromRestApiEvent(event) : fromFunctionUrlEvent(event);
}

function fromRestApiEvent(event: RestApiEvent): LambdaRequest {
  const headers = new Map<string, string>();
  let headerLines = 0;
  for (const [name, values] of Object.entries(event.multiValueHeaders ?? {})) {
    headerLines += values.length;
    if (values[0] !== undefined) setFirst(headers, name, values[0]);
  }
  for (const [name, value] of Object.entries(event.headers ?? {})) {
    if (setFirst(headers, name, value)) headerLines++;
  }
  return {
    method: event.httpMethod.toUpperCase(),
    path: event.path,
    query: encodeQuery(event),
    headers,
    headerLines,
    body: event.body ?? '',
    isBase64: event.isBase64Encoded ?? false,
  };
}

function fromFunctionUrlEvent(event: FunctionUrlEvent): LambdaRequest {
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(event.headers)) setFirst(headers, name, value);
  if (event.cookies !== undefined && event.cookies.length > 0) setFirst(headers, 'cookie', event.cookies.join('; '));
  return {
    method: event.requestContext.http.method.toUpperCase(),
    path: event.rawPath,
    query: event.rawQueryString,
    headers,
    headerLines: headers.size,
    body: event.body ?? '',
    isBase64: event.isBase64Encoded ?? false,
  };
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
function encodeQuery(event: RestApiEvent): string {
  const lists = event.multiValueQueryStringParameters;
  const pairs: string[] = [];
  for (const [name, values] of Object.entries(lists ?? event.queryStringParameters ?? {})) {
    for (const value of typeof values === 'string' ? [values] : values) {
      pairs.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
    }
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
