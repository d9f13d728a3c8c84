import { createHash, timingSafeEqual } from 'node:crypto';
import { type Caller, refuseStranger } from './caller.ts';
import { shownSecrets } from './shown-secrets.ts';

/** Who may use a service of the fleet. */
export interface Admission {
  /** What callers show; undefined = the fleet has no secret, and only somebody at this machine may call. */
  readonly secret: string | undefined;
  /** Whether whoever reaches the service is trusted, by its operator's choice. */
  readonly isOpen: boolean;
}

/** Why a caller is not answered. */
export interface Refusal {
  readonly status: 401 | 403;
  readonly message: string;
}

/** Why a caller may not use a service of the fleet; undefined = it may. A secret, where there is one, is asked of everybody. */
export function refuseCaller({ secret, isOpen }: Admission, caller: Caller): Refusal | undefined {
  if (secret !== undefined) {
    if (holdsSecret(caller, secret)) return undefined;
    return { status: 401, message: 'Authorization must be Bearer and the value of STATOR_PLANE_TOKEN' };
  }
  const stranger = isOpen ? undefined : refuseStranger(caller);
  if (stranger === undefined) return undefined;
  const message = `only requests from this machine are answered while no STATOR_PLANE_TOKEN is set; this one is refused: ${stranger}`;
  return { status: 403, message };
}

/** Whether a caller shows `secret`, as `Authorization: Bearer` or `x-api-key`. How long that takes tells nothing of it. */
export function holdsSecret(caller: Pick<Caller, 'header'>, secret: string): boolean {
  return shownSecrets(caller).some((shown) => timingSafeEqual(digest(shown), digest(secret)));
}

/** Digests are of one length, whatever was shown. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
