import type { Answer, Frame, Json } from './records.ts';

/** A parsed HTTP answer, with every fault of its framing. */
export interface WireAnswer {
  /** Status, or null if the server sent nothing. */
  readonly status: number | null;
  /** Headers in order of arrival. */
  readonly headers: readonly (readonly [string, string])[];
  /** Body without transfer coding. */
  readonly payload: Buffer;
  /** Framing that no HTTP or SSE client should have to accept. */
  readonly faults: readonly string[];
}

/** Headers of an answer that are compared. */
const COMPARED: ReadonlySet<string> = new Set([
  'content-type',
  'cache-control',
  'allow',
  'location',
  'retry-after',
  'x-request-id',
]);

/** Facts about the exchange in addition to the bytes. */
export interface WireContext {
  readonly method: string;
  /** Whether the client hung up, so that the end may be missing. */
  readonly isCut: boolean;
}

/** Parses the bytes of one answer. It never throws: bytes that it cannot read are a fault. */
export function readWire(bytes: Buffer, { method, isCut }: WireContext): WireAnswer {
  const split = bytes.indexOf('\r\n\r\n');
  if (split < 0) return { status: null, headers: [], payload: Buffer.alloc(0), faults: isCut ? [] : ['no answer'] };
  const [statusLine = '', ...lines] = bytes.subarray(0, split).toString('latin1').split('\r\n');
  const headers = lines.map(
    (line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()] as const,
  );
  const faults: string[] = [];
  if (!/^HTTP\/1\.1 \d{3} /.test(statusLine)) faults.push(`status line ${JSON.stringify(statusLine)}`);
  for (const [name] of headers) {
    if (headers.filter(([other]) => other === name).length > 1) faults.push(`header ${name} stands twice`);
  }
  const rest = bytes.subarray(split + 4);
  const payload = method === 'HEAD' ? rest : unframe(rest, new Map(headers), isCut, faults);
  if (method === 'HEAD' && rest.length > 0) faults.push('an answer to HEAD has a body');
  return { status: Number(statusLine.split(' ')[1]), headers, payload, faults };
}

function unframe(rest: Buffer, headers: ReadonlyMap<string, string>, isCut: boolean, faults: string[]): Buffer {
  const length = headers.get('content-length');
  const coding = headers.get('transfer-encoding');
  if ((length === undefined) === (coding === undefined)) faults.push('neither or both of length and chunks');
  if (coding === 'chunked') return unchunk(rest, isCut, faults);
  if (coding !== undefined) faults.push(`transfer-encoding ${coding}`);
  if (length !== undefined && Number(length) !== rest.length) faults.push(`${rest.length} of ${length} bytes`);
  return rest;
}

function unchunk(raw: Buffer, isCut: boolean, faults: string[]): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < raw.length; ) {
    const lineEnd = raw.indexOf('\r\n', at);
    const size = raw.subarray(at, Math.max(at, lineEnd)).toString('latin1');
    if (!/^[0-9a-f]+$/i.test(size)) {
      if (!isCut) faults.push(`chunk size ${JSON.stringify(size)}`);
      return Buffer.concat(parts);
    }
    const end = lineEnd + 2 + Number.parseInt(size, 16);
    parts.push(raw.subarray(lineEnd + 2, end));
    if (raw.subarray(end, end + 2).toString('latin1') !== '\r\n' && !isCut) faults.push('a chunk without its end');
    if (end === lineEnd + 2) {
      if (end + 2 !== raw.length) faults.push('bytes behind the last chunk');
      return Buffer.concat(parts);
    }
    at = end + 2;
  }
  if (!isCut) faults.push('no last chunk');
  return Buffer.concat(parts);
}

/** Returns the answer in the form of the comparison, and the faults of its payload. */
export function readPayload(wire: WireAnswer, { method, isCut }: WireContext): { answer: Answer; faults: string[] } {
  const all = new Map(wire.headers);
  const headers = Object.fromEntries([...all].filter(([name]) => COMPARED.has(name)));
  const { status } = wire;
  const faults: string[] = [];
  const text = wire.payload.toString('utf8');
  const type = all.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) {
    return { answer: { status, headers, frames: parseFrames(text, faults, isCut) }, faults };
  }
  if (!type.includes('json') || method === 'HEAD' || text === '') {
    if (type.includes('json') && method !== 'HEAD') faults.push('an answer of that type is not JSON');
    return { answer: { status, headers, text }, faults };
  }
  const body = parseJson(text);
  if (body === undefined) faults.push('the body is not JSON');
  return { answer: { status, headers, ...(body === undefined ? { text } : { body }) }, faults };
}

const LINE = /^(?:event: \S+|data: \S.*|:|: \S.*)$/s;

/** Parses the blocks of an event stream. A block that our streams never contain is a fault. */
export function parseFrames(text: string, faults: string[] = [], isCut = false): Frame[] {
  const blocks = text.split('\n\n');
  const last = blocks.pop();
  if (last !== '' && !isCut) faults.push(`the stream ends without a blank line: ${JSON.stringify(last)}`);
  return blocks.map((block) => {
    const lines = block.split('\n');
    for (const line of lines) if (!LINE.test(line)) faults.push(`line ${JSON.stringify(line.slice(0, 80))}`);
    const kinds = lines.map((line) => line.slice(0, line.indexOf(':'))).join();
    if (!['data', 'event,data', '', 'event,'].includes(kinds)) faults.push(`block of lines ${JSON.stringify(kinds)}`);
    const frame: { event?: string; data?: Json; comment?: string } = {};
    for (const line of lines) {
      if (line.startsWith('data: ')) frame.data = parseData(line.slice(6), faults);
      else if (line.startsWith('event: ')) frame.event = line.slice(7);
      else if (line.startsWith(':')) frame.comment = line.slice(1).trim();
    }
    return frame;
  });
}

function parseData(text: string, faults: string[]): Json {
  if (text === '[DONE]') return text;
  const data = parseJson(text);
  if (data === undefined) faults.push(`data that is not JSON: ${JSON.stringify(text.slice(0, 80))}`);
  return data ?? null;
}

/** Parses JSON and keeps 64-bit ids exact: it reads numbers of more than 15 digits as text. */
function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text.replaceAll(/("[a-z_]*_id":)(\d{16,20})(?=[,}])/g, '$1"$2"')) as Json;
  } catch {
    return undefined;
  }
}
