import type { Random } from '../../clock/index.ts';
import { LIMITS, overLimit, type ServeError } from '../../errors/index.ts';
import { continueTrace, type Span } from '../../telemetry/index.ts';
import type { GenerationRequest } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';

/** Header lines of a request, by lower-case name. */
export interface RequestHeaders {
  headerNames(): readonly string[];
  /** Returns the value of the first line of that name. */
  header(name: string): string | undefined;
}

/** Settings of a deployment for reading OpenAI bodies. */
export interface OpenAiDecodeSettings {
  /**
   * Whether to drop unknown root keys instead of refusing them (`DYN_IGNORE_OPENAI_FE_UNSUPPORTED_FIELDS`). @default
   * false
   */
  readonly ignoresUnknownKeys: boolean;
  /**
   * Whether to drop `nvext`, apart from `cache_salt`, and routing headers (`DYN_DISABLE_FRONTEND_NVEXT`). @default
   * false
   */
  readonly isNvextDisabled: boolean;
  /** Whether to set `include_usage` on every stream (`DYN_ENABLE_FORCE_INCLUDE_USAGE`). @default false */
  readonly forcesUsage: boolean;
  /** Lower-case start of metadata header names (`DYN_METADATA_HEADER`). @default 'x-dynamo-meta-' */
  readonly metadataHeaderPrefix: string;
  /** Most bytes of one stop sequence (`STATOR_STOP_MAX_BYTES`). @default 1024 */
  readonly stopBytesMax: number;
  /** Memory of an answer that is collected whole (`STATOR_HTTP_ANSWER_LIMIT_MB`). @default 32 MiB */
  readonly answerBytesMax: number;
}

/** Everything that a decoder needs besides the body. */
export interface DecodeContext {
  readonly headers: RequestHeaders;
  readonly settings: OpenAiDecodeSettings;
  readonly random: Random;
  /** Id of the request if its headers do not give one. @default a new one */
  readonly newId?: string | undefined;
  /** Span of the request, if tracing is on. */
  readonly span?: Span | undefined;
  /** Owner of the request, passed to its worker. @default unknown, without API keys */
  readonly owner?: string | undefined;
  /**
   * Isolation of owners: `figures` hides from the answer that another owner's prompt was cached; `blocks` shares no
   * cached blocks between owners. @default none
   */
  readonly isolation?: 'figures' | 'blocks' | undefined;
  /**
   * Whether the model cannot take pictures, sounds and videos that tools have returned: then they are named instead.
   * @default false
   */
  readonly isBlind?: boolean | undefined;
  /** Records the parts that do not reach the model. */
  readonly leftOut: LeftOut;
  /** Called for deprecated or ignored input; writes to the log at debug level. */
  warn(message: string): void;
}

/** Parts of a request that come only from its headers. */
export interface RequestEnvelope {
  readonly id: string;
  readonly metadata: GenerationRequest['metadata'];
  readonly trace: GenerationRequest['trace'];
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Record while it is put together. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Decodes request id, trace context and metadata.
 * @throws ServeError `headers_too_large`.
 */
export function decodeEnvelope(context: DecodeContext): RequestEnvelope {
  return { id: requestId(context), metadata: decodeMetadata(context), trace: decodeTrace(context) };
}

function requestId(context: DecodeContext): string {
  const asked = context.headers.header('x-dynamo-request-id');
  if (asked !== undefined && UUID.test(asked)) return asked.toLowerCase();
  if (asked !== undefined) context.warn('x-dynamo-request-id is not a UUID and is ignored');
  return context.newId ?? context.random.uuid();
}

/** Returns the request's span in the caller's trace, or in a new one: the worker continues it and log lines name it. */
function decodeTrace({ headers, random, span }: DecodeContext): GenerationRequest['trace'] {
  const requestId = headers.header('x-request-id');
  const { traceparent, tracestate } =
    span?.context ??
    continueTrace({ traceparent: headers.header('traceparent'), tracestate: headers.header('tracestate') }, random);
  return {
    traceparent,
    ...(span === undefined ? {} : { span }),
    ...(tracestate === undefined ? {} : { tracestate }),
    ...(requestId === undefined ? {} : { requestId }),
  };
}

const NO_METADATA: GenerationRequest['metadata'] = Object.freeze({});
/** Prefix of metadata between the product's own processes; a client's metadata cannot use it. */
const OWN_HEADERS = 'x-stator-';
/** Header that passes the request's owner to a worker. */
const OWNER_HEADER = `${OWN_HEADERS}owner`;

function decodeMetadata({ headers, settings, owner }: DecodeContext): GenerationRequest['metadata'] {
  let metadata: Record<string, string> | undefined = owner === undefined ? undefined : { [OWNER_HEADER]: owner };
  let entries = 0;
  let bytes = 0;
  for (const name of headers.headerNames()) {
    if (!name.startsWith(settings.metadataHeaderPrefix)) continue;
    const key = name.slice(settings.metadataHeaderPrefix.length);
    if (key.startsWith(OWN_HEADERS)) continue;
    const value = (headers.header(name) ?? '').trim();
    metadata ??= {};
    metadata[key] = value;
    entries++;
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (metadata === undefined) return NO_METADATA;
  if (entries > LIMITS.metadata_headers.max) throw tooLarge('metadata_headers', 'entries');
  if (bytes > LIMITS.metadata_bytes.max) throw tooLarge('metadata_bytes', 'bytes');
  return metadata;
}

function tooLarge(limit: 'metadata_headers' | 'metadata_bytes', unit: string): ServeError {
  return overLimit(limit, `metadata headers exceed the limit of ${LIMITS[limit].max} ${unit}`);
}

const INTEGER = /^-?\d{1,10}$/;

/** Returns the value of a header that is an integer within bounds; undefined for any other text. */
export function integerHeader(headers: RequestHeaders, name: string, min: number, max: number): number | undefined {
  const text = headers.header(name);
  if (text === undefined || !INTEGER.test(text)) return undefined;
  const value = Number(text);
  return value >= min && value <= max ? value : undefined;
}
