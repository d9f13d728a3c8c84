import { type Exchange, isCutShort } from '../exchange.ts';
import type { Body } from '../fields.ts';
import { walk } from '../identities.ts';
import type { Answer, Frame, Json } from '../records.ts';
import { readPayload, readWire } from '../wire-answer.ts';

/** An answer that a mutation changes in place. Unchanged parts go back on the wire as they were. */
export interface EditableAnswer {
  status: number;
  headers: [string, string][];
  body?: Body;
  text?: string;
  frames?: { event?: string; data?: unknown; comment?: string }[];
}

/** A fault of answers. Returns the exchange with the fault, or undefined if the exchange cannot have it. */
export interface Mutation {
  readonly name: string;
  apply(exchange: Exchange): Exchange | undefined;
}

/** Makes a mutation of the parsed answer. `edit` says whether it changed anything. */
export function ofAnswer(name: string, edit: (answer: EditableAnswer, exchange: Exchange) => boolean): Mutation {
  return {
    name,
    apply: (exchange) => {
      const answer = editable(exchange);
      return answer !== undefined && edit(answer, exchange)
        ? { ...exchange, bytes: onWire(answer, exchange) }
        : undefined;
    },
  };
}

/** Makes a mutation of the bytes behind the head. */
export function ofBytes(name: string, edit: (payload: string, head: string) => string | undefined): Mutation {
  return {
    name,
    apply: (exchange) => {
      const all = exchange.bytes.toString('latin1');
      const split = all.indexOf('\r\n\r\n') + 4;
      if (split < 4 || isCutShort(exchange.row)) return undefined;
      const payload = edit(all.slice(split), all.slice(0, split));
      if (payload === undefined || payload === all.slice(split)) return undefined;
      return { ...exchange, bytes: Buffer.from(all.slice(0, split) + payload, 'latin1') };
    },
  };
}

/** Calls `change` with every object of body and frames. Returns whether it changed one. */
export function anyObject(answer: EditableAnswer, change: (object: Body) => boolean): boolean {
  let isChanged = false;
  walk([answer.body, ...(answer.frames ?? []).map(({ data }) => data)], (object) => {
    if (change(object)) isChanged = true;
  });
  return isChanged;
}

/** Writes `value` under `key`. Returns whether that changed the value. */
export function put(object: Body, key: string, value: unknown): boolean {
  if (JSON.stringify(object[key]) === JSON.stringify(value)) return false;
  object[key] = value;
  return true;
}

/** Returns the answer of an exchange, or undefined if the server sent none or the client left before the end. */
function editable({ row, bytes }: Exchange): EditableAnswer | undefined {
  const context = { method: row.request.method, isCut: isCutShort(row) };
  const wire = readWire(bytes, context);
  if (wire.status === null || context.isCut) return undefined;
  const { answer } = readPayload(wire, context);
  const { body, text, frames } = structuredClone(answer) as Answer & { body?: Json };
  return {
    status: wire.status,
    headers: wire.headers.map(([name, value]) => [name, value]),
    ...(body === undefined ? {} : { body: body as Body }),
    ...(text === undefined ? {} : { text }),
    ...(frames === undefined ? {} : { frames: frames as Frame[] }),
  };
}

function onWire(answer: EditableAnswer, { row }: Exchange): Buffer {
  const payload = Buffer.from(payloadOf(answer));
  const isChunked = answer.headers.some(([name]) => name === 'transfer-encoding');
  const isHead = row.request.method === 'HEAD';
  const headers = answer.headers.map(([name, value]) => {
    return `${name}: ${name === 'content-length' && !isHead ? payload.length : value}\r\n`;
  });
  const head = Buffer.from(`HTTP/1.1 ${answer.status} Mutated\r\n${headers.join('')}\r\n`, 'latin1');
  if (!isChunked) return Buffer.concat([head, isHead ? Buffer.alloc(0) : payload]);
  const size = payload.length === 0 ? '' : `${payload.length.toString(16)}\r\n`;
  return Buffer.concat([head, Buffer.from(size), payload, Buffer.from(`${size === '' ? '' : '\r\n'}0\r\n\r\n`)]);
}

function payloadOf({ body, text, frames }: EditableAnswer): string {
  if (frames !== undefined) return frames.map(blockOf).join('');
  return body === undefined ? (text ?? '') : JSON.stringify(body);
}

function blockOf({ event, data, comment }: { event?: string; data?: unknown; comment?: string }): string {
  const lines = [
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...(comment === undefined ? [] : [comment === '' ? ':' : `: ${comment}`]),
    ...(data === undefined ? [] : [`data: ${data === '[DONE]' ? data : JSON.stringify(data)}`]),
  ];
  return `${lines.join('\n')}\n\n`;
}
