import {
  encodeMessage,
  framed,
  HeaderValueOption_HeaderAppendAction as HeaderAppendAction,
  ProcessingResponseSchema,
} from '../../grpc/index.ts';
import type { ImmediateAnswer } from './pick-exchange.ts';

/* The messages that tell Envoy what to do with a request. */

const DESTINATION = 'x-gateway-destination-endpoint';
const WORKER_ID = 'x-dynamo-worker-instance-id';
const RANK = 'x-dynamo-dp-rank';
const ROUTING_MODE = 'x-dynamo-routing-mode';
const PREFILLER = 'x-prefiller-host-port';
const PREFILL_ID = 'x-dynamo-prefill-instance-id';
const PREFILL_RANK = 'x-dynamo-prefill-dp-rank';

/** Headers that only gateways and pickers set. Those that the picker does not set are removed: a client sent them. */
const CONTROL = [
  'x-gateway-destination-endpoint-subset',
  'x-gateway-destination-endpoint-served',
  'x-gateway-inference-fairness-id',
  'x-gateway-inference-objective',
  'x-gateway-model-name-rewrite',
  WORKER_ID,
  'x-worker-instance-id',
  RANK,
  'x-dp-rank',
  ROUTING_MODE,
  PREFILLER,
  PREFILL_ID,
  'x-prefill-instance-id',
  PREFILL_RANK,
  'x-prefill-dp-rank',
] as const;

/** Bytes of a chunk of a body: data planes take 64 KiB at most, with its frame. */
const CHUNK_BYTES_MAX = 62_000;

/** A worker with one of its ranks, as headers name it. */
interface NamedPlace {
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly dpRank: number | undefined;
}

/** The endpoints of a request, best first, and the workers that the headers name. */
export interface Decision {
  readonly endpoints: readonly string[];
  /** Worker that answers; undefined for a request that any endpoint answers. */
  readonly decode?: NamedPlace | undefined;
  /** Worker that computes the prompt, with its endpoint if it has one. @default the worker that answers */
  readonly prefill?: (NamedPlace & { readonly endpoint: string | undefined }) | undefined;
}

type Init = Parameters<typeof encodeMessage<typeof ProcessingResponseSchema>>[1];
type Response = NonNullable<Init['response']>;

function message(response: Response, more: Omit<Init, 'response' | '$typeName'> = {}): Buffer | readonly Buffer[] {
  return framed(encodeMessage(ProcessingResponseSchema, { ...more, response } as Init));
}

/** Where a decision goes: into the answer to the headers, or to the body. */
type DecisionStep = 'requestHeaders' | 'requestBody';

/** Returns the message with a decision. */
export function decisionMessage(step: DecisionStep, decision: Decision) {
  const set = headersOf(decision);
  const value = {
    response: {
      headerMutation: { setHeaders: optionsOf(set), removeHeaders: CONTROL.filter((name) => !(name in set)) },
      clearRouteCache: true,
    },
  };
  const destination = { [DESTINATION]: set[DESTINATION] as string };
  return message({ case: step, value } as Response, { dynamicMetadata: { 'envoy.lb': destination } });
}

function headersOf({ endpoints, decode, prefill }: Decision): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { [DESTINATION]: endpoints.join(',') };
  if (decode === undefined) return headers;
  headers[WORKER_ID] = decimal(decode.workerId);
  if (decode.dpRank !== undefined) headers[RANK] = String(decode.dpRank);
  headers[ROUTING_MODE] = prefill === undefined ? 'aggregated' : 'disaggregated';
  if (prefill === undefined) return headers;
  headers[PREFILL_ID] = decimal(prefill.workerId);
  if (prefill.dpRank !== undefined) headers[PREFILL_RANK] = String(prefill.dpRank);
  if (prefill.endpoint !== undefined) headers[PREFILLER] = prefill.endpoint;
  return headers;
}

/** Returns the form in which headers have ids. */
function decimal(workerId: string): string {
  return BigInt(`0x${workerId}`).toString();
}

function optionsOf(headers: Readonly<Record<string, string>>) {
  return Object.entries(headers).map(([key, value]) => ({
    header: { key, rawValue: Buffer.from(value, 'latin1') },
    appendAction: HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
  }));
}

/** Returns the message that lets headers pass. */
export function passHeaders(step: 'requestHeaders' | 'responseHeaders') {
  return message({ case: step, value: { response: {} } });
}

export function passTrailers(step: 'requestTrailers' | 'responseTrailers') {
  return message({ case: step, value: {} });
}

/** Returns the message that lets a part of a body pass which Envoy keeps. */
export function passBody(step: 'requestBody' | 'responseBody') {
  return message({ case: step, value: { response: {} } });
}

/** Returns the messages that give a part of a body back to Envoy, which has not kept it. */
export function* giveBody(
  step: 'requestBody' | 'responseBody',
  body: Uint8Array,
  isLast: boolean,
): Generator<Buffer | readonly Buffer[]> {
  for (let at = 0; at === 0 || at < body.length; at += CHUNK_BYTES_MAX) {
    const end = at + CHUNK_BYTES_MAX;
    const streamedResponse = { body: body.subarray(at, end), endOfStream: isLast && end >= body.length };
    const mutation = { case: 'streamedResponse', value: streamedResponse } as const;
    yield message({ case: step, value: { response: { bodyMutation: { mutation } } } } as Response);
  }
}

/** Status by which the protocol of endpoint pickers tells a gateway that a request is shed. */
const SHED = 429;
/** Status by which Anthropic's API says so. */
const ANTHROPIC_OVERLOADED = 529;
/** Headers that Envoy writes itself. */
const OWN: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection']);

/** Returns the message that has Envoy answer the request itself. */
export function immediateMessage({ status, headers, body }: ImmediateAnswer) {
  const code = status === ANTHROPIC_OVERLOADED ? SHED : status;
  const shown = Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN.has(name)));
  const value = {
    status: { code },
    headers: { setHeaders: optionsOf(shown) },
    body,
    details: 'stator_endpoint_picker',
  };
  return message({ case: 'immediateResponse', value } as Response);
}
