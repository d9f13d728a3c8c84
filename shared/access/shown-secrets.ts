import type { Caller } from './caller.ts';

const BEARER = /^Bearer +(\S+) *$/i;

/** What a caller shows to be let in: as `Authorization: Bearer`, then as `x-api-key`. */
export function shownSecrets(caller: Pick<Caller, 'header'>): readonly string[] {
  const authorization = caller.header('authorization');
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
  const other = caller.header('x-api-key');
  if (bearer === undefined) return other === undefined ? [] : [other];
  return other === undefined ? [bearer] : [bearer, other];
}
