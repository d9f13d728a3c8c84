import type { Clock, Random } from '../../clock/index.ts';
import type { Discovery, EndpointRecord } from '../../discovery/index.ts';
import { type ServeError, workerError } from '../../errors/index.ts';
import type { CallSink, RequestPlane, Transport } from '../../planes/request/index.ts';

/** What asks a worker's control endpoints. */
export interface ControlCaller {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
}

/** The body that a control endpoint answered with, or why there is none. */
export type ControlAnswer =
  | { readonly kind: 'answered'; readonly body: unknown }
  | { readonly kind: 'failed'; readonly error: ServeError };

/** Workers that one operator's request asks at once. */
export const CONTROL_CALLS_AT_ONCE_MAX = 64;

/** Asks one control endpoint; resolves within `timeoutMs`, whatever happens. */
export function askControl(
  { plane, clock, random }: ControlCaller,
  transport: Transport,
  body: object,
  timeoutMs: number,
): Promise<ControlAnswer> {
  return new Promise((resolve) => {
    let answered: unknown;
    const settle = (answer: ControlAnswer): void => {
      timer.cancel();
      resolve(answer);
    };
    const sink: CallSink = {
      accepted() {},
      tokens() {},
      output(output) {
        answered = output.body;
      },
      end: () => settle({ kind: 'answered', body: answered }),
      fail: (error) => settle({ kind: 'failed', error }),
    };
    const timer = clock.after(timeoutMs, () => {
      call.kill();
      settle({ kind: 'failed', error: workerError('DeadlineExceeded', `no answer within ${timeoutMs} ms`) });
    });
    const call = plane.call(transport, { id: random.uuid(), headers: {}, deadlineMs: timeoutMs, body }, sink);
  });
}

/** Every live instance of a control endpoint. Rejects when discovery cannot be read. */
export async function listControl(
  discovery: Pick<Discovery, 'list'>,
  endpoint: string,
  signal: AbortSignal,
): Promise<readonly EndpointRecord[]> {
  const records = await discovery.list({ bucket: 'v1/instances', prefix: '' }, signal);
  return records.filter((record) => record.type === 'Endpoint').filter((record) => record.endpoint === endpoint);
}
