import { isIPv6 } from 'node:net';
import { isRecord } from '../../../records/index.ts';
import type { DynamoCodec } from './codec.ts';
import type { RecordRules } from './record-cutter.ts';
import { WireFault } from './wire-fault.ts';

/** Places of the parts of a request message in its buffer. */
interface Parts {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payloadStart: number;
}

/** Takes a request message: its payload is `bytes[parts.payloadStart .. end)`, valid only during the call. */
export type TakeRequest = (bytes: Buffer, parts: Parts, end: number, isKept: boolean) => void;

/** Rules of a connection that carries requests to a worker. `requestMessage` says how a request is written. */
export class RequestRules implements RecordRules {
  readonly #bytesMax: number;
  readonly #take: TakeRequest;

  /** @param bytesMax longest accepted message (`DYN_TCP_MAX_MESSAGE_SIZE`) */
  constructor(bytesMax: number, take: TakeRequest) {
    this.#bytesMax = bytesMax;
    this.#take = take;
  }

  lengthAt(bytes: Buffer, at: number, end: number): number {
    if (end - at < 2) return 2;
    const headersAt = 2 + bytes.readUInt16BE(at);
    if (end - at < headersAt + 2) return headersAt + 2;
    const payloadAt = headersAt + 2 + bytes.readUInt16BE(at + headersAt);
    if (end - at < payloadAt + 4) return payloadAt + 4;
    const total = payloadAt + 4 + bytes.readUInt32BE(at + payloadAt);
    if (total > this.#bytesMax) throw new WireFault(`a request of ${total} bytes; the limit is ${this.#bytesMax}`);
    return total;
  }

  take(bytes: Buffer, start: number, end: number, isKept: boolean): void {
    const headersAt = start + 2 + bytes.readUInt16BE(start);
    const payloadAt = headersAt + 2 + bytes.readUInt16BE(headersAt);
    const path = bytes.toString('utf8', start + 2, headersAt);
    const headers = headersIn(bytes.toString('utf8', headersAt + 2, payloadAt));
    this.#take(bytes, { path, headers, payloadStart: payloadAt + 4 }, end, isKept);
  }
}

/** Returns the headers whose values are texts. */
function headersIn(text: string): Readonly<Record<string, string>> {
  const read: unknown = JSON.parse(text);
  if (!isRecord(read)) throw new WireFault('headers that are not an object');
  return Object.fromEntries(
    Object.entries(read).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** The part of the control record of a request that a worker reads. */
export interface RequestControl {
  readonly id: string;
  readonly codec: DynamoCodec;
  /** Where to deliver the answer. */
  readonly home: { readonly host: string; readonly port: number; readonly subject: string };
}

const ADDRESS = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/]+)|(?<bare>[0-9a-f:.]+)):(?<port>\d{1,5})$/i;

/**
 * Reads the control record of a request.
 * @throws WireFault for one that no caller sends, or that asks for another way to deliver the answer
 */
export function readControl(text: string): RequestControl {
  const control: unknown = JSON.parse(text);
  if (!isRecord(control) || typeof control.id !== 'string') throw new WireFault('a control record without an id');
  const { id, payload_codec: codec = 'json', connection_info: connection, request_type: kind } = control;
  if (kind === 'many_in') throw new WireFault('a stream of requests, which is not supported');
  if (codec !== 'json' && codec !== 'msgpack') throw new WireFault('an unknown payload_codec');
  if (!isRecord(connection) || connection.transport !== 'tcp_server' || typeof connection.info !== 'string') {
    throw new WireFault('an answer that is not to be delivered over TCP');
  }
  const info: unknown = JSON.parse(connection.info);
  const { address, subject } = isRecord(info) ? info : {};
  const parts = typeof address === 'string' ? ADDRESS.exec(address)?.groups : undefined;
  const port = Number(parts?.port);
  // Frontends of Dynamo 1.5 write no brackets around IPv6.
  const host = isIPv6(parts?.bare ?? '') ? parts?.bare : (parts?.v6 ?? parts?.host);
  if (host === undefined || port === 0 || port > 65_535 || typeof subject !== 'string') {
    throw new WireFault('connection_info without address and subject');
  }
  return { id, codec, home: { host, port, subject } };
}
