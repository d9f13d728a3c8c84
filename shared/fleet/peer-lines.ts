import type { Clock } from '../clock/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** A reason is told again after this long, with how often it was met meanwhile. */
const AGAIN_MS = 60_000;
/** Reasons known at once; they come from a short list, but a peer may word its own. */
const REASONS_MAX = 64;

interface Told {
  readonly atMs: number;
  silent: number;
}

/** Tells of peers that are set otherwise: one line a reason and minute, however many connections fail for it. */
export function peerLines(clock: Pick<Clock, 'nowMs'>, logger: Logger): (address: string, reason: string) => void {
  const told = new Map<string, Told>();
  return (address, reason) => {
    const last = told.get(reason);
    if (last !== undefined && clock.nowMs() - last.atMs < AGAIN_MS) {
      last.silent++;
      return;
    }
    told.delete(reason);
    const [oldest] = told.keys();
    if (told.size >= REASONS_MAX && oldest !== undefined) told.delete(oldest);
    told.set(reason, { atMs: clock.nowMs(), silent: 0 });
    const more = last === undefined || last.silent === 0 ? {} : { notTold: last.silent };
    logger.warn('a peer on the request plane is refused, or refuses', { address, reason, ...more });
  };
}
