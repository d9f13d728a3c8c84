import type { SpanAttributes } from '../../telemetry/index.ts';
import { serverAttributes } from '../inference/server-attributes.ts';
import type { HostExchange } from './exchange/exchange.ts';

/** Name and attributes of a request's span when it begins. */
interface SpanStart {
  readonly name: string;
  readonly attributes: SpanAttributes;
}

const SECRET_NAME = /key|token|secret|sig|password|credential|auth/i;

/** Returns the query without values that may be secrets. */
function shownQuery(query: string): string {
  return query
    .split('&')
    .map((part) => {
      const name = part.split('=', 1)[0]!; // a split has at least one part
      return part.length > name.length && SECRET_NAME.test(name) ? `${name}=REDACTED` : part;
    })
    .join('&');
}

/** Returns the start of a request's span. @param path the route's path in the table; `sentPath` is the client's */
export function httpSpanStart(host: HostExchange, route: string, sentPath: string): SpanStart {
  const { scheme, peer, query, memory, httpVersion } = host;
  const isSocket = memory !== undefined;
  // An event of a WebSocket is not an HTTP request: it has no method, and its response has no status.
  const attributes = {
    'http.request.method': isSocket ? undefined : host.method,
    'http.route': route,
    'url.path': sentPath,
    'url.query': query === '' ? undefined : shownQuery(query),
    'url.scheme': scheme,
    'client.address': peer,
    'network.protocol.name': isSocket ? 'websocket' : undefined,
    'network.protocol.version': isSocket ? undefined : httpVersion,
    'user_agent.original': host.header('user-agent'),
    method: host.method,
    uri: host.path,
    ...serverAttributes(host.header('host'), scheme),
  };
  return { name: `${isSocket ? 'WEBSOCKET' : host.method} ${route}`, attributes };
}
