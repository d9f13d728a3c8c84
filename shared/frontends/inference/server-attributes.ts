import type { SpanAttributes } from '../../telemetry/index.ts';

/** `host:port`, `[::1]:port`, each with or without the port. */
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[^\s:/?#@[\]]+)(?::(\d{1,5}))?$/i;
const PORTS: Readonly<Record<string, number>> = { http: 80, ws: 80, https: 443, wss: 443 };

/** Returns `server.address` and `server.port` as the client named them; empty if it named none that can be read. */
export function serverAttributes(authority: string | undefined, scheme?: string): SpanAttributes {
  const [, host, port] = AUTHORITY.exec(authority ?? '') ?? [];
  if (host === undefined) return {};
  const number = port === undefined ? PORTS[scheme ?? ''] : Number(port);
  return { 'server.address': host.replace(/^\[(.*)\]$/, '$1'), 'server.port': number };
}
