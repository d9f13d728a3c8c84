import type { Clock, Random } from '../../clock/index.ts';
import type { EndpointRecord } from '../../discovery/index.ts';
import { askOnce, type OneAnswer, type RequestPlane, type Transport } from '../../planes/request/index.ts';

/** What asks a worker's control endpoints. */
export interface ControlCaller {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** The live endpoints of every worker that serves this edge, from memory. */
  readonly instances: () => readonly EndpointRecord[];
}

/** Workers that one operator's request asks at once. */
export const CONTROL_CALLS_AT_ONCE_MAX = 64;

/** Asks one control endpoint; resolves within `timeoutMs`, whatever happens. */
export function askControl(
  { plane, clock, random }: ControlCaller,
  transport: Transport,
  body: object,
  timeoutMs: number,
): Promise<OneAnswer> {
  const question = { id: random.uuid(), headers: {}, deadlineMs: timeoutMs, body };
  return askOnce(plane, transport, question, { clock, timeoutMs });
}

/** Every live instance of a control endpoint. */
export function listControl({ instances }: ControlCaller, endpoint: string): readonly EndpointRecord[] {
  return instances().filter((record) => record.endpoint === endpoint);
}
