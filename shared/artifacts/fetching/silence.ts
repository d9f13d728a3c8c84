import type { Clock } from '../../clock/index.ts';

/** Time after which a source that sends nothing is given up, at the latest after twice this time. */
const SILENCE_MS_MAX = 10_000;

/** Guards a read against a source that falls silent. */
export interface Silence {
  /** Aborts when the given signal does, or when the source has been silent for too long. */
  readonly signal: AbortSignal;
  /** Takes note that the source has sent something. */
  heard(): void;
  end(): void;
}

/** Begins to watch a source. End it when the read is over. */
export function silenceOf(clock: Clock, signal: AbortSignal): Silence {
  const silence = new AbortController();
  let heard = false;
  const watch = clock.every(SILENCE_MS_MAX, () => {
    if (!heard) silence.abort(new Error(`it sent nothing for ${SILENCE_MS_MAX} ms`));
    heard = false;
  });
  return {
    signal: AbortSignal.any([signal, silence.signal]),
    heard: () => {
      heard = true;
    },
    end: () => watch.cancel(),
  };
}
