import type { FleetSettings } from '../../config/index.ts';
import { tcp } from './tcp/kind.ts';
import type { RequestPlaneKind } from './types.ts';

/**
 * Every request plane by its name in `--request-plane`. Code that most processes do not need is loaded when a plane is
 * opened.
 */
const KINDS: Readonly<Record<FleetSettings['requestPlane'], () => Promise<RequestPlaneKind>>> = {
  nats: async () => (await import('./nats/kind.ts')).nats,
  tcp: async () => tcp,
};

/** Returns the request plane that the settings name. */
export function requestPlaneKind({ requestPlane }: Pick<FleetSettings, 'requestPlane'>): Promise<RequestPlaneKind> {
  return KINDS[requestPlane]();
}
