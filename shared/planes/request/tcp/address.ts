import { workerError } from '../../../errors/index.ts';
import type { CallTarget } from '../frames/byte-channel.ts';
import type { Transport } from '../types.ts';

/** A worker's endpoint as its discovery record names it; its connections are those to `host:port/{instance}`. */
export interface TcpTarget extends CallTarget {
  readonly host: string;
  readonly port: number;
}

const TRANSPORT = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/]+)):(?<port>\d{1,5})\/(?<endpoint>(?<instance>[^/]+)(?:\/.*)?)$/;

const targets = new WeakMap<Transport, TcpTarget>(); // every call asks, of few records

/** Reads `{ tcp: "host:port/{instance}/{ns}/{component}/{endpoint}" }`. Throws `CannotConnect` for anything else. */
export function targetOf(transport: Transport): TcpTarget {
  const known = targets.get(transport);
  if (known !== undefined) return known;
  const target = readTarget(transport);
  targets.set(transport, target);
  return target;
}

function readTarget(transport: Transport): TcpTarget {
  const text = transport.tcp ?? JSON.stringify(transport);
  const parts = TRANSPORT.exec(text)?.groups;
  const port = Number(parts?.port);
  if (parts?.endpoint === undefined || parts.instance === undefined || port === 0 || port > 65_535) {
    throw workerError('CannotConnect', `not a TCP transport: ${text}`);
  }
  const host = parts.v6 ?? parts.host ?? '';
  return {
    host,
    port,
    instanceId: parts.instance,
    endpoint: parts.endpoint,
    poolKey: `${host}:${port}/${parts.instance}`,
  };
}
