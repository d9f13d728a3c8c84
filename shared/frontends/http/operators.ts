import {
  ANYBODY,
  type Caller,
  type Grant,
  holdsSecret,
  hostNameOf,
  namesThisMachine,
  refuseStranger,
  STRANGER,
} from '../../access/index.ts';
import { assertNever, ServeError } from '../../errors/index.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HostExchange } from './exchange/exchange.ts';
import type { Access } from './route.ts';
import type { HttpSettings } from './settings.ts';

/** Returns whether a request comes from an operator of this process: from its machine, or with its admin key. */
export function isOperator({ settings }: HttpAppDeps, caller: Caller): boolean {
  return refuseAsOperator(settings, caller) === undefined;
}

/**
 * Returns the rights that a request is let in with. Every route passes here. Operators need no key for their routes.
 * @throws ServeError, or rejects with one: see `Gate.admit`; `insufficient_permissions`, whose text says what is
 * allowed
 */
export function admit(
  { gate, settings }: HttpAppDeps,
  exchange: Pick<HostExchange, 'header' | 'peer' | 'httpVersion' | 'path'>,
  access: Access,
): Grant | Promise<Grant> {
  switch (access) {
    case 'open':
      return gate === undefined ? ANYBODY : STRANGER;
    case 'admin':
    case 'metrics':
    case 'docs': {
      const stranger = refuseAsOperator(settings, exchange);
      if (stranger === undefined) return ANYBODY;
      if (gate === undefined) throw forOperatorsAlone(exchange.path, stranger);
      return gate.admit(exchange, access === 'docs' ? 'key' : access, exchange.path);
    }
    case 'proof':
      if (settings.adminKey !== undefined && holdsSecret(exchange, settings.adminKey)) return ANYBODY;
      if (gate !== undefined) return gate.admit(exchange, 'admin', exchange.path);
      throw new ServeError(
        'insufficient_permissions',
        `${exchange.path} answers only requests that show STATOR_ADMIN_KEY`,
      );
    case 'generate':
    case 'inference':
    case 'key':
      return gate === undefined ? ANYBODY : gate.admit(exchange, access, exchange.path);
    default:
      return assertNever(access);
  }
}

function forOperatorsAlone(path: string, stranger: string): ServeError {
  const message = `${path} answers requests from its own machine, and those that show STATOR_ADMIN_KEY as Authorization: Bearer; this one is refused: ${stranger}`;
  return new ServeError('insufficient_permissions', message);
}

function refuseAsOperator({ adminKey }: HttpSettings, caller: Caller): string | undefined {
  return adminKey !== undefined && holdsSecret(caller, adminKey) ? undefined : refuseStranger(caller);
}

/**
 * Refuses foreign host names on a server that only this machine reaches. Strangers could reach it only through a
 * browser here, with a page whose own name resolves to this machine; the name gives such a page away.
 * @throws ServeError `insufficient_permissions` for requests that may not pass
 */
export function requireHost({ hosts }: HttpSettings, exchange: HostExchange): void {
  const host = hosts === undefined ? undefined : exchange.header('host');
  if (hosts === undefined || host === undefined || exchange.peer === undefined) return; // not from a browser
  if (namesThisMachine(host) || hosts.includes(hostNameOf(host))) return;
  const message = `Host ${host.slice(0, 255)} is not served: this server listens on loopback and answers to localhost, 127.0.0.1, [::1] and the names of --http-hosts`;
  throw new ServeError('insufficient_permissions', message);
}
