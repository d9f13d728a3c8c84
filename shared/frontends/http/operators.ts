import { holdsSecret, hostNameOf, namesThisMachine, refuseStranger } from '../../access/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { HostExchange } from './hosts/exchange.ts';
import type { Serve } from './route.ts';
import type { HttpSettings } from './settings.ts';

/** Whether a request comes from whoever runs this process: from its machine, or with its admin key. */
export function isOperator(deps: { readonly settings: HttpSettings }, exchange: HostExchange): boolean {
  return refuseAsOperator(deps.settings, exchange) === undefined;
}

/** @throws ServeError `insufficient_permissions` that says what is allowed, for anybody but operators. */
export function requireOperator(deps: { readonly settings: HttpSettings }, exchange: HostExchange): void {
  const reason = refuseAsOperator(deps.settings, exchange);
  if (reason === undefined) return;
  const message = `${exchange.path} answers requests from its own machine, and those that show STATOR_ADMIN_KEY as Authorization: Bearer; this one is refused: ${reason}`;
  throw new ServeError('insufficient_permissions', message);
}

/** `serve`, for operators alone. */
export function forOperators(serve: Serve): Serve {
  return (deps, exchange) => {
    requireOperator(deps, exchange);
    return serve(deps, exchange);
  };
}

function refuseAsOperator({ adminKey }: HttpSettings, exchange: HostExchange): string | undefined {
  return adminKey !== undefined && holdsSecret(exchange, adminKey) ? undefined : refuseStranger(exchange);
}

/**
 * Where only this machine is listened to, its browsers are all that strangers reach: a page that made its own name resolve to
 * this machine is known by that name. Undefined for requests that may pass.
 */
export function refuseHost({ hosts }: HttpSettings, exchange: HostExchange): ServeError | undefined {
  const host = hosts === undefined ? undefined : exchange.header('host');
  if (hosts === undefined || host === undefined || exchange.peer === undefined) return undefined; // not from a browser
  if (namesThisMachine(host) || hosts.includes(hostNameOf(host))) return undefined;
  const message = `Host ${host.slice(0, 255)} is not served: this server listens on loopback and answers to localhost, 127.0.0.1, [::1] and the names of --http-hosts`;
  return new ServeError('insufficient_permissions', message);
}
