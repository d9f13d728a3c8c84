import type { SpanAttributes } from '../../telemetry/index.ts';
import { serverAttributes } from '../inference/server-attributes.ts';
import type { HostExchange } from './exchange/exchange.ts';

/** What the span of a request says when it begins. */
interface SpanStart {
  readonly name: string;
  readonly attributes: SpanAttributes;
}

const SECRET_NAME = /key|token|secret|sig|password|credential|auth/i;

/** The query, without what may be a secret. */
function shownQuery(query: string): string {
  return query
    .split('&')
    .map((part) => {
      const name = part.split('=', 1)[0]!; // a split has one part at least
      return part.length > name.length && SECRET_NAME.test(name) ? `${name}=REDACTED` : part;
    })
    .join('&');
}

/** @param path of the route, as the table has it; `sentPath` as the client sent it */
export function httpSpanStart(host: HostExchange, route: string, sentPath: string): SpanStart {
  const { scheme, peer, query, memory, httpVersion } = host;
  const isSocket = memory !== undefined;
  // An event of a WebSocket is no request of HTTP: it has no method, and its response no status.
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
