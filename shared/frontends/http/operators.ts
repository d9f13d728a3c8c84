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

/** Whether a request comes from whoever runs this process: from its machine, or with its admin key. */
export function isOperator({ settings }: HttpAppDeps, caller: Caller): boolean {
  return refuseAsOperator(settings, caller) === undefined;
}

/**
 * As whom a request is let in: the one place that every route passes. Operators need no key for what is theirs.
 * @throws ServeError, or rejects with one: see `Gate.admit`; `insufficient_permissions` that says what is allowed
 */
export function admit({ gate, settings }: HttpAppDeps, exchange: HostExchange, access: Access): Grant | Promise<Grant> {
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
 * Where only this machine is listened to, its browsers are all that strangers reach: a page that made its own name resolve to
 * this machine is known by that name.
 * @throws ServeError `insufficient_permissions` for requests that may not pass
 */
export function requireHost({ hosts }: HttpSettings, exchange: HostExchange): void {
  const host = hosts === undefined ? undefined : exchange.header('host');
  if (hosts === undefined || host === undefined || exchange.peer === undefined) return; // not from a browser
  if (namesThisMachine(host) || hosts.includes(hostNameOf(host))) return;
  const message = `Host ${host.slice(0, 255)} is not served: this server listens on loopback and answers to localhost, 127.0.0.1, [::1] and the names of --http-hosts`;
  throw new ServeError('insufficient_permissions', message);
}
