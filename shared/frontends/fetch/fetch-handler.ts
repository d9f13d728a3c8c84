import type { HostExchange } from '../http/exchange/exchange.ts';
import { WebExchange } from './web-exchange.ts';

/** Returns the fetch handler of an app. @param serve serves one exchange, and never throws */
export function createFetchHandler(serve: (exchange: HostExchange) => void) {
  return (request: Request, host?: Pick<HostExchange, 'peer'>): Promise<Response> => {
    const exchange = new WebExchange(request, host?.peer);
    serve(exchange);
    return exchange.response;
  };
}
