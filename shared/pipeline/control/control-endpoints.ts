import type { Clock, Random } from '../../clock/index.ts';
import type { Discovery, EndpointRecord } from '../../discovery/index.ts';
import { askOnce, type OneAnswer, type RequestPlane, type Transport } from '../../planes/request/index.ts';

/** What asks a worker's control endpoints. */
export interface ControlCaller {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
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

/** Every live instance of a control endpoint. Rejects when discovery cannot be read. */
export async function listControl(
  discovery: Pick<Discovery, 'list'>,
  endpoint: string,
  signal: AbortSignal,
): Promise<readonly EndpointRecord[]> {
  const records = await discovery.list({ bucket: 'v1/instances', prefix: '' }, signal);
  return records.filter((record) => record.type === 'Endpoint').filter((record) => record.endpoint === endpoint);
}
