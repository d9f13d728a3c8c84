import { type Clock, systemClock } from '../clock/index.ts';

export interface TellOptions {
  /** How long nothing is said: most waits are short. @default 2000 */
  readonly firstMs?: number;
  /** Between two times. @default 5000 */
  readonly everyMs?: number;
  /** @default the machine's */
  readonly clock?: Clock;
}

/**
 * Settles as `work` does. While that takes long, `tell` is called now and then with the whole seconds gone by, so that whoever
 * watches knows what is waited for.
 */
export async function tellWhile<T>(
  work: Promise<T>,
  tell: (waitedSecs: number) => void,
  { firstMs = 2000, everyMs = 5000, clock = systemClock }: TellOptions = {},
): Promise<T> {
  const startedMs = clock.nowMs();
  const say = (): void => {
    tell(Math.round((clock.nowMs() - startedMs) / 1000));
    timer = clock.after(everyMs, say);
  };
  let timer = clock.after(firstMs, say);
  try {
    return await work;
  } finally {
    timer.cancel();
  }
}
