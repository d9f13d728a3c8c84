import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { workerError } from '../../../errors/index.ts';
import type { Transport } from '../types.ts';

/** A worker's endpoint as its discovery record names it. */
export interface TcpTarget {
  readonly host: string;
  readonly port: number;
  readonly instanceId: string;
  /** `{instance}/{ns}/{component}/{endpoint}` */
  readonly endpoint: string;
  /** Connections are shared by the targets of one process incarnation: `host:port/{instance}`. */
  readonly poolKey: string;
}

const TRANSPORT = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/]+)):(?<port>\d{1,5})\/(?<endpoint>(?<instance>[^/]+)(?:\/.*)?)$/;

/** Reads `{ tcp: "host:port/{instance}/{ns}/{component}/{endpoint}" }`. Throws `CannotConnect` for anything else. */
export function readTarget(transport: Transport): TcpTarget {
  const text = 'tcp' in transport ? transport.tcp : JSON.stringify(transport);
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

export interface ListenAddress {
  readonly bind: string;
  readonly advertise: string;
}

const WILDCARDS: Readonly<Record<string, string>> = { auto: '0.0.0.0', '0.0.0.0': '0.0.0.0', '::': '::' };

/** Where to listen and what to advertise for `DYN_TCP_RPC_HOST`. A machine without a network advertises 127.0.0.1. */
export function listenAddress(
  host: string,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): ListenAddress {
  const bind = WILDCARDS[host];
  if (bind === undefined) return { bind: host, advertise: host };
  const all = Object.values(interfaces).flatMap((addresses) => addresses ?? []);
  const reachable = all.find((address) => address.family === 'IPv4' && !address.internal);
  return { bind, advertise: reachable?.address ?? '127.0.0.1' };
}

/** `host:port` with IPv6 addresses in brackets. */
export function formatHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
