import { ANYBODY, type Grant } from '../../access/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { GrpcCall } from '../../grpc/index.ts';
import type { KserveDeps } from './deps.ts';

/**
 * As whom a call is let in, before its message is read: keys travel as `authorization: Bearer` or `x-api-key`.
 * @throws ServeError, or rejects with one: see `Gate.admit`
 */
export function admit(
  { gate }: KserveDeps,
  call: GrpcCall,
  need: 'generate' | 'inference' | 'key',
): Grant | Promise<Grant> {
  return gate === undefined ? ANYBODY : gate.admit(call, need, call.path);
}

/** @throws ServeError `insufficient_permissions`, whether there is such a model or not */
export function requireModelAllowed({ pipeline }: KserveDeps, grant: Grant, name: string): void {
  if (grant.allowsModel(name, pipeline.requestable.find(name)?.primaryName ?? name)) return;
  throw new ServeError('insufficient_permissions', `Key ${grant.key?.id} may not use model '${name}'`);
}
