import { createHash, timingSafeEqual } from 'node:crypto';
import type { Caller } from './caller.ts';

const BEARER = /^Bearer +(\S+) *$/i;

/** Whether a caller shows `secret`, as `Authorization: Bearer` or `x-api-key`. How long that takes tells nothing of it. */
export function holdsSecret(caller: Pick<Caller, 'header'>, secret: string): boolean {
  const shown = [BEARER.exec(caller.header('authorization') ?? '')?.[1], caller.header('x-api-key')];
  return shown.some((each) => each !== undefined && timingSafeEqual(digest(each), digest(secret)));
}

/** Digests are of one length, whatever was shown. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
